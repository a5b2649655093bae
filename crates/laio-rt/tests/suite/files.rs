//! Files and directories, over all back ends.

use crate::common::{all, each};
use laio::ops::{FileType, Limit, Part};
use laio_rt::fs::{self, File, OpenOptions};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::rc::Rc;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn contents_come_back() {
    each(all(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for length in [0, 1, 4096, 3_000_001] {
            let contents: Rc<[u8]> = pattern(length).into();
            fs::write(&path, contents.clone()).await.unwrap();
            assert_eq!(fs::read(&path).await.unwrap(), *contents);
            assert_eq!(fs::metadata(&path).await.unwrap().size(), length as u64);
        }
    });
}

#[test]
fn whole_files_are_read_whatever_their_size_says() {
    each(all(), async |_| {
        // The status says 0, or the size of a page.
        for path in [
            "/proc/self/cmdline",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ] {
            if let Ok(expected) = std::fs::read(path) {
                assert_eq!(fs::read(path).await.unwrap(), expected, "{path}");
            }
        }
        let directory = tempfile::tempdir().unwrap();
        let error = fs::read(directory.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    });
}

/// The attempt may leave a file in non-blocking mode; the program never sees that.
#[test]
fn the_program_gets_the_mode_that_it_asked_for() {
    use rustix::fs::{OFlags, fcntl_getfl};
    each(all(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "contents").await.unwrap();
        let (file, status) = File::open_with_metadata(&path).await.unwrap();
        assert_eq!((status.size(), status.is_file()), (8, true));
        let same = file.metadata().await.unwrap();
        assert_eq!(
            (same.inode(), same.device()),
            (status.inode(), status.device())
        );
        assert_eq!(file.read_at(Vec::with_capacity(8), 0).await.1, b"contents");
        let plain = |file: &std::fs::File| fcntl_getfl(file).unwrap();
        let expected = plain(&std::fs::File::open(&path).unwrap());
        assert_eq!(fcntl_getfl(&file).unwrap(), expected);
        assert_eq!(fcntl_getfl(file.descriptor()).unwrap(), expected);

        let options = File::options().read(true).write(true).append(true);
        let file = options.clone().open(&path).await.unwrap();
        let flags = fcntl_getfl(file.descriptor()).unwrap();
        assert!(flags.contains(OFlags::APPEND) && !flags.contains(OFlags::NONBLOCK));
        let file = options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = file.open(&path).await.unwrap();
        assert!(
            fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK),
            "asked for"
        );
    });
}

#[test]
fn files_are_read_and_written_anywhere() {
    each(all(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let options = File::options().read(true).write(true).create_new(true);
        let file = options.clone().open(&path).await.unwrap();
        let error = options.open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);

        let contents: Rc<[u8]> = pattern(100_000).into();
        file.write_all_at(Part::new(contents.clone(), 50_000..), 50_000)
            .await
            .0
            .unwrap();
        file.write_all_at(Part::new(contents.clone(), ..50_000), 0)
            .await
            .0
            .unwrap();
        let (result, buffer) = file.read_at(Vec::with_capacity(200_000), 10).await;
        assert_eq!(result.unwrap(), 99_990);
        assert_eq!(buffer, contents[10..]);
        let (result, limit) = file.read_at(Limit::new(buffer, 5), 0).await;
        assert_eq!(result.unwrap(), 5);
        let buffer = limit.into_inner();
        assert_eq!((buffer.len(), &buffer[99_990..]), (99_995, &contents[..5]));
        let (result, buffer) = file.read_at(Vec::with_capacity(10), 1 << 40).await;
        assert_eq!((result.unwrap(), buffer.len()), (0, 0));

        let (result, buffer) = file.read(Vec::with_capacity(10)).await;
        let count = result.unwrap();
        assert_eq!((count, &buffer[..]), (buffer.len(), &contents[..count]));
        let (result, rest) = file.read_to_end(Vec::new()).await;
        assert_eq!(result.unwrap(), rest.len());
        assert_eq!(rest, contents[count..]);

        file.set_len(10).await.unwrap();
        file.allocate(0, 1 << 20).await.unwrap();
        file.sync_data().await.unwrap();
        file.sync_all().await.unwrap();
        let status = file.metadata().await.unwrap();
        assert_eq!((status.size(), status.links()), (1 << 20, 1));
        assert!(status.is_file() && status.mode() & 0o400 != 0);
        assert!(status.modified().seconds > 1_600_000_000);
        let by_name = fs::metadata(&path).await.unwrap();
        assert_eq!(
            (status.device(), status.inode()),
            (by_name.device(), by_name.inode())
        );
        file.close().await.unwrap();
    });
}

#[test]
fn appending_is_in_order() {
    each(all(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let options = OpenOptions::new().append(true).create(true);
        let log = Rc::new(options.open(&path).await.unwrap());
        let writers: Vec<_> = (0..100)
            .map(|i| {
                let log = log.clone();
                laio_rt::spawn(async move { log.write_all(format!("line {i}\n")).await.0 })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap().unwrap();
        }
        let expected: String = (0..100).map(|i| format!("line {i}\n")).collect();
        assert_eq!(fs::read(&path).await.unwrap(), expected.as_bytes());
    });
}

#[test]
fn names_are_made_changed_and_removed() {
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("a/b/c")).await.unwrap();
        fs::create_dir_all(at("a/b/c")).await.unwrap();
        let error = fs::create_dir(at("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        fs::write(at("a/file"), "contents").await.unwrap();
        let error = fs::create_dir_all(at("a/file/c")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);

        fs::hard_link(at("a/file"), at("a/other")).await.unwrap();
        assert_eq!(fs::metadata(at("a/other")).await.unwrap().links(), 2);
        fs::symlink("file", at("a/link")).await.unwrap();
        assert_eq!(
            fs::read_link(at("a/link")).await.unwrap().to_str(),
            Some("file")
        );
        assert!(
            fs::symlink_metadata(at("a/link"))
                .await
                .unwrap()
                .is_symlink()
        );
        assert!(fs::metadata(at("a/link")).await.unwrap().is_file());
        let error = fs::read_link(at("a/file")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        fs::rename(at("a/other"), at("a/b/moved")).await.unwrap();
        assert_eq!(fs::copy(at("a/b/moved"), at("copy")).await.unwrap(), 8);
        assert_eq!(fs::read(at("copy")).await.unwrap(), b"contents");

        let mut names = BTreeSet::new();
        let mut entries = fs::read_dir(at("a")).await.unwrap();
        while let Some(entry) = entries.next().await.unwrap() {
            let status = entries.metadata(entry.file_name()).await.unwrap();
            assert_eq!(status.inode(), entry.inode());
            assert_eq!(entry.path(), at("a").join(entry.file_name()));
            if entry.file_type() != FileType::Unknown {
                assert_eq!(entry.file_type(), status.file_type());
            }
            names.insert(entry.file_name().to_str().unwrap().to_owned());
        }
        assert_eq!(names, ["b", "file", "link"].map(str::to_owned).into());
        assert!(entries.next().await.unwrap().is_none());

        let error = fs::remove_dir(at("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DirectoryNotEmpty);
        let error = fs::remove_file(at("a/b/c")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        for name in ["a/file", "a/link", "a/b/moved"] {
            fs::remove_file(at(name)).await.unwrap();
        }
        for name in ["a/b/c", "a/b", "a"] {
            fs::remove_dir(at(name)).await.unwrap();
        }
        let error = fs::metadata(at("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let error = fs::metadata("zero\0byte").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn large_directories_are_read_whole() {
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        for i in 0..3000 {
            std::fs::write(root.path().join(format!("a rather long name {i}")), "").unwrap();
        }
        let mut entries = fs::read_dir(root.path()).await.unwrap();
        let mut found = BTreeSet::new();
        while let Some(entry) = entries.next().await.unwrap() {
            assert!(found.insert(entry.file_name().to_owned()));
        }
        assert_eq!(found.len(), 3000);
    });
}

#[test]
fn nothing_leaves_the_directory() {
    each(all(), async |_| {
        let outside = tempfile::tempdir().unwrap();
        let at = |name: &str| outside.path().join(name);
        fs::write(at("secret"), "secret").await.unwrap();
        fs::create_dir(at("root")).await.unwrap();
        fs::create_dir(at("root/d")).await.unwrap();
        fs::write(at("root/d/file"), "inside").await.unwrap();
        fs::symlink("../secret", at("root/up")).await.unwrap();
        fs::symlink(at("secret"), at("root/absolute"))
            .await
            .unwrap();
        fs::symlink("d/file", at("root/in")).await.unwrap();
        let root = OpenOptions::new()
            .directory(true)
            .open(at("root"))
            .await
            .unwrap();
        let inside = OpenOptions::new().read(true).beneath(&root);
        for name in ["d/file", "in", "d/../d/file"] {
            let file = inside.clone().open(name).await.unwrap();
            assert_eq!(file.read_to_end(Vec::new()).await.1, b"inside");
        }
        let absolute = at("root/d/file");
        for name in ["../secret", "up", "absolute", absolute.to_str().unwrap()] {
            let error = inside.clone().open(name).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CrossesDevices, "{name}: {error}");
        }
        // Without the restriction the same names lead outside.
        let anywhere = OpenOptions::new().read(true).at(&root);
        assert!(anywhere.open("up").await.is_ok());
    });
}

#[test]
fn wrong_choices_are_refused() {
    each(all(), async |_| {
        for options in [
            OpenOptions::new().create(true),
            OpenOptions::new().read(true).truncate(true),
            OpenOptions::new().append(true).truncate(true),
        ] {
            let error = options.open("/tmp/never made").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    });
}
