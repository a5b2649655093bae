//! Rule 5: closing a descriptor that has operations in flight, without leaking a descriptor.

use crate::harness::{
    Arg, LIMIT, at, at_mut, call, collect, finish, for_each_pending, for_each_pending_backend,
    later, pending, pending_read, plain, start, wait_for, wait_until_refused,
};
use laio::{Context, Errno, Handle, Outcome};
use laio_testing::process::{high_descriptor, open_fds};
use laio_testing::temp::{drain, fill, pattern, pipe, scratch, stream_pair};
use laio_testing::{child, limit, test_name};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

fn is_open(fd: usize) -> bool {
    plain(libc::SYS_fcntl, [fd, libc::F_GETFD as usize]).is_ok()
}

/// Identifies the file behind a descriptor: once a number is closed, another test of this process may get it.
fn identity(fd: usize) -> Option<(u64, u64)> {
    let mut status: libc::stat = crate::harness::zeroed();
    let looked = plain(libc::SYS_fstat, [fd, at_mut(&mut status)]);
    looked.ok().map(|_| (status.st_dev, status.st_ino))
}

/// Closes by the given method, and checks that the operations have ended first.
#[track_caller]
fn ends(context: &mut Context, operations: &[Handle], close: Outcome) -> Result<usize, Errno> {
    let (count, closes) = match close {
        Outcome::Done(_) => (operations.len(), None),
        Outcome::Pending(handle) => (operations.len() + 1, Some(handle)),
    };
    let completions = collect(context, count);
    for &handle in operations {
        let completion = completions
            .iter()
            .find(|one| one.handle == handle)
            .expect("its completion");
        assert_eq!(completion.result, Err(Errno::CANCELED));
    }
    match closes {
        None => close.done().unwrap(),
        Some(handle) => {
            let last = completions.last().unwrap();
            assert_eq!(
                last.handle, handle,
                "closed before the operations had ended"
            );
            last.result
        }
    }
}

#[test]
fn closing_cancels_reads_and_writes() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (a, b) = stream_pair();
        fill(&a);
        let fd = a.into_raw_fd().arg();
        let mut buffers = [[0u8; 4]; 3];
        let bytes = pattern(300_000, 1);
        let mut operations: Vec<Handle> = buffers
            .iter_mut()
            .map(|buffer| pending_read(&mut context, [fd, at_mut(buffer), 4]))
            .collect();
        operations.push(pending(
            &mut context,
            libc::SYS_sendto,
            [fd, at(&bytes[..]), 10, libc::MSG_NOSIGNAL as usize, 0, 0],
        ));
        operations.push(pending(
            &mut context,
            libc::SYS_write,
            [fd, at(&bytes[..]), 10],
        ));
        let before = identity(fd);
        let close = start(&mut context, libc::SYS_close, [fd]);
        assert_eq!(ends(&mut context, &operations, close), Ok(0));
        assert_ne!(identity(fd), before, "still open");
        drain(&b);
        let mut byte = [0u8];
        assert_eq!(
            rustix::io::read(&b, &mut byte),
            Ok(0),
            "the peer sees the end"
        );
    });
}

#[test]
fn closing_cancels_an_accept() {
    for_each_pending(|way| {
        let mut context = way.context();
        let listener = crate::harness::lonely_listener();
        let address = listener.local_addr().unwrap();
        let fd = listener.into_raw_fd().arg();
        let operation = pending(&mut context, libc::SYS_accept4, [fd, 0, 0, 0]);
        let _ = context
            .poll(&mut Vec::new(), Some(Duration::from_millis(1)))
            .unwrap();
        let before = identity(fd);
        let close = start(&mut context, libc::SYS_close, [fd]);
        assert_eq!(ends(&mut context, &[operation], close), Ok(0));
        assert_ne!(identity(fd), before, "still open");
        wait_until_refused(address);
    });
}

/// Also cancels an operation that waits in a helper.
#[test]
fn closing_cancels_a_lock() {
    let directory = scratch();
    for_each_pending(|way| {
        let path = directory.path().join("lock");
        let (holder, waiter) = (
            std::fs::File::create(&path).unwrap(),
            std::fs::File::open(&path).unwrap(),
        );
        plain(libc::SYS_flock, [holder.arg(), libc::LOCK_EX as usize]).unwrap();
        let mut context = way.context();
        let fd = waiter.into_raw_fd().arg();
        let operation = pending(&mut context, libc::SYS_flock, [fd, libc::LOCK_EX as usize]);
        let _ = context
            .poll(&mut Vec::new(), Some(Duration::from_millis(1)))
            .unwrap();
        let before = identity(fd);
        let close = start(&mut context, libc::SYS_close, [fd]);
        assert_eq!(ends(&mut context, &[operation], close), Ok(0));
        assert_ne!(identity(fd), before, "still open");
    });
}

#[test]
fn closing_a_bad_descriptor_fails() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (reader, _writer) = pipe();
        let mut buffer = [0u8; 4];
        let other = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 4]);
        for fd in [-1, 900_000, i32::MAX] {
            let close = start(&mut context, libc::SYS_close, [fd.arg()]);
            assert_eq!(finish(&mut context, close), Err(Errno::BADF));
        }
        context.cancel(other).unwrap();
        assert_eq!(wait_for(&mut context, other).result, Err(Errno::CANCELED));
    });
}

#[test]
fn replacing_a_descriptor_cancels_first() {
    for_each_pending(|way| {
        for number in [
            libc::SYS_dup3,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_dup2,
        ] {
            let mut context = way.context();
            let (busy, _writer) = pipe();
            let (other, other_writer) = pipe();
            let mut buffers = [[0u8; 4]; 2];
            let operations: Vec<Handle> = buffers
                .iter_mut()
                .map(|buffer| pending_read(&mut context, [busy.arg(), at_mut(buffer), 4]))
                .collect();
            let replace = start(&mut context, number, [other.arg(), busy.arg(), 0]);
            assert_eq!(ends(&mut context, &operations, replace), Ok(busy.arg()));
            rustix::io::write(&other_writer, b"new!").unwrap();
            let mut buffer = [0u8; 4];
            let read = call(
                &mut context,
                libc::SYS_read,
                [busy.arg(), at_mut(&mut buffer), 4],
            );
            assert_eq!((read, &buffer), (Ok(4), b"new!"));
        }
    });
}

/// A call that fails has no effect: the operations in flight continue.
#[test]
fn a_failed_replacement_cancels_nothing() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (busy, writer) = pipe();
        let mut buffer = [0u8; 3];
        let operation = pending_read(&mut context, [busy.arg(), at_mut(&mut buffer), 3]);
        let bad = start(&mut context, libc::SYS_dup3, [900_000, busy.arg(), 0]);
        assert_eq!(finish(&mut context, bad), Err(Errno::BADF));
        let bad = start(&mut context, libc::SYS_dup3, [writer.arg(), busy.arg(), 99]);
        assert_eq!(finish(&mut context, bad), Err(Errno::INVAL));
        rustix::io::write(&writer, b"abc").unwrap();
        assert_eq!(wait_for(&mut context, operation).result, Ok(3));
    });
}

/// `dup2` of a descriptor onto itself replaces nothing, and so cancels nothing.
#[test]
fn dup2_of_a_busy_descriptor_onto_itself_cancels_nothing() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (busy, writer) = pipe();
        let mut buffer = [0u8; 3];
        let operation = pending_read(&mut context, [busy.arg(), at_mut(&mut buffer), 3]);
        #[cfg(target_arch = "x86_64")]
        {
            let same = start(&mut context, libc::SYS_dup2, [busy.arg(), busy.arg()]);
            assert_eq!(finish(&mut context, same), Ok(busy.arg()));
        }
        let same = start(&mut context, libc::SYS_dup3, [busy.arg(), busy.arg(), 0]);
        assert_eq!(finish(&mut context, same), Err(Errno::INVAL));
        let copy = start(&mut context, libc::SYS_dup, [busy.arg()]);
        drop(crate::harness::own(finish(&mut context, copy)));
        rustix::io::write(&writer, b"abc").unwrap();
        assert_eq!(wait_for(&mut context, operation).result, Ok(3));
    });
}

/// Makes descriptors with high numbers, some of them busy.
fn high(count: usize, from: usize) -> Vec<(usize, OwnedFd)> {
    (0..count)
        .map(|index| {
            let (reader, writer) = pipe();
            let wanted = from + index;
            let high = plain(libc::SYS_dup3, [reader.arg(), wanted, 0]).unwrap();
            (high, writer)
        })
        .collect()
}

#[test]
fn closing_a_range_cancels_all_in_it() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            for busy in [0usize, 1, 2, 5] {
                let mut context = way.context();
                let first = high_descriptor(9_000);
                let ends_of = high(8, first);
                let mut buffers = [[0u8; 4]; 5];
                let operations: Vec<Handle> = buffers
                    .iter_mut()
                    .zip(&ends_of)
                    .take(busy)
                    .map(|(buffer, (fd, _))| pending_read(&mut context, [*fd, at_mut(buffer), 4]))
                    .collect();
                let close = start(&mut context, libc::SYS_close_range, [first, first + 7, 0]);
                assert_eq!(ends(&mut context, &operations, close), Ok(0), "{busy} busy");
                assert!(ends_of.iter().all(|(fd, _)| !is_open(*fd)));
            }
        });
    });
}

/// No later call overtakes a `close_range`, whether its descriptor was in use or not.
#[test]
fn calls_after_closing_a_range_find_it_closed() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            for busy in [1usize, 2, 5] {
                let mut context = way.context();
                let first = high_descriptor(9_000);
                let ends_of = high(8, first);
                let mut buffers = [[0u8; 4]; 13];
                let (before, after) = buffers.split_at_mut(5);
                let mut wanted: Vec<_> = before
                    .iter_mut()
                    .zip(&ends_of)
                    .take(busy)
                    .map(|(buffer, (fd, _))| {
                        let args = [*fd, at_mut(buffer), 4];
                        let handle = pending(&mut context, libc::SYS_read, args);
                        (handle, Err(Errno::CANCELED))
                    })
                    .collect();
                let close = start(&mut context, libc::SYS_close_range, [first, first + 7, 0]);
                let reads = after.iter_mut().zip(&ends_of).map(|(buffer, (fd, _))| {
                    let args = [*fd, at_mut(buffer), 4];
                    (start(&mut context, libc::SYS_read, args), Err(Errno::BADF))
                });
                let mut later: Vec<_> = reads.collect();
                later.push((
                    start(&mut context, libc::SYS_close, [first + 7]),
                    Err(Errno::BADF),
                ));
                later.push((
                    start(
                        &mut context,
                        libc::SYS_close_range,
                        [first + 6, first + 9, 0],
                    ),
                    Ok(0),
                ));
                for (outcome, result) in std::iter::once((close, Ok(0))).chain(later) {
                    match outcome {
                        Outcome::Done(done) => assert_eq!(done, result, "{busy} busy"),
                        // A later close in the same range cancels the reads that wait for it.
                        Outcome::Pending(handle) => wanted.push((handle, result)),
                    }
                }
                for done in collect(&mut context, wanted.len()) {
                    let (_, result) = wanted.iter().find(|(one, _)| *one == done.handle).unwrap();
                    let cancelled = done.result == Err(Errno::CANCELED) && result.is_err();
                    assert!(cancelled || done.result == *result, "{busy} busy: {done:?}");
                }
                assert!(ends_of.iter().all(|(fd, _)| !is_open(*fd)));
            }
        });
    });
}

/// The same for a number for which the context has no entry: it has as many as the next power of two.
#[test]
fn nothing_overtakes_the_end_of_a_range() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            let again = [
                (libc::SYS_close, Err(Errno::BADF)),
                (libc::SYS_close_range, Ok(0)),
            ];
            for (number, expected) in again {
                let mut context = way.context();
                let (first, last) = (120, 130);
                let _ends = [high(1, first), high(1, last)];
                let mut buffer = [0u8; 4];
                let read = pending_read(&mut context, [first, at_mut(&mut buffer), 4]);
                let mut wanted = vec![(read, Err(Errno::CANCELED))];
                let close = start(&mut context, libc::SYS_close_range, [first, last, 0]);
                let again = start(&mut context, number, [last, last, 0]);
                for (outcome, result) in [(close, Ok(0)), (again, expected)] {
                    match outcome {
                        Outcome::Done(done) => assert_eq!(done, result),
                        Outcome::Pending(handle) => wanted.push((handle, result)),
                    }
                }
                for done in collect(&mut context, wanted.len()) {
                    assert!(wanted.contains(&(done.handle, done.result)), "{done:?}");
                }
                assert!(!is_open(first) && !is_open(last));
            }
        });
    });
}

/// With CLOSE_RANGE_CLOEXEC the kernel closes nothing, and so the context cancels nothing.
#[test]
fn marking_a_range_cancels_nothing() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            let mut context = way.context();
            let first = high_descriptor(9_000);
            let ends_of = high(3, first);
            let mut buffer = [0u8; 3];
            let operation = pending_read(&mut context, [first + 1, at_mut(&mut buffer), 3]);
            let mark = libc::CLOSE_RANGE_CLOEXEC as usize;
            let marked = start(
                &mut context,
                libc::SYS_close_range,
                [first, first + 2, mark],
            );
            assert_eq!(finish(&mut context, marked), Ok(0));
            assert_eq!(
                plain(libc::SYS_fcntl, [first + 1, libc::F_GETFD as usize]),
                Ok(1)
            );
            rustix::io::write(&ends_of[1].1, b"abc").unwrap();
            assert_eq!(wait_for(&mut context, operation).result, Ok(3));
            for (fd, _) in &ends_of {
                plain(libc::SYS_close, [*fd]).unwrap();
            }
        });
    });
}

/// A number that is closed and reused carries no state of its previous file.
#[test]
fn a_number_is_used_again() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            let mut context = way.context();
            let directory = scratch();
            let number = high_descriptor(9_000);
            for round in 0..20u8 {
                // One number, alternately a pipe and a file.
                let (reader, writer) = pipe();
                let fd = plain(libc::SYS_dup3, [reader.arg(), number, 0]).unwrap();
                let mut buffer = [0u8; 3];
                let read = pending_read(&mut context, [fd, at_mut(&mut buffer), 3]);
                if round % 2 == 0 {
                    rustix::io::write(&writer, b"abc").unwrap();
                    assert_eq!(wait_for(&mut context, read).result, Ok(3));
                    let close = start(&mut context, libc::SYS_close, [fd]);
                    assert_eq!(finish(&mut context, close), Ok(0));
                } else {
                    let close = start(&mut context, libc::SYS_close, [fd]);
                    assert_eq!(ends(&mut context, &[read], close), Ok(0));
                }
                let file = laio_testing::temp::file_with(directory.path(), &pattern(10_000, 1));
                let fd = plain(libc::SYS_dup3, [file.as_file().arg(), number, 0]).unwrap();
                let mut buffer = vec![0u8; 9_000];
                let read = call(
                    &mut context,
                    libc::SYS_read,
                    [fd, at_mut(&mut buffer[..]), 9_000],
                );
                assert_eq!(read, Ok(9_000));
                assert_eq!(call(&mut context, libc::SYS_write, [fd, at("x"), 1]), Ok(1));
                assert_eq!(call(&mut context, libc::SYS_close, [fd]), Ok(0));
            }
        });
    });
}

/// Calls made after a close that is still in flight do not reach the closed file.
#[test]
fn no_call_overtakes_a_close() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (reader, writer) = pipe();
        // A number that no other test gets: otherwise the late read would take that test's bytes.
        let high = high_descriptor(8_000);
        let args = [reader.arg(), libc::F_DUPFD_CLOEXEC as usize, high];
        let fd = plain(libc::SYS_fcntl, args).unwrap();
        let mut buffers = [[0u8; 4]; 2];
        let addresses = buffers.each_mut().map(at_mut);
        let first = pending(&mut context, libc::SYS_read, [fd, addresses[0], 4]);
        let close = start(&mut context, libc::SYS_close, [fd]);
        let late = start(&mut context, libc::SYS_read, [fd, addresses[1], 4]);
        let mut completions = collect(
            &mut context,
            1 + [close, late]
                .iter()
                .filter(|one| one.done().is_none())
                .count(),
        );
        completions.retain(|one| one.handle != first);
        let result = |outcome: Outcome| match outcome {
            Outcome::Done(result) => result,
            Outcome::Pending(handle) => {
                completions
                    .iter()
                    .find(|one| one.handle == handle)
                    .unwrap()
                    .result
            }
        };
        assert_eq!(result(close), Ok(0));
        assert_eq!(result(late), Err(Errno::BADF));
        drop(writer);
    });
}

/// An accept or open that succeeds while it is being cancelled closes its new descriptor.
#[test]
fn cancelled_calls_leak_no_descriptor() {
    child::check(LIMIT * 6, test_name!(), "", || {
        let directory = scratch();
        let path = crate::harness::cstring(directory.path().join("file"));
        std::fs::write(directory.path().join("file"), b"contents").unwrap();
        let listener = crate::harness::lonely_listener();
        let address = listener.local_addr().unwrap();
        for_each_pending_backend(|way| {
            let before = open_fds();
            let mut context = way.with(|options| {
                options.inject(laio::testing::Inject {
                    force_block: true,
                    ..Default::default()
                })
            });
            for round in 0..60u64 {
                let accept = pending(
                    &mut context,
                    libc::SYS_accept4,
                    [listener.as_raw_fd().arg(), 0, 0, 0],
                );
                let client = later(move || std::net::TcpStream::connect(address).unwrap());
                let args = [libc::AT_FDCWD.arg(), path.arg(), libc::O_RDWR as usize];
                let opens: Vec<Outcome> = (0..4)
                    .map(|_| start(&mut context, libc::SYS_openat, args))
                    .collect();
                let copies: Vec<Outcome> = (0..4)
                    .map(|_| start(&mut context, libc::SYS_dup, [listener.as_raw_fd().arg()]))
                    .collect();
                std::thread::sleep(Duration::from_micros(round * 150));
                let mut handles = vec![accept];
                for outcome in opens.into_iter().chain(copies) {
                    match outcome {
                        Outcome::Pending(handle) => handles.push(handle),
                        Outcome::Done(result) => drop(crate::harness::own(result)),
                    }
                }
                for &handle in &handles {
                    let _ = context.cancel(handle);
                }
                for completion in collect(&mut context, handles.len()) {
                    match completion.result {
                        Ok(_) => drop(crate::harness::own(completion.result)),
                        Err(errno) => assert_eq!(errno, Errno::CANCELED),
                    }
                }
                drop(client.join().unwrap());
                // Connections that were not accepted before.
                listener.set_nonblocking(true).unwrap();
                while listener.accept().is_ok() {}
                listener.set_nonblocking(false).unwrap();
            }
            assert_eq!(context.pending(), 0);
            // Includes the context's own descriptors; it may have more by now, because carriers have some.
            drop(context);
            let same = limit::wait_until(LIMIT, || open_fds() == before);
            assert!(same, "{:?}, expected {before:?}", open_fds());
        });
    });
}

#[test]
fn a_close_is_not_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (reader, _writer) = pipe();
        let fd = reader.into_raw_fd().arg();
        let was = identity(fd);
        let mut buffer = [0u8; 4];
        let read = pending_read(&mut context, [fd, at_mut(&mut buffer), 4]);
        let close = start(&mut context, libc::SYS_close, [fd]);
        if let Outcome::Pending(handle) = close {
            let _ = context.cancel(handle);
        }
        assert_eq!(ends(&mut context, &[read], close), Ok(0));
        assert_ne!(identity(fd), was);
    });
}

/// Dropping a context closes the context's own descriptors.
#[test]
fn contexts_leak_no_descriptor() {
    child::check(LIMIT * 3, test_name!(), "", || {
        let before = open_fds();
        for_each_pending_backend(|way| {
            for _ in 0..5 {
                let mut context = way.context();
                let (reader, _writer) = pipe();
                let mut buffer = [0u8; 4];
                pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 4]);
                context.descriptor().unwrap();
                let _ = context.notifier();
                drop(context);
            }
            // The kernel frees a ring later, but the descriptor's number at once.
            let same = limit::wait_until(LIMIT, || open_fds() == before);
            assert!(same, "{:?}, expected {before:?}", open_fds());
        });
    });
}
