//! Dropping the futures of operations in flight leaks nothing, and leaves the kernel no dangling buffer.
//!
//! These tests have a program of their own and run one at a time, because they count the descriptors of the process.

#[path = "suite/common/mod.rs"]
mod common;

use common::{each, eventually, open_descriptors, waiting};
use laio::ops::{Accept, Close, Connect, Name, Open, Readiness};
use laio_rt::fs::File;
use laio_rt::net::{TcpListener, TcpStream, UnixStream};
use laio_rt::pipe::pipe;
use laio_rt::{Descriptor, Submission, future, spawn, submit, time, yield_now};
use std::cell::Cell;
use std::future::Future;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pending() -> usize {
    laio_rt::with_context(|context| context.pending())
}

/// Polls a future once, and drops it (or the reference passed).
fn give_up<F: Future>(future: F) {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    let _ = future.as_mut().poll(&mut context);
}

/// Runs `step` `times` times, and checks that the numbers of open descriptors and of used slots are unchanged.
async fn leaks_nothing(times: usize, mut step: impl AsyncFnMut()) {
    // The first run may start helpers and grow tables.
    step().await;
    eventually("no operation is in flight", || pending() == 0).await;
    let before = open_descriptors();
    for _ in 0..times {
        step().await;
    }
    eventually("no operation is in flight", || pending() == 0).await;
    eventually("descriptors are closed", || open_descriptors() <= before).await;
}

#[test]
fn a_timeout_cancels_a_read_and_leaks_nothing() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(20, async || {
            let (_one, other) = UnixStream::pair().unwrap();
            let (reader, _writer) = pipe().unwrap();
            let wait = Duration::from_millis(1);
            assert!(
                time::timeout(wait, other.read(Vec::with_capacity(64)))
                    .await
                    .is_err()
            );
            assert!(
                time::timeout(wait, reader.read(Vec::with_capacity(64)))
                    .await
                    .is_err()
            );
        })
        .await;
    });
}

#[test]
fn every_kind_of_operation_may_be_given_up() {
    let _alone = alone();
    let mut back_ends = waiting();
    // Carriers live as long as the context, and have two descriptors each.
    back_ends.retain(|(name, _)| *name != "activations");
    each(back_ends, async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1u8; 100_000]).unwrap();
        leaks_nothing(20, async || {
            let file = File::open(&path).await.unwrap();
            give_up(file.read_at(Vec::with_capacity(100_000), 0));
            give_up(file.read(Vec::with_capacity(100_000)));
            give_up(file.metadata());
            give_up(file.sync_all());
            give_up(laio_rt::fs::metadata(&path));
            give_up(laio_rt::fs::read_dir(directory.path()));
            give_up(File::open(&path));
            let name = Name::from_path(&path).unwrap();
            give_up(submit(Open::new(name, 0)));
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            give_up(listener.accept());
            give_up(TcpStream::connect(listener.local_addr().unwrap()));
            let (one, other) = UnixStream::pair().unwrap();
            give_up(one.write_all(vec![0u8; 1_000_000]));
            give_up(one.write_vectored((vec![0u8; 1_000_000], "end")));
            give_up(one.send_file(&file, 0, 100_000));
            give_up(other.read(Vec::with_capacity(10)));
            give_up(other.peek(Vec::with_capacity(10)));
            let (reader, _writer) = pipe().unwrap();
            give_up(submit(Readiness::readable(reader.descriptor().clone())));
            give_up(submit(laio::ops::Sleep::new(Duration::from_secs(1000))));
            yield_now().await;
        })
        .await;
    });
}

#[test]
fn connections_that_nobody_took_are_closed() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(20, async || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            // The connection arrives and the accept is cancelled, in either order.
            let accept = listener.accept();
            let both = future::race(accept, TcpStream::connect(address)).await;
            drop(both);
        })
        .await;
    });
}

#[test]
fn outputs_that_nobody_took_are_dropped() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(5, async || {
            let listener: Descriptor = {
                let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                OwnedFd::from(listener).into()
            };
            let address = std::net::TcpListener::from(
                std::os::fd::AsFd::as_fd(&listener)
                    .try_clone_to_owned()
                    .unwrap(),
            )
            .local_addr()
            .unwrap();
            let mut accept = submit(Accept::new(listener.clone()));
            let mut context = Context::from_waker(Waker::noop());
            let first = Pin::new(&mut accept).poll(&mut context);
            assert!(first.is_pending());
            let socket: Descriptor =
                OwnedFd::from(std::net::TcpStream::connect(address).unwrap()).into();
            // Delivered, but not taken.
            time::sleep(Duration::from_millis(5)).await;
            drop(accept);
            drop(socket);
        })
        .await;
    });
}

/// Where the future of a read is dropped.
#[derive(Clone, Copy, Debug)]
enum At {
    NotPolled,
    Waiting,
    /// There are bytes, and the kernel may have moved them or not.
    Racing,
    /// The completion was delivered, and not taken.
    Delivered,
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Woken>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Starts a read and drops its future at that point. The bytes are sent by then, or sent here.
async fn dropped_at<F: Future>(at: At, read: F, send: impl FnOnce()) {
    let woken = std::sync::Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut read = Box::pin(read);
    if !matches!(at, At::NotPolled) {
        let polled = read.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "nothing was there");
    }
    match at {
        At::NotPolled | At::Waiting => {
            drop(read);
            send();
        }
        At::Racing => send(),
        At::Delivered => {
            send();
            let woken = || woken.0.load(std::sync::atomic::Ordering::SeqCst);
            eventually("the completion is delivered", woken).await;
        }
    }
}

#[test]
fn a_read_that_is_given_up_anywhere_loses_no_byte() {
    let _alone = alone();
    each(waiting(), async |name| {
        let (reader, writer) = pipe().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let points = [At::NotPolled, At::Waiting, At::Racing, At::Delivered];
        for (round, at) in points.into_iter().cycle().take(24).enumerate() {
            let text = format!("{round:04}");
            let send = |to: &dyn std::os::fd::AsFd| {
                let sent = rustix::io::write(to.as_fd(), text.as_bytes());
                assert_eq!(sent, Ok(text.len()));
            };
            let buffer = || Vec::with_capacity(text.len());
            dropped_at(at, reader.read(buffer()), || send(&writer)).await;
            let (count, found) = reader.read(buffer()).await;
            assert_eq!(
                (count.unwrap(), &found[..]),
                (4, text.as_bytes()),
                "{name}, {at:?}"
            );

            dropped_at(at, ours.read(buffer()), || send(&theirs)).await;
            let (_, found) = ours.peek(Vec::with_capacity(2)).await;
            assert_eq!(found, text.as_bytes()[..2], "{name}, {at:?}");
            // In pieces: what a read has left need not fit into the next buffer.
            let (_, mut found) = ours.read(Vec::with_capacity(3)).await;
            while found.len() < text.len() {
                found.reserve_exact(text.len() - found.len());
                let (count, more) = ours.read(found).await;
                found = more;
                assert!(count.unwrap() > 0);
            }
            assert_eq!(found, text.as_bytes(), "{name}, {at:?}");
        }
        // The end of the stream is not lost either.
        dropped_at(At::Delivered, ours.read(Vec::with_capacity(1)), || {
            drop(theirs)
        })
        .await;
        assert_eq!(ours.read(Vec::with_capacity(1)).await.0.unwrap(), 0);
        eventually("no operation is in flight", || pending() == 0).await;
    });
}

#[test]
fn a_close_that_is_given_up_is_carried_through() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(20, async || {
            let (reader, writer) = std::io::pipe().unwrap();
            give_up(submit(Close::new(reader.into())));
            // The close has not started: the descriptor is closed nevertheless.
            drop(submit(Close::new(writer.into())));
            let file = File::open("/dev/null").await.unwrap();
            give_up(file.close());
        })
        .await;
    });
}

#[test]
fn closing_waits_for_what_was_given_up() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(10, async || {
            let (one, other) = UnixStream::pair().unwrap();
            give_up(other.read(Vec::with_capacity(100)));
            other.close().await.unwrap();
            let (result, _) = one.read(Vec::with_capacity(1)).await;
            assert_eq!(result.unwrap(), 0);
            assert!(one.write_all("x").await.0.is_err());
        })
        .await;
    });
}

#[test]
fn the_last_operation_closes_the_descriptor() {
    let _alone = alone();
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let mut read = submit(laio::ops::Recv::new(other.descriptor().clone(), vec![]));
        give_up(&mut read);
        drop(other);
        drop(read);
        // The engine drops it while the runtime sleeps, then wakes the runtime to close it.
        let (result, _) = one.read(Vec::with_capacity(1)).await;
        assert_eq!(result.unwrap(), 0);
    });
}

#[test]
fn aborted_tasks_leave_nothing() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(5, async || {
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    spawn(async {
                        let (reader, writer) = pipe().unwrap();
                        let _writer = writer;
                        reader.read(Vec::with_capacity(10)).await.0.unwrap();
                    })
                })
                .collect();
            yield_now().await;
            for task in &tasks {
                task.abort();
            }
            for task in tasks {
                assert!(task.await.is_err());
            }
        })
        .await;
    });
}

#[test]
fn operations_may_outlive_the_runtime() {
    let _alone = alone();
    let before = open_descriptors();
    for (name, options) in waiting() {
        laio_testing::watchdog::step(name);
        let runtime = laio_rt::Runtime::new(options).unwrap();
        let (one, read) = runtime.block_on(async {
            let (one, other) = UnixStream::pair().unwrap();
            let mut read: Submission<_> = submit(laio::ops::Recv::new(
                other.descriptor().clone(),
                vec![0u8; 0],
            ));
            give_up(&mut read);
            let buffer = Vec::with_capacity(10);
            let mut wait = submit(laio::ops::Recv::new(one.descriptor().clone(), buffer));
            give_up(&mut wait);
            (one, wait)
        });
        drop(runtime);
        drop(one);
        drop(read);
    }
    assert_eq!(open_descriptors(), before);
}

/// A buffer whose destructor uses the runtime while the engine, which drops the buffer, is borrowed.
struct ReentrantBuffer(Vec<u8>, Rc<Cell<u32>>);

impl Drop for ReentrantBuffer {
    fn drop(&mut self) {
        let dropped = self.1.clone();
        let (reader, _writer) = pipe().unwrap();
        spawn(async move {
            give_up(reader.read(Vec::with_capacity(1)));
            dropped.set(dropped.get() + 1);
        })
        .detach();
    }
}

/// An operation also owns its descriptor, which the engine drops likewise.
impl std::os::fd::AsFd for ReentrantBuffer {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        panic!("{} on purpose", self.0.len())
    }
}

#[test]
fn destructors_may_use_the_runtime() {
    let _alone = alone();
    each(waiting(), async |_| {
        let dropped = Rc::new(Cell::new(0));
        struct Held(Descriptor, #[allow(dead_code)] ReentrantBuffer);
        impl std::os::fd::AsFd for Held {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
        for _ in 0..10 {
            let (reader, _writer) = pipe().unwrap();
            let held = Held(
                reader.descriptor().clone(),
                ReentrantBuffer(vec![], dropped.clone()),
            );
            give_up(submit(laio::ops::Read::new(held, Vec::with_capacity(10))));
        }
        eventually("all were dropped", || dropped.get() == 10).await;
        eventually("no operation is in flight", || pending() == 0).await;
    });
}

#[test]
fn closing_needs_no_room() {
    let _alone = alone();
    let before = open_descriptors();
    for (name, options) in waiting() {
        laio_testing::watchdog::step(name);
        let runtime = laio_rt::Runtime::new(options.operations(1)).unwrap();
        runtime.block_on(async {
            let (one, other) = UnixStream::pair().unwrap();
            let (reader, _writer) = pipe().unwrap();
            let mut read = Box::pin(one.read(Vec::with_capacity(10)));
            give_up(&mut read);
            assert_eq!(pending(), 1);
            // The only slot for an operation is in use.
            let result = reader.read(Vec::with_capacity(10)).await.0;
            assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
            drop(other);
            assert_eq!(read.await.0.unwrap(), 0);
        });
    }
    assert_eq!(open_descriptors(), before);
}

#[test]
fn a_connect_without_an_answer_is_given_up() {
    let _alone = alone();
    each(waiting(), async |_| {
        leaks_nothing(2, async || {
            // A listener whose backlog is full does not answer.
            let listener = rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::STREAM,
                None,
            )
            .unwrap();
            let here = std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            rustix::net::bind(&listener, &here).unwrap();
            rustix::net::listen(&listener, 0).unwrap();
            let address = rustix::net::getsockname(&listener).unwrap();
            let address = std::net::SocketAddr::try_from(address).unwrap();
            let _first = std::net::TcpStream::connect(address).unwrap();
            // This connection fills the backlog when its last packet arrives, for which `connect` does not wait.
            let mut here = [rustix::event::PollFd::new(
                &listener,
                rustix::event::PollFlags::IN,
            )];
            while rustix::event::poll(&mut here, None) != Ok(1) {}
            let socket: Descriptor = rustix::net::socket(
                rustix::net::AddressFamily::INET,
                rustix::net::SocketType::STREAM,
                None,
            )
            .unwrap()
            .into();
            let connect = submit(Connect::new(socket.clone(), address));
            let wait = Duration::from_millis(10);
            assert!(time::timeout(wait, connect).await.is_err());
        })
        .await;
    });
}

#[test]
fn polled_after_the_end() {
    let _alone = alone();
    let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
    runtime.block_on(async {
        let mut over = submit(laio::ops::StatPath::new(Name::new(c"/")));
        while Pin::new(&mut over)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
        {
            yield_now().await;
        }
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _: Poll<_> = Pin::new(&mut over).poll(&mut Context::from_waker(Waker::noop()));
        }));
        assert!(polled.is_err());
    });
}
