//! Rule 5: closing a descriptor in use, and closing undelivered descriptors.

use super::parked::FRESH;
use crate::harness::*;
use laio::ops::Accept;
use laio::{Completion, Context, Errno, Handle, Outcome, PollOptions};
use laio_testing::temp::{fill, pipe, stream_pair};
use laio_testing::{child, process, test_name};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

const CHILD_LIMIT: Duration = Duration::from_secs(360);

/// Whether two descriptors refer to one file. The number alone does not prove it, because another test may have it now.
fn is_open(fd: i32, inode: u64) -> bool {
    let path = format!("/proc/self/fd/{fd}");
    std::fs::metadata(path).is_ok_and(|found| inode_of(&found) == inode)
}

fn inode_of(found: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

fn inode(fd: &OwnedFd) -> u64 {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    inode_of(&std::fs::metadata(path).expect("open"))
}

/// Asserts that all operations were cancelled, and completed before the close.
#[track_caller]
fn cancelled_then_closed(completions: &[Completion], last: Option<Handle>) {
    for completion in completions {
        if Some(completion.handle) == last {
            assert_eq!(completion.result.map(|_| ()), Ok(()), "the close");
        } else {
            assert_eq!(completion.result, Err(Errno::CANCELED));
        }
    }
    if let Some(last) = last {
        assert_eq!(completions.last().map(|one| one.handle), Some(last));
    }
}

/// Operations in both directions of a socket: two reads, two writes.
fn busy_socket(context: &mut Context, buffers: &mut [[u8; 8]; 2]) -> (OwnedFd, OwnedFd, u64) {
    let (ours, theirs) = stream_pair();
    fill(&ours);
    for buffer in buffers {
        let _read = pending(context, libc::SYS_read, [ours.arg(), at_mut(buffer), 8]);
        let write = [ours.arg(), b"static".as_ptr() as usize, 6];
        let _write = pending(context, libc::SYS_write, write);
    }
    let inode = inode(&ours);
    (ours, theirs, inode)
}

fn closes(context: &mut Context, others: usize, outcome: Outcome) {
    let last = match outcome {
        Outcome::Pending(handle) => Some(handle),
        Outcome::Done(result) => {
            result.expect("closed");
            None
        }
    };
    let count = others + usize::from(last.is_some());
    let completions = collect(context, count);
    cancelled_then_closed(&completions, last);
    assert_eq!(context.pending(), 0);
}

#[test]
fn close_cancels_first_and_completes_last() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 2];
        let (ours, theirs, inode) = busy_socket(&mut context, &mut buffers);
        let fd = ours.into_raw_fd();
        let outcome = start(&mut context, libc::SYS_close, [fd as usize]);
        closes(&mut context, 4, outcome);
        assert!(!is_open(fd, inode), "closed");
        let sent = laio_testing::temp::drain(&theirs);
        assert!(!sent.ends_with(b"static"));
        assert_eq!(buffers, [[FRESH; 8]; 2]);
    });
}

#[test]
fn calls_after_a_close_find_it_closed() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, _to) = pipe();
        let mut buffer = [FRESH; 8];
        let number = process::high_descriptor(9_000);
        let fd = plain(
            libc::SYS_fcntl,
            [from.arg(), libc::F_DUPFD_CLOEXEC as usize, number],
        );
        let fd = fd.expect("a descriptor");
        let read = [fd, at_mut(&mut buffer), 8];
        let first = pending(&mut context, libc::SYS_read, read);
        let close = start(&mut context, libc::SYS_close, [fd]);
        let after = start(&mut context, libc::SYS_read, read);
        let mut wanted = vec![(first, Err(Errno::CANCELED))];
        for (outcome, result) in [(close, Ok(0)), (after, Err(Errno::BADF))] {
            match outcome {
                Outcome::Done(done) => assert_eq!(done, result),
                Outcome::Pending(handle) => wanted.push((handle, result)),
            }
        }
        let completions = collect(&mut context, wanted.len());
        let found: Vec<_> = completions
            .iter()
            .map(|one| (one.handle, one.result))
            .collect();
        assert_eq!(found, wanted);
    });
}

#[test]
fn dup_onto_a_busy_descriptor() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 2];
        let (ours, _theirs, inode) = busy_socket(&mut context, &mut buffers);
        let (from, to) = pipe();
        let args = [from.arg(), ours.arg(), libc::O_CLOEXEC as usize];
        let outcome = start(&mut context, libc::SYS_dup3, args);
        closes(&mut context, 4, outcome);
        assert!(!is_open(ours.as_raw_fd(), inode), "replaced");
        rustix::io::write(&to, b"new").expect("written");
        let mut buffer = [0; 8];
        let read = [ours.arg(), at_mut(&mut buffer), 8];
        assert_eq!(call(&mut context, libc::SYS_read, read), Ok(3));
        assert_eq!(&buffer[..3], b"new");
    });
}

#[test]
fn a_range_of_busy_descriptors() {
    child::check(CHILD_LIMIT, test_name!(), "", || {
        for_each_pending(|way| {
            let mut context = way.context();
            let mut fds = Vec::new();
            let mut buffers = [[[FRESH; 8]; 2]; 4];
            let mut theirs = Vec::new();
            for (place, buffers) in (800..).step_by(3).zip(&mut buffers) {
                let (ours, other) = stream_pair();
                let fd = plain(
                    libc::SYS_dup3,
                    [ours.arg(), place, libc::O_CLOEXEC as usize],
                );
                fds.push(own(fd));
                theirs.push(other);
                fill(&ours);
                for buffer in buffers {
                    let _read = pending(&mut context, libc::SYS_read, [place, at_mut(buffer), 8]);
                    let write = [place, b"static".as_ptr() as usize, 6];
                    let _write = pending(&mut context, libc::SYS_write, write);
                }
            }
            let fds: Vec<i32> = fds.into_iter().map(IntoRawFd::into_raw_fd).collect();
            let outcome = start(&mut context, libc::SYS_close_range, [800, 899, 0]);
            closes(&mut context, 16, outcome);
            for fd in process::open_fds() {
                assert!(!fds.contains(&fd), "{fd} is still open");
            }
        });
    });
}

#[test]
fn a_close_is_not_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, _to) = pipe();
        let inode = inode(&from);
        let mut buffer = [FRESH; 8];
        let _read = pending(
            &mut context,
            libc::SYS_read,
            [from.arg(), at_mut(&mut buffer), 8],
        );
        let fd = from.into_raw_fd();
        let outcome = start(&mut context, libc::SYS_close, [fd as usize]);
        if let Outcome::Pending(handle) = outcome {
            let _ = context.cancel(handle);
        }
        closes(&mut context, 1, outcome);
        assert!(!is_open(fd, inode));
    });
}

fn connected(count: usize) -> (Rc<TcpListener>, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let clients = (0..count).map(|_| TcpStream::connect(address).expect("a connection"));
    (Rc::new(listener), clients.collect())
}

#[test]
fn descriptors_of_cancelled_calls_are_closed() {
    child::check(CHILD_LIMIT, test_name!(), "", || {
        let file = laio_testing::temp::scratch();
        let path = cstring(file.path());
        for_each_pending(|way| {
            let before = process::open_fds();
            let mut context = way.context();
            let args = [libc::AT_FDCWD as usize, path.arg(), 0, 0];
            for round in 0..60u32 {
                let (listener, clients) = connected(1);
                let accept = [listener.as_raw_fd() as usize, 0, 0, 0];
                let outcomes = [
                    start(&mut context, libc::SYS_accept4, accept),
                    start(&mut context, libc::SYS_openat, args),
                    start(&mut context, libc::SYS_openat, args),
                ];
                if round % 3 == 0 {
                    context.flush().expect("flush");
                }
                for _ in 0..round * 40 {
                    std::hint::spin_loop();
                }
                let mut in_flight = 0;
                for outcome in outcomes {
                    match outcome {
                        Outcome::Done(result) => drop(own(result)),
                        Outcome::Pending(handle) => {
                            in_flight += 1;
                            let _ = context.cancel(handle);
                        }
                    }
                }
                for completion in collect(&mut context, in_flight) {
                    match completion.result {
                        Ok(_) => drop(own(completion.result)),
                        Err(errno) => assert_eq!(errno, Errno::CANCELED),
                    }
                }
                drop((listener, clients));
            }
            // Includes the context's own descriptors; it may have more by now, because carriers have some.
            drop(context);
            assert_eq!(process::open_fds(), before);
        });
    });
}

/// A cancelled `accept` that has been woken may still take the connection from the kernel's queue: the context must
/// not close it.
#[test]
fn a_cancelled_accept_loses_no_connection() {
    for_each_pending(|way| {
        let mut context = way.context();
        for wait in [false, true] {
            let (listener, _) = connected(0);
            let address = listener.local_addr().expect("its address");
            let Outcome::Pending(ticket) = context.submit(Accept::new(listener.clone())) else {
                panic!("accepted without a client");
            };
            context.flush().expect("flush");
            let mut client = TcpStream::connect(address).expect("a connection");
            if wait {
                // Gives helpers the time to reach `accept`.
                std::thread::yield_now();
            }
            let _ = context.cancel(ticket.handle());
            collect(&mut context, 1);
            let mut server = match context.take(ticket).expect("delivered") {
                Ok((socket, _)) => TcpStream::from(socket),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
                    listener.accept().expect("it is in the queue still").0
                }
            };
            server.write_all(b"a").expect("the client is there");
            client.read_exact(&mut [0]).expect("it was not cut off");
        }
    });
}

#[test]
fn undelivered_descriptors_are_closed() {
    child::check(CHILD_LIMIT, test_name!(), "", || {
        for_each_pending(|way| {
            let before = process::fd_count();
            for deliver in [false, true] {
                let (listener, clients) = connected(3);
                let mut context = way.context();
                let mut tickets = Vec::new();
                let mut done = Vec::new();
                for _ in 0..4 {
                    match context.submit(Accept::new(listener.clone())) {
                        Outcome::Pending(ticket) => tickets.push(ticket),
                        Outcome::Done(output) => done.push(output.expect("a connection")),
                    }
                }
                let wanted = if deliver { 1 } else { 0 };
                let mut delivered = 0;
                while delivered < wanted {
                    let count = context.poll_with(
                        PollOptions {
                            timeout: Some(LIMIT),
                            most: 1,
                            ..PollOptions::default()
                        },
                        |_| (),
                    );
                    delivered += count.expect("poll");
                }
                std::thread::sleep(Duration::from_millis(1));
                // Some are undelivered or not taken; one is abandoned.
                if let Some(ticket) = tickets.pop() {
                    context.abandon(ticket);
                }
                drop(context);
                drop((tickets, done, listener, clients));
            }
            assert_eq!(process::fd_count(), before);
        });
    });
}
