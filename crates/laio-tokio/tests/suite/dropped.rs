//! Futures that are dropped at any time: no descriptor, operation or memory is lost.

use crate::support::{directory, each_runtime};
use laio_testing::limit::wait_until;
use laio_testing::process::{fd_count, resident_bytes, thread_count};
use laio_testing::{Random, child, test_name};
use laio_tokio::fs;
use laio_tokio::io::Stream;
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The name of the variable with the number of futures that are dropped.
const DROPS: &str = "LAIO_TEST_DROPS";
const LIMIT: Duration = Duration::from_secs(1800);
/// After so many, one operation is awaited, so that what was cancelled does not pile up.
const EACH: usize = 200;

#[test]
fn dropped_futures_leak_nothing() {
    child::check(LIMIT, test_name!(), "", || {
        let drops = std::env::var(DROPS).map_or(10_000, |count| count.parse().expect("a number"));
        let proactor = laio::Proactor::new(laio::Options::new()).unwrap();
        laio_tokio::install(proactor.clone()).unwrap();
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), vec![1; 100_000]).unwrap();
        let mut random = Random::new(3);
        let runtimes = each_runtime();
        // What is allocated once.
        for runtime in &runtimes {
            runtime.block_on(drop_some(&at, EACH, &mut random));
        }
        let settled = |expected: usize| {
            // Fewer, if a descriptor of the warm-up was still being closed when they were counted.
            let settled = wait_until(Duration::from_secs(60), || fd_count() <= expected);
            assert!(settled, "{} descriptors, {expected} before", fd_count());
        };
        let (descriptors, memory) = (fd_count(), resident_bytes());
        for number in 0..drops / EACH {
            runtimes[number % 2].block_on(drop_some(&at, EACH, &mut random));
            if number % 100 == 0 {
                settled(descriptors);
            }
        }
        settled(descriptors);
        let grown = resident_bytes().saturating_sub(memory);
        println!(
            "{drops} dropped, {grown} bytes more, {:?}",
            proactor.stats()
        );
        assert!(proactor.stats().cancelled as usize > drops / 10);
        assert!(grown < 24 << 20, "{grown} bytes more");
        assert!(
            proactor.shut_down(Duration::from_secs(60)),
            "nothing is in flight"
        );
        assert!(wait_until(Duration::from_secs(60), || thread_count() < 20));
        // What was written comes from one of the futures, and nothing from a buffer that was freed.
        let found = std::fs::read(at.join("file")).unwrap();
        assert!(found.iter().all(|byte| matches!(byte, 1 | 2)));
    });
}

/// Starts futures and drops them: not polled, after a poll, or after some time.
async fn drop_some(at: &Path, count: usize, random: &mut Random) {
    let (from, to) = laio_testing::temp::pipe();
    let (mut from, mut to) = (Stream::from(from), Stream::from(to));
    let (empty, _kept) = laio_testing::temp::pipe();
    let empty = fs::File::from(empty);
    let name = at.join("file");
    let file = fs::File::options().read(true).write(true).open(&name).await;
    let mut file = file.unwrap();
    let polls = |random: &mut Random| random.below(3);
    for _ in 0..count {
        let length = random.between(1..20_000);
        let offset = random.below(100_000) as u64;
        match random.below(45) {
            0..=9 => {
                let mut buffer = [0; 100];
                polled(polls(random), from.read(&mut buffer)).await;
            }
            10..=12 => polled(polls(random), to.write(&vec![5; length])).await,
            13..=22 => {
                let mut other = Stream::from(duplicate(&empty));
                polled(polls(random), other.read_u8()).await;
            }
            23..=25 => {
                polled(
                    polls(random),
                    file.read_at(Vec::with_capacity(length), offset),
                )
                .await
            }
            26 | 27 => {
                let range = (length as u64).min(100_000 - offset) as usize;
                polled(polls(random), file.write_at(vec![2; range], offset)).await;
            }
            28 | 29 => polled(polls(random), fs::File::open(&name)).await,
            30 => polled(polls(random), fs::metadata(&name)).await,
            31 => polled(polls(random), fs::read(&name)).await,
            32 => polled(polls(random), fs::rename(at.join("x"), at.join("y"))).await,
            33 => {
                let ranges = [0..100, offset..offset + 100, 50_000..70_000];
                polled(polls(random), file.read_ranges(&ranges)).await;
            }
            34 => polled(polls(random), file.sync_data()).await,
            35 => {
                let mut options = fs::OpenOptions::new();
                options.write(true).create(true);
                polled(polls(random), options.open(at.join("made"))).await;
            }
            36 => {
                let mut entries = fs::read_dir(at).await.unwrap();
                polled(polls(random), entries.next_entry()).await;
            }
            37 => {
                polled(
                    polls(random),
                    fs::write(at.join("written"), vec![3; length]),
                )
                .await
            }
            38 => polled(polls(random), fs::write_atomic(at.join("written"), "4")).await,
            39 => polled(polls(random), fs::copy(&name, at.join("copy"))).await,
            40 => polled(polls(random), fs::canonicalize(at.join("none"))).await,
            41 => polled(polls(random), fs::remove_dir_all(at.join("none"))).await,
            _ => {
                let mut buffer = [0; 1000];
                polled(polls(random), file.read(&mut buffer)).await;
            }
        }
    }
    file.sync_data().await.unwrap();
}

fn duplicate(file: &fs::File) -> std::os::fd::OwnedFd {
    std::os::fd::AsFd::as_fd(file).try_clone_to_owned().unwrap()
}

/// Polls a future at most so many times, and drops it.
async fn polled<F: Future>(times: usize, future: F) {
    let mut future = pin!(future);
    for _ in 0..times {
        let over = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if over {
            break;
        }
        tokio::task::yield_now().await;
    }
}
