//! Rule 11: statistics count how often each call, and calls on each file system, finished inline or in the
//! background.

use crate::harness::{
    Arg, LIMIT, Way, add_one, at_mut, call, collect, event_counter, for_each_backend,
    for_each_pending_backend, own, pending, pending_read, plain, wait_for,
};
use laio::{BackendKind, Context, Counts, Errno, Limits, Outcome};
use laio_testing::temp::{file_with, make_cold, pattern, pipe, scratch};
use laio_testing::{child, or_skip, test_name};
use std::time::Duration;

/// Runs the body in a lazy context with a ring and in one without: their counts are equal.
pub(crate) fn for_each_lazy(body: impl Fn(&Way)) {
    for_each_pending_backend(|way| {
        if way.backend == BackendKind::Lazy {
            body(way);
        }
    });
}

#[track_caller]
pub(crate) fn counted(
    context: &Context,
    number: libc::c_long,
    inline: u64,
    background: u64,
    fallback: u64,
    latched: u64,
) {
    let expected = Counts {
        inline,
        background,
        fallback,
        latched,
    };
    assert_eq!(context.stats().call(number), expected, "call {number}");
}

#[test]
fn calls_are_counted_by_strategy() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(20_000, 1));
    let fd = file.as_file().arg();
    let cold = or_skip(make_cold(file.as_file())).is_some();
    for_each_lazy(|way| {
        let mut context = way.context();
        let mut memory = vec![0u8; 20_000];
        let buffer = at_mut(&mut memory[..]);
        let read = libc::SYS_pread64;
        // The attempt also starts the read from the disk, which may finish before the attempt reaches the page.
        let mut found = 0;
        while cold && context.stats().call(read).background == 0 {
            make_cold(file.as_file()).expect("a cold file");
            assert_eq!(call(&mut context, read, [fd, buffer, 4_096, 0]), Ok(4_096));
            found = context.stats().call(read).inline;
            assert!(found < 100, "never in the background");
        }
        let background = u64::from(cold);
        counted(&context, read, found, background, 0, 0);
        plain(read, [fd, buffer, 20_000, 0]).unwrap();
        for count in 1..=5 {
            assert_eq!(call(&mut context, read, [fd, buffer, 4_096, 0]), Ok(4_096));
            counted(&context, read, found + count, background, 0, 0);
        }
        for count in 1..=3 {
            assert_eq!(
                call(&mut context, libc::SYS_getpid, []),
                plain(libc::SYS_getpid, [])
            );
            counted(&context, libc::SYS_getpid, count, 0, 0, 0);
        }
        // This call has no non-blocking form.
        assert_eq!(call(&mut context, libc::SYS_fsync, [fd]), Ok(0));
        counted(&context, libc::SYS_fsync, 0, 0, 1, 0);
        // One call waits, one does not, and one is cancelled.
        let counter = event_counter();
        add_one(&counter);
        let args = [counter.arg(), buffer, 8];
        assert_eq!(call(&mut context, libc::SYS_read, args), Ok(8));
        counted(&context, libc::SYS_read, 1, 0, 0, 0);
        let waits = pending(&mut context, libc::SYS_read, args);
        // A call queued behind it is not attempted: it waits for its turn.
        let queued = pending(&mut context, libc::SYS_read, args);
        counted(&context, libc::SYS_read, 1, 2, 0, 0);
        context.cancel(queued).unwrap();
        assert_eq!(wait_for(&mut context, queued).result, Err(Errno::CANCELED));
        add_one(&counter);
        assert_eq!(wait_for(&mut context, waits).result, Ok(8));
        let stats = context.stats();
        let operations = background + 1 + 2;
        assert_eq!(
            (stats.operations, stats.completions),
            (operations, operations)
        );
        assert_eq!(
            (stats.cancelled, stats.limited, stats.over_budget),
            (1, 0, 0)
        );
        assert!(stats.operations_max >= 2 && u64::from(stats.operations_max) <= operations);
        assert!(stats.sleeps >= 1);
        let names: Vec<&str> = stats.calls().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        for name in ["pread64", "getpid", "fsync", "read"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let total = stats.total();
        assert_eq!(
            total.total(),
            total.inline + total.background + total.fallback
        );
        assert_eq!(total.total(), found + 5 + background + 3 + 1 + 3);
    });
}

/// Calls with unknown numbers are counted together.
#[test]
fn unknown_calls_are_counted_too() {
    for_each_backend(|way| {
        let mut context = way.context();
        assert_eq!(call(&mut context, 1_000, []), Err(Errno::NOSYS));
        assert_eq!(call(&mut context, 1_001, []), Err(Errno::NOSYS));
        let stats = context.stats();
        let found: Vec<_> = stats.calls().collect();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1.total()), ("(unknown)", 2));
    });
}

/// A back end without attempts counts each call that may block as a fallback.
#[test]
fn back_ends_without_attempts_count_fallbacks() {
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(20_000, 1));
    for_each_pending_backend(|way| {
        if matches!(way.backend, BackendKind::Lazy | BackendKind::Activations) {
            return;
        }
        let mut context = way.context();
        let mut buffer = vec![0u8; 4_096];
        for _ in 0..3 {
            let args = [file.as_file().arg(), at_mut(&mut buffer[..]), 4_096, 0];
            assert_eq!(call(&mut context, libc::SYS_pread64, args), Ok(4_096));
        }
        counted(&context, libc::SYS_pread64, 0, 0, 3, 0);
    });
}

/// A number belonged to a file in memory, and belongs to a pipe now: a plain call would block.
#[test]
fn a_stale_hint_does_not_block_the_caller() {
    let memory = match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => memory,
        Err(error) => return laio_testing::skip("shm", format!("/dev/shm: {error}")),
    };
    child::check(LIMIT * 2, test_name!(), "", || {
        let high = laio_testing::process::high_descriptor(9_000);
        for_each_lazy(|way| {
            let mut context = way.context();
            let in_memory = file_with(memory.path(), &pattern(8_192, 2));
            plain(libc::SYS_dup3, [in_memory.as_file().arg(), high, 0]).unwrap();
            let mut buffer = [0u8; 3];
            for _ in 0..3 {
                assert_eq!(
                    call(&mut context, libc::SYS_read, [high, at_mut(&mut buffer), 3]),
                    Ok(3)
                );
            }
            // Done without the context's knowledge.
            let (reader, writer) = pipe();
            plain(libc::SYS_dup3, [reader.arg(), high, 0]).unwrap();
            let handle = pending_read(&mut context, [high, at_mut(&mut buffer), 3]);
            rustix::io::write(&writer, b"abc").unwrap();
            assert_eq!(wait_for(&mut context, handle).result, Ok(3));
            assert_eq!(&buffer, b"abc");
            plain(libc::SYS_close, [high]).unwrap();
        });
    });
}

/// One system call submits many operations to the ring.
#[test]
fn submissions_carry_many_operations() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        if !context.info().has_ring() {
            assert_eq!(context.stats().submissions, 0);
            return;
        }
        let events: Vec<_> = (0..64)
            .map(|_| own(plain(libc::SYS_eventfd2, [0, 0])))
            .collect();
        let mut words = vec![0u64; 64];
        let before = context.stats().submissions;
        for (event, word) in events.iter().zip(&mut words) {
            pending_read(&mut context, [event.arg(), at_mut(word), 8]);
        }
        context.flush().unwrap();
        let submissions = context.stats().submissions - before;
        assert!(
            submissions <= 64 / u64::from(Limits::BATCH) + 1,
            "{submissions} submissions"
        );
        for event in &events {
            rustix::io::write(event, &1u64.to_ne_bytes()).unwrap();
        }
        collect(&mut context, 64);
        let mut none = Vec::new();
        assert_eq!(context.poll(&mut none, Some(Duration::ZERO)), Ok(0));
    });
}

/// An inline result that `poll` delivers is counted once, as inline.
#[test]
fn inline_results_delivered_by_poll_count_as_inline() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for_each_lazy(|way| {
        let limits = Limits {
            inline_budget: 1,
            ..Default::default()
        };
        let mut context = way.with(|options| options.limits(limits));
        let (counter, other) = (event_counter(), event_counter());
        let mut rooms = [[0u8; 8]; 2];
        let [first, second] = rooms.each_mut().map(at_mut);
        let waits = pending_read(&mut context, [counter.arg(), first, 8]);
        let read = [other.arg(), second, 8];
        add_one(&other);
        let inline = crate::harness::start(&mut context, libc::SYS_read, read);
        assert_eq!(inline, Outcome::Done(Ok(8)));
        add_one(&other);
        let through_poll = pending(&mut context, libc::SYS_read, read);
        add_one(&counter);
        let completions = collect(&mut context, 2);
        assert!(completions.iter().all(|one| one.result == Ok(8)));
        assert!(completions.iter().any(|one| one.handle == waits));
        assert!(completions.iter().any(|one| one.handle == through_poll));
        counted(&context, libc::SYS_read, 2, 1, 0, 0);
        assert_eq!(context.stats().over_budget, 1);
    });
}
