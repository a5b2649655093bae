//! A system call that the engine makes fails, for each kind of call: every operation still completes once, with the
//! right result, with the errno of the failing call, or with `EAGAIN` where a limit or a part of the background is
//! missing.

use crate::harness::{LIMIT, at, at_mut, cstring, for_each_pending_backend, plain, start};
use laio::{Completion, Context, Errno, Options, Outcome};
use laio_testing::fail_nth;
use laio_testing::temp::{pattern, scratch};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The kinds of calls that the engine makes for operations, and to manage them.
const KINDS: &[&str] = &[
    "clone3",
    "close",
    "dup",
    "epoll_create1",
    "epoll_ctl",
    "eventfd2",
    "fcntl",
    "fdatasync",
    "fstat",
    "fsync",
    "io_setup",
    "io_submit",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "mkdirat",
    "openat",
    "openat2",
    "pread64",
    "preadv2",
    "pwrite64",
    "pwritev2",
    "read",
    "readlinkat",
    "statx",
    "tgkill",
    "unlinkat",
    "write",
];

/// Rounds of eight calls.
const ROUNDS: usize = 25;
const SIZE: usize = 20_000;

#[test]
fn no_operation_is_lost_when_a_call_fails() {
    for_each_pending_backend(|way| {
        // The body of each child of this way is the first of these calls that it reaches.
        let body = || {
            make_calls(
                way.options(),
                fail_nth::failing_errno().map(Errno::from_raw),
            )
        };
        let (test, mark) = (laio_testing::test_name!(), way.to_string());
        fail_nth::each(2 * LIMIT, test, &mark, KINDS, body);
    });
}

/// Whether a call may end like this when one call of the process fails with `allowed`.
fn is_right(
    result: Result<usize, Errno>,
    expected: Result<usize, Errno>,
    allowed: Option<Errno>,
) -> bool {
    match result {
        _ if result == expected => true,
        // A part of the transfer, before the failure.
        Ok(moved) => allowed.is_some() && matches!(expected, Ok(all) if moved < all && moved > 0),
        Err(errno) => allowed.is_some_and(|allowed| errno == allowed || errno == Errno::AGAIN),
    }
}

/// Makes 200 calls, and checks each result.
pub(super) fn make_calls(options: Options, allowed: Option<Errno>) {
    let directory = scratch();
    let mut context = match Context::new(options.clone()) {
        Ok(context) => context,
        Err(errno) => {
            assert!(allowed.is_some(), "no context: {errno}");
            // It is an error that the program sees; the next one succeeds.
            Context::new(options.clone()).expect("a context, because one call has failed")
        }
    };
    let contents = pattern(SIZE, 1);
    let path = cstring(directory.path().join("file"));
    std::fs::write(directory.path().join("file"), &contents)
        .or_else(|_| std::fs::write(directory.path().join("file"), &contents))
        .expect("one call has failed");
    for round in 0..ROUNDS {
        let name = cstring(directory.path().join(format!("made{round}")));
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        let opened = one(
            &mut context,
            libc::SYS_openat,
            [
                libc::AT_FDCWD as usize,
                at(path.as_c_str()),
                flags as usize,
                0,
            ],
        );
        let fd = match opened {
            Ok(fd) => fd,
            Err(errno) => {
                assert!(is_right(Err(errno), Ok(0), allowed), "open: {errno}");
                twice(|| {
                    plain(
                        libc::SYS_openat,
                        [
                            libc::AT_FDCWD as usize,
                            at(path.as_c_str()),
                            flags as usize,
                            0,
                        ],
                    )
                })
            }
        };
        several(&mut context, fd, &contents, allowed);
        let made = one(
            &mut context,
            libc::SYS_mkdirat,
            [libc::AT_FDCWD as usize, at(name.as_c_str()), 0o755],
        );
        assert!(is_right(made, Ok(0), allowed), "mkdir: {made:?}");
        // The failing call may be one of this look.
        let there = || Path::new(name.to_str().expect("text")).is_dir();
        assert!(
            made.is_err() || there() || there(),
            "mkdir has made nothing"
        );
        let removed = one(
            &mut context,
            libc::SYS_unlinkat,
            [
                libc::AT_FDCWD as usize,
                at(name.as_c_str()),
                libc::AT_REMOVEDIR as usize,
            ],
        );
        let expected = made.map_err(|_| Errno::NOENT);
        assert!(is_right(removed, expected, allowed), "rmdir: {removed:?}");
        let closed = one(&mut context, libc::SYS_close, [fd]);
        assert!(is_right(closed, Ok(0), allowed), "close: {closed:?}");
    }
    assert_eq!(context.pending(), 0);
}

/// Four calls at the same time: a read and a write of a file, a read of an empty pipe, a sync.
fn several(context: &mut Context, fd: usize, contents: &[u8], allowed: Option<Errno>) {
    let mut buffer = vec![0u8; SIZE];
    let mut byte = [0u8; 1];
    let mut ends = [0i32; 2];
    twice(|| {
        plain(
            libc::SYS_pipe2,
            [at_mut(&mut ends), libc::O_CLOEXEC as usize],
        )
    });
    #[rustfmt::skip]
    let outcomes = [
        start(context, libc::SYS_pread64, [fd, at_mut(buffer.as_mut_slice()), SIZE, 0]),
        start(context, libc::SYS_read, [ends[0] as usize, at_mut(&mut byte), 1]),
        // The bytes that are there already, so that the read beside it sees no others.
        start(context, libc::SYS_pwrite64, [fd, contents.as_ptr() as usize, SIZE, 0]),
        start(context, libc::SYS_fsync, [fd]),
    ];
    twice(|| plain(libc::SYS_write, [ends[1] as usize, at(&[7u8]), 1]));
    let results = all(context, outcomes);
    let expected = [SIZE, 1, SIZE, 0];
    for (index, (&result, &expected)) in results.iter().zip(&expected).enumerate() {
        assert!(
            is_right(result, Ok(expected), allowed),
            "call {index}: {result:?}"
        );
    }
    if let Ok(read) = results[0] {
        assert!(buffer[..read] == contents[..read], "other bytes");
    }
    if results[1] == Ok(1) {
        assert_eq!(byte, [7]);
    }
    for end in ends {
        // Whatever close returns, the descriptor is closed.
        let _ = plain(libc::SYS_close, [end as usize]);
    }
}

fn one<const N: usize>(
    context: &mut Context,
    number: libc::c_long,
    args: [usize; N],
) -> Result<usize, Errno> {
    let outcome = start(context, number, args);
    all(context, [outcome])[0]
}

/// Waits for all of these calls. A `poll` that fails is made again: one call of the process fails.
fn all<const N: usize>(context: &mut Context, outcomes: [Outcome; N]) -> [Result<usize, Errno>; N] {
    let mut completions: Vec<Completion> = Vec::new();
    let pending = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Pending(_)))
        .count();
    let end = Instant::now() + laio_testing::limit::scaled(LIMIT);
    let mut failed = 0;
    while completions.len() < pending {
        let left = end.saturating_duration_since(Instant::now());
        assert!(
            left > Duration::ZERO,
            "{} of {pending} completions: {context:?}",
            completions.len()
        );
        if let Err(errno) = context.poll(&mut completions, Some(left)) {
            failed += 1;
            assert!(failed < 3, "poll fails again: {errno}");
        }
    }
    let of: HashMap<_, _> = completions
        .iter()
        .map(|completion| (completion.handle, completion.result))
        .collect();
    assert_eq!(
        of.len(),
        completions.len(),
        "a completion came twice: {completions:?}"
    );
    outcomes.map(|outcome| match outcome {
        Outcome::Done(result) => result,
        Outcome::Pending(handle) => of[&handle],
    })
}

/// Makes a call that is not under test, again if it is the failing one.
fn twice(mut call: impl FnMut() -> Result<usize, Errno>) -> usize {
    call().or_else(|_| call()).expect("only one call fails")
}
