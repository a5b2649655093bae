//! Operations are cancelled, and completions announced, although the processes of the user may queue no
//! more signals (`RLIMIT_SIGPENDING`).

use super::support::pipe;
use crate::harness::{
    Arg, LIMIT, at_mut, collect, cstring, for_each_pending_backend, pending, pending_read, wait_for,
};
use laio::{Context, Errno, Handle};
use laio_testing::{child, temp, test_name};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// Lets the user queue so many signals.
fn allow(signals: u64) {
    let mut limit = getrlimit(Resource::Sigpending);
    limit.current = Some(signals.min(limit.maximum.unwrap_or(u64::MAX)));
    setrlimit(Resource::Sigpending, limit).expect("a lower limit");
}

/// A lock that another open file description holds, so that a call waits for it.
struct Locked {
    file: File,
    _holder: File,
    _directory: tempfile::TempDir,
}

impl Locked {
    fn new() -> Locked {
        let directory = temp::scratch();
        let path = directory.path().join("file");
        let holder = File::create(&path).expect("a file");
        flock(&holder, FlockOperation::LockExclusive).expect("a lock");
        Locked {
            file: File::open(&path).expect("the file"),
            _holder: holder,
            _directory: directory,
        }
    }

    /// Starts an operation that waits for the lock, and waits until its thread is blocked, if the kernel
    /// shows that.
    fn wait(&self, context: &mut Context) -> Handle {
        let args = [self.file.arg(), libc::LOCK_EX.arg()];
        let handle = pending(context, libc::SYS_flock, args);
        let inode = format!(":{} ", self.file.metadata().expect("a status").ino());
        let waits = |locks: String| {
            let mut lines = locks.lines();
            lines.any(|line| line.contains("->") && line.contains(&inode))
        };
        while std::fs::read_to_string("/proc/locks").is_ok_and(|locks| !waits(locks)) {
            std::thread::yield_now();
        }
        handle
    }
}

/// Fails without a signal that the kernel always takes.
#[test]
fn operations_are_cancelled_where_no_signal_can_be_queued() {
    child::check(LIMIT * 5, test_name!(), "", || {
        allow(0);
        for_each_pending_backend(|way| {
            let locked = Locked::new();
            let mut context = way.context();
            let handle = locked.wait(&mut context);
            assert_eq!(context.cancel(handle), Ok(()));
            let cancelled = wait_for(&mut context, handle);
            assert_eq!(cancelled.result, Err(Errno::CANCELED));
            let handle = locked.wait(&mut context);
            let soon = Some(Duration::from_millis(1));
            assert_eq!(context.set_timeout(handle, soon), Ok(()));
            let timed_out = wait_for(&mut context, handle);
            assert_eq!(timed_out.result, Err(Errno::TIME));
            // A call that ends by itself needs a helper too.
            let name = cstring(locked._directory.path().join("directory"));
            let args = [libc::AT_FDCWD.arg(), name.arg(), 0o700];
            assert_eq!(
                crate::harness::call(&mut context, libc::SYS_mkdirat, args),
                Ok(0)
            );
            locked.wait(&mut context);
            // It ends nevertheless.
            drop(context);
        });
    });
}

/// Fails if a refused signal is not sent again.
#[test]
fn a_real_time_signal_is_sent_again_when_the_kernel_takes_it() {
    child::check(LIMIT * 5, test_name!(), "", || {
        let signal = libc::SIGRTMIN() + 7;
        let before = getrlimit(Resource::Sigpending).current.unwrap_or(u64::MAX);
        for_each_pending_backend(|way| {
            let locked = Locked::new();
            let mut context = way.with(|options| options.cancel_signal(signal));
            let mut completions = Vec::new();
            for exposed in [false, true] {
                if exposed {
                    context.descriptor().expect("a descriptor");
                }
                let handle = locked.wait(&mut context);
                allow(0);
                assert_eq!(context.cancel(handle), Ok(()));
                // A time-out does not take the place of the next attempt.
                let never = Some(LIMIT * 1000);
                assert_eq!(context.set_timeout(handle, never), Ok(()));
                context
                    .poll(&mut completions, Some(Duration::ZERO))
                    .expect("polled");
                allow(before);
                while completions.is_empty() {
                    if exposed {
                        let descriptor = context.descriptor().expect("a descriptor");
                        let mut events = [PollFd::new(&descriptor, PollFlags::IN)];
                        poll(&mut events, None).expect("polled");
                    }
                    let wait = exposed.then_some(Duration::ZERO);
                    context.poll(&mut completions, wait).expect("polled");
                }
                assert_eq!(completions[0].handle, handle);
                assert_eq!(completions[0].result, Err(Errno::CANCELED));
                completions.clear();
            }
        });
    });
}

/// A program that waits for the signal of a completion gets it later, if the kernel refused it at first.
#[test]
fn the_signal_of_a_completion_comes_later() {
    child::check(LIMIT * 5, test_name!(), "", || {
        let number = libc::SIGRTMIN() + 3;
        // SAFETY: a local set, which the kernel reads.
        let set = unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, number);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            set
        };
        let before = getrlimit(Resource::Sigpending).current.unwrap_or(u64::MAX);
        for_each_pending_backend(|way| {
            let mut context = way.context();
            context.set_signal(Some((number, 1))).expect("a signal");
            let (from, to) = pipe();
            let mut byte = [0u8; 1];
            pending_read(&mut context, [from.arg(), at_mut(&mut byte), 1]);
            allow(0);
            rustix::io::write(&to, b"x").expect("written");
            // The completion is there, so its signal was refused, or is refused soon.
            let descriptor = context.descriptor().expect("a descriptor");
            let mut events = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut events, None).expect("polled");
            allow(before);
            let mut info = crate::harness::zeroed::<libc::siginfo_t>();
            // SAFETY: a set and a struct that live through the call. Other work of the kernel ends it too.
            while unsafe { libc::sigwaitinfo(&set, &mut info) } != number {}
            assert_eq!(collect(&mut context, 1)[0].result, Ok(1));
        });
    });
}
