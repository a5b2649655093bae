//! Tasks: joining, aborting, panicking, being fair.

use crate::common::{all, each, waiting};
use laio::{Options, Outcome};
use laio_rt::fs::File;
use laio_rt::net::UnixStream;
use laio_rt::pipe::pipe;
use laio_rt::sync::{Notify, Semaphore};
use laio_rt::{Runtime, future, give_way, limits, spawn, time, yield_now};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn tasks_that_give_way_let_one_with_little_to_do_go_first() {
    each(all(), async |_| {
        let steps = Rc::new(Cell::new(0));
        let busy: Vec<_> = (0..100)
            .map(|_| {
                let steps = steps.clone();
                spawn(async move {
                    for _ in 0..20 {
                        steps.set(steps.get() + 1);
                        give_way().await;
                    }
                })
            })
            .collect();
        // All have started, and have called `give_way`.
        while steps.get() < busy.len() {
            yield_now().await;
        }
        let before = steps.get();
        for _ in 0..10 {
            yield_now().await;
        }
        let meanwhile = steps.get() - before;
        assert!(meanwhile <= 11 * limits::GIVEN_WAY_PER_TURN, "{meanwhile}");
        for task in busy {
            task.await.unwrap();
        }
        assert_eq!(steps.get(), 2000, "none is forgotten");
    });
}

#[test]
fn tasks_run_in_the_order_of_their_start() {
    each(all(), async |_| {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..10)
            .map(|i| {
                let seen = seen.clone();
                spawn(async move {
                    seen.borrow_mut().push(i);
                    yield_now().await;
                    seen.borrow_mut().push(i + 100);
                    i
                })
            })
            .collect();
        for (i, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), i);
        }
        let expected: Vec<_> = (0..10).chain(100..110).collect();
        assert_eq!(*seen.borrow(), expected);
    });
}

#[test]
fn detached_tasks_go_on() {
    each(all(), async |_| {
        let done = Rc::new(Notify::new());
        let notify = done.clone();
        spawn(async move {
            time::sleep(Duration::from_millis(5)).await;
            notify.notify_one();
        })
        .detach();
        done.notified().await;
    });
}

#[test]
fn aborted_tasks_are_dropped_where_they_wait() {
    each(waiting(), async |_| {
        let (reader, writer) = pipe().unwrap();
        let alive = Rc::new(());
        let held = alive.clone();
        let task = spawn(async move {
            let _held = held;
            reader.read(Vec::with_capacity(1)).await.0
        });
        yield_now().await;
        assert!(!task.is_finished());
        task.abort();
        assert_eq!(Rc::strong_count(&alive), 1);
        assert!(task.is_finished());
        task.abort();
        let aborted = task.await.unwrap_err();
        assert!(!aborted.is_panic());
        assert_eq!(aborted.to_string(), "the task was aborted");
        // The task owns the reader, which is dropped with it.
        crate::common::eventually("the reader is closed", || {
            use std::io::Write;
            std::fs::File::from(
                std::os::fd::AsFd::as_fd(&writer)
                    .try_clone_to_owned()
                    .unwrap(),
            )
            .write_all(b"x")
            .is_err()
        })
        .await;
    });
}

#[test]
fn the_handle_of_an_ended_task_means_no_later_task() {
    let runtime = Runtime::new(Options::new()).unwrap();
    runtime.block_on(async {
        let first = spawn(async {});
        yield_now().await;
        assert!(first.is_finished());
        let second = spawn(async { 2 });
        first.abort();
        assert_eq!(second.await.unwrap(), 2);
    });
}

#[test]
fn a_task_may_abort_itself() {
    each(all(), async |_| {
        let own = Rc::new(RefCell::new(None));
        let slot = own.clone();
        let task = spawn(async move {
            let handle: laio_rt::JoinHandle<()> = slot.borrow_mut().take().unwrap();
            handle.abort();
            yield_now().await;
            unreachable!("it ends at its next wait");
        });
        let watched = spawn(async { 5 });
        *own.borrow_mut() = Some(task);
        assert_eq!(watched.await.unwrap(), 5);
        yield_now().await;
        assert_eq!(Rc::strong_count(&own), 1);
    });
}

#[test]
fn a_panic_ends_its_task_only() {
    each(all(), async |_| {
        let bystander = spawn(async {
            yield_now().await;
            "well"
        });
        let task = spawn(async {
            yield_now().await;
            panic!("on purpose: {}", std::process::id());
        });
        let aborted = task.await.unwrap_err();
        assert!(aborted.is_panic());
        let expected = format!("on purpose: {}", std::process::id());
        let message = aborted.to_string();
        assert_eq!(message, format!("the task panicked: {expected}"));
        let payload = aborted.into_panic().unwrap();
        assert_eq!(*payload.downcast_ref::<String>().unwrap(), expected);
        assert_eq!(bystander.await.unwrap(), "well");

        struct Bad;
        impl Drop for Bad {
            fn drop(&mut self) {
                panic!("in a destructor, on purpose");
            }
        }
        let task = spawn(async {
            let _bad = Bad;
            std::future::pending::<()>().await;
        });
        yield_now().await;
        task.abort();
        assert!(task.await.is_err());
    });
}

#[test]
fn the_main_future_may_panic() {
    let runtime = Runtime::new(Options::new()).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { panic!("on purpose") })
    }));
    assert!(result.is_err());
    assert_eq!(runtime.block_on(async { 1 }), 1);
}

#[test]
fn dropping_the_runtime_ends_everything() {
    for (name, options) in waiting() {
        laio_testing::watchdog::step(name);
        let runtime = Runtime::new(options).unwrap();
        let dropped = Rc::new(Cell::new(0));
        struct Counts(Rc<Cell<i32>>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
                // The runtime refuses the task, rather than running or leaking it.
                let late = self.0.clone();
                spawn(async move { late.set(1000) }).detach();
            }
        }
        let mut handles = Vec::new();
        runtime.block_on(async {
            for _ in 0..50 {
                let counts = Counts(dropped.clone());
                handles.push(spawn(async move {
                    let _counts = counts;
                    let (reader, _writer) = pipe().unwrap();
                    reader.read(Vec::with_capacity(10)).await.0.unwrap();
                }));
                yield_now().await;
            }
        });
        let handle = handles.pop().unwrap();
        assert_eq!(runtime.tasks(), 50);
        drop(runtime);
        assert_eq!(dropped.get(), 50);
        assert!(handle.is_finished());
        handle.abort();
    }
}

#[test]
fn tasks_go_on_at_the_next_call() {
    for (_, options) in waiting() {
        let runtime = Runtime::new(options).unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let reader = runtime.spawn(async move { other.read(Vec::with_capacity(10)).await });
        runtime.block_on(yield_now());
        runtime.block_on(async {
            one.write_all("hello").await.0.unwrap();
            assert_eq!(reader.await.unwrap().1, b"hello");
        });
        assert_eq!(runtime.tasks(), 0);
    }
}

#[test]
fn operations_that_do_not_block_do_not_starve_other_tasks() {
    each(all(), async |name| {
        // In some back ends every read waits; in the others none does.
        let reads = Rc::new(Cell::new(0u64));
        let counted = reads.clone();
        let busy = spawn(async move {
            let zeros = File::open("/dev/zero").await.unwrap();
            let mut buffer = Vec::with_capacity(16);
            loop {
                let (result, filled) = zeros.read(buffer).await;
                result.unwrap();
                counted.set(counted.get() + 1);
                buffer = filled;
                buffer.clear();
            }
        });
        crate::common::eventually("it reads", || reads.get() > 0).await;
        let ticks = spawn(async {
            for _ in 0..5 {
                time::sleep(Duration::from_millis(2)).await;
            }
        });
        let before = reads.get();
        ticks.await.unwrap();
        // Not checked for `sync`, where a task must yield by itself.
        assert!(reads.get() > before || name != "sync");
        busy.abort();
    });
}

#[test]
fn a_poll_starts_so_many_operations_and_no_more() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let runtime = Runtime::new(Options::new().backend(laio::BackendKind::Lazy)).unwrap();
    runtime.block_on(async {
        let zeros = File::open("/dev/zero").await.unwrap();
        let reads = Rc::new(Cell::new(0));
        let counted = reads.clone();
        let busy = spawn(async move {
            loop {
                zeros.read(Vec::with_capacity(1)).await.0.unwrap();
                counted.set(counted.get() + 1);
            }
        });
        assert_eq!(reads.get(), 0);
        yield_now().await;
        assert_eq!(reads.get(), limits::OPERATIONS_PER_POLL);
        yield_now().await;
        assert_eq!(reads.get(), 2 * limits::OPERATIONS_PER_POLL);
        busy.abort();
    });
    assert_eq!(runtime.stats().over_budget, 0);
}

#[test]
fn inline_operations_allocate_no_slot() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let runtime = Runtime::new(Options::new().backend(laio::BackendKind::Lazy)).unwrap();
    runtime.block_on(async {
        let zeros = File::open("/dev/zero").await.unwrap();
        let before = laio_rt::with_context(|context| context.stats().operations);
        for _ in 0..1000 {
            zeros.read(Vec::with_capacity(8)).await.0.unwrap();
        }
        assert_eq!(
            laio_rt::with_context(|context| context.stats().operations),
            before
        );
    });
}

#[test]
fn races_have_one_winner() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let first = future::race(
            other.read(Vec::with_capacity(8)),
            time::sleep(Duration::from_millis(5)),
        );
        assert!(matches!(first.await, future::Either::Right(())));
        one.write_all("x").await.0.unwrap();
        let first = future::race(
            other.read(Vec::with_capacity(8)),
            time::sleep(Duration::from_secs(100)),
        );
        assert!(matches!(first.await, future::Either::Left((Ok(1), _))));
    });
}

#[test]
fn permits_bound_what_runs_at_a_time() {
    each(all(), async |_| {
        let permits = Semaphore::new(3);
        let (now, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let (permits, now, most) = (permits.clone(), now.clone(), most.clone());
                spawn(async move {
                    let _permit = permits.acquire().await;
                    now.set(now.get() + 1);
                    most.set(most.get().max(now.get()));
                    yield_now().await;
                    now.set(now.get() - 1);
                })
            })
            .collect();
        // A waiter that was woken and then dropped passes its permit on.
        let impatient = spawn({
            let permits = permits.clone();
            async move { drop(permits.acquire().await) }
        });
        yield_now().await;
        impatient.abort();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!((now.get(), most.get(), permits.available()), (0, 3, 3));
    });
}

#[test]
fn signals_are_kept_and_merged() {
    each(all(), async |_| {
        let notify = Rc::new(Notify::new());
        notify.notify_one();
        notify.notify_one();
        notify.notified().await;
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let notify = notify.clone();
                spawn(async move { notify.notified().await })
            })
            .collect();
        yield_now().await;
        notify.notify_one();
        yield_now().await;
        assert_eq!(
            waiters.iter().filter(|waiter| waiter.is_finished()).count(),
            1
        );
        // If a signalled task is aborted before it has run, the signal goes to the next one.
        notify.notify_one();
        waiters[1].abort();
        yield_now().await;
        assert!(waiters.iter().all(|waiter| waiter.is_finished()));
        let waiter = spawn({
            let notify = notify.clone();
            async move { notify.notified().await }
        });
        yield_now().await;
        notify.notify_waiters();
        waiter.await.unwrap();
    });
}

#[test]
fn the_context_is_at_hand() {
    each(all(), async |name| {
        let runs = laio_rt::with_context(|context| context.info().backend());
        assert!(name.starts_with(runs.name()));
        // Operations of other tasks do not interfere.
        let sleep = laio::ops::Sleep::new(Duration::from_millis(1));
        let submitted = laio_rt::with_context(|context| context.submit_with(sleep, 7));
        time::sleep(Duration::from_millis(5)).await;
        if let Outcome::Pending(ticket) = submitted {
            laio_rt::with_context(|context| context.abandon(ticket));
        }
    });
}
