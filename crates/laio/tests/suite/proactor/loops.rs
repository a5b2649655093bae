//! The ring of an event loop. The loop is the thread of the test.

use super::support::{Counted, block_on, poll_once};
use crate::harness::{LIMIT, watch};
use laio::ops::{OpenFile, Read, ReadAt};
use laio::{BackendKind, LoopRing, Options, Proactor, Rights, Submission};
use laio_testing::limit::wait_until;
use laio_testing::temp::{cold_file, file_with, pattern, pipe, scratch};
use laio_testing::{Skip, child, or_skip, test_name};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;

const SHORT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

type ReadInLoop = Submission<ReadAt<OpenFile, Vec<u8>>>;

std::thread_local! {
    static RING: RefCell<Option<LoopRing>> = const { RefCell::new(None) };
}

fn ring_of_this_thread() -> Option<LoopRing> {
    RING.with_borrow(Clone::clone)
}

/// A proactor with a driver, and a ring for this thread.
fn proactor_and_ring() -> Option<(Proactor, LoopRing)> {
    let proactor = Proactor::new(
        Options::new()
            .backend(BackendKind::Lazy)
            .rights(Rights::Process),
    )
    .expect("a proactor");
    let ring = proactor.loop_ring();
    let ring = or_skip(ring.map_err(|errno| Skip::because("io_uring", errno.to_string())))?;
    RING.set(Some(ring.clone()));
    let (from, to) = pipe();
    let mut read = proactor.submit(Read::new(from, Vec::with_capacity(1)));
    assert!(poll_once(&mut read).is_pending());
    rustix::io::write(to, b"x").unwrap();
    block_on(read).0.unwrap();
    Some((proactor, ring))
}

/// An open file without a name.
fn file_of(contents: &[u8]) -> OpenFile {
    let directory = scratch();
    let file = file_with(directory.path(), contents);
    OpenFile::from(file.reopen().unwrap())
}

/// As [`file_of`], of which nothing is in memory.
fn cold_file_of(contents: &[u8]) -> Option<OpenFile> {
    let directory = scratch();
    let file = or_skip(cold_file(directory.path(), contents))?;
    Some(OpenFile::from(file.reopen().unwrap()))
}

/// A read from the beginning of a file that goes to the ring although the file is cached.
fn read_in_loop(proactor: &Proactor, file: &OpenFile, length: usize) -> ReadInLoop {
    let read = ReadAt::new(file.clone(), Vec::with_capacity(length), 0);
    let read = proactor.submit(read.expect_block());
    read.in_loop(ring_of_this_thread)
}

/// What an event loop does: waits for the ring, takes the completions, and polls the future. It also polls it
/// after a short time, because a helper may have made the read.
fn turn_until<F: Future + Unpin>(ring: &LoopRing, mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll_once(&mut future) {
            return output;
        }
        poll(&mut [PollFd::new(ring, PollFlags::IN)], Some(&SHORT)).unwrap();
        ring.take_completions();
    }
}

#[test]
fn cold_reads_are_those_of_the_file() {
    let _watched = watch("cold_reads_are_those_of_the_file");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let contents = pattern(100_000, 1);
    let Some(file) = cold_file_of(&contents) else {
        return;
    };
    let begins = [0, 70_000, 99_990, 100_000, 200_000, 4095];
    let reads = begins.map(|begin| {
        let read = ReadAt::new(file.clone(), Vec::with_capacity(10_000), begin);
        let mut read = proactor.submit(read).in_loop(ring_of_this_thread);
        (begin as usize, poll_once(&mut read), read)
    });
    for (begin, polled, read) in reads {
        let (count, bytes) = match polled {
            Poll::Ready(output) => output,
            Poll::Pending => turn_until(&ring, read),
        };
        let expected = contents.get(begin..).unwrap_or_default();
        assert_eq!(bytes, &expected[..expected.len().min(10_000)], "{begin}");
        assert_eq!(count.unwrap(), bytes.len());
    }
    assert!(proactor.stats().in_loops > 0, "{:?}", proactor.stats());
}

/// Reads at the position of a file, in flight together, of which only the first can go to the ring.
#[test]
fn reads_at_the_position_keep_their_order() {
    let _watched = watch("reads_at_the_position_keep_their_order");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let contents = pattern(30_000, 2);
    let Some(file) = cold_file_of(&contents) else {
        return;
    };
    let submit = || {
        let read = Read::new(file.clone(), Vec::with_capacity(10_000));
        proactor.submit(read).in_loop(ring_of_this_thread)
    };
    let mut reads = [submit(), submit(), submit()];
    assert!(reads.iter_mut().all(|read| poll_once(read).is_pending()));
    assert_eq!(proactor.stats().in_loops, 1);
    ring.take_completions();
    for (read, expected) in reads.into_iter().zip(contents.chunks(10_000)) {
        // The driver takes what this thread leaves.
        assert_eq!(block_on(read).1, expected);
    }
    assert_eq!(block_on(submit()).0.unwrap(), 0);
}

#[test]
fn a_batch_is_submitted_together() {
    let _watched = watch("a_batch_is_submitted_together");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let contents = pattern(64, 3);
    let file = file_of(&contents);
    let reads =
        (0..64).map(|_| ReadAt::new(file.clone(), Vec::with_capacity(64), 0).expect_block());
    let batch = proactor.submit_all(reads).in_loop(ring_of_this_thread);
    for (count, bytes) in turn_until(&ring, batch) {
        assert_eq!((count.unwrap(), bytes), (64, contents.clone()));
    }
    assert_eq!(proactor.stats().in_loops, 64);
}

/// As a loop that has ended, or a task that holds it up and waits for the read.
#[test]
fn a_read_ends_although_the_loop_stands_still() {
    let _watched = watch("a_read_ends_although_the_loop_stands_still");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let file = file_of(b"contents");
    for closed in [false, true] {
        let mut read = read_in_loop(&proactor, &file, 8);
        assert!(poll_once(&mut read).is_pending());
        if closed {
            ring.close();
        }
        assert_eq!(block_on(read).1, b"contents");
    }
    let in_loops = proactor.stats().in_loops;
    assert_eq!(block_on(read_in_loop(&proactor, &file, 8)).1, b"contents");
    assert_eq!(proactor.stats().in_loops, in_loops, "the ring is closed");
}

#[test]
fn a_read_ends_although_its_thread_has_ended() {
    let _watched = watch("a_read_ends_although_its_thread_has_ended");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let contents = pattern(1 << 20, 4);
    for _ in 0..20 {
        let Some(file) = cold_file_of(&contents) else {
            return;
        };
        let (proactor, own) = (proactor.clone(), ring.clone());
        let thread = std::thread::spawn(move || {
            RING.set(Some(own));
            let mut read = read_in_loop(&proactor, &file, 1 << 20);
            let polled = poll_once(&mut read);
            (polled, read)
        });
        let (polled, read) = thread.join().unwrap();
        let (count, bytes) = match polled {
            Poll::Ready(output) => output,
            Poll::Pending => turn_until(&ring, read),
        };
        assert_eq!(count.unwrap(), bytes.len());
        assert!(bytes == contents, "other bytes");
    }
}

#[test]
fn dropped_reads_free_their_buffers() {
    let _watched = watch("dropped_reads_free_their_buffers");
    let Some((proactor, ring)) = proactor_and_ring() else {
        return;
    };
    let file = file_of(&pattern(4096, 5));
    let dropped = Arc::new(AtomicUsize::new(0));
    for _ in 0..300 {
        let read = ReadAt::new(file.clone(), Counted::new(4096, &dropped), 0).expect_block();
        let mut read = proactor.submit(read).in_loop(ring_of_this_thread);
        drop(poll_once(&mut read));
    }
    drop(ring);
    assert!(wait_until(LIMIT, || dropped.load(SeqCst) == 300));
    assert!(proactor.shut_down(LIMIT));
}

#[test]
fn a_child_does_not_use_the_ring_of_its_parent() {
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        let Some((proactor, ring)) = proactor_and_ring() else {
            return;
        };
        let file = file_of(b"contents");
        let mut read = read_in_loop(&proactor, &file, 4);
        assert!(poll_once(&mut read).is_pending());
        super::processes::in_child(|| {
            let own = file_of(b"of the child");
            let (_, bytes) = block_on(read_in_loop(&proactor, &own, 12));
            ring.take_completions();
            bytes == b"of the child" && proactor.stats().in_loops == 0
        });
        assert_eq!(turn_until(&ring, read).1, b"cont");
    });
}
