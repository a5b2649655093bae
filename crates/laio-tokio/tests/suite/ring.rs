//! A ring in the runtime. `sandboxes` runs all other tests in runtimes with one.

use crate::support::{LIMIT, each_runtime};
use laio_testing::forbid::{self, Forbid};
use laio_testing::temp::{cold_file, pattern, scratch};
use laio_testing::{Skip, child, limit::within, or_skip, test_name};
use laio_tokio::{fs, ring};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::Runtime;

/// A runtime of each kind, with a ring.
fn each_with_ring() -> Option<[Runtime; 2]> {
    let runtimes = each_runtime();
    for runtime in &runtimes {
        let started = runtime.block_on(async { ring::start().and_then(|()| ring::start()) });
        or_skip(started.map_err(|error| Skip::because("io_uring", error.to_string())))?;
    }
    Some(runtimes)
}

fn in_loops() -> u64 {
    laio_tokio::proactor().unwrap().stats().in_loops
}

/// A file of which nothing is in memory.
fn cold(contents: &[u8]) -> Option<fs::File> {
    let directory = scratch();
    let file = or_skip(cold_file(directory.path(), contents))?;
    Some(fs::File::from_std(file.reopen().unwrap()))
}

/// In a process of its own, so that nothing else counts.
#[test]
fn cold_reads_use_the_ring() {
    child::check(LIMIT, test_name!(), "", || {
        let Some(runtimes) = each_with_ring() else {
            return;
        };
        for runtime in runtimes {
            for what in ["read_at", "read_ranges", "AsyncRead"] {
                let contents = pattern(200_000, 1);
                let Some(file) = cold(&contents) else {
                    return;
                };
                let before = in_loops();
                let read = async move { read(what, file).await };
                let found = runtime.block_on(async { tokio::spawn(read).await.unwrap() });
                assert!(found == contents[50_000..], "{what}: other bytes");
                assert!(in_loops() > before, "{what}");
            }
        }
    });
}

/// Reads a file of 200,000 bytes from byte 50,000 on.
async fn read(what: &str, mut file: fs::File) -> Vec<u8> {
    match what {
        "read_at" => file.read_at(Vec::with_capacity(200_000), 50_000).await.1,
        "read_ranges" => {
            let ranges = [50_000..120_000, 120_000..200_000];
            file.read_ranges(&ranges).await.unwrap().concat()
        }
        _ => {
            let mut found = Vec::new();
            file.seek(std::io::SeekFrom::Start(50_000)).await.unwrap();
            file.read_to_end(&mut found).await.unwrap();
            found
        }
    }
}

#[test]
fn without_io_uring_a_runtime_has_no_ring() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    forbid::child(test_name!(), &Forbid::io_uring(libc::EPERM), || {
        let contents = pattern(200_000, 4);
        let Some(file) = cold(&contents) else {
            return;
        };
        let [runtime, _] = each_runtime();
        let started = runtime.block_on(async { ring::start() });
        assert_eq!(started.unwrap_err().raw_os_error(), Some(libc::EPERM));
        let found = runtime.block_on(read("read_ranges", file));
        assert!(found == contents[50_000..], "other bytes");
        assert_eq!(in_loops(), 0);
    });
}

/// A task that holds the only thread of its runtime up, as `futures::executor::block_on` does.
#[test]
fn a_read_ends_although_its_runtime_stands_still() {
    let Some([current, _]) = each_with_ring() else {
        return;
    };
    let contents = pattern(100_000, 2);
    let Some(file) = cold(&contents) else {
        return;
    };
    within(LIMIT, move || {
        let (count, found) = current.block_on(async {
            let buffer = Vec::with_capacity(100_000);
            block_on_thread(file.read_at(buffer, 0))
        });
        assert_eq!(count.unwrap(), 100_000);
        assert!(found == contents, "other bytes");
    });
}

#[test]
fn a_runtime_ends_with_reads_in_its_ring() {
    let Some(runtimes) = each_with_ring() else {
        return;
    };
    for runtime in runtimes {
        let Some(file) = cold(&pattern(1 << 20, 3)) else {
            return;
        };
        let file = Arc::new(file);
        let mut reads = Vec::new();
        for number in 0..16 {
            let file = file.clone();
            let read = async move {
                let buffer = Vec::with_capacity(1 << 16);
                file.read_at(buffer, number << 16).await.0
            };
            reads.push(runtime.spawn(read));
        }
        runtime.block_on(tokio::task::yield_now());
        within(LIMIT, move || drop(runtime));
        // Without the ring: this runtime has none.
        let other = tokio::runtime::Builder::new_current_thread().build();
        let (count, _) = other
            .unwrap()
            .block_on(file.read_at(Vec::with_capacity(1 << 20), 0));
        assert_eq!(count.unwrap(), 1 << 20);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn block_on_thread<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}
