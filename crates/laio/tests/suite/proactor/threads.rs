//! Many threads: exactly one completion each, futures that move between threads, descriptors whose numbers are used
//! again.

use super::support::{Counted, all_lazy, block_on, poll_once};
use crate::harness::{LIMIT, watch};
use laio::ops::{OpenFile, Read, ReadAt, Write};
use laio::{BackendKind, Options, Proactor};
use laio_testing::limit::wait_until;
use laio_testing::temp::{file_with, pattern, pipe, scratch};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Each thread reads what another writes, through pipes that are empty most of the time; every fifth future is
/// dropped and repeated.
#[test]
fn each_of_many_operations_completes_once() {
    let _watched = watch("each_of_many_operations_completes_once");
    const THREADS: usize = 8;
    const ROUNDS: usize = 300;
    for (name, proactor) in all_lazy() {
        let completed = Arc::new(AtomicUsize::new(0));
        let body = |number: usize| {
            let (proactor, completed) = (proactor.clone(), completed.clone());
            let (from, to) = pipe();
            let (from, to) = (OpenFile::from(from), OpenFile::from(to));
            move || {
                for round in 0..ROUNDS {
                    let dropped = Arc::new(AtomicUsize::new(0));
                    let read =
                        || proactor.submit(Read::new(from.clone(), Counted::new(8, &dropped)));
                    let mut pending = read();
                    assert!(poll_once(&mut pending).is_pending());
                    if (number + round).is_multiple_of(5) {
                        // Until the kernel has let go, the cancelled read may take what is written.
                        drop(pending);
                        assert!(wait_until(LIMIT, || dropped.load(SeqCst) == 1));
                        pending = read();
                        assert!(poll_once(&mut pending).is_pending());
                    }
                    // Short enough for one step under every injected fault.
                    let text = (round as u16).to_ne_bytes().to_vec();
                    let write = Write::new(to.clone(), text.clone());
                    assert_eq!(block_on(proactor.submit(write)).0.unwrap(), 2);
                    // Another thread takes the future over.
                    let taken = std::thread::scope(|scope| match round % 50 {
                        0 => scope.spawn(|| block_on(pending)).join().unwrap(),
                        _ => block_on(pending),
                    });
                    assert_eq!(taken.1.bytes(), text);
                    completed.fetch_add(1, SeqCst);
                }
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|number| std::thread::spawn(body(number)))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(completed.load(SeqCst), THREADS * ROUNDS, "{name}");
    }
}

/// What a thread knows of a descriptor does not apply to the next file with its number, which another thread has
/// opened.
#[test]
fn a_number_that_is_used_again_is_another_file() {
    let _watched = watch("a_number_that_is_used_again");
    let body = || {
        let proactor = Proactor::new(Options::new().backend(BackendKind::Lazy)).unwrap();
        let directory = scratch();
        let text = pattern(100_000, 5);
        let file = file_with(directory.path(), &text);
        for _ in 0..20 {
            let (from, to) = pipe();
            rustix::io::write(&to, b"stream").unwrap();
            let from = Arc::new(from);
            let (count, _) =
                block_on(proactor.submit(Read::new(from.clone(), Vec::with_capacity(8))));
            assert_eq!(count.unwrap(), 6);
            // The number of the pipe now belongs to the file, without the knowledge of this thread.
            let number = from.as_raw_fd();
            let opened = file.reopen().unwrap();
            std::thread::scope(|scope| {
                let replace = || {
                    let opened = opened.as_raw_fd();
                    // SAFETY: the pipe's descriptor stays open, as another file.
                    let number_again = unsafe { libc::dup2(opened, number) };
                    assert_eq!(number_again, number);
                };
                scope.spawn(replace).join().unwrap();
            });
            let read = Read::new(from.clone(), Vec::with_capacity(100_000));
            let (count, found) = block_on(proactor.submit(read));
            assert_eq!((count.unwrap(), found == text), (100_000, true));
            let read = ReadAt::new(from, Vec::with_capacity(10), 99_995);
            assert_eq!(block_on(proactor.submit(read)).0.unwrap(), 5);
        }
    };
    std::thread::spawn(body).join().unwrap();
}
