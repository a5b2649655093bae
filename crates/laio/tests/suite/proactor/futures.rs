//! One future: its output, its cancellation, its place in the order, limits and shutdown.

use super::support::{Counted, all, all_lazy, block_on, poll_once};
use crate::harness::{LIMIT, watch};
use laio::ops::{Close, Name, Open, OpenFile, Read, ReadAt, StatPath, Write, WriteAt};
use laio::{BackendKind, Options, Proactor};
use laio_testing::limit::wait_until;
use laio_testing::temp::{file_with, pattern, pipe, scratch};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn lazy() -> Proactor {
    Proactor::new(Options::new().backend(BackendKind::Lazy)).expect("a proactor")
}

#[test]
fn files_are_read_and_written() {
    let _watched = watch("files_are_read_and_written");
    let directory = scratch();
    for (name, proactor) in all() {
        let path = directory.path().join("file");
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
        let open = Open::new(Name::from_path(&path).unwrap(), flags);
        let file = OpenFile::from(block_on(proactor.submit(open)).expect("open"));
        let text = pattern(10_000, 1);
        let write = WriteAt::new(file.clone(), text.clone(), 5);
        assert_eq!(
            block_on(proactor.submit(write)).0.unwrap(),
            10_000,
            "{name}"
        );
        let status = block_on(proactor.submit(StatPath::new(Name::from_path(&path).unwrap())));
        assert_eq!(status.unwrap().size(), 10_005, "{name}");
        let read = ReadAt::new(file.clone(), Vec::with_capacity(20_000), 5);
        let (count, buffer) = block_on(proactor.submit(read));
        assert_eq!((count.unwrap(), buffer == text), (10_000, true), "{name}");
        let close = Close::new(file.try_into_owned().expect("the only clone"));
        block_on(proactor.submit(close)).expect("close");
        let none = Open::new(Name::new(c"/nothing/there"), libc::O_RDONLY);
        let error = block_on(proactor.submit(none)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
}

#[test]
fn a_cached_read_needs_no_driver() {
    let file = file_with(scratch().path().parent().unwrap(), &pattern(8192, 2));
    let proactor = lazy();
    let open = OpenFile::from(file.reopen().unwrap());
    for _ in 0..3 {
        let read = ReadAt::new(open.clone(), Vec::with_capacity(4096), 4096);
        assert_eq!(block_on(proactor.submit(read)).0.unwrap(), 4096);
    }
    let stats = proactor.stats();
    if stats.handed_over == 0 {
        // Else the file system has no attempt.
        assert_eq!((stats.inline, stats.background), (3, 0));
    }
}

#[test]
fn a_future_that_waits_is_woken() {
    let _watched = watch("a_future_that_waits_is_woken");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let mut read = proactor.submit(Read::new(from, Vec::with_capacity(16)));
        assert!(poll_once(&mut read).is_pending(), "{name}");
        let writer = std::thread::spawn(move || rustix::io::write(&to, b"hello").unwrap());
        let (count, buffer) = block_on(read);
        assert_eq!((count.unwrap(), &buffer[..]), (5, &b"hello"[..]), "{name}");
        writer.join().unwrap();
        assert_eq!(proactor.stats().handed_over, 1, "{name}");
    }
}

/// A write that fills the pipe continues in the background where the attempt has stopped.
#[test]
fn the_rest_of_a_transfer_is_handed_over() {
    let _watched = watch("the_rest_of_a_transfer_is_handed_over");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let text = pattern(500_000, 3);
        let mut write = proactor.submit(Write::new(to, text.clone()));
        assert!(poll_once(&mut write).is_pending(), "{name}");
        let reader = std::thread::spawn(move || {
            let mut found = Vec::new();
            std::io::Read::read_to_end(&mut std::fs::File::from(from), &mut found).unwrap();
            found
        });
        let (count, _) = block_on(write);
        assert_eq!(count.unwrap(), 500_000, "{name}");
        assert!(reader.join().unwrap() == text, "{name}");
    }
}

#[test]
fn a_dropped_future_cancels_and_frees_its_buffer_later() {
    let _watched = watch("a_dropped_future_cancels");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let from = OpenFile::from(from);
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut read = proactor.submit(Read::new(from.clone(), Counted::new(16, &dropped)));
        assert!(poll_once(&mut read).is_pending(), "{name}");
        drop(read);
        assert!(wait_until(LIMIT, || dropped.load(SeqCst) == 1), "{name}");
        // The cancelled read has taken nothing.
        rustix::io::write(&to, b"later").unwrap();
        let again = proactor.submit(Read::new(from, Counted::new(16, &dropped)));
        let (count, buffer) = block_on(again);
        assert_eq!(
            (count.unwrap(), buffer.bytes()),
            (5, &b"later"[..]),
            "{name}"
        );
        assert_eq!(proactor.stats().cancelled, 1, "{name}");
    }
}

/// A descriptor that an abandoned operation opens is closed: the peer of a FIFO sees it.
#[test]
fn an_abandoned_open_leaks_no_descriptor() {
    let _watched = watch("an_abandoned_open_leaks_no_descriptor");
    let directory = scratch();
    for (name, proactor) in all_lazy() {
        let path = directory.path().join(format!("fifo {name}"));
        let text = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
        let mut open = proactor.submit(Open::new(Name::new(text.clone()), libc::O_RDONLY));
        assert!(poll_once(&mut open).is_pending(), "{name}");
        drop(open);
        // Without a reader, a non-blocking open for writing fails.
        let no_reader = || {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
            rustix::fs::open(&*text, flags, rustix::fs::Mode::empty()).is_err()
        };
        assert!(wait_until(LIMIT, no_reader), "{name}");
    }
}

#[test]
fn a_later_read_does_not_overtake() {
    let _watched = watch("a_later_read_does_not_overtake");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let from = OpenFile::from(from);
        let read = || proactor.submit(Read::new(from.clone(), Vec::with_capacity(4)));
        let mut first = read();
        assert!(poll_once(&mut first).is_pending(), "{name}");
        rustix::io::write(&to, b"one-two-").unwrap();
        let mut second = read();
        let second = match poll_once(&mut second) {
            Poll::Ready(output) => output,
            Poll::Pending => block_on(second),
        };
        assert_eq!(block_on(first).1, b"one-", "{name}");
        assert_eq!(second.1, b"two-", "{name}");
    }
}

#[test]
fn at_the_limit_operations_wait_for_their_turn() {
    let _watched = watch("at_the_limit_operations_wait");
    let options = Options::new().backend(BackendKind::Lazy).operations(2);
    let proactor = Proactor::new(options).unwrap();
    let pipes: Vec<_> = (0..10).map(|_| pipe()).collect();
    let mut reads = Vec::new();
    for (from, _) in &pipes {
        let from = from.as_fd().try_clone_to_owned().unwrap();
        let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
        assert!(poll_once(&mut read).is_pending());
        reads.push(read);
    }
    // One that waits for its turn is cancelled there.
    drop(reads.remove(5));
    for (_, to) in &pipes {
        rustix::io::write(to, b"x").unwrap();
    }
    for read in reads {
        assert_eq!(block_on(read).0.unwrap(), 1);
    }
}

#[test]
fn a_batch_gives_all_outputs_in_order() {
    let _watched = watch("a_batch_gives_all_outputs_in_order");
    let text = pattern(100_000, 4);
    let file = file_with(scratch().path().parent().unwrap(), &text);
    for (name, proactor) in all() {
        let open = OpenFile::from(file.reopen().unwrap());
        let ranges = (0..1000).map(|index| index * 99);
        let reads = ranges
            .clone()
            .map(|offset| ReadAt::new(open.clone(), Vec::with_capacity(50), offset as u64));
        let outputs = block_on(proactor.submit_all(reads));
        for (offset, (count, bytes)) in ranges.zip(outputs) {
            assert_eq!(count.unwrap(), 50, "{name}");
            assert_eq!(bytes, text[offset..offset + 50], "{name}");
        }
        let none = block_on(proactor.submit_all(Vec::<ReadAt<OpenFile, Vec<u8>>>::new()));
        assert!(none.is_empty());
    }
}

#[test]
fn a_batch_waits_for_the_last_and_is_cancelled_as_a_whole() {
    let _watched = watch("a_batch_waits_for_the_last");
    for (name, proactor) in all_lazy() {
        let pipes: Vec<_> = (0..20).map(|_| pipe()).collect();
        let dropped = Arc::new(AtomicUsize::new(0));
        let reads = |kept: &Arc<AtomicUsize>| {
            let read = |(from, _): &(std::os::fd::OwnedFd, _)| {
                let from = from.as_fd().try_clone_to_owned().unwrap();
                Read::new(from, Counted::new(4, kept))
            };
            proactor.submit_all(pipes.iter().map(read).collect::<Vec<_>>())
        };
        let mut batch = reads(&dropped);
        assert!(poll_once(&mut batch).is_pending(), "{name}");
        drop(batch);
        assert!(wait_until(LIMIT, || dropped.load(SeqCst) == 20), "{name}");
        let mut batch = reads(&dropped);
        assert!(poll_once(&mut batch).is_pending(), "{name}");
        for (_, to) in pipes.iter().rev() {
            assert!(poll_once(&mut batch).is_pending(), "{name}");
            rustix::io::write(to, b"x").unwrap();
        }
        let outputs = block_on(batch);
        assert!(
            outputs.iter().all(|(count, _)| matches!(count, Ok(1))),
            "{name}"
        );
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Panics>) {
        panic!("a waker of a test");
    }
}

struct PanicsAtTheEnd;

// SAFETY: the memory is static.
unsafe impl laio::ops::Sink for PanicsAtTheEnd {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        (std::ptr::dangling_mut(), 0)
    }

    unsafe fn append(&mut self, _: usize) {}
}

impl Drop for PanicsAtTheEnd {
    fn drop(&mut self) {
        panic!("a buffer of a test");
    }
}

#[test]
fn panics_of_the_program_do_not_end_a_driver() {
    let _watched = watch("panics_of_the_program");
    let proactor = lazy();
    let (from, to) = pipe();
    let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
    let waker = Waker::from(Arc::new(Panics));
    let mut context = Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut read)
            .poll(&mut context)
            .is_pending()
    );
    rustix::io::write(&to, b"x").unwrap();
    let mut found = None;
    let over = || {
        if let Poll::Ready(output) = poll_once(&mut read) {
            found = Some(output);
        }
        found.is_some()
    };
    assert!(wait_until(LIMIT, over));
    let mut sleep = proactor.submit(laio::ops::Sleep::new(Duration::from_secs(1000)));
    assert!(poll_once(&mut sleep).is_pending());
    drop(sleep);
    let (from, to) = pipe();
    let mut read = proactor.submit(Read::new(from, PanicsAtTheEnd));
    // A read of no bytes may be done at once.
    match catch_unwind(AssertUnwindSafe(|| poll_once(&mut read))) {
        Ok(Poll::Ready(output)) => std::mem::forget(output),
        Ok(Poll::Pending) | Err(_) => drop(catch_unwind(AssertUnwindSafe(|| drop(read)))),
    }
    drop(to);
    let (from, to) = pipe();
    let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
    assert!(poll_once(&mut read).is_pending());
    rustix::io::write(&to, b"y").unwrap();
    assert_eq!(block_on(read).1, b"y");
}

#[test]
fn a_shutdown_cancels_what_is_in_flight() {
    let _watched = watch("a_shutdown_cancels");
    for (name, proactor) in all_lazy() {
        let (from, _to) = pipe();
        let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
        assert!(poll_once(&mut read).is_pending(), "{name}");
        assert!(proactor.shut_down(LIMIT), "{name}");
        let (count, _) = block_on(read);
        assert_eq!(
            count.unwrap_err().raw_os_error(),
            Some(libc::ECANCELED),
            "{name}"
        );
        let (from, _to) = pipe();
        let (count, _) = block_on(proactor.submit(Read::new(from, Vec::with_capacity(4))));
        assert_eq!(
            count.unwrap_err().raw_os_error(),
            Some(libc::ECANCELED),
            "{name}"
        );
    }
}

/// A future keeps the drivers that it needs, and they end with it.
#[test]
fn futures_outlive_the_last_clone() {
    let _watched = watch("futures_outlive_the_last_clone");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let mut read = proactor.submit(Read::new(from, Vec::with_capacity(4)));
        drop(proactor);
        assert!(poll_once(&mut read).is_pending(), "{name}");
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!(block_on(read).1, b"x", "{name}");
    }
}

#[test]
fn a_detached_write_is_finished() {
    let _watched = watch("a_detached_write_is_finished");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let text = pattern(300_000, 6);
        let mut write = proactor.submit(Write::new(to, text.clone()));
        assert!(poll_once(&mut write).is_pending(), "{name}");
        write.detach();
        let mut found = Vec::new();
        // The end comes when the operation has closed its descriptor.
        std::io::Read::read_to_end(&mut std::fs::File::from(from), &mut found).unwrap();
        assert!(found == text, "{name}");
    }
}

#[test]
fn attempts_alone_hand_nothing_over() {
    let file = file_with(scratch().path().parent().unwrap(), b"0123456789");
    for (name, proactor) in all_lazy() {
        let (from, to) = pipe();
        let (from, to) = (OpenFile::from(from), OpenFile::from(to));
        let mut buffer = [0; 4];
        assert!(proactor.try_read(&from, &mut buffer).is_none(), "{name}");
        let written = proactor.try_write(&to, b"ab");
        if let Some(written) = written {
            assert!(written.unwrap() <= 2, "{name}");
        }
        let file = OpenFile::from(file.reopen().unwrap());
        if let Some(count) = proactor.try_read_at(&file, &mut buffer, 8) {
            assert_eq!(&buffer[..count.unwrap()], b"89", "{name}");
        }
        assert_eq!(proactor.stats().handed_over, 0, "{name}");
    }
}
