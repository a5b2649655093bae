//! Wakers on other threads.

use crate::common::all;
use laio_rt::{Runtime, spawn};
use laio_testing::watchdog;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// A flag that another thread sets.
#[derive(Default)]
struct Flag {
    set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Flag {
    fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.lock().unwrap().take() {
            waker.wake();
        }
    }

    fn wait(self: Arc<Self>) -> impl Future<Output = ()> {
        poll_fn(move |context| {
            *self.waker.lock().unwrap() = Some(context.waker().clone());
            if self.set.swap(false, Ordering::SeqCst) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

#[test]
fn no_wake_is_lost() {
    const TASKS: usize = 8;
    const ROUNDS: u32 = 2000;
    // On a busy machine a wakeup takes milliseconds, so the number of rounds is bounded by time too.
    const ENOUGH: Duration = Duration::from_secs(5);
    for (name, options) in all() {
        watchdog::step(name);
        let runtime = Runtime::new(options).unwrap();
        let mut threads = Vec::new();
        let mut tasks = Vec::new();
        let begun = Instant::now();
        for _ in 0..TASKS {
            let (ping, pong) = (Arc::new(Flag::default()), Arc::new(AtomicU32::new(0)));
            let (flag, answers) = (ping.clone(), pong.clone());
            let over = Arc::new(AtomicBool::new(false));
            let stopping = over.clone();
            tasks.push(runtime.spawn(async move {
                for round in 1.. {
                    flag.clone().wait().await;
                    let is_last = stopping.load(Ordering::SeqCst);
                    answers.store(round, Ordering::SeqCst);
                    if is_last {
                        break;
                    }
                }
            }));
            threads.push(thread::spawn(move || {
                for round in 1..=ROUNDS {
                    let is_last = round == ROUNDS || begun.elapsed() > ENOUGH;
                    over.store(is_last, Ordering::SeqCst);
                    ping.set();
                    while pong.load(Ordering::SeqCst) < round {
                        thread::yield_now();
                    }
                    if is_last {
                        break;
                    }
                }
            }));
        }
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_storm_of_wakes() {
    for (name, options) in all() {
        watchdog::step(name);
        let runtime = Runtime::new(options).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        runtime.block_on(async {
            let mut threads = Vec::new();
            for _ in 0..4 {
                let stop = stop.clone();
                let (send, receive) = std::sync::mpsc::channel::<Waker>();
                let mut send = Some(send);
                let task = spawn(poll_fn(move |context| {
                    if let Some(send) = send.take() {
                        let _ = send.send(context.waker().clone());
                    }
                    if stop.load(Ordering::SeqCst) {
                        Poll::Ready(())
                    } else {
                        Poll::<()>::Pending
                    }
                }));
                threads.push((
                    task,
                    thread::spawn(move || {
                        let wakers: Vec<Waker> = receive.iter().take(1).collect();
                        for _ in 0..20_000 {
                            wakers.iter().for_each(Waker::wake_by_ref);
                        }
                        wakers
                    }),
                ));
            }
            laio_rt::time::sleep(Duration::from_millis(50)).await;
            stop.store(true, Ordering::SeqCst);
            for (task, thread) in threads {
                let wakers = thread.join().unwrap();
                // At least one wakeup after the stop. Wakeups of ended tasks are harmless.
                wakers.iter().for_each(Waker::wake_by_ref);
                if !wakers.is_empty() {
                    task.await.unwrap();
                }
                wakers.into_iter().for_each(Waker::wake);
            }
        });
    }
}

#[test]
fn wakers_may_outlive_the_runtime() {
    let runtime = Runtime::new(laio::Options::new()).unwrap();
    let waker = runtime.block_on(poll_fn(|context| Poll::Ready(context.waker().clone())));
    let task = runtime.spawn(std::future::pending::<()>());
    runtime.block_on(laio_rt::yield_now());
    drop(runtime);
    thread::spawn(move || waker.wake()).join().unwrap();
    assert!(task.is_finished());
}

#[test]
fn one_runtime_per_thread() {
    let threads: Vec<_> = (0..4)
        .map(|i| {
            thread::spawn(move || {
                let runtime = Runtime::new(laio::Options::new()).unwrap();
                runtime.block_on(async move {
                    let tasks: Vec<_> = (0..100).map(|j| spawn(async move { i * j })).collect();
                    let mut sum = 0;
                    for task in tasks {
                        sum += task.await.unwrap();
                    }
                    sum
                })
            })
        })
        .collect();
    let sums: Vec<i32> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert_eq!(sums, [0, 4950, 9900, 14850]);
}

#[test]
fn runtimes_nest_but_not_in_themselves() {
    let outer = Runtime::new(laio::Options::new()).unwrap();
    let inner = Runtime::new(laio::Options::new()).unwrap();
    outer.block_on(async {
        assert_eq!(
            inner.block_on(async { spawn(async { 3 }).await.unwrap() }),
            3
        );
        assert_eq!(spawn(async { 4 }).await.unwrap(), 4);
        let nested = std::panic::AssertUnwindSafe(|| outer.block_on(async {}));
        assert!(std::panic::catch_unwind(nested).is_err());
    });
}

/// Wakers that are not the executor's own, as combinators create them.
#[test]
fn foreign_wakers_are_woken() {
    struct Counts(AtomicU32, Waker);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.wake_by_ref();
        }
    }
    for (name, options) in crate::common::waiting() {
        watchdog::step(name);
        let runtime = Runtime::new(options).unwrap();
        runtime.block_on(async {
            let (one, other) = laio_rt::net::UnixStream::pair().unwrap();
            let mut read = Box::pin(other.read(Vec::with_capacity(8)));
            let mut counts = None;
            let writer = spawn(async move { one.write_all("x").await.0 });
            poll_fn(|context| {
                let counts = counts.get_or_insert_with(|| {
                    Arc::new(Counts(AtomicU32::new(0), context.waker().clone()))
                });
                let waker = Waker::from(counts.clone());
                read.as_mut()
                    .poll(&mut std::task::Context::from_waker(&waker))
            })
            .await
            .0
            .unwrap();
            assert!(counts.unwrap().0.load(Ordering::SeqCst) >= 1);
            writer.await.unwrap().unwrap();
        });
    }
}
