//! The helpers of a driver: calls that no driver makes, and functions.

use super::support::{all, all_lazy, block_on, poll_once};
use crate::harness::{LIMIT, cstring, watch};
use laio::ops::{
    FileStatus, Fsync, Mkdir, Name, Open, OpenFile, OpenStat, Opened, Read, ReadAt, Seek, Source,
    Whence, Write, WriteAt,
};
use laio::{BackendKind, Errno, Limits, Options, Proactor, Rights};
use laio_testing::limit::wait_until;
use laio_testing::temp::{file_with, pattern, scratch};
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::task::Poll;
use std::time::Duration;

fn lazy() -> Proactor {
    Proactor::new(Options::new().backend(BackendKind::Lazy)).expect("a proactor")
}

fn new_file(path: &Path) -> OpenFile {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    OpenFile::from(options.open(path).expect("a file"))
}

/// Writes at the position of a file that are in flight together, and reads and seeks between them, happen in order,
/// whether a helper, the driver or the polling thread makes them.
#[test]
fn writes_of_helpers_keep_the_order() {
    let _watched = watch("writes_of_helpers_keep_the_order");
    let directory = scratch();
    for (name, proactor) in all_lazy() {
        let path = directory.path().join("ordered");
        let file = new_file(&path);
        let (mut writes, mut expected) = (Vec::new(), Vec::new());
        let mut seeks = Vec::new();
        for number in 0..300_u32 {
            let text = pattern(50, number.into());
            expected.extend_from_slice(&text);
            let mut write = proactor.submit(Write::new(file.clone(), text));
            let polled = poll_once(&mut write);
            writes.push((polled.is_pending().then_some(write), polled));
            if number % 7 == 0 {
                let mut seek = proactor.submit(Seek::new(file.clone(), Whence::Current(0)));
                let polled = poll_once(&mut seek);
                seeks.push((number, polled.is_pending().then_some(seek), polled));
            }
        }
        for (pending, polled) in writes {
            let (count, _) = match (pending, polled) {
                (Some(write), _) => block_on(write),
                (None, Poll::Ready(output)) => output,
                _ => unreachable!(),
            };
            assert_eq!(count.unwrap(), 50, "{name}");
        }
        for (number, pending, polled) in seeks {
            let position = match (pending, polled) {
                (Some(seek), _) => block_on(seek),
                (None, Poll::Ready(output)) => output,
                _ => unreachable!(),
            };
            assert_eq!(position.unwrap(), (u64::from(number) + 1) * 50, "{name}");
        }
        assert!(fs::read(&path).unwrap() == expected, "{name}");
    }
}

/// Loads of which a helper begins several, between files that are not there, FIFOs that wait for their peer,
/// and futures that are dropped.
#[test]
fn loads_all_end() {
    let _watched = watch("loads_all_end");
    // No attempt is made for a file that may have to be created.
    const FLAGS: i32 = libc::O_RDONLY | libc::O_CREAT;
    const LENGTH: usize = 5_000;
    let directory = scratch();
    let root = directory.path();
    fs::write(root.join("file"), pattern(LENGTH, 1)).expect("a file");
    let fifo = cstring(root.join("fifo"));
    // SAFETY: the name is a string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    for (name, proactor) in all_lazy() {
        let check = |number: u32, opened: io::Result<Opened>| {
            let loaded = opened.map(|opened| opened.loaded());
            match number {
                _ if number % 16 == 3 => assert_eq!(loaded.expect("a FIFO"), 0, "{name}"),
                _ if number.is_multiple_of(7) => {
                    let error = loaded.expect_err("no directory");
                    assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{name}");
                }
                // Only helpers load.
                _ if name != "lazy" => drop(loaded.expect("a file")),
                _ => assert_eq!(loaded.expect("a file"), LENGTH),
            }
        };
        let mut loads = Vec::new();
        for number in 0..200_u32 {
            let path = match number {
                _ if number % 16 == 3 => root.join("fifo"),
                _ if number.is_multiple_of(7) => root.join("absent/file"),
                _ => root.join("file"),
            };
            let open = Open::new(Name::from_path(path).expect("a name"), FLAGS).mode(0o600);
            let mut load = proactor.submit(OpenStat::from(open).load(1 << 20));
            match poll_once(&mut load) {
                Poll::Ready(opened) => check(number, opened),
                Poll::Pending if number.is_multiple_of(5) => drop(load),
                Poll::Pending => loads.push((number, load)),
            }
        }
        let peer = File::options()
            .read(true)
            .write(true)
            .open(root.join("fifo"));
        let peer = peer.expect("both ends");
        for (number, load) in loads {
            check(number, block_on(load));
        }
        drop(peer);
    }
}

/// Positioned writes by many threads, with a read after each, and every third future dropped.
#[test]
fn positioned_writes_of_many_threads_arrive() {
    let _watched = watch("positioned_writes_of_many_threads");
    const THREADS: u64 = 4;
    const BLOCKS: u64 = 300;
    let directory = scratch();
    for (name, proactor) in all_lazy() {
        let file = new_file(&directory.path().join("positioned"));
        let body = |thread: u64| {
            let (proactor, file) = (proactor.clone(), file.clone());
            move || {
                for block in 0..BLOCKS {
                    let offset = (block * THREADS + thread) * 100;
                    let write = |file| WriteAt::new(file, pattern(100, offset), offset);
                    let mut dropped = proactor.submit(write(file.clone()));
                    let _ = poll_once(&mut dropped);
                    if block % 3 == 0 {
                        drop(dropped);
                    } else if dropped.is_started() {
                        dropped.detach();
                    }
                    let (count, _) = block_on(proactor.submit(write(file.clone())));
                    assert_eq!(count.unwrap(), 100);
                    let read = ReadAt::new(file.clone(), Vec::with_capacity(100), offset);
                    let (count, found) = block_on(proactor.submit(read));
                    assert_eq!((count.unwrap(), found == pattern(100, offset)), (100, true));
                }
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| std::thread::spawn(body(thread)))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        block_on(proactor.submit(Fsync::new(file)))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Bytes that count their end.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

// SAFETY: the memory is that of the vector, which is not changed.
unsafe impl Source for Counted {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_dropped_write_frees_its_buffer_once() {
    let _watched = watch("a_dropped_write_frees_its_buffer_once");
    let directory = scratch();
    for (name, proactor) in all_lazy() {
        let file = new_file(&directory.path().join("dropped"));
        let ended = Arc::new(AtomicUsize::new(0));
        for number in 0..500 {
            let bytes = Counted(vec![number as u8; 64], ended.clone());
            let mut write = proactor.submit(Write::new(file.clone(), bytes));
            drop(poll_once(&mut write));
        }
        assert!(wait_until(LIMIT, || ended.load(SeqCst) == 500), "{name}");
        // The descriptor is free again: nothing keeps a later operation waiting.
        let read = Read::new(file, Vec::with_capacity(1));
        block_on(proactor.submit(read)).0.unwrap();
    }
}

#[test]
fn a_write_that_cannot_be_attempted_needs_no_driver() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let directory = scratch();
    let file = new_file(&directory.path().join("direct"));
    let proactor = lazy();
    for block in 0..10 {
        let write = WriteAt::new(file.clone(), pattern(4096, block), block * 4096);
        assert_eq!(block_on(proactor.submit(write)).0.unwrap(), 4096);
    }
    let stats = proactor.stats();
    // The first one finds out. Where the file system has non-blocking writes, all are inline.
    assert!(
        stats.direct == stats.handed_over.saturating_sub(1),
        "{stats:?}"
    );
    assert_eq!(stats.inline + stats.handed_over, 10);
}

/// The rights of threads cost no call a thread of its own here.
fn lazy_process(helpers: u32) -> Proactor {
    let options = Options::new().backend(BackendKind::Lazy).helpers(helpers);
    Proactor::new(options.rights(Rights::Process)).expect("a proactor")
}

#[test]
fn a_call_by_name_needs_no_driver() {
    let directory = scratch();
    let proactor = lazy_process(8);
    for number in 0..10 {
        let name = cstring(directory.path().join(format!("new {number}")));
        block_on(proactor.submit(Mkdir::new(Name::new(name), 0o700))).unwrap();
    }
    let stats = proactor.stats();
    assert_eq!((stats.direct, stats.handed_over), (10, 10), "{stats:?}");
}

/// The thread that opens a file, which cannot be attempted because it may create the file, reads the
/// status and brings the beginning into memory.
#[test]
fn a_file_is_opened_examined_and_loaded_with_one_wait() {
    let directory = scratch();
    let path = directory.path().join("file");
    fs::write(&path, pattern(5_000, 1)).unwrap();
    for (name, proactor) in all_lazy() {
        for (bytes, loaded) in [(10, 10), (1 << 20, 5_000)] {
            let file = Name::new(cstring(&path));
            let open = OpenStat::new(file, libc::O_RDWR | libc::O_CREAT).load(bytes);
            let opened = block_on(proactor.submit(open)).expect("a file");
            let found = (opened.loaded(), opened.status().map(FileStatus::size));
            // Where the test injects failures, the driver's ring opens the file.
            let by_ring = ["lazy, attempts fail", "lazy, short transfers"].contains(&&*name);
            assert!(
                by_ring || found == (loaded, Some(5_000)),
                "{name}: {found:?}"
            );
            let file = OpenFile::from(opened.into_own_descriptor());
            let read = Read::new(file, Vec::with_capacity(6_000));
            let (count, bytes) = block_on(proactor.submit(read));
            assert!(
                count.unwrap() == 5_000 && bytes == pattern(5_000, 1),
                "{name}"
            );
        }
        let none = Name::new(cstring(directory.path().join("none/none")));
        let open = OpenStat::new(none, libc::O_RDWR | libc::O_CREAT).load(1);
        let error = block_on(proactor.submit(open)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{name}");
        // Its result is dropped.
        let file = Name::new(cstring(&path));
        let mut open = proactor.submit(OpenStat::new(file, libc::O_RDWR | libc::O_CREAT).load(1));
        let _ = poll_once(&mut open);
    }
}

/// A helper passes an `open` that waits for another process on to the driver: there it can be dropped, and
/// keeps no helper from another call.
#[test]
fn an_open_that_waits_occupies_no_helper() {
    let _watched = watch("an_open_that_waits_occupies_no_helper");
    let directory = scratch();
    let fifo = cstring(directory.path().join("fifo"));
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &*fifo, kind, mode, 0).unwrap();
    let proactor = lazy_process(1);
    let open = || Open::new(Name::new(fifo.clone()), libc::O_WRONLY);
    let mut opens: Vec<_> = (0..3).map(|_| proactor.submit(open())).collect();
    for open in &mut opens {
        assert!(poll_once(open).is_pending());
    }
    let name = cstring(directory.path().join("new"));
    block_on(proactor.submit(Mkdir::new(Name::new(name), 0o700))).unwrap();
    drop(opens.pop());
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let _reader = rustix::fs::open(&*fifo, flags, rustix::fs::Mode::empty()).unwrap();
    for open in opens {
        block_on(open).unwrap();
    }
    assert!(proactor.shut_down(LIMIT));
}

/// A thread ends with detached writes in flight, and the driver that it has started ends with it.
#[test]
fn a_finished_driver_makes_all_writes() {
    let _watched = watch("a_finished_driver_makes_all_writes");
    let directory = scratch();
    for round in 0..20 {
        let path = directory.path().join(format!("detached {round}"));
        let proactor = lazy();
        let file = new_file(&path);
        for number in 0..100 {
            let mut write = proactor.submit(Write::new(file.clone(), vec![number; 10]));
            let _ = poll_once(&mut write);
            if write.is_started() {
                write.detach();
            }
        }
        drop((proactor, file));
        let complete = || fs::metadata(&path).unwrap().len() == 1000;
        assert!(wait_until(LIMIT, complete));
        let expected: Vec<u8> = (0..100).flat_map(|number| [number; 10]).collect();
        assert!(fs::read(&path).unwrap() == expected);
    }
}

#[test]
fn a_function_returns_its_value() {
    let _watched = watch("a_function_returns_its_value");
    for (name, proactor) in all() {
        let caller = std::thread::current().id();
        let other = block_on(proactor.blocking(move |_| std::thread::current().id() != caller));
        assert_eq!(other, Ok(true), "{name}");
        let panicking = proactor.blocking(|_| panic!("on purpose"));
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(panicking)));
        let payload = caught.map(drop).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"), "{name}");
        assert_eq!(block_on(proactor.blocking(|_| 7)), Ok(7), "{name}");
    }
}

/// Functions that wait for each other all begin; calls are made meanwhile.
#[test]
fn functions_that_wait_hold_nothing_up() {
    let _watched = watch("functions_that_wait_hold_nothing_up");
    const FUNCTIONS: usize = 100;
    let directory = scratch();
    let file = new_file(&directory.path().join("meanwhile"));
    let proactor = lazy();
    let barrier = Arc::new(Barrier::new(FUNCTIONS + 1));
    let wait = |barrier: Arc<Barrier>| proactor.blocking(move |_| barrier.wait().is_leader());
    let mut functions: Vec<_> = (0..FUNCTIONS).map(|_| wait(barrier.clone())).collect();
    for function in &mut functions {
        assert!(poll_once(function).is_pending());
    }
    for block in 0..10 {
        let write = WriteAt::new(file.clone(), pattern(10, block), block * 10);
        assert_eq!(block_on(proactor.submit(write)).0.unwrap(), 10);
    }
    barrier.wait();
    for function in functions {
        block_on(function).unwrap();
    }
}

#[test]
fn a_dropped_function_is_stopped_or_not_begun() {
    let _watched = watch("a_dropped_function_is_stopped");
    let limits = Limits {
        waiting_helpers: 1,
        ..Limits::default()
    };
    let options = Options::new().backend(BackendKind::Lazy).limits(limits);
    let proactor = Proactor::new(options.rights(Rights::Settled)).unwrap();
    let (begun, begins) = mpsc::channel();
    let (stopped, stops) = mpsc::channel();
    let mut first = proactor.blocking(move |stop| {
        begun.send(()).unwrap();
        while !stop.is_requested() {
            std::thread::yield_now();
        }
        stopped.send(()).unwrap();
    });
    assert!(poll_once(&mut first).is_pending());
    begins.recv().unwrap();
    // This one waits for the only place. What it owns is dropped with its future.
    let owned = Arc::new(());
    let own = owned.clone();
    let mut second = proactor.blocking(move |_| panic!("begun with {own:?}"));
    assert!(poll_once(&mut second).is_pending());
    drop(second);
    assert_eq!(Arc::strong_count(&owned), 1);
    drop(first);
    stops.recv().unwrap();
    assert_eq!(block_on(proactor.blocking(|_| 1)), Ok(1));
}

#[test]
fn a_shutdown_waits_for_functions_and_begins_none() {
    let _watched = watch("a_shutdown_waits_for_functions");
    let limits = Limits {
        waiting_helpers: 1,
        ..Limits::default()
    };
    let options = Options::new().backend(BackendKind::Lazy).limits(limits);
    let proactor = Proactor::new(options.rights(Rights::Settled)).unwrap();
    let (begun, begins) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let mut first = proactor.blocking(move |_| {
        begun.send(()).unwrap();
        gone.recv().is_err()
    });
    let mut second = proactor.blocking(|_| ());
    assert!(poll_once(&mut first).is_pending());
    begins.recv().unwrap();
    // The first one has the only place.
    assert!(poll_once(&mut second).is_pending());
    assert!(!proactor.shut_down(Duration::ZERO));
    assert_eq!(block_on(second), Err(Errno::CANCELED));
    assert_eq!(block_on(proactor.blocking(|_| ())), Err(Errno::CANCELED));
    drop(go);
    assert_eq!(block_on(first), Ok(true));
    assert!(proactor.shut_down(LIMIT));
}

/// A function has the rights of the thread that polled its future.
#[test]
fn a_function_has_the_rights_of_its_thread() {
    use laio_testing::{child, skip, test_name};
    if !rustix::process::geteuid().is_root() {
        return skip("root", "gives up the rights of root");
    }
    child::check(LIMIT, test_name!(), "", || {
        let proactor = Proactor::new(Options::new()).unwrap();
        let secret = file_with(scratch().path().parent().unwrap(), b"secret");
        let path = secret.path().to_owned();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let read = |path: std::path::PathBuf| {
            block_on(proactor.blocking(move |_| fs::read(path))).unwrap()
        };
        assert_eq!(read(path.clone()).unwrap(), b"secret");
        let lesser = || {
            // SAFETY: takes no pointers; only this thread changes.
            unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            let refused = read(path.clone()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        };
        std::thread::scope(|scope| scope.spawn(lesser).join().unwrap());
        assert_eq!(read(path.clone()).unwrap(), b"secret");
    });
}
