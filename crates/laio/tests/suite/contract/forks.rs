//! Rule 10: after `fork` the child has an empty context; a context ends with its thread.

use crate::harness::{
    Arg, LIMIT, Way, at, at_mut, call, collect, for_each_pending, for_each_pending_backend,
    pending, pending_read, plain, start, timespec, wait_for,
};
use laio::{BackendKind, Context, Errno, Outcome};
use laio_testing::temp::{drain, pipe};
use laio_testing::{child, limit, test_name};
use std::time::Duration;

/// Forks, runs the body in the child, and returns whether the body finished in time.
fn forked(body: impl FnOnce()) {
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    // SAFETY: the process has several threads, but none of them holds a lock of the C library:
    // the helpers only make system calls, and the watchdog sleeps.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
        let _ = plain(libc::SYS_exit_group, [if ended { 0 } else { 9 }]);
    }
    let mut status = -1;
    let ended = limit::wait_until(LIMIT, || {
        plain(
            libc::SYS_wait4,
            [pid.arg(), at_mut(&mut status), libc::WNOHANG as usize, 0],
        ) == Ok(pid as usize)
    });
    if !ended {
        let _ = plain(libc::SYS_kill, [pid.arg(), libc::SIGKILL as usize]);
        let _ = plain(libc::SYS_wait4, [pid.arg(), 0, 0, 0]);
        panic!("the child hangs");
    }
    assert_eq!(status, 0, "the child's status");
}

/// Starts one operation of each kind: on the ring or reactor, in a helper, behind another operation, and finished.
struct Busy {
    context: Context,
    buffers: Box<[[u8; 3]; 4]>,
    reader: std::os::fd::OwnedFd,
    writer: std::os::fd::OwnedFd,
    /// `None` if the call finished before the context noticed that it blocks.
    sleeps: bool,
    _time: Box<libc::timespec>,
}

impl Busy {
    fn new(way: &Way) -> Busy {
        let mut context = way.context();
        let (reader, writer) = pipe();
        let mut buffers = Box::new([[0u8; 3]; 4]);
        let time = Box::new(timespec(0, 30_000_000));
        for buffer in &mut buffers[..2] {
            pending_read(&mut context, [reader.arg(), at_mut(buffer), 3]);
        }
        let nap = start(
            &mut context,
            libc::SYS_clock_nanosleep,
            [libc::CLOCK_TAI as usize, 0, at(&*time), 0],
        );
        let sleeps = matches!(nap, Outcome::Pending(_));
        assert!(sleeps || way.backend == BackendKind::Activations, "{nap:?}");
        context.flush().unwrap();
        Busy {
            context,
            buffers,
            reader,
            writer,
            sleeps,
            _time: time,
        }
    }

    /// The parent's operations complete, each once.
    fn finish(mut self) {
        let count = 2 + usize::from(self.sleeps);
        assert_eq!(self.context.pending(), count);
        rustix::io::write(&self.writer, b"onetwo").unwrap();
        let mut results: Vec<_> = collect(&mut self.context, count)
            .iter()
            .map(|one| one.result)
            .collect();
        results.sort();
        assert_eq!(results, [Ok(0), Ok(3), Ok(3)][3 - count..]);
        assert_eq!((self.buffers[0], self.buffers[1]), (*b"one", *b"two"));
        assert_eq!(drain(&self.reader), b"");
        let mut none = Vec::new();
        assert_eq!(
            self.context.poll(&mut none, Some(Duration::from_millis(1))),
            Ok(0)
        );
    }
}

#[test]
fn a_child_begins_with_an_empty_context() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            let mut busy = Busy::new(way);
            forked(|| {
                let context = &mut busy.context;
                assert_eq!(
                    call(context, libc::SYS_getpid, []),
                    plain(libc::SYS_getpid, [])
                );
                assert_eq!(context.pending(), 0, "the parent's operations");
                let mut none = Vec::new();
                assert_eq!(
                    context.poll(&mut none, Some(Duration::from_millis(1))),
                    Ok(0)
                );
                // The child's context works.
                let (reader, writer) = pipe();
                let mut buffer = [0u8; 3];
                let read = pending_read(context, [reader.arg(), at_mut(&mut buffer), 3]);
                rustix::io::write(&writer, b"abc").unwrap();
                assert_eq!(wait_for(context, read).result, Ok(3));
                let time = timespec(0, 1_000_000);
                let slept = call(
                    context,
                    libc::SYS_clock_nanosleep,
                    [libc::CLOCK_TAI as usize, 0, at(&time), 0],
                );
                assert_eq!(slept, Ok(0));
                let cancelled = pending_read(context, [reader.arg(), at_mut(&mut buffer), 3]);
                context.cancel(cancelled).unwrap();
                assert_eq!(wait_for(context, cancelled).result, Err(Errno::CANCELED));
            });
            busy.finish();
        });
    });
}

/// The child's first use may also be to poll, to cancel, or to query.
#[test]
fn a_child_may_begin_with_any_verb() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending_backend(|way| {
            for verb in 0..5 {
                let mut busy = Busy::new(way);
                forked(|| {
                    let context = &mut busy.context;
                    let mut none = Vec::new();
                    match verb {
                        0 => assert_eq!(context.poll(&mut none, Some(Duration::ZERO)), Ok(0)),
                        1 => assert_eq!(
                            context.poll(&mut none, None),
                            Ok(0),
                            "there is nothing to wait for"
                        ),
                        2 => {
                            let handle = laio::Handle::from_raw(1).unwrap();
                            assert_eq!(context.cancel(handle), Err(Errno::NOENT));
                        }
                        3 => {
                            let _ = context.notifier();
                            let _ = context.descriptor().unwrap();
                            let _ = context.flush();
                        }
                        _ => {
                            let (reader, writer) = pipe();
                            rustix::io::write(&writer, b"abc").unwrap();
                            let mut buffer = [0u8; 3];
                            let read = call(
                                context,
                                libc::SYS_read,
                                [reader.arg(), at_mut(&mut buffer), 3],
                            );
                            assert_eq!(read, Ok(3));
                        }
                    }
                });
                busy.finish();
            }
        });
    });
}

/// The child ends, or forgets the context, without using it.
#[test]
fn a_child_need_not_use_the_context() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending_backend(|way| {
            let busy = Busy::new(way);
            forked(|| ());
            let mut busy = Some(busy);
            forked(|| {
                let busy = busy.take().unwrap();
                drop(busy.context);
                // The child has closed nothing that belongs to the parent.
                let mut fresh = way.context();
                assert_eq!(
                    call(&mut fresh, libc::SYS_getpid, []),
                    plain(libc::SYS_getpid, [])
                );
            });
            busy.take().unwrap().finish();
        });
    });
}

/// The child's use of its copy of a pipe does not affect the parent's operation.
#[test]
fn the_parents_operations_end_in_the_parent() {
    // The child makes what the parent waits for.
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending_backend(|way| {
            let mut context = way.context();
            let (reader, writer) = pipe();
            let mut buffer = [0u8; 3];
            let read = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 3]);
            context.flush().unwrap();
            forked(|| {
                rustix::io::write(&writer, b"abc").unwrap();
                let mut none = Vec::new();
                assert_eq!(
                    context.poll(&mut none, Some(Duration::from_millis(5))),
                    Ok(0)
                );
                assert_eq!(buffer, [0; 3], "the parent's buffer, in the child");
            });
            assert_eq!(wait_for(&mut context, read).result, Ok(3));
            assert_eq!(&buffer, b"abc");
        });
    });
}

/// A thread ends with operations in flight: its context cancels them, and waits for their end.
#[test]
fn a_context_ends_with_its_thread() {
    for_each_pending(|way| {
        let (reader, writer) = pipe();
        let mut buffers = [[0u8; 3]; 3];
        let addresses = buffers.each_mut().map(at_mut);
        let way = *way;
        let copy = rustix::io::dup(&reader).unwrap();
        std::thread::spawn(move || {
            let mut context = way.context();
            for buffer in addresses {
                let outcome = start(&mut context, libc::SYS_read, [copy.arg(), buffer, 3]);
                assert!(matches!(outcome, Outcome::Pending(_)));
            }
            let long = timespec(1000, 0);
            pending(
                &mut context,
                libc::SYS_clock_nanosleep,
                [libc::CLOCK_TAI as usize, 0, at(&long), 0],
            );
        })
        .join()
        .unwrap();
        rustix::io::write(&writer, b"abcdefghi").unwrap();
        assert_eq!(buffers, [[0; 3]; 3]);
        assert_eq!(drain(&reader), b"abcdefghi");
    });
}

/// A thread-local context ends with its thread.
#[test]
fn a_thread_local_context_ends_with_its_thread() {
    use std::cell::RefCell;
    std::thread_local! {
        static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
    }
    for_each_pending_backend(|way| {
        let way = *way;
        let (reader, writer) = pipe();
        let mut buffer = [0u8; 3];
        // Open until the context has ended: another test must not get its number before.
        let copy = rustix::io::dup(&reader).unwrap();
        let (address, fd) = (at_mut(&mut buffer), copy.arg());
        std::thread::spawn(move || {
            CONTEXT.with_borrow_mut(|place| {
                let context = place.insert(way.context());
                pending_read(context, [fd, address, 3]);
            });
        })
        .join()
        .unwrap();
        rustix::io::write(&writer, b"abc").unwrap();
        assert_eq!(drain(&reader), b"abc");
        assert_eq!(buffer, [0; 3]);
    });
}
