//! Attributes of files, positions, and bytes that move inside the kernel, over all back ends.

use crate::common::{all, each};
use laio::ops::ATTRIBUTE_MAX;
use laio_rt::fs::{self, Access, Advice, File, Node, Timestamp, Whence, attribute_names};
use laio_rt::pipe::pipe;
use std::io::ErrorKind;

#[test]
fn attributes_are_set() {
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let file = File::create(at("file")).await.unwrap();
        fs::symlink("file", at("link")).await.unwrap();
        let time = |seconds| Timestamp {
            seconds,
            nanoseconds: 999_999_999,
        };

        file.set_mode(0o400).await.unwrap();
        file.set_owner(None, None).await.unwrap();
        file.set_times(Some(time(1)), Some(time(2))).await.unwrap();
        let status = file.metadata().await.unwrap();
        assert_eq!(status.mode() & 0o7777, 0o400);
        assert_eq!((status.accessed(), status.modified()), (time(1), time(2)));

        fs::set_mode(at("file"), 0o640).await.unwrap();
        let error = fs::set_mode(at("link"), 0o640).await.unwrap_err();
        let not_supported = laio::Errno::OPNOTSUPP.raw();
        assert_eq!(error.raw_os_error(), Some(not_supported));
        let (user, group) = (status.user(), status.group());
        fs::set_owner(at("link"), Some(user), Some(group))
            .await
            .unwrap();
        fs::set_times(at("link"), None, Some(time(3)))
            .await
            .unwrap();
        let status = fs::metadata(at("link")).await.unwrap();
        assert_eq!(
            (status.mode() & 0o7777, status.modified()),
            (0o640, time(2))
        );
        let link = fs::symlink_metadata(at("link")).await.unwrap();
        assert_eq!(link.modified(), time(3));

        fs::make_node(at("fifo"), Node::Fifo, 0o600).await.unwrap();
        let again = fs::make_node(at("fifo"), Node::Socket, 0o600).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let status = fs::metadata(at("fifo")).await.unwrap();
        assert_eq!(Node::like(&status), Some(Node::Fifo));
        fs::access(at("fifo"), Access::READ | Access::WRITE)
            .await
            .unwrap();
        let error = fs::access(at("none"), Access::EXISTS).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        for result in [
            fs::set_mode("a\0b", 0).await,
            fs::make_node("a\0b", Node::Fifo, 0).await,
        ] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

#[test]
fn extended_attributes() {
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        let file = File::create(root.path().join("file")).await.unwrap();
        let (result, value) = file.set_attribute(c"user.laio", b"value".to_vec()).await;
        if let Err(error) = result {
            return laio_testing::skip("xattr", format!("the file system has none: {error}"));
        }
        let (result, read) = file
            .get_attribute(c"user.laio", Vec::with_capacity(5))
            .await;
        assert_eq!((result.unwrap(), read), (5, value));
        let (result, list) = file
            .list_attributes(Vec::with_capacity(ATTRIBUTE_MAX))
            .await;
        assert_eq!(result.unwrap(), list.len());
        assert!(attribute_names(&list).any(|name| name == c"user.laio"));
        file.remove_attribute(c"user.laio").await.unwrap();
        let (result, _) = file
            .get_attribute(c"user.laio", Vec::with_capacity(5))
            .await;
        result.unwrap_err();
    });
}

#[test]
fn bytes_move_inside_the_kernel() {
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let contents: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
        fs::write(at("from"), contents.clone()).await.unwrap();
        let from = File::open(at("from")).await.unwrap();
        let to = File::create(at("to")).await.unwrap();
        from.advise(0, 0, Advice::Sequential).await.unwrap();
        assert_eq!(from.seek(Whence::End(0)).await.unwrap(), 100_000);
        assert_eq!(from.seek(Whence::Data(10)).await.unwrap(), 10);

        let (reader, writer) = pipe().unwrap();
        let mut done = 0;
        loop {
            let count = from.splice_to(done, &writer, 30_000).await.unwrap();
            if count == 0 {
                break;
            }
            let mut left = count;
            while left > 0 {
                let moved = to.splice_from(&reader, done, left).await.unwrap();
                (left, done) = (left - moved, done + moved as u64);
            }
        }
        assert!(fs::read(at("to")).await.unwrap() == contents);

        let clone = File::create(at("clone")).await.unwrap();
        match clone.reflink(&from).await {
            Ok(()) => assert!(fs::read(at("clone")).await.unwrap() == contents),
            Err(error) => {
                laio_testing::skip("reflink", format!("files do not share blocks: {error}"))
            }
        }
    });
}
