//! Rules 7 and 8: all resources are bounded, and completions arrive even if all calls finish inline.

use crate::harness::*;
use laio::{BackPressure, BackendKind, Context, Errno, Handle, Limits, Options, Outcome};
use laio_testing::temp::{fill, pipe, stream_pair};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Reads of one pipe each, which stay in flight.
fn park_reads(
    context: &mut Context,
    pipes: &mut Vec<(OwnedFd, OwnedFd, Box<[u8; 8]>)>,
    count: usize,
) -> Vec<Handle> {
    (0..count)
        .map(|_| {
            let ((from, to), mut buffer) = (pipe(), Box::new([0u8; 8]));
            let read = [from.arg(), at_mut(&mut *buffer), 8];
            pipes.push((from, to, buffer));
            pending(context, libc::SYS_read, read)
        })
        .collect()
}

#[test]
fn at_the_limit_of_operations_a_call_fails() {
    for_each_pending(|way| {
        let mut context = way.with(|options| options.operations(5));
        let mut pipes = Vec::new();
        let handles = park_reads(&mut context, &mut pipes, 5);
        let mut buffer = [0u8; 8];
        let (from, to) = pipe();
        let read = [from.arg(), at_mut(&mut buffer), 8];
        for _ in 0..3 {
            let outcome = start(&mut context, libc::SYS_read, read);
            assert_eq!(outcome, Outcome::Done(Err(Errno::AGAIN)));
        }
        assert_eq!(context.stats().limited, 3);
        // The failed call has no effect: it does not read bytes that arrive later.
        rustix::io::write(&to, b"abc").expect("written");
        context.cancel(handles[0]).expect("in flight");
        wait_for(&mut context, handles[0]);
        assert_eq!(call_among_others(&mut context, read), Ok(3));
        // Closing works at the limit too, and cancels the operations on the descriptor.
        let (busy, _feed, _buffer) = pipes.remove(1);
        let fd = std::os::fd::IntoRawFd::into_raw_fd(busy) as usize;
        let (mut own_pipes, handle) = (Vec::new(), handles[1]);
        park_reads(&mut context, &mut own_pipes, 1);
        let close = start(&mut context, libc::SYS_close, [fd]);
        let mut completions = Vec::new();
        let wanted = 1 + usize::from(matches!(close, Outcome::Pending(_)));
        while completions.len() < wanted {
            context.poll(&mut completions, Some(LIMIT)).expect("poll");
        }
        let of_read = completions.iter().find(|one| one.handle == handle);
        let of_read = of_read.expect("ended by the close").result;
        assert!(matches!(of_read, Err(Errno::CANCELED)), "{of_read:?}");
        drop(context);
    });
}

/// Waits for the result of a call, while others stay in flight.
fn call_among_others(context: &mut Context, read: [usize; 3]) -> Result<usize, Errno> {
    match start(context, libc::SYS_read, read) {
        Outcome::Done(result) => result,
        Outcome::Pending(handle) => wait_for(context, handle).result,
    }
}

#[test]
fn with_back_pressure_a_call_waits() {
    for_each_pending(|way| {
        let mut context = way.with(|options| {
            let options = options.back_pressure(BackPressure::Wait);
            options.operations(3)
        });
        let mut pipes = Vec::new();
        let handles = park_reads(&mut context, &mut pipes, 3);
        let first = pipes[0].1.try_clone().expect("a descriptor");
        let writer = later(move || rustix::io::write(&first, b"abc").expect("written"));
        let more = park_reads(&mut context, &mut pipes, 1);
        assert_eq!(writer.join().expect("no panic"), 3);
        let completion = wait_for(&mut context, handles[0]);
        assert_eq!(completion.result, Ok(3));
        let rest = [handles[1], handles[2], more[0]];
        for handle in rest {
            context.cancel(handle).expect("in flight");
        }
        for completion in collect(&mut context, 3) {
            assert_eq!(completion.result, Err(Errno::CANCELED));
        }
    });
}

#[test]
fn more_blocking_operations_than_helpers() {
    for_each_pending(|way| {
        if way.backend == BackendKind::Activations {
            // In this back end each call has its own carrier.
            return;
        }
        for helpers in [1, 2] {
            let mut context = way.with(|options| with_helpers(options, helpers));
            let time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 500_000,
            };
            // Waits for a lock, and timed futex waits, go to helpers in all back ends.
            let word = 0u32;
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            let args = [at(&word), wait, 0, at(&time)];
            let handles: Vec<Handle> = (0..20)
                .map(|_| pending(&mut context, libc::SYS_futex, args))
                .collect();
            assert!(context.info().helper_threads() <= helpers as usize);
            let completions = collect(&mut context, 20);
            for completion in &completions {
                assert_eq!(completion.result, Err(Errno::TIMEDOUT));
            }
            let found: Vec<Handle> = completions.iter().map(|one| one.handle).collect();
            if helpers == 1 {
                assert_eq!(found, handles, "one helper takes them in turn");
            }
        }
    });
}

/// Starts many operations on few descriptors: sleeps, and reads queued on one pipe.
fn many(context: &mut Context, count: usize) -> (HashMap<Handle, usize>, OwnedFd, OwnedFd) {
    let (from, to) = pipe();
    let mut handles = HashMap::new();
    let (buffer, time) = (Box::leak(Box::new([0u8; 8])), &LONG);
    for index in 0..count {
        let handle = match index % 10 {
            0 => pending(context, libc::SYS_read, [from.arg(), at_mut(buffer), 8]),
            _ => pending(context, libc::SYS_nanosleep, [at(time), 0]),
        };
        assert!(handles.insert(handle, index).is_none(), "a handle twice");
    }
    (handles, from, to)
}

static LONG: libc::timespec = libc::timespec {
    tv_sec: 1000,
    tv_nsec: 0,
};

fn cancel_all(context: &mut Context, handles: &HashMap<Handle, usize>) {
    for handle in handles.keys() {
        context.cancel(*handle).expect("in flight");
    }
    for completion in collect(context, handles.len()) {
        assert!(handles.contains_key(&completion.handle));
        assert_eq!(completion.result, Err(Errno::CANCELED));
    }
    assert_eq!(context.pending(), 0);
}

#[test]
fn a_small_ring_with_many_operations() {
    for_each_pending_backend(|way| {
        if way.backend == BackendKind::Activations {
            // Each operation would need a kernel thread, far more than the limit of carriers.
            return;
        }
        let limits = Limits {
            ring_entries: 8,
            ..Limits::default()
        };
        // Without a ring all but 64 sleeps queue.
        let mut context = way.with(|options| with_helpers(options.limits(limits), 64));
        let (handles, _from, _to) = many(&mut context, 5000);
        let none = context.poll(&mut Vec::new(), Some(Duration::ZERO));
        assert_eq!(none, Ok(0));
        cancel_all(&mut context, &handles);
        // All end at the same time: more completions than the queue has entries.
        let soon = libc::timespec {
            tv_sec: 0,
            tv_nsec: 2_000_000,
        };
        for _ in 0..5000 {
            let _sleep = pending(&mut context, libc::SYS_nanosleep, [at(&soon), 0]);
            if way.backend == BackendKind::Threads || !context.info().has_ring() {
                break;
            }
        }
        let count = context.pending();
        for completion in collect(&mut context, count) {
            assert_eq!(completion.result, Ok(0));
        }
    });
}

#[test]
fn ten_thousand_operations_are_small() {
    for_each_pending_backend(|way| {
        if way.backend == BackendKind::Activations {
            // Each operation would need a kernel thread, far more than the limit of carriers.
            return;
        }
        // Without a ring all but 64 sleeps queue.
        let mut context = way.with(|options| with_helpers(options, 64));
        let idle = context.info().memory();
        let (handles, _from, _to) = many(&mut context, 10_000);
        let none = context.poll(&mut Vec::new(), Some(Duration::ZERO));
        assert_eq!(none, Ok(0));
        let busy = context.info().memory();
        println!("{way}: {idle} bytes idle, {busy} with 10,000 operations in flight");
        assert!(busy <= 8 << 20, "{busy}");
        assert_eq!(context.pending(), 10_000);
        cancel_all(&mut context, &handles);
    });
}

#[test]
fn a_program_whose_calls_finish_inline_receives_its_completions() {
    let budget = 10;
    for_each_pending(|way| {
        let limits = Limits {
            inline_budget: budget,
            ..Limits::default()
        };
        let mut context = way.with(|options| options.limits(limits));
        let mut pipes = Vec::new();
        let parked = park_reads(&mut context, &mut pipes, 1);
        let (from, to) = stream_pair();
        fill(&to);
        let mut buffer = [0u8; 3];
        let receive = [from.arg(), at_mut(&mut buffer), 3, 0, 0, 0];
        for round in 0..3 {
            let mut inline = 0;
            let handle = loop {
                buffer = [0; 3];
                match start(&mut context, libc::SYS_recvfrom, receive) {
                    Outcome::Done(result) => assert_eq!(result, Ok(3)),
                    Outcome::Pending(handle) => break handle,
                }
                inline += 1;
                assert!(
                    inline <= budget,
                    "round {round}: the program never gets to poll"
                );
            };
            if way.is_lazy() {
                assert_eq!(inline, budget, "round {round}");
            }
            let completion = wait_for(&mut context, handle);
            assert_eq!(completion.result, Ok(3));
            assert_ne!(buffer, [0; 3]);
        }
        if way.is_lazy() {
            assert_eq!(context.stats().over_budget, 3);
            let inline = context.stats().call(libc::SYS_recvfrom).inline;
            assert_eq!(inline, 3 * u64::from(budget) + 3);
        }
        context.cancel(parked[0]).expect("in flight");
        wait_for(&mut context, parked[0]);
        // With nothing in flight the budget does not apply.
        if way.is_lazy() {
            for _ in 0..3 * budget {
                let outcome = start(&mut context, libc::SYS_recvfrom, receive);
                assert_eq!(outcome, Outcome::Done(Ok(3)));
            }
        }
    });
}

#[test]
fn idle_contexts_are_small() {
    let context = Context::new(Options::new()).expect("a context");
    println!("an idle context: {} bytes", context.info().memory());
    assert!(context.info().memory() <= 256 * 1024);
}

#[test]
fn a_context_keeps_no_more_than_its_limit() {
    // Repeatedly fills the context up to the limit: its memory does not grow.
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| options.operations(100));
        let (ours, _theirs) = stream_pair();
        let mut buffer = [0u8; 8];
        let read = [ours.arg(), at_mut(&mut buffer), 8];
        let mut memory = 0;
        let end = Instant::now() + LIMIT;
        for round in 0..30 {
            assert!(Instant::now() < end);
            let handles: Vec<Handle> = (0..100)
                .map(|_| pending(&mut context, libc::SYS_read, read))
                .collect();
            let outcome = start(&mut context, libc::SYS_read, read);
            assert_eq!(outcome, Outcome::Done(Err(Errno::AGAIN)));
            for handle in handles {
                context.cancel(handle).expect("in flight");
            }
            collect(&mut context, 100);
            if round == 2 {
                memory = context.info().memory();
            }
        }
        assert!(
            context.info().memory() <= memory + 4096,
            "{memory} {}",
            context.info().memory()
        );
    });
}
