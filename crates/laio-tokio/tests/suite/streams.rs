//! `File` as a stream: reading, writing, seeking, flushing, cancelling.

use crate::support::{directory, on_each_runtime, same, show};
use laio_testing::temp::pattern;
use std::io::{ErrorKind, SeekFrom};
use std::os::fd::AsRawFd;
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[test]
fn bytes_are_written_sought_and_read() {
    same!(|at, seen| {
        let mut file = fs::File::create_new(at.join("file")).await.unwrap();
        seen.push(show(
            fs::File::create_new(at.join("file")).await.map(|_| ()),
        ));
        seen.push(show(file.write_all(b"hello, ").await));
        seen.push(show(file.write_all(b"world").await));
        seen.push(show(file.flush().await));
        seen.push(show(fs::read_to_string(at.join("file")).await));
        seen.push(show(file.seek(SeekFrom::Start(2)).await));
        let mut few = [0; 3];
        seen.push(show(file.read_exact(&mut few).await));
        seen.push(show(file.stream_position().await));
        // After a read, a write goes where the program is.
        seen.push(show(file.write_all(b"++").await));
        seen.push(show(file.seek(SeekFrom::Current(-4)).await));
        let mut rest = String::new();
        seen.push(show(file.read_to_string(&mut rest).await));
        seen.push(rest);
        seen.push(show(file.seek(SeekFrom::End(-3)).await));
        seen.push(show(file.seek(SeekFrom::Current(-1000)).await));
        seen.push(show(file.set_len(4).await));
        seen.push(show(file.sync_all().await));
        seen.push(show(file.sync_data().await));
        seen.push(show(file.metadata().await.map(|found| found.len())));
        let mut none = Vec::new();
        seen.push(show(file.read_to_end(&mut none).await));
        seen.push(show(file.rewind().await));
        seen.push(show(file.read_to_end(&mut none).await));
        seen.push(show(file.read(&mut []).await));
        seen.push(show(file.write(&[]).await));
    });
}

#[test]
fn errors_come_where_those_of_tokio_come() {
    same!(|at, seen| {
        fs::write(at.join("file"), "text").await.unwrap();
        let mut reader = fs::File::open(at.join("file")).await.unwrap();
        // The error of a write may come with the next call.
        let written = match reader.write_all(b"x").await {
            Ok(()) => reader.flush().await,
            error => error,
        };
        seen.push(format!("{:?}", written.unwrap_err().kind()));
        let mut text = String::new();
        seen.push(show(reader.read_to_string(&mut text).await));
        seen.push(show(
            reader.set_len(1).await.map_err(|error| error.kind().into()),
        ));
        let mut writer = fs::File::create(at.join("other")).await.unwrap();
        seen.push(show(writer.read(&mut [0; 4]).await));
        seen.push(show(writer.shutdown().await));
        let mut directory = fs::File::open(&at).await.unwrap();
        seen.push(show(directory.read(&mut [0; 4]).await));
    });
}

#[test]
fn large_transfers_arrive() {
    same!(|at, seen| {
        let text = pattern(5_000_000, 8);
        let mut file = fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(at.join("file"))
            .await
            .unwrap();
        seen.push(show(file.write_all(&text).await));
        let slices = [
            std::io::IoSlice::new(b"one"),
            std::io::IoSlice::new(b""),
            std::io::IoSlice::new(b"two"),
        ];
        let mut left = 6;
        while left > 0 {
            let count = file
                .write_vectored(&slices[if left == 6 { 0 } else { 2 }..])
                .await
                .unwrap();
            left -= count.min(left);
            if left > 0 && left < 3 {
                panic!("a slice was cut");
            }
        }
        seen.push(show(file.flush().await));
        seen.push(show(file.rewind().await));
        let mut found = Vec::new();
        seen.push(show(file.read_to_end(&mut found).await));
        seen.push(format!("{}", found[..text.len()] == text));
        seen.push(format!("{:?}", &found[text.len()..]));
    });
}

#[test]
fn conversions_and_attributes() {
    same!(|at, seen| {
        let file = fs::File::create(at.join("file")).await.unwrap();
        let mut copy = file.try_clone().await.unwrap();
        seen.push(show(copy.write_all(b"copy").await));
        seen.push(show(copy.flush().await));
        seen.push(format!("{}", copy.as_raw_fd() != file.as_raw_fd()));
        let mut std = file.into_std().await;
        seen.push(show(std::io::Write::write_all(&mut std, b" and std")));
        let mut again = fs::File::from_std(std);
        seen.push(show(again.write_all(b" and back").await));
        let std = again.try_into_std();
        let std = match std {
            Ok(std) => std,
            Err(again) => again.into_std().await,
        };
        let file = fs::File::from(std);
        let mut permissions = file.metadata().await.unwrap().permissions();
        permissions.set_readonly(true);
        seen.push(show(file.set_permissions(permissions).await));
        seen.push(show(
            file.metadata()
                .await
                .map(|found| found.permissions().readonly()),
        ));
        seen.push(show(fs::read_to_string(at.join("file")).await));
    });
}

/// Only new versions of tokio set times, so there is no oracle.
#[test]
fn times_are_set() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let file = laio_tokio::fs::File::create(at.join("file")).await.unwrap();
        let second = |number| std::time::UNIX_EPOCH + std::time::Duration::from_secs(number);
        let times = laio_tokio::fs::FileTimes::new().set_accessed(second(1));
        file.set_times(times).await.unwrap();
        file.set_modified(second(2)).await.unwrap();
        let found = file.metadata().await.unwrap();
        let found = (found.accessed().unwrap(), found.modified().unwrap());
        assert_eq!(found, (second(1), second(2)));
    });
}

/// Another task's reads and writes on a pipe that is empty or full, through futures that are dropped: no byte is
/// lost or repeated.
#[test]
fn a_dropped_read_loses_nothing() {
    on_each_runtime(|| async {
        let (from, to) = laio_testing::temp::pipe();
        let (mut from, mut to) = (
            laio_tokio::fs::File::from(from),
            laio_tokio::fs::File::from(to),
        );
        let text = pattern(200_000, 9);
        let sent = text.clone();
        let writer = tokio::spawn(async move {
            for piece in sent.chunks(1000) {
                to.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            to.flush().await.unwrap();
        });
        let mut found = Vec::new();
        let mut buffer = [0; 777];
        loop {
            // The first poll starts the read, which is then dropped.
            let first = std::future::poll_fn(|context| {
                let mut read = std::pin::pin!(from.read(&mut buffer));
                Poll::Ready(match Future::poll(read.as_mut(), context) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                })
            })
            .await;
            let count = match first {
                Some(result) => result.unwrap(),
                None => from.read(&mut buffer).await.unwrap(),
            };
            if count == 0 {
                break;
            }
            found.extend_from_slice(&buffer[..count]);
        }
        writer.await.unwrap();
        assert!(found == text);
    });
}

/// A write in flight is finished although its file is dropped.
#[test]
fn a_dropped_file_finishes_its_write() {
    on_each_runtime(|| async {
        let (from, to) = laio_testing::temp::pipe();
        let text = pattern(300_000, 10);
        let mut to = laio_tokio::fs::File::from(to);
        let mut written = 0;
        // Until nothing more fits: the last piece is in flight.
        while let Ok(count) =
            tokio::time::timeout(std::time::Duration::ZERO, to.write(&text[written..])).await
        {
            written += count.unwrap();
            if written == text.len() {
                break;
            }
        }
        drop(to);
        let read = tokio::task::spawn_blocking(move || {
            let mut found = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(from), &mut found).unwrap();
            found
        });
        let found = read.await.unwrap();
        assert!(found == text[..written], "{} of {written}", found.len());
    });
}

#[test]
fn several_tasks_wait_for_one_write() {
    on_each_runtime(|| async {
        let (from, to) = laio_testing::temp::pipe();
        // A full pipe, so that the next write is not over when it returns.
        let before = rustix::pipe::fcntl_getpipe_size(&to).unwrap();
        assert_eq!(rustix::io::write(&to, &vec![7; before]), Ok(before));
        let mut to = laio_tokio::fs::File::from(to);
        let count = before + to.write(&vec![7; 500_000]).await.unwrap();
        let to = std::sync::Arc::new(to);
        let waits = (0..5).map(|_| {
            let to = to.clone();
            // A pipe cannot be synchronized, which is said after the write is over.
            tokio::spawn(async move { to.sync_all().await.unwrap_err().kind() })
        });
        let waits: Vec<_> = waits.collect();
        let reader = tokio::task::spawn_blocking(move || {
            let mut found = vec![0; count];
            std::io::Read::read_exact(&mut std::fs::File::from(from), &mut found).unwrap();
        });
        for wait in waits {
            assert_eq!(wait.await.unwrap(), ErrorKind::InvalidInput);
        }
        reader.await.unwrap();
    });
}
