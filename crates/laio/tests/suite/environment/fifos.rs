//! Opening FIFOs and leased files waits for other processes, but never on the caller's thread.

use super::support::{Rescue, assert_works, result_of};
use crate::harness::{
    Arg, Mode, at_mut, call, cstring, finish, for_each_pending, has_no_reader, own, plain, start,
    wait_for,
};
use laio::{Context, Errno, Outcome};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use tempfile::TempDir;

/// A FIFO in a directory of its own.
struct Fifo {
    _directory: TempDir,
    path: PathBuf,
    name: CString,
}

impl Fifo {
    fn new() -> Fifo {
        let directory = laio_testing::temp::scratch();
        let path = directory.path().join("fifo");
        let name = cstring(&path);
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        Fifo {
            _directory: directory,
            path,
            name,
        }
    }

    /// Opens both ends at once, which never waits.
    fn both(&self) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.path)
            .expect("both ends")
    }

    fn args(&self, flags: i32) -> [usize; 3] {
        [libc::AT_FDCWD.arg(), self.name.arg(), flags.arg()]
    }

    /// Opens both ends if the test takes too long.
    fn rescue(&self) -> Rescue {
        let path = self.path.clone();
        Rescue::new(move || {
            let both = OpenOptions::new().read(true).write(true).open(path);
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(both);
        })
    }

    fn open(&self, context: &mut Context, flags: i32) -> Outcome {
        let rescue = self.rescue();
        let outcome = start(context, libc::SYS_openat, self.args(flags));
        rescue.was_not_needed();
        outcome
    }
}

fn read_all(context: &mut Context, fd: &OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0u8; 16];
        let read =
            call(context, libc::SYS_read, [fd.arg(), at_mut(&mut buffer), 16]).expect("read");
        if read == 0 {
            return bytes;
        }
        bytes.extend_from_slice(&buffer[..read]);
    }
}

fn is_blocking(fd: &impl AsRawFd) -> bool {
    let flags = plain(libc::SYS_fcntl, [fd.as_raw_fd().arg(), libc::F_GETFL.arg()]).expect("flags");
    flags & libc::O_NONBLOCK as usize == 0
}

/// Opens one end without a peer, and asserts that the open stays in flight.
#[track_caller]
fn stays_open(context: &mut Context, outcome: Outcome) -> laio::Handle {
    let Outcome::Pending(handle) = outcome else {
        panic!("opened without a peer: {outcome:?}");
    };
    let mut completions = Vec::new();
    for _ in 0..3 {
        let wait = std::time::Duration::from_millis(2);
        context.poll(&mut completions, Some(wait)).expect("poll");
    }
    assert_eq!(completions, [], "opened without a peer");
    handle
}

#[test]
fn the_reading_end_waits_for_a_writer() {
    for_each_pending(|way| {
        let fifo = Fifo::new();
        let mut context = way.context();
        let outcome = fifo.open(&mut context, libc::O_RDONLY | libc::O_CLOEXEC);
        let handle = stays_open(&mut context, outcome);
        assert_works(&mut context);
        let path = fifo.path.clone();
        let (met, wait) = channel::<()>();
        let writer = std::thread::spawn(move || {
            let mut fifo = OpenOptions::new().write(true).open(path).expect("a FIFO");
            fifo.write_all(b"hello").expect("written");
            // Stays open until the peer has it too: the kernel sometimes misses a peer that closes before.
            let _ = wait.recv();
        });
        let fd = own(result_of(&mut context, handle));
        drop(met);
        assert!(is_blocking(&fd));
        assert_eq!(read_all(&mut context, &fd), b"hello");
        writer.join().expect("the writer");
    });
}

#[test]
fn the_writing_end_waits_for_a_reader() {
    for_each_pending(|way| {
        let fifo = Fifo::new();
        let mut context = way.context();
        let outcome = fifo.open(&mut context, libc::O_WRONLY | libc::O_CLOEXEC);
        let handle = stays_open(&mut context, outcome);
        assert_works(&mut context);
        let path = fifo.path.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            File::open(path)
                .expect("a FIFO")
                .read_to_end(&mut bytes)
                .expect("read");
            bytes
        });
        let fd = own(result_of(&mut context, handle));
        assert!(is_blocking(&fd));
        let args = [fd.arg(), c"hello".arg(), 5];
        assert_eq!(call(&mut context, libc::SYS_write, args), Ok(5));
        assert_eq!(call(&mut context, libc::SYS_close, [fd.arg()]), Ok(0));
        std::mem::forget(fd);
        assert_eq!(reader.join().expect("the reader"), b"hello");
    });
}

#[test]
fn with_a_peer_both_ends_open() {
    for_each_pending(|way| {
        let fifo = Fifo::new();
        let both = fifo.both();
        let mut context = way.context();
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
            let outcome = fifo.open(&mut context, flags | libc::O_CLOEXEC);
            let fd = own(finish(&mut context, outcome));
            assert!(is_blocking(&fd));
        }
        drop(both);
    });
}

#[test]
fn in_non_blocking_mode_nothing_waits() {
    for_each_pending(|way| {
        let fifo = Fifo::new();
        let mut context = way.context();
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let writing = call(
            &mut context,
            libc::SYS_openat,
            fifo.args(libc::O_WRONLY | flags),
        );
        assert_eq!(writing, Err(Errno::NXIO));
        let reading = call(
            &mut context,
            libc::SYS_openat,
            fifo.args(libc::O_RDONLY | flags),
        );
        let reading = own(reading);
        assert!(!is_blocking(&reading));
        let writing = own(call(
            &mut context,
            libc::SYS_openat,
            fifo.args(libc::O_WRONLY | flags),
        ));
        assert!(!is_blocking(&writing));
    });
}

/// A writer that waits in `open`, then writes and closes at once: the reader that completed its open gets all bytes.
#[test]
fn a_waiting_writer_loses_no_byte() {
    for_each_pending(|way| {
        let rounds = if way.mode == Mode::Natural { 20 } else { 2 };
        for _ in 0..rounds {
            let fifo = Fifo::new();
            let mut context = way.context();
            let path = fifo.path.clone();
            let (waits, waiting) = channel();
            let writer = std::thread::spawn(move || {
                // SAFETY: gettid takes no arguments.
                waits.send(unsafe { libc::gettid() }).expect("a test");
                let mut fifo = OpenOptions::new().write(true).open(path).expect("a FIFO");
                fifo.write_all(b"hello").expect("written");
            });
            wait_until_asleep(waiting.recv().expect("a writer"));
            let outcome = fifo.open(&mut context, libc::O_RDONLY | libc::O_CLOEXEC);
            let fd = own(finish(&mut context, outcome));
            assert_eq!(read_all(&mut context, &fd), b"hello");
            writer.join().expect("the writer");
        }
    });
}

/// A reader that waits in `open` gets the bytes that are written afterwards.
#[test]
fn a_waiting_reader_gets_all_bytes() {
    for_each_pending(|way| {
        let fifo = Fifo::new();
        let mut context = way.context();
        let path = fifo.path.clone();
        let (waits, waiting) = channel();
        let reader = std::thread::spawn(move || {
            // SAFETY: gettid takes no arguments.
            waits.send(unsafe { libc::gettid() }).expect("a test");
            let mut bytes = Vec::new();
            let mut fifo = File::open(path).expect("a FIFO");
            fifo.read_to_end(&mut bytes).expect("read");
            bytes
        });
        wait_until_asleep(waiting.recv().expect("a reader"));
        let outcome = fifo.open(&mut context, libc::O_WRONLY | libc::O_CLOEXEC);
        let fd = own(finish(&mut context, outcome));
        let args = [fd.arg(), c"hello".arg(), 5];
        assert_eq!(call(&mut context, libc::SYS_write, args), Ok(5));
        drop(fd);
        assert_eq!(reader.join().expect("the reader"), b"hello");
    });
}

/// Waits until a thread of this process sleeps in the kernel.
fn wait_until_asleep(thread: i32) {
    let path = format!("/proc/self/task/{thread}/syscall");
    // openat and open of x86-64, and openat of aarch64: in an emulator, the kernel shows the numbers of its own processor.
    let calls = ["257 ", "2 ", "56 "];
    let in_open = |text: String| calls.iter().any(|call| text.starts_with(call));
    let asleep = || std::fs::read_to_string(&path).is_ok_and(in_open);
    assert!(
        laio_testing::limit::wait_until(crate::harness::LIMIT, asleep),
        "the peer is not in open"
    );
}

#[test]
fn a_waiting_open_is_cancelled() {
    for_each_pending(|way| {
        for flags in [libc::O_RDONLY, libc::O_WRONLY] {
            let fifo = Fifo::new();
            let mut context = way.context();
            let outcome = fifo.open(&mut context, flags | libc::O_CLOEXEC);
            let handle = stays_open(&mut context, outcome);
            assert_eq!(context.cancel(handle), Ok(()));
            let result = wait_for(&mut context, handle).result;
            assert_eq!(result, Err(Errno::CANCELED));
            assert!(
                has_no_reader(libc::AT_FDCWD.arg(), &fifo.name),
                "the cancelled open has left a reader"
            );
        }
    });
}

#[test]
fn a_leased_file_waits_for_its_holder() {
    for_each_pending(|way| {
        let directory = laio_testing::temp::scratch();
        let path = directory.path().join("leased");
        std::fs::write(&path, b"leased").expect("a file");
        // The holder ignores the signal that announces a lease break: it checks the lease itself.
        let holder = File::open(&path).expect("a file");
        let take = [holder.arg(), libc::F_SETLEASE.arg(), libc::F_RDLCK.arg()];
        // SAFETY: ignoring a signal.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        // EAGAIN: a program that another test starts has inherited the descriptor that wrote the
        // file, until it executes.
        let mut taken = Err(Errno::AGAIN);
        laio_testing::limit::wait_until(crate::harness::LIMIT, || {
            taken = plain(libc::SYS_fcntl, take);
            taken != Err(Errno::AGAIN)
        });
        if let Err(errno) = taken {
            return laio_testing::skip("leases", format!("no lease on a file: {errno}"));
        }
        let give_back = move || {
            let args = [holder.arg(), libc::F_SETLEASE.arg(), libc::F_UNLCK.arg()];
            plain(libc::SYS_fcntl, args).expect("the lease given back");
        };
        let mut context = way.context();
        let name = cstring(&path);
        let args = [libc::AT_FDCWD.arg(), name.arg(), libc::O_WRONLY.arg()];
        let Outcome::Pending(handle) = start(&mut context, libc::SYS_openat, args) else {
            panic!("opened under a lease");
        };
        assert_works(&mut context);
        give_back();
        drop(own(result_of(&mut context, handle)));
        // An open for reading does not break a read lease.
        let reading = [libc::AT_FDCWD.arg(), name.arg(), libc::O_RDONLY.arg()];
        drop(own(call(&mut context, libc::SYS_openat, reading)));
    });
}
