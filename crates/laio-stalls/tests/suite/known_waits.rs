//! Waits that are known are attributed to their call and file, with perf and without.

use crate::loops::{LoopThread, watch};
use laio_stalls::Cause;
use laio_testing::fault_fs::{Fault, FaultFs, Kind, Released};
use laio_testing::or_skip;
use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Makes one known wait, with perf and without, and checks the report.
fn known<W: FnOnce() + Send + 'static, R: FnOnce()>(
    name: &str,
    (cause, calls, subject): (Cause, &[&str], &str),
    mut make: impl FnMut() -> (W, R),
) {
    for with_perf in [false, true] {
        let thread = LoopThread::start(&format!("{name}-{}", u8::from(with_perf)));
        let mut watch = watch(with_perf);
        let (wait, release) = make();
        thread.wait(&mut watch, wait, release);
        thread.check(&watch.finish(), cause, calls, subject);
    }
}

#[test]
fn a_read_of_a_pipe() {
    known("pipe", (Cause::Call, &["read"], "a pipe"), || {
        let (mut reader, mut writer) = pipe().unwrap();
        let wait = move || reader.read_exact(&mut [0]).unwrap();
        (wait, move || writer.write_all(b"x").unwrap())
    });
}

#[test]
fn a_receive_from_a_socket() {
    known(
        "socket",
        (Cause::Call, &["recvfrom", "read"], "a socket"),
        || {
            let (mut near, mut far) = UnixStream::pair().unwrap();
            let wait = move || near.read_exact(&mut [0]).unwrap();
            (wait, move || far.write_all(b"x").unwrap())
        },
    );
}

#[test]
fn an_open_of_a_fifo() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let subject = path.to_str().unwrap();
    known("fifo", (Cause::Call, &["openat", "open"], subject), || {
        let (reader, writer) = (path.clone(), path.clone());
        let wait = move || drop(File::open(reader).unwrap());
        (wait, move || drop(File::create(writer).unwrap()))
    });
}

#[test]
fn a_lock_of_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let subject = file.path().to_str().unwrap();
    known("flock", (Cause::Call, &["flock"], subject), || {
        let (held, wanted) = (file.reopen().unwrap(), file.reopen().unwrap());
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let wait = move || flock(&wanted, FlockOperation::LockExclusive).unwrap();
        (wait, move || drop(held))
    });
}

#[test]
fn a_mutex() {
    known("mutex", (Cause::Futex, &["futex"], ""), || {
        let mutex = Arc::new(Mutex::new(()));
        let held = Box::leak(Box::new(mutex.clone())).lock().unwrap();
        let wait = move || drop(mutex.lock().unwrap());
        (wait, move || drop(held))
    });
}

#[test]
fn a_sleep() {
    known(
        "sleep",
        (Cause::Call, &["clock_nanosleep", "nanosleep"], ""),
        || {
            // One that ends before the test has seen it is followed by another.
            let is_over = Arc::new(AtomicBool::new(false));
            let ends = is_over.clone();
            let wait = move || {
                while !is_over.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(400));
                }
            };
            (wait, move || ends.store(true, SeqCst))
        },
    );
}

#[test]
fn a_wait_for_a_child() {
    known(
        "child",
        (Cause::Call, &["wait4", "waitid"], "child cat"),
        || {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
            let input = child.stdin.take();
            (
                move || assert!(child.wait().unwrap().success()),
                move || drop(input),
            )
        },
    );
}

#[test]
fn a_poll_of_one_descriptor() {
    known("poll", (Cause::Call, &["poll", "ppoll"], "a pipe"), || {
        let (reader, mut writer) = pipe().unwrap();
        let wait = move || {
            let mut polled = [rustix::event::PollFd::new(
                &reader,
                rustix::event::PollFlags::IN,
            )];
            assert_eq!(rustix::event::poll(&mut polled, None), Ok(1));
        };
        (wait, move || writer.write_all(b"x").unwrap())
    });
}

#[test]
fn a_connect_to_a_busy_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("busy");
    let subject = path.to_str().unwrap();
    let mut round = 0;
    known("connect", (Cause::Call, &["connect"], subject), || {
        round += 1;
        let address = SocketAddrUnix::new(path.with_extension(round.to_string())).unwrap();
        let stream = || socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let listener = stream();
        bind(&listener, &address).unwrap();
        listen(&listener, 0).unwrap();
        let first = stream();
        connect(&first, &address).unwrap();
        let second = stream();
        let wait = move || connect(&second, &address).unwrap();
        let release = move || {
            drop(rustix::net::accept(&listener).unwrap());
            drop(rustix::net::accept(&listener).unwrap());
            drop(first);
        };
        (wait, release)
    });
}

/// Makes a wait for a file server that does not answer. `prepare` returns the call, which is the first one
/// that asks the server for `kind`.
fn remote<W: FnOnce() + Send + 'static>(
    name: &str,
    kind: Kind,
    calls: &[&str],
    prepare: fn(PathBuf) -> W,
) {
    let Some(fs) = or_skip(FaultFs::mount()) else {
        return;
    };
    fs.add_file("remote", &[7; 8192]);
    let path = fs.join("remote");
    known(name, (Cause::Call, calls, path.to_str().unwrap()), || {
        let wait = prepare(path.clone());
        fs.set_at("remote", kind, Fault::Hang);
        let release = || {
            fs.clear_all();
            fs.release(Released::Served);
        };
        (wait, release)
    });
}

#[test]
fn an_open_of_a_remote_file() {
    remote("fuse-open", Kind::Open, &["openat", "open"], |path| {
        move || drop(File::open(path).unwrap())
    });
}

#[test]
fn a_read_of_a_remote_file() {
    remote("fuse-read", Kind::Read, &["read", "pread64"], |path| {
        let mut file = File::open(path).unwrap();
        move || file.read_exact(&mut [0; 100]).unwrap()
    });
}

#[test]
fn a_stat_of_a_remote_file() {
    remote(
        "fuse-stat",
        Kind::Getattr,
        &["statx", "newfstatat", "stat"],
        |path| move || assert!(std::fs::metadata(path).unwrap().is_file()),
    );
}

#[test]
fn an_fsync_of_a_remote_file() {
    remote("fuse-fsync", Kind::Fsync, &["fsync"], |path| {
        let file = File::options().write(true).open(path).unwrap();
        move || file.sync_all().unwrap()
    });
}

#[test]
fn a_page_fault_of_a_mapped_file() {
    let Some(fs) = or_skip(FaultFs::options().cached(true).mount()) else {
        return;
    };
    let subject = fs.path().to_str().unwrap();
    let mut round = 0;
    known(
        "fault",
        (Cause::PageFault, &["page fault"], subject),
        || {
            round += 1;
            let name = format!("mapped{round}");
            fs.add_file(&name, &[7; 8192]);
            let file = File::open(fs.join(&name)).unwrap();
            fs.set_at(&name, Kind::Read, Fault::Hang);
            let wait = move || assert_eq!(laio_testing::mapped::first_byte(&file).unwrap(), 7);
            let release = || {
                fs.clear_all();
                fs.release(Released::Served);
            };
            (wait, release)
        },
    );
}
