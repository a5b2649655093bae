//! Forks, filters that forbid io_uring, and the end of a process.

use super::support::{Counted, block_on, poll_once};
use crate::harness::LIMIT;
use laio::ops::{Mkdir, Name, OpenFile, Read, ReadAt};
use laio::{Options, Proactor};
use laio_testing::forbid::{self, Forbid};
use laio_testing::limit::wait_until;
use laio_testing::temp::{file_with, pipe, scratch};
use laio_testing::{child, test_name};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Runs `body` in a forked child, and asserts that it returns true.
pub(super) fn in_child(body: impl FnOnce() -> bool) {
    // SAFETY: the child uses the proactor, which is to work there, and leaves by _exit.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            let passed = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            libc::_exit(i32::from(!passed));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "the child failed");
    }
}

#[test]
fn a_child_starts_its_own_driver() {
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        let proactor = Proactor::new(Options::new()).unwrap();
        let (from, to) = pipe();
        let (from, to) = (OpenFile::from(from), OpenFile::from(to));
        let dropped = Arc::new(AtomicUsize::new(0));
        let read = || proactor.submit(Read::new(from.clone(), Counted::new(4, &dropped)));
        let mut inherited = read();
        assert!(poll_once(&mut inherited).is_pending());
        in_child(|| {
            let (own_from, own_to) = pipe();
            let mut own = proactor.submit(Read::new(own_from, Vec::with_capacity(4)));
            let pending = poll_once(&mut own).is_pending();
            rustix::io::write(&own_to, b"own").unwrap();
            let read = block_on(own).1 == b"own";
            let refused =
                catch_unwind(AssertUnwindSafe(|| drop(poll_once(&mut inherited)))).is_err();
            drop(inherited);
            pending && read && refused && proactor.stats().handed_over == 1
        });
        // `in_child` has dropped it here.
        assert!(wait_until(LIMIT, || dropped.load(SeqCst) == 1));
        // A child neither takes nor cancels the operations of its parent.
        let mut second = read();
        assert!(poll_once(&mut second).is_pending());
        in_child(|| true);
        rustix::io::write(&to, b"more").unwrap();
        assert_eq!(block_on(second).0.unwrap(), 4);
    });
}

#[test]
fn without_io_uring_operations_complete() {
    forbid::child(test_name!(), &Forbid::io_uring(libc::EPERM), || {
        // Every thread has the filter: each gets a driver of its own.
        let proactor = Proactor::new(Options::new()).unwrap();
        let body = || {
            let (from, to) = pipe();
            for _ in 0..3 {
                let from = from.try_clone().unwrap();
                let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
                assert!(poll_once(&mut read).is_pending());
                rustix::io::write(&to, b"x").unwrap();
                assert_eq!(block_on(read).1, b"x");
            }
            let directory = scratch();
            let name = Name::from_path(directory.path().join("new")).unwrap();
            block_on(proactor.submit(Mkdir::new(name, 0o700))).unwrap();
            let file = OpenFile::from(file_with(directory.path(), b"text").reopen().unwrap());
            let read = ReadAt::new(file, Vec::with_capacity(10), 0);
            assert_eq!(block_on(proactor.submit(read)).1, b"text");
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(body);
            }
        });
        assert!(proactor.shut_down(LIMIT));
    });
}

#[test]
fn a_process_ends_with_operations_in_flight() {
    child::check(LIMIT, test_name!(), "", || {
        let (from, _to) = pipe();
        let proactor = Proactor::global().unwrap();
        let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
        assert!(poll_once(&mut read).is_pending());
        std::mem::forget((read, _to));
    });
}
