//! Rules 7 and 8: every limit holds and is reported; a program whose calls all finish inline still receives its
//! completions. Also tests the memory use of a context.

use crate::harness::{
    Arg, LIMIT, Way, at, at_mut, call, collect, finish, for_each_backend, for_each_pending,
    for_each_pending_backend, later, own, pending, pending_read, plain, sanitized, start, timespec,
    wait_for, with_helpers,
};
use laio::{BackPressure, BackendKind, Completion, Context, Errno, Handle, Limits, Outcome};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::temp::{drain, file_with, make_cold, pattern, pipe, scratch, stream_pair};
use laio_testing::{FaultFs, child, or_skip, process, test_name};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Empty pipes, whose reads block.
fn events(count: usize) -> Vec<OwnedFd> {
    (0..count)
        .map(|_| own(plain(libc::SYS_eventfd2, [0, libc::EFD_CLOEXEC as usize])))
        .collect()
}

/// Waits on a clock that the ring does not support: only a helper can make this call.
fn helper_sleep(context: &mut Context, time: &libc::timespec) -> Outcome {
    start(
        context,
        libc::SYS_clock_nanosleep,
        [libc::CLOCK_TAI as usize, 0, at(time), 0],
    )
}

#[test]
fn beyond_the_limit_a_call_fails() {
    for_each_pending(|way| {
        let mut context = way.with(|options| options.operations(4));
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..5).map(|_| pipe()).collect();
        let mut buffers = [[0u8; 1]; 5];
        let addresses = buffers.each_mut().map(at_mut);
        let read = |context: &mut Context, index: usize| {
            start(
                context,
                libc::SYS_read,
                [pipes[index].0.arg(), addresses[index], 1],
            )
        };
        let handles: Vec<Handle> = (0..4)
            .map(|index| match read(&mut context, index) {
                Outcome::Pending(handle) => handle,
                done => panic!("{done:?}"),
            })
            .collect();
        assert_eq!(read(&mut context, 4), Outcome::Done(Err(Errno::AGAIN)));
        assert_eq!((context.pending(), context.stats().limited), (4, 1));
        // A finished operation counts until it is delivered.
        rustix::io::write(&pipes[0].1, b"x").unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(read(&mut context, 4), Outcome::Done(Err(Errno::AGAIN)));
        assert_eq!(wait_for(&mut context, handles[0]).result, Ok(1));
        let again = read(&mut context, 4);
        assert!(matches!(again, Outcome::Pending(_)), "{again:?}");
        for handle in &handles[1..] {
            context.cancel(*handle).unwrap();
        }
        rustix::io::write(&pipes[4].1, b"y").unwrap();
        collect(&mut context, 4);
        assert_eq!(buffers[4], *b"y");
        // A call that does not block needs no slot.
        let _ = context;
    });
}

#[test]
fn calls_that_do_not_block_need_no_slot() {
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| options.operations(1));
        let (reader, writer) = pipe();
        let mut buffer = [0u8; 1];
        let handle = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 1]);
        let id = start(&mut context, libc::SYS_gettid, []);
        assert_eq!(id, Outcome::Done(plain(libc::SYS_gettid, [])));
        if way.tries_streams() {
            let (other, ours) = stream_pair();
            let args = [ours.arg(), at("x"), 1, 0, 0, 0];
            let sent = start(&mut context, libc::SYS_sendto, args);
            assert_eq!(sent, Outcome::Done(Ok(1)));
            assert_eq!(drain(&other), b"x");
        }
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(wait_for(&mut context, handle).result, Ok(1));
    });
}

/// At the limit there is no slot for the close, but the close succeeds: after an error the caller could not know
/// whether the descriptor is still open.
#[test]
fn a_descriptor_can_be_closed_at_the_limit() {
    use std::os::fd::IntoRawFd;
    for_each_pending(|way| {
        let mut context = way.with(|options| options.operations(2));
        let (reader, _writer) = pipe();
        let fd = reader.into_raw_fd().arg();
        let mut buffers = [[0u8; 1]; 2];
        let handles = buffers
            .each_mut()
            .map(|buffer| pending_read(&mut context, [fd, at_mut(buffer), 1]));
        let close = start(&mut context, libc::SYS_close, [fd]);
        let closing = usize::from(close.done().is_none());
        let completions = collect(&mut context, 2 + closing);
        for handle in handles {
            let result = completions
                .iter()
                .find(|one| one.handle == handle)
                .unwrap()
                .result;
            assert_eq!(result, Err(Errno::CANCELED));
        }
        if let Outcome::Done(result) = close {
            assert_eq!(result, Ok(0));
        }
    });
}

/// With back-pressure the call waits for a free slot as often as needed, and loses no operation.
#[test]
fn back_pressure_waits_for_a_slot() {
    for_each_pending(|way| {
        let mut context =
            way.with(|options| options.operations(3).back_pressure(BackPressure::Wait));
        let events = events(10);
        let mut words = [0u64; 10];
        let addresses = words.each_mut().map(at_mut);
        let copies: Vec<OwnedFd> = events
            .iter()
            .map(|event| rustix::io::dup(event).unwrap())
            .collect();
        let peer = later(move || {
            for (index, event) in copies.iter().enumerate() {
                std::thread::sleep(Duration::from_millis(1));
                rustix::io::write(event, &(index as u64 + 1).to_ne_bytes()).unwrap();
            }
        });
        let mut pending = HashSet::new();
        let mut done = 0;
        let mut seen: Vec<Completion> = Vec::new();
        // Twice the limit fits: as many in flight, and as many finished and undelivered.
        for index in 0..10 {
            if pending.len() - seen.len() >= 6 {
                context.poll(&mut seen, Some(LIMIT)).unwrap();
            }
            match start(
                &mut context,
                libc::SYS_read,
                [events[index].arg(), addresses[index], 8],
            ) {
                Outcome::Pending(handle) => assert!(pending.insert(handle)),
                Outcome::Done(result) => {
                    assert_eq!(result, Ok(8), "call {index}");
                    done += 1;
                }
            }
        }
        let left = pending.len() - seen.len();
        seen.extend(collect(&mut context, left));
        peer.join().unwrap();
        assert_eq!(seen.len() + done, 10);
        assert!(
            seen.iter()
                .all(|one| one.result == Ok(8) && pending.contains(&one.handle))
        );
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(context.pending(), 0);
    });
}

/// When undelivered completions use all slots, waiting would never end.
#[test]
fn back_pressure_gives_up_when_waiting_cannot_help() {
    for_each_pending_backend(|way| {
        let mut context =
            way.with(|options| options.operations(2).back_pressure(BackPressure::Wait));
        let events = events(12);
        let mut words = [0u64; 12];
        let addresses = words.each_mut().map(at_mut);
        let mut pending = 0;
        let mut refused = 0;
        for index in 0..12 {
            rustix::io::write(&events[index], &1u64.to_ne_bytes()).unwrap();
            // The bytes are available, but the call is forced to the background.
            let outcome = start(
                &mut context,
                libc::SYS_read,
                [events[index].arg(), addresses[index], 8],
            );
            match outcome {
                Outcome::Pending(_) => pending += 1,
                Outcome::Done(Ok(8)) => {}
                Outcome::Done(Err(Errno::AGAIN)) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        collect(&mut context, pending);
        assert!(
            pending <= 4,
            "{pending} in flight or undelivered, with a limit of 2"
        );
        assert_eq!(context.pending(), 0);
        let lazy = way.tries_streams();
        assert!(lazy || refused >= 8, "{refused} were refused");
    });
}

/// With few helpers all operations complete, and no more helpers than the limit start.
#[test]
fn the_limit_of_helpers_holds() {
    for_each_pending_backend(|way| {
        for helpers in [1u32, 2] {
            let mut context = way.with(|options| with_helpers(options, helpers));
            let time = timespec(0, 1_000_000);
            let mut handles = HashSet::new();
            for _ in 0..12 {
                match helper_sleep(&mut context, &time) {
                    Outcome::Pending(handle) => assert!(handles.insert(handle)),
                    // The call finished before the context noticed that it blocks.
                    done => {
                        assert_eq!(way.backend, BackendKind::Activations);
                        assert_eq!(done, Outcome::Done(Ok(0)));
                    }
                }
                assert!(context.info().helper_threads() <= helpers as usize);
            }
            for completion in collect(&mut context, handles.len()) {
                assert_eq!(completion.result, Ok(0));
                assert!(handles.remove(&completion.handle));
            }
            // In this back end each thread continues the call that it has made.
            if way.backend != BackendKind::Activations {
                assert!((1..=helpers as usize).contains(&context.info().helper_threads()));
            }
        }
    });
}

/// A blocked helper does not stop the others, and an operation queued behind it can be cancelled.
#[test]
fn a_queued_operation_can_be_cancelled_behind_a_stuck_helper() {
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| with_helpers(options, 1));
        let long = timespec(1000, 0);
        let Outcome::Pending(stuck) = helper_sleep(&mut context, &long) else {
            panic!()
        };
        let Outcome::Pending(queued) = helper_sleep(&mut context, &long) else {
            panic!()
        };
        context.cancel(queued).unwrap();
        assert_eq!(wait_for(&mut context, queued).result, Err(Errno::CANCELED));
        context.cancel(stuck).unwrap();
        assert_eq!(wait_for(&mut context, stuck).result, Err(Errno::CANCELED));
    });
}

/// If no thread can be started, a call that needs one fails with `EAGAIN`, and works again later.
#[test]
fn a_helper_that_cannot_be_started_is_reported() {
    child::check(LIMIT * 3, test_name!(), "", || {
        // The limit does not apply to root.
        // SAFETY: the C library changes the identity of all threads; there are no pointers.
        if unsafe { libc::setresuid(54_321, 54_321, 54_321) } != 0 {
            return laio_testing::skip("root", "only root can become a user without threads");
        }
        for_each_pending_backend(|way| {
            let mut context = way.context();
            let none = libc::rlimit {
                rlim_cur: 1,
                rlim_max: 4_000,
            };
            plain(
                libc::SYS_setrlimit,
                [libc::RLIMIT_NPROC as usize, at(&none)],
            )
            .unwrap();
            let time = timespec(0, 1_000_000);
            let refused = helper_sleep(&mut context, &time);
            let some = libc::rlimit {
                rlim_cur: 4_000,
                rlim_max: 4_000,
            };
            plain(
                libc::SYS_setrlimit,
                [libc::RLIMIT_NPROC as usize, at(&some)],
            )
            .unwrap();
            assert_eq!(refused, Outcome::Done(Err(Errno::AGAIN)));
            assert_eq!(context.pending(), 0);
            let accepted = helper_sleep(&mut context, &time);
            assert_eq!(finish(&mut context, accepted), Ok(0));
        });
    });
}

/// Whether each read of an eventfd that blocks takes a helper.
fn reads_need_helpers(way: &Way) -> bool {
    way.backend == BackendKind::Threads || laio_testing::lacks("nowait")
}

/// With a small ring, both the submission queue and the completion queue fill repeatedly.
#[test]
fn a_small_ring_carries_many_operations() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending_backend(|way| {
            let limits = Limits {
                ring_entries: 8,
                ..Limits::default()
            };
            let mut context = way.with(|options| options.limits(limits));
            let count = if reads_need_helpers(way) { 200 } else { 5_000 };
            if or_skip(process::allow_descriptors(count as u64 + 500)).is_none() {
                return;
            }
            let events = events(count);
            let mut words = vec![0u64; count];
            let mut handles = HashSet::new();
            for (event, word) in events.iter().zip(&mut words) {
                assert!(handles.insert(pending_read(&mut context, [event.arg(), at_mut(word), 8])));
            }
            assert_eq!(context.pending(), count);
            for event in &events {
                rustix::io::write(event, &9u64.to_ne_bytes()).unwrap();
            }
            for completion in collect(&mut context, count) {
                assert_eq!(completion.result, Ok(8));
                assert!(handles.remove(&completion.handle));
            }
            assert!(words.iter().all(|&word| word == 9));
        });
    });
}

/// Dropping the context while these operations are in flight ends all of them.
#[test]
fn a_small_ring_is_dropped_with_many_operations() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending_backend(|way| {
            let limits = Limits {
                ring_entries: 8,
                ..Limits::default()
            };
            let mut context = way.with(|options| options.limits(limits));
            let count = if reads_need_helpers(way) { 200 } else { 3_000 };
            if or_skip(process::allow_descriptors(count as u64 + 500)).is_none() {
                return;
            }
            let events = events(count);
            let mut words = vec![0u64; count];
            let handles: Vec<Handle> = events
                .iter()
                .zip(&mut words)
                .map(|(event, word)| pending_read(&mut context, [event.arg(), at_mut(word), 8]))
                .collect();
            for handle in handles.iter().step_by(3) {
                context.cancel(*handle).unwrap();
            }
            drop(context);
            for event in &events {
                rustix::io::write(event, &9u64.to_ne_bytes()).unwrap();
            }
            assert!(
                words.iter().all(|&word| word == 0),
                "written to after the context was dropped"
            );
        });
    });
}

/// Measures the memory of a context with ten thousand operations; the goal is 8 MiB.
#[test]
fn ten_thousand_operations_fit_in_eight_mebibytes() {
    let Some(ended) = child::run(LIMIT * 6, test_name!(), "", || {
        let count = 10_000;
        if or_skip(process::allow_descriptors(count as u64 + 500)).is_none() {
            return;
        }
        let events = events(count);
        for_each_pending_backend(|way: &Way| {
            let mut words = vec![0u64; count];
            // With `threads` all but 64 operations queue.
            let mut context = way.with(|options| with_helpers(options, 64));
            let (idle, resident) = (context.info().memory(), process::resident_bytes());
            let mut handles = Vec::with_capacity(count);
            for (event, word) in events.iter().zip(&mut words) {
                handles.push(pending_read(&mut context, [event.arg(), at_mut(word), 8]));
            }
            let (busy, grown) = (
                context.info().memory(),
                process::resident_bytes().saturating_sub(resident),
            );
            println!(
                "{way}: idle {idle} bytes; {count} in flight {busy} bytes, {} each; resident grew by {grown}",
                (busy - idle) / count
            );
            assert!(busy <= 8 << 20, "{busy} bytes");
            // Checks that the counted memory is not far below the memory in use. An emulator of programs, which lacks
            // RWF_NOWAIT, needs memory of its own for each helper.
            assert!(
                sanitized() || laio_testing::lacks("nowait") || grown <= 16 << 20,
                "the process grew by {grown} bytes"
            );
            for handle in handles {
                context.cancel(handle).unwrap();
            }
            assert!(
                collect(&mut context, count)
                    .iter()
                    .all(|one| one.result == Err(Errno::CANCELED))
            );
            let after = context.info().memory();
            assert!(
                after <= busy + (1 << 20),
                "{after} bytes after all operations have ended"
            );
        });
    }) else {
        return;
    };
    let figures: Vec<&str> = ended
        .output
        .lines()
        .filter(|line| line.contains("in flight"))
        .collect();
    println!("{}", figures.join("\n"));
    assert!(ended.finished && !figures.is_empty(), "{}", ended.output);
}

/// With an operation in flight, a loop of inline reads must poll after a fixed number of calls.
#[test]
fn a_busy_program_receives_its_completions() {
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(4_096, 1));
    for_each_backend(|way| {
        if way.backend == BackendKind::Sync {
            return;
        }
        let budget = 50;
        let limits = Limits {
            inline_budget: budget,
            ..Limits::default()
        };
        let mut context = way.with(|options| options.limits(limits));
        let (reader, writer) = pipe();
        let (other, other_writer) = pipe();
        let mut buffer = [0u8; 1];
        let waiting = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 1]);
        rustix::io::write(&writer, b"x").unwrap();
        let mut page = vec![0u8; 4_096];
        let mut byte = [0u8; 1];
        for round in 0..3 {
            let mut inline = 0;
            let handle = loop {
                // Alternately a file and a pipe.
                let outcome = if inline % 2 == 0 {
                    start(
                        &mut context,
                        libc::SYS_pread64,
                        [file.as_file().arg(), at_mut(&mut page[..]), 4_096, 0],
                    )
                } else {
                    rustix::io::write(&other_writer, b"y").unwrap();
                    start(
                        &mut context,
                        libc::SYS_read,
                        [other.arg(), at_mut(&mut byte), 1],
                    )
                };
                match outcome {
                    Outcome::Done(Ok(1 | 4_096)) => inline += 1,
                    Outcome::Pending(handle) => break handle,
                    other => panic!("{other:?}"),
                }
                assert!(inline <= budget, "{inline} calls finished inline");
            };
            let count = if round == 0 { 2 } else { 1 };
            let completions = collect(&mut context, count);
            assert!(
                completions
                    .iter()
                    .any(|one| one.handle == handle && matches!(one.result, Ok(1 | 4_096)))
            );
            if round == 0 {
                assert!(completions.iter().any(|one| one.handle == waiting));
                // One more operation, so that the budget counts.
                pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 1]);
            }
        }
    });
}

#[test]
fn without_operations_the_budget_is_unused() {
    for_each_backend(|way| {
        let limits = Limits {
            inline_budget: 3,
            ..Limits::default()
        };
        let mut context = way.with(|options| options.limits(limits));
        let (reader, writer) = pipe();
        for _ in 0..20 {
            rustix::io::write(&writer, b"x").unwrap();
            let mut byte = [0u8];
            assert_eq!(
                call(
                    &mut context,
                    libc::SYS_read,
                    [reader.arg(), at_mut(&mut byte), 1]
                ),
                Ok(1)
            );
        }
        assert_eq!(context.stats().over_budget, 0);
    });
}

/// A hanging server delays only the calls on that server, however many they are, and no call on the disk.
#[test]
fn hanging_requests_do_not_block_calls_on_the_disk() {
    let Some(server) = or_skip(FaultFs::mount()) else {
        return;
    };
    for index in 0..20 {
        server.add_file(&index.to_string(), b"contents");
    }
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(40_960, 1));
    let cold = or_skip(make_cold(file.as_file())).is_some();
    for_each_pending_backend(|way| {
        let hanging: Vec<std::fs::File> = (0..20)
            .map(|index| std::fs::File::open(server.join(&index.to_string())).expect("a file"))
            .collect();
        server.set(Kind::Read, Fault::Hang);
        let mut context = way.context();
        let mut buffers = vec![[0u8; 8]; 20];
        let handles: Vec<Handle> = hanging
            .iter()
            .zip(&mut buffers)
            .map(|(file, buffer)| {
                pending(
                    &mut context,
                    libc::SYS_pread64,
                    [file.arg(), at_mut(buffer), 8, 0],
                )
            })
            .collect();
        context.flush().unwrap();
        let _ = server.wait_hung(8, LIMIT);
        if cold {
            make_cold(file.as_file()).expect("a cold file");
        }
        let mut page = vec![0u8; 4_096];
        let args = [file.as_file().arg(), at_mut(&mut page[..]), 4_096, 8_192];
        let outcome = start(&mut context, libc::SYS_pread64, args);
        let mut completions = Vec::new();
        let read = match outcome {
            Outcome::Done(result) => result,
            Outcome::Pending(handle) => {
                context.poll(&mut completions, Some(LIMIT / 2)).unwrap();
                let found = completions
                    .iter()
                    .find(|one: &&Completion| one.handle == handle);
                found.map_or(Err(Errno::TIMEDOUT), |one| one.result)
            }
        };
        server.release(Released::Served);
        let expected = 20 + usize::from(outcome.done().is_none()) - completions.len();
        completions.extend(collect(&mut context, expected));
        assert_eq!(read, Ok(4_096), "a call on the disk waits for the server");
        for handle in handles {
            let result = completions
                .iter()
                .find(|one| one.handle == handle)
                .unwrap()
                .result;
            assert_eq!(result, Ok(8));
        }
    });
}
