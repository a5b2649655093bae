//! Runtimes that begin, end and fail while operations are in flight; processes; dropped futures.

use crate::support::{directory, each_runtime};
use laio_testing::forbid::{self, Forbid};
use laio_testing::limit::{wait_until, within};
use laio_testing::test_name;
use laio_tokio::fs;
use laio_tokio::io::Stream;
use std::future::{Future, poll_fn};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(60);

/// Everything below once more where the background has no io_uring.
#[test]
fn without_io_uring() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        forbid::child(test_name!(), &Forbid::io_uring(errno), || {
            let proactor = laio_tokio::proactor().unwrap();
            several_runtimes();
            a_runtime_ends_with_reads_in_flight();
            a_panic_ends_its_task_alone();
            processes_are_started_with_reads_in_flight();
            dropped_reads_lose_no_byte();
            assert!(proactor.stats().handed_over > 0);
        });
    }
}

#[test]
fn several_runtimes() {
    for _ in 0..3 {
        within(LIMIT, || {
            let threads: Vec<_> = (0..4)
                .flat_map(|_| each_runtime())
                .map(|runtime| std::thread::spawn(move || runtime.block_on(some_work())))
                .collect();
            threads.into_iter().for_each(|one| one.join().unwrap());
        });
    }
    // A future that one runtime has polled first, and another one then.
    let [first, second] = each_runtime();
    let (from, mut to) = pipe();
    let mut stream = Stream::from(from);
    let mut buffer = [0; 4];
    let mut read = Box::pin(stream.read_exact(&mut buffer));
    assert!(first.block_on(once(read.as_mut())).is_none());
    drop(first);
    to.write_all(b"text").unwrap();
    assert_eq!(second.block_on(read).unwrap(), 4);
    assert_eq!(&buffer, b"text");
}

/// Reads that wait for each other's writes, and files.
async fn some_work() {
    let (_kept, at) = directory();
    let (from, to) = pipe();
    let (mut from, mut to) = (Stream::from(from), Stream::from(OwnedFd::from(to)));
    let reader = tokio::spawn(async move {
        let mut found = Vec::new();
        from.read_to_end(&mut found).await.unwrap();
        found
    });
    let name = at.join("file");
    fs::write(&name, vec![3; 300_000]).await.unwrap();
    let text = fs::read(&name).await.unwrap();
    to.write_all(&text).await.unwrap();
    to.flush().await.unwrap();
    drop(to);
    assert!(reader.await.unwrap() == text);
    fs::rename(&name, at.join("other")).await.unwrap();
    let file = fs::File::open(at.join("other")).await.unwrap();
    file.sync_all().await.unwrap();
    assert_eq!(
        file.read_ranges(&[5..9, 0..2]).await.unwrap(),
        [vec![3; 4], vec![3; 2]]
    );
}

#[test]
fn a_runtime_ends_with_reads_in_flight() {
    for runtime in each_runtime() {
        let (from, mut to) = pipe();
        runtime.block_on(async move {
            let waiting = tokio::spawn(async move {
                Stream::from(from).read_u8().await.unwrap();
            });
            // It has been polled when this comes back.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            drop(waiting);
        });
        within(LIMIT, move || drop(runtime));
        // The read was cancelled: its descriptor is closed.
        assert!(wait_until(LIMIT, || to.write(b"x").is_err()));
    }
}

#[test]
fn a_panic_ends_its_task_alone() {
    for runtime in each_runtime() {
        let (from, mut to) = pipe();
        let (others_from, mut others_to) = pipe();
        runtime.block_on(async move {
            let other = tokio::spawn(async move {
                let mut found = [0; 4];
                Stream::from(others_from)
                    .read_exact(&mut found)
                    .await
                    .unwrap();
                found
            });
            let panics = tokio::spawn(async move {
                let mut stream = Stream::from(from);
                let mut read = pin!(stream.read_u8());
                assert!(once(read.as_mut()).await.is_none());
                std::panic::resume_unwind(Box::new("a read is in flight"));
            });
            assert!(panics.await.unwrap_err().is_panic());
            assert!(wait_until(LIMIT, || to.write(b"x").is_err()));
            others_to.write_all(b"text").unwrap();
            assert_eq!(&other.await.unwrap(), b"text");
        });
    }
}

#[test]
fn processes_are_started_with_reads_in_flight() {
    for runtime in each_runtime() {
        let pipes: Vec<_> = (0..20).map(|_| pipe()).collect();
        runtime.block_on(async move {
            let mut ends = Vec::new();
            let mut reads = Vec::new();
            for (number, (from, to)) in pipes.into_iter().enumerate() {
                ends.push(to);
                reads.push(tokio::spawn(async move {
                    let found = Stream::from(from).read_u8().await.unwrap();
                    assert_eq!(usize::from(found), number);
                }));
            }
            for _ in 0..5 {
                tokio::task::yield_now().await;
                let mut cat = Command::new("cat")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut input = Stream::from(cat.stdin.take().unwrap());
                let mut output = Stream::from(cat.stdout.take().unwrap());
                let text = vec![b'a'; 200_000];
                let sent = text.clone();
                let writer = tokio::spawn(async move {
                    input.write_all(&sent).await.unwrap();
                    input.flush().await.unwrap();
                });
                let mut found = Vec::new();
                output.read_to_end(&mut found).await.unwrap();
                writer.await.unwrap();
                assert!(found == text);
                assert!(cat.wait().unwrap().success());

                let echo = tokio::process::Command::new("echo").arg("hi").output();
                assert_eq!(echo.await.unwrap().stdout, b"hi\n");
            }
            for (number, to) in ends.iter_mut().enumerate() {
                to.write_all(&[number as u8]).unwrap();
            }
            for read in reads {
                read.await.unwrap();
            }
        });
    }
}

#[test]
fn dropped_reads_lose_no_byte() {
    for runtime in each_runtime() {
        let (from, to) = pipe();
        let (mut from, mut to) = (Stream::from(from), Stream::from(OwnedFd::from(to)));
        let text = laio_testing::temp::pattern(300_000, 11);
        let sent = text.clone();
        let found = runtime.block_on(async move {
            let writer = tokio::spawn(async move {
                for piece in sent.chunks(900) {
                    to.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                to.flush().await.unwrap();
            });
            let mut found = Vec::new();
            let mut dropped = 0;
            loop {
                let mut buffer = [0; 1000];
                match once(pin!(from.read(&mut buffer))).await {
                    Some(Ok(0)) => break,
                    Some(count) => found.extend_from_slice(&buffer[..count.unwrap()]),
                    None => {
                        dropped += 1;
                        tokio::task::yield_now().await;
                    }
                }
            }
            writer.await.unwrap();
            assert!(dropped > 0);
            found
        });
        assert!(found == text);
    }
}

/// The output of a future if its first poll finishes it.
async fn once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

fn pipe() -> (OwnedFd, std::fs::File) {
    let (from, to) = laio_testing::temp::pipe();
    (from, to.into())
}

#[test]
fn a_runtime_that_is_shut_down_in_the_background_cancels_its_reads() {
    for runtime in each_runtime() {
        let (from, mut to) = pipe();
        runtime.spawn(async move { Stream::from(from).read_u8().await });
        runtime.block_on(tokio::task::yield_now());
        runtime.shutdown_background();
        assert!(wait_until(LIMIT, || to.write(b"x").is_err()));
    }
}
