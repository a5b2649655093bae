//! Rule 10: a forked child has no operations, and does not affect the parent's.

use super::support::{assert_works, pipe};
use crate::harness::{
    Arg, LIMIT, Mode, Way, all_ways, at_mut, collect, cstring, pending, pending_read, plain,
};
use laio::{Context, Errno, PollOptions};
use laio_testing::limit::wait_until;
use laio_testing::{child, test_name};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// A context with operations of each kind in flight: on a stream, and in a helper or worker.
struct Parent {
    context: Context,
    reader: OwnedFd,
    writer: OwnedFd,
    buffers: Box<[[u8; 8]; 2]>,
    fifo: std::ffi::CString,
    _directory: tempfile::TempDir,
}

impl Parent {
    fn new(way: &Way) -> Parent {
        let (reader, writer) = pipe();
        let directory = laio_testing::temp::scratch();
        let fifo = cstring(directory.path().join("fifo"));
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        let mut parent = Parent {
            context: way.context(),
            reader,
            writer,
            buffers: Box::new([[0; 8]; 2]),
            fifo,
            _directory: directory,
        };
        for buffer in parent.buffers.iter_mut() {
            let args = [parent.reader.arg(), at_mut(buffer), 4];
            pending(&mut parent.context, libc::SYS_read, args);
        }
        let args = [
            libc::AT_FDCWD.arg(),
            parent.fifo.arg(),
            libc::O_RDONLY.arg(),
        ];
        pending(&mut parent.context, libc::SYS_openat, args);
        parent.context.flush().expect("flush");
        parent
    }

    /// Asserts that all operations complete in the parent, once.
    fn end(mut self) {
        assert_eq!(self.context.pending(), 3);
        let both = [libc::AT_FDCWD.arg(), self.fifo.arg(), libc::O_RDWR.arg()];
        let both = crate::harness::own(plain(libc::SYS_openat, both));
        let text = c"onetwo--".arg();
        assert_eq!(plain(libc::SYS_write, [self.writer.arg(), text, 8]), Ok(8));
        let mut results: Vec<_> = collect(&mut self.context, 3)
            .iter()
            .map(|completion| completion.result)
            .collect();
        results.sort_by_key(|result| result.ok());
        assert_eq!((results[0], results[1]), (Ok(4), Ok(4)));
        drop(crate::harness::own(results[2]));
        assert_eq!(self.buffers.concat(), b"onet\0\0\0\0wo--\0\0\0\0");
        let again = self.context.poll(&mut Vec::new(), Some(Duration::ZERO));
        assert_eq!(again, Ok(0), "completed twice");
        drop(both);
    }
}

/// Runs a body in a forked child, and asserts that the child ends.
fn in_child(body: impl FnOnce()) {
    // SAFETY: the child has one thread, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
        // SAFETY: the end of the child.
        unsafe { libc::_exit(i32::from(failed)) };
    }
    await_child(pid);
}

/// Asserts that a child ends, and has not failed.
fn await_child(pid: i32) {
    let mut status = 0;
    // SAFETY: a child of our own, and a status of our own.
    let ended = || unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == pid;
    if !wait_until(LIMIT, ended) {
        // SAFETY: a child of our own that is not reaped yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        panic!("the child hangs");
    }
    assert_eq!(status, 0, "the child has failed");
}

fn pending_ways() -> Vec<Way> {
    let ways = all_ways().into_iter();
    ways.filter(|way| way.goes_to_background() && way.mode == Mode::Natural)
        .collect()
}

/// Runs each test in a process without other threads, because it forks.
fn alone(test: &str, body: impl Fn(&Way)) {
    // A child that does not notice the fork waits for the threads of its parent.
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    child::check(LIMIT * 6, test, "", || {
        for way in pending_ways() {
            println!("{way}");
            body(&way);
        }
    });
}

#[test]
fn a_notification_before_the_childs_first_call_is_kept() {
    alone(test_name!(), |way| {
        let mut parent = Parent::new(way);
        let notifier = parent.context.notifier();
        in_child(|| {
            notifier.notify();
            assert_eq!(parent.context.poll(&mut Vec::new(), None), Ok(0));
            notifier.notify();
            assert_eq!(parent.context.poll(&mut Vec::new(), None), Ok(0));
        });
        parent.end();
    });
}

#[test]
fn a_child_starts_operations_of_its_own() {
    alone(test_name!(), |way| {
        let mut parent = Parent::new(way);
        let ring = parent.context.info().has_ring();
        let handles: Vec<_> = (1..4).filter_map(laio::Handle::from_raw).collect();
        in_child(|| {
            assert_eq!(
                parent.context.poll(&mut Vec::new(), Some(Duration::ZERO)),
                Ok(0)
            );
            assert_eq!(parent.context.pending(), 0);
            assert_eq!(parent.context.info().has_ring(), ring);
            for handle in handles {
                assert_eq!(parent.context.cancel(handle), Err(Errno::NOENT));
            }
            assert_works(&mut parent.context);
            let mut buffer = [0u8; 1];
            let file = std::fs::File::open("/proc/self/status").expect("a file");
            let args = [file.arg(), at_mut(&mut buffer), 1, 0];
            assert_eq!(
                crate::harness::call(&mut parent.context, libc::SYS_pread64, args),
                Ok(1)
            );
            // The same in a child of the child.
            in_child(|| assert_works(&mut parent.context));
            assert_works(&mut parent.context);
        });
        still_works(&mut parent);
        parent.end();
    });
}

/// Asserts that the parent's context still works.
fn still_works(parent: &mut Parent) {
    assert_eq!(parent.context.pending(), 3);
    assert_works(&mut parent.context);
}

#[test]
fn a_child_drops_a_context_that_it_never_used() {
    alone(test_name!(), |way| {
        let parent = Parent::new(way);
        // The child may map other memory where the parent's ring was mapped.
        let mut parent = Some(parent);
        in_child(|| {
            let maps: Vec<*mut libc::c_void> = (0..64).map(|_| map_page()).collect();
            let Some(Parent {
                context,
                _directory,
                ..
            }) = parent.take()
            else {
                unreachable!("taken once")
            };
            // The directory belongs to the parent.
            std::mem::forget(_directory);
            drop(context);
            for page in maps {
                // SAFETY: mapped above and not unmapped since: the test checks this.
                unsafe { page.cast::<u8>().write_volatile(1) };
            }
            let mut next = way.context();
            assert_works(&mut next);
        });
        parent.expect("the parent's").end();
    });
}

fn map_page() -> *mut libc::c_void {
    // SAFETY: a fresh private mapping.
    let page = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

/// Other threads begin and end while the program forks, and hold locks of the standard library.
#[test]
fn a_child_starts_helpers_whatever_other_threads_do() {
    const THREADS: usize = 16;
    const FORKS: usize = 300;
    alone(test_name!(), |way| {
        if way.backend != laio::BackendKind::Threads {
            return;
        }
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while !ended.load(SeqCst) {
                        std::thread::spawn(|| ()).join().expect("a thread");
                    }
                });
            }
            let forked = catch_unwind(|| {
                for _ in 0..FORKS {
                    in_child(|| {
                        let mut context = way.context();
                        let own = crate::harness::call(&mut context, libc::SYS_getpid, []);
                        assert_eq!(own, plain(libc::SYS_getpid, []));
                    });
                }
            });
            ended.store(true, SeqCst);
            forked.expect("children that end");
        });
    });
}

/// The program forks while `poll` delivers completions. The child polls on, uses the context, or drops it.
#[test]
fn a_fork_while_completions_are_delivered() {
    alone(test_name!(), |way| {
        for use_it in [true, false] {
            let (reader, writer) = pipe();
            let mut context = way.context();
            context.descriptor().expect("a pollable descriptor");
            let mut buffers = [[0u8; 1]; 4];
            for buffer in &mut buffers {
                pending_read(&mut context, [reader.arg(), at_mut(buffer), 1]);
            }
            context.flush().expect("flush");
            let text = c"abcd".arg();
            assert_eq!(plain(libc::SYS_write, [writer.arg(), text, 2]), Ok(2));
            let (mut delivered, mut child) = (0, None);
            while delivered < 2 && child != Some(0) {
                let polled = context.poll_with(PollOptions::default(), |_| {
                    delivered += 1;
                    if child.is_none() {
                        // SAFETY: the child has one thread, and leaves by _exit.
                        child = Some(unsafe { libc::fork() });
                    }
                });
                assert!(polled.is_ok(), "{polled:?}");
            }
            if child == Some(0) {
                let failed = catch_unwind(AssertUnwindSafe(|| {
                    assert_eq!((delivered, context.pending()), (1, 0));
                    if use_it {
                        assert_works(&mut context);
                    }
                    drop(context);
                }));
                // SAFETY: the end of the child.
                unsafe { libc::_exit(i32::from(failed.is_err())) };
            }
            await_child(child.expect("a completion"));
            assert_eq!(plain(libc::SYS_write, [writer.arg(), text + 2, 2]), Ok(2));
            collect(&mut context, 2);
            assert_eq!(buffers.concat(), b"abcd");
            assert_works(&mut context);
        }
    });
}
