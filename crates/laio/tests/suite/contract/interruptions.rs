//! Rule 6, `EINTR` does not surface: another thread keeps sending signals to the caller, whose handler does not
//! restart calls.

use crate::harness::{
    Arg, LIMIT, Way, at, at_mut, call, collect, for_each, for_each_pending, iovec, later, own,
    pending_read, plain, tcp_address, timespec, zeroed,
};
use laio::{Context, Errno};
use laio_testing::temp::{datagram_pair, fill, pattern, pipe, scratch, stream_pair};
use laio_testing::{Bombardment, child, limit, test_name};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Runs the body in a process of its own, for every way, while signals arrive.
fn under_signals(test: &'static str, body: impl Fn(&Way, &mut Context)) {
    child::check(LIMIT * 6, test, "", || {
        for_each(|way| {
            let _fire = Bombardment::begin(libc::SIGUSR1);
            let mut context = way.context();
            body(way, &mut context);
        });
    });
}

#[test]
fn streams_are_not_interrupted() {
    under_signals(test_name!(), |way, context| {
        let size = if way.is_short() { 600 } else { 400_000 };
        let bytes = pattern(size, 1);
        for socket in [false, true] {
            let (reader, writer) = if socket {
                let (a, b) = stream_pair();
                (b, a)
            } else {
                pipe()
            };
            let filled = fill(&writer);
            let wanted = filled + size;
            let peer = later(move || {
                let mut file = std::fs::File::from(reader);
                let mut all = vec![0; wanted];
                for piece in all.chunks_mut(100_000) {
                    std::thread::sleep(Duration::from_millis(2));
                    file.read_exact(piece).unwrap();
                }
                all
            });
            let vector = [iovec(&bytes[..11]), iovec(&bytes[11..])];
            let written = if socket {
                call(
                    context,
                    libc::SYS_sendto,
                    [writer.arg(), at(&bytes[..]), size, 0, 0, 0],
                )
            } else {
                call(context, libc::SYS_writev, [writer.arg(), at(&vector), 2])
            };
            assert_eq!(written, Ok(size));
            assert!(peer.join().unwrap()[filled..] == bytes);
        }
        let (a, b) = stream_pair();
        let peer = later(move || {
            for piece in [&b"abc"[..], b"de", b"fghij"] {
                rustix::io::write(&a, piece).unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            a
        });
        let mut buffer = [0u8; 10];
        let args = [
            b.arg(),
            at_mut(&mut buffer),
            10,
            libc::MSG_WAITALL as usize,
            0,
            0,
        ];
        assert_eq!(call(context, libc::SYS_recvfrom, args), Ok(10));
        assert_eq!(&buffer, b"abcdefghij");
        let a = peer.join().unwrap();
        for number in [libc::SYS_read, libc::SYS_recvfrom] {
            let copy = rustix::io::dup(&a).unwrap();
            let peer = later(move || rustix::io::write(&copy, b"xyz").unwrap());
            assert_eq!(
                call(context, number, [b.arg(), at_mut(&mut buffer), 3, 0, 0, 0]),
                Ok(3)
            );
            peer.join().unwrap();
        }
    });
}

#[test]
fn connections_are_not_interrupted() {
    under_signals(test_name!(), |_, context| {
        let listener = crate::harness::lonely_listener();
        let address = tcp_address(&listener);
        for _ in 0..5 {
            let stream = libc::SOCK_STREAM as usize;
            let client = own(plain(libc::SYS_socket, [libc::AF_INET as usize, stream, 0]));
            let args = [client.arg(), at(&address), size_of_val(&address)];
            assert_eq!(call(context, libc::SYS_connect, args), Ok(0));
            let server = own(call(
                context,
                libc::SYS_accept4,
                [listener.as_raw_fd().arg(), 0, 0, 0],
            ));
            let _ = rustix::io::write(&client, b"x");
            let mut byte = [0u8];
            assert_eq!(
                call(
                    context,
                    libc::SYS_read,
                    [server.arg(), at_mut(&mut byte), 1]
                ),
                Ok(1)
            );
        }
        let there = listener.local_addr().unwrap();
        let peer = later(move || std::net::TcpStream::connect(there).unwrap());
        drop(own(call(
            context,
            libc::SYS_accept4,
            [listener.as_raw_fd().arg(), 0, 0, 0],
        )));
        drop(peer.join().unwrap());
        drop(listener);
        let client = own(plain(
            libc::SYS_socket,
            [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0],
        ));
        let refused = call(
            context,
            libc::SYS_connect,
            [client.arg(), at(&address), size_of_val(&address)],
        );
        assert_eq!(refused, Err(Errno::CONNREFUSED));
    });
}

/// A timed wait takes as long as requested: it ends neither early nor never.
#[test]
fn timed_waits_last_as_requested() {
    under_signals(test_name!(), |_, context| {
        let wait = Duration::from_millis(12);
        let mut time = timespec(0, 12_000_000);
        let (reader, _writer) = pipe();
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let epoll = own(plain(libc::SYS_epoll_create1, [0]));
        let mut events = [0u64; 4];
        let word = std::sync::atomic::AtomicU32::new(1);
        let futex = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let set = plain(libc::SYS_semget, [libc::IPC_PRIVATE as usize, 1, 0o600]).unwrap();
        let down = libc::sembuf {
            sem_num: 0,
            sem_op: -1,
            sem_flg: 0,
        };
        let timed_out = Err(Errno::TIMEDOUT);
        type Wait = (&'static str, libc::c_long, [usize; 6], Result<usize, Errno>);
        #[rustfmt::skip]
        let calls: &[Wait] = &[
            ("nanosleep", libc::SYS_nanosleep, [at(&time), 0, 0, 0, 0, 0], Ok(0)),
            (
                "clock_nanosleep",
                libc::SYS_clock_nanosleep,
                [libc::CLOCK_MONOTONIC as usize, 0, at(&time), 0, 0, 0],
                Ok(0),
            ),
            (
                "of another clock",
                libc::SYS_clock_nanosleep,
                [libc::CLOCK_TAI as usize, 0, at(&time), 0, 0, 0],
                Ok(0),
            ),
            ("ppoll", libc::SYS_ppoll, [at_mut(&mut poll), 1, at(&time), 0, 8, 0], Ok(0)),
            ("epoll_pwait", libc::SYS_epoll_pwait, [epoll.arg(), at_mut(&mut events), 1, 12, 0, 8], Ok(0)),
            (
                "epoll_pwait2",
                libc::SYS_epoll_pwait2,
                [epoll.arg(), at_mut(&mut events), 1, at(&time), 0, 8],
                Ok(0),
            ),
            ("pselect6", libc::SYS_pselect6, [0, 0, 0, 0, at_mut(&mut time), 0], Ok(0)),
            ("futex", libc::SYS_futex, [at(&word), futex, 1, at(&time), 0, 0], timed_out),
            ("semtimedop", libc::SYS_semtimedop, [set, at(&down), 1, at(&time), 0, 0], Err(Errno::AGAIN)),
            #[cfg(target_arch = "x86_64")]
            ("poll", libc::SYS_poll, [at_mut(&mut poll), 1, 12, 0, 0, 0], Ok(0)),
        ];
        for &(what, number, args, expected) in calls {
            // Before Linux 5.11.
            if number == libc::SYS_epoll_pwait2 && plain(number, args) == Err(Errno::NOSYS) {
                continue;
            }
            // The remaining time that the kernel writes back for one call must not shorten the next call.
            // SAFETY: only this thread and, during calls, the kernel access the timespec.
            unsafe { std::ptr::from_mut(&mut time).write_volatile(timespec(0, 12_000_000)) };
            let begin = Instant::now();
            assert_eq!(call(context, number, args), expected, "{what}");
            let took = begin.elapsed();
            assert!(took >= wait, "{what} took {took:?}");
            assert!(took < LIMIT, "{what} took {took:?}");
        }
        let _ = plain(libc::SYS_semctl, [set, 0, libc::IPC_RMID as usize]);
    });
}

#[test]
fn waits_are_not_interrupted() {
    under_signals(test_name!(), |_, context| {
        let (reader, writer) = pipe();
        let mut poll = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let peer = later(move || {
            rustix::io::write(&writer, b"x").unwrap();
            writer
        });
        assert_eq!(
            call(context, libc::SYS_ppoll, [at_mut(&mut poll), 1, 0, 0, 8]),
            Ok(1)
        );
        drop(peer.join().unwrap());

        let directory = scratch();
        let path = directory.path().join("lock");
        let (holder, other) = (
            std::fs::File::create(&path).unwrap(),
            std::fs::File::open(&path).unwrap(),
        );
        plain(libc::SYS_flock, [holder.arg(), libc::LOCK_EX as usize]).unwrap();
        let peer = later(move || drop(holder));
        assert_eq!(
            call(
                context,
                libc::SYS_flock,
                [other.arg(), libc::LOCK_EX as usize]
            ),
            Ok(0)
        );
        peer.join().unwrap();

        let mut child = std::process::Command::new("/bin/sleep")
            .arg("0.02")
            .spawn()
            .unwrap();
        let mut status = 77i32;
        let pid = child.id() as usize;
        assert_eq!(
            call(context, libc::SYS_wait4, [pid, at_mut(&mut status), 0, 0]),
            Ok(pid)
        );
        assert_eq!(status, 0);
        let _ = child.try_wait();

        let queue = plain(libc::SYS_msgget, [libc::IPC_PRIVATE as usize, 0o600]).unwrap();
        let mut message = [0i64; 4];
        let peer = later(move || plain(libc::SYS_msgsnd, [queue, at(&[1i64, 2]), 8, 0]));
        assert_eq!(
            call(
                context,
                libc::SYS_msgrcv,
                [queue, at_mut(&mut message), 16, 0, 0]
            ),
            Ok(8)
        );
        peer.join().unwrap().unwrap();
        let _ = plain(libc::SYS_msgctl, [queue, libc::IPC_RMID as usize, 0]);

        let word = std::sync::atomic::AtomicU32::new(1);
        let (address, futex) = (
            at(&word),
            (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
        );
        let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert!(limit::wait_until(LIMIT, || plain(
                    libc::SYS_futex,
                    [address, wake, 1]
                ) == Ok(1)));
            });
            assert_eq!(
                call(context, libc::SYS_futex, [address, futex, 1, 0]),
                Ok(0)
            );
        });
    });
}

#[test]
fn datagrams_are_not_interrupted() {
    under_signals(test_name!(), |_, context| {
        let (a, b): (OwnedFd, OwnedFd) = datagram_pair();
        let mut buffers = [[0u8; 4]; 3];
        let mut vectors: Vec<libc::iovec> = buffers
            .iter_mut()
            .map(|buffer| crate::harness::iovec_mut(buffer))
            .collect();
        let mut messages: Vec<libc::mmsghdr> = vectors
            .iter_mut()
            .map(|vector| {
                let mut header: libc::msghdr = zeroed();
                (header.msg_iov, header.msg_iovlen) = (vector, 1);
                libc::mmsghdr {
                    msg_hdr: header,
                    msg_len: 0,
                }
            })
            .collect();
        let peer = later(move || {
            for text in [b"one", b"two", b"tre"] {
                rustix::io::write(&a, text).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
            a
        });
        let received = call(
            context,
            libc::SYS_recvmmsg,
            [b.arg(), at_mut(&mut messages[..]), 3, 0, 0],
        );
        assert_eq!(received, Ok(3));
        assert_eq!(buffers, [*b"one\0", *b"two\0", *b"tre\0"]);
        drop(peer.join().unwrap());
    });
}

/// `poll` itself neither fails nor returns early.
#[test]
fn polling_is_not_interrupted() {
    child::check(LIMIT * 6, test_name!(), "", || {
        for_each_pending(|way| {
            let _fire = Bombardment::begin(libc::SIGUSR1);
            let mut context = way.context();
            let (reader, writer) = pipe();
            let mut buffer = [0u8; 3];
            let handle = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 3]);
            let mut completions = Vec::new();
            let begin = Instant::now();
            let wait = Duration::from_millis(15);
            assert_eq!(context.poll(&mut completions, Some(wait)), Ok(0));
            assert!(
                (wait..LIMIT).contains(&begin.elapsed()),
                "{:?}",
                begin.elapsed()
            );
            let peer = later(move || rustix::io::write(&writer, b"abc").unwrap());
            assert_eq!(context.poll(&mut completions, None), Ok(1));
            assert_eq!(
                (completions[0].handle, completions[0].result),
                (handle, Ok(3))
            );
            peer.join().unwrap();
            assert_eq!(collect(&mut context, 0), []);
        });
    });
}
