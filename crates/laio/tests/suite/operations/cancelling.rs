//! Rule 3 and cancellation: exactly one completion, in each state of the operation.

use super::parked::{Hanging, park, were_cancelled};
use crate::harness::*;
use laio::{Errno, Handle};
use laio_testing::{Random, child, process, test_name};
use std::time::Duration;

#[test]
fn operations_are_cancelled_in_each_state() {
    let hanging = Hanging::mount();
    let mut random = Random::for_test();
    let orders: Vec<u64> = (0..3).map(|_| random.bits()).collect();
    for_each_pending(|way| {
        for &seed in &orders {
            let mut random = Random::new(seed);
            let mut context = way.context();
            let parked = park(&mut context, hanging.as_ref());
            if random.chance(1, 2) {
                let mut none = Vec::new();
                let none = context.poll(&mut none, Some(Duration::ZERO));
                assert_eq!(none, Ok(0));
            }
            let mut handles: Vec<Handle> = parked.iter().map(|parked| parked.handle).collect();
            while !handles.is_empty() {
                let handle = handles.swap_remove(random.below(handles.len()));
                context.cancel(handle).expect("in flight");
            }
            let completions = collect(&mut context, parked.len());
            assert_eq!(context.pending(), 0);
            were_cancelled(&parked, &completions);
        }
    });
}

#[test]
fn operations_that_hang_with_a_server_are_cancelled() {
    let Some(hanging) = Hanging::mount() else {
        return;
    };
    for_each_pending(|way| {
        let mut context = way.context();
        let parked = [hanging.open(&mut context), hanging.read(&mut context)];
        context.flush().expect("flush");
        hanging.wait(&mut context, 2);
        for parked in &parked {
            context.cancel(parked.handle).expect("in flight");
        }
        let completions = collect(&mut context, 2);
        were_cancelled(&parked, &completions);
        let over = laio_testing::limit::wait_until(LIMIT, || hanging.hung() == 0);
        assert!(over, "the server still has {}", hanging.hung());
    });
}

#[test]
fn one_helper_running_and_the_others_queued() {
    for_each_pending(|way| {
        for helpers in [1, 2] {
            let mut context = way.with(|options| with_helpers(options, helpers));
            let parked = park_on_helpers(&mut context, 6);
            let order = [3, 0, 5, 1, 4, 2];
            for which in order {
                context.cancel(parked[which].1).expect("in flight");
            }
            for completion in collect(&mut context, 6) {
                assert_eq!(completion.result, Err(Errno::CANCELED));
            }
            assert!(context.info().helper_threads() <= helpers as usize);
        }
    });
}

/// A wait for a futex goes to a helper in all back ends.
fn park_on_helpers(context: &mut laio::Context, count: usize) -> Vec<(Box<u32>, Handle)> {
    (0..count)
        .map(|_| {
            let word = Box::new(7u32);
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            let handle = pending(context, libc::SYS_futex, [at(&*word), wait, 7, 0]);
            (word, handle)
        })
        .collect()
}

#[test]
fn a_running_helper_is_interrupted_for_each_of_many_operations() {
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| with_helpers(options, 2));
        let mut random = Random::new(1);
        for _ in 0..100 {
            let parked = park_on_helpers(&mut context, 3);
            for _ in 0..random.below(200) {
                std::hint::spin_loop();
            }
            for (_, handle) in &parked {
                context.cancel(*handle).expect("in flight");
            }
            for completion in collect(&mut context, 3) {
                assert_eq!(completion.result, Err(Errno::CANCELED));
            }
        }
    });
}

#[test]
fn dropping_a_context_cancels_and_waits() {
    let hanging = Hanging::mount();
    for_each_pending(|way| {
        for look in [false, true] {
            let mut context = way.context();
            let mut parked = park(&mut context, hanging.as_ref());
            if look {
                let none = context.poll(&mut Vec::new(), Some(Duration::ZERO));
                assert_eq!(none, Ok(0));
            }
            drop(context);
            for parked in &mut parked {
                // No operation uses the buffer any more: the test may reuse it.
                parked.stays_untouched();
                parked.buffer.fill(0);
            }
        }
    });
}

#[test]
fn nothing_is_left_of_a_dropped_context() {
    child::check(LIMIT * 6, test_name!(), "", || {
        let hanging = Hanging::mount();
        // These descriptors are opened once and stay open.
        let mut context = Way::natural(laio::BackendKind::Threads).context();
        let parked = park(&mut context, None);
        drop(context);
        drop(parked);
        for_each_pending_backend(|way| {
            let (before, threads) = (process::fd_count(), process::thread_count());
            let are_left = |threads: usize, workers: usize| {
                let gone = || {
                    let names = process::thread_names();
                    let of_the_ring = names.iter().filter(|name| name.starts_with("iou-wrk-"));
                    let of_the_ring = of_the_ring.count();
                    process::fd_count() == before
                        && names.len() - of_the_ring <= threads
                        && of_the_ring <= workers
                };
                let gone = laio_testing::limit::wait_until(LIMIT, gone);
                assert!(
                    gone,
                    "{before} descriptors and {threads} threads before, {} and {:?} now",
                    process::fd_count(),
                    process::thread_names()
                );
            };
            let own = || {
                let mut context = way.context();
                let parked = park(&mut context, hanging.as_ref());
                drop(context);
                drop(parked);
                // Of a thread without rings some kernels keep two idle workers, one for files and one for the rest: see
                // docs/kernels.md.
                are_left(threads + 1, 2);
            };
            std::thread::scope(|scope| scope.spawn(own).join()).expect("all is gone");
            // They end with the thread, at the latest.
            are_left(threads, 0);
        });
    });
}
