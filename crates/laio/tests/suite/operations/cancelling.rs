//! Rule 3 and cancellation: exactly one completion, in each state of the operation.

use super::parked::{FRESH, Hanging, park, were_cancelled};
use crate::harness::*;
use laio::{Call, Errno, Handle, Outcome, PollOptions};
use laio_testing::temp::pipe;
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

#[test]
fn handles_that_are_not_in_flight() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut buffer = [FRESH; 8];
        let read = [from.arg(), at_mut(&mut buffer), 8];
        let first = pending(&mut context, libc::SYS_read, read);
        assert_eq!(context.cancel(first), Ok(()));
        // Already cancelled, or already finished.
        let again = context.cancel(first);
        assert!(matches!(again, Ok(()) | Err(Errno::ALREADY)), "{again:?}");
        let completion = wait_for(&mut context, first);
        assert_eq!(completion.result, Err(Errno::CANCELED));
        assert_eq!(context.cancel(first), Err(Errno::NOENT), "delivered");

        // A later operation uses the slot, with another handle.
        let second = pending(&mut context, libc::SYS_read, read);
        assert_ne!(first, second);
        assert_eq!(context.cancel(first), Err(Errno::NOENT), "stale");
        let beyond = Handle::from_raw(second.to_raw() + 1_000_000).expect("a handle");
        assert_eq!(context.cancel(beyond), Err(Errno::NOENT), "never given out");
        rustix::io::write(&to, b"abc").expect("written");
        let completion = wait_for(&mut context, second);
        assert_eq!(completion.result, Ok(3));
        assert_eq!(&buffer, b"abc\xA5\xA5\xA5\xA5\xA5");
    });
}

#[test]
fn a_handle_of_another_context_is_unknown() {
    for_each_pending_backend(|way| {
        let (mut ours, mut theirs) = (way.context(), way.context());
        let (from, to) = pipe();
        let (other_from, other_to) = pipe();
        let mut buffers = [[0u8; 8]; 2];
        let [one, two] = &mut buffers;
        let mine = pending(&mut ours, libc::SYS_read, [from.arg(), at_mut(one), 8]);
        let foreign = pending(
            &mut theirs,
            libc::SYS_read,
            [other_from.arg(), at_mut(two), 8],
        );
        assert_eq!(ours.cancel(foreign), Err(Errno::NOENT));
        rustix::io::write(&to, b"mine").expect("written");
        rustix::io::write(&other_to, b"theirs").expect("written");
        assert_eq!(wait_for(&mut ours, mine).result, Ok(4));
        assert_eq!(wait_for(&mut theirs, foreign).result, Ok(6));
    });
}

#[test]
fn a_finished_operation_is_not_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut buffers = [[FRESH; 8]; 2];
        let [one, two] = &mut buffers;
        let first = pending(&mut context, libc::SYS_read, [from.arg(), at_mut(one), 3]);
        let second = pending(&mut context, libc::SYS_read, [from.arg(), at_mut(two), 3]);
        rustix::io::write(&to, b"onetwo").expect("written");
        // One is delivered; the other may be in flight or finished.
        let mut delivered = Vec::new();
        let take = |context: &mut laio::Context, delivered: &mut Vec<laio::Completion>| {
            context.poll_with(
                PollOptions {
                    timeout: Some(LIMIT),
                    most: 1,
                    ..PollOptions::default()
                },
                |completion| delivered.push(completion),
            )
        };
        assert_eq!(take(&mut context, &mut delivered), Ok(1));
        assert_eq!(delivered[0].handle, first);
        let cancelled = context.cancel(second);
        assert!(matches!(cancelled, Ok(()) | Err(Errno::ALREADY)));
        assert_eq!(take(&mut context, &mut delivered), Ok(1));
        assert_eq!(delivered[1].handle, second);
        match delivered[1].result {
            Ok(3) => assert_eq!(&buffers[1][..3], b"two"),
            Err(Errno::CANCELED) if cancelled.is_ok() => {
                assert_eq!(buffers[1], [FRESH; 8]);
                // The cancelled read has taken no bytes: they can still be read.
                assert_eq!(rustix::io::read(&from, &mut [0u8; 8]), Ok(3));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(context.pending(), 0);
    });
}

#[test]
fn user_data_comes_back() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut expected = Vec::new();
        let mut pipes = Vec::new();
        for index in 0..20u64 {
            let ((from, to), mut buffer) = (pipe(), vec![0u8; 8]);
            let call = Call::new(libc::SYS_read, [from.arg(), at_mut(&mut buffer[..]), 8]);
            let word = index.wrapping_mul(0x1234_5678_9ABC_DEF1);
            // SAFETY: the buffer is kept until the end.
            let Outcome::Pending(handle) = (unsafe { context.call_with(call, word) }) else {
                panic!("nothing to read yet");
            };
            expected.push((handle, word));
            pipes.push((from, to, buffer));
        }
        for (index, (_, to, _)) in pipes.iter().enumerate() {
            match index % 2 {
                0 => drop(rustix::io::write(to, b"x")),
                _ => context.cancel(expected[index].0).expect("in flight"),
            }
        }
        let mut found: Vec<_> = collect(&mut context, 20)
            .into_iter()
            .map(|completion| {
                let index = expected
                    .iter()
                    .position(|(handle, _)| *handle == completion.handle);
                let odd = index.expect("a handle of ours") % 2 == 1;
                let result = if odd { Err(Errno::CANCELED) } else { Ok(1) };
                assert_eq!(completion.result, result);
                (completion.handle, completion.user_data)
            })
            .collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    });
}

#[test]
fn cancelling_the_first_unblocks_the_second() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut buffers = [[FRESH; 8]; 3];
        let [a, b, c] = &mut buffers;
        let read = |buffer: &mut [u8; 8]| [from.arg(), at_mut(buffer), 4];
        let [a, b, c] = [a, b, c].map(|one| pending(&mut context, libc::SYS_read, read(one)));
        context.cancel(b).expect("queued");
        context.cancel(a).expect("in flight");
        for completion in collect(&mut context, 2) {
            assert_eq!(completion.result, Err(Errno::CANCELED));
            assert!([a, b].contains(&completion.handle));
        }
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(wait_for(&mut context, c).result, Ok(3));
        assert_eq!(&buffers[2][..3], b"abc");
        assert_eq!([buffers[0], buffers[1]], [[FRESH; 8]; 2]);
    });
}
