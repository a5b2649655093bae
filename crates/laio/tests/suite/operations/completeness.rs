//! Rule 2: transfers are complete, and report the bytes that they moved before an error.

use crate::harness::*;
use laio::{Call, Errno, Outcome};
use laio_testing::temp::{cold_file, evict, fill, pattern, pipe, scratch, stream_pair, tcp_pair};
use laio_testing::{child, test_name};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

/// Reads to the end, in small pieces, with pauses.
fn read_slowly(from: OwnedFd, piece: usize) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut buffer = vec![0; piece];
        loop {
            match rustix::io::read(&from, &mut buffer).expect("bytes") {
                0 => return all,
                read => all.extend_from_slice(&buffer[..read]),
            }
            if (all.len() / piece).is_multiple_of(8) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    })
}

/// The writing and reading ends of a pipe, a local connection and a TCP connection.
fn streams() -> Vec<(OwnedFd, OwnedFd)> {
    let (from, to) = pipe();
    let (client, server) = tcp_pair();
    vec![(to, from), stream_pair(), (client.into(), server.into())]
}

/// Splits bytes into vectors of odd lengths.
fn vectors(bytes: &[u8]) -> Vec<libc::iovec> {
    let mut vectors = vec![iovec(&[])];
    let mut rest = bytes;
    let mut size = 1;
    while rest.len() > size && vectors.len() < 40 {
        let (part, others) = rest.split_at(size);
        vectors.push(iovec(part));
        if vectors.len() % 5 == 0 {
            vectors.push(iovec(&[]));
        }
        rest = others;
        size = size * 3 + 1;
    }
    vectors.push(iovec(rest));
    vectors
}

#[test]
fn writes_are_complete_with_any_reader() {
    for_each(|way| {
        let size = if way.is_short() { 2_001 } else { 400_001 };
        let bytes = pattern(size, 3);
        for (to, from) in streams() {
            let mut context = way.context();
            let mode = rustix::fs::fstat(&to).expect("a status").st_mode;
            let socket = rustix::fs::FileType::from_raw_mode(mode).is_socket();
            let reader = read_slowly(from, 10_007);
            let write = [to.arg(), at(&bytes[..]), size];
            assert_eq!(call(&mut context, libc::SYS_write, write), Ok(size));
            let vector = vectors(&bytes);
            let writev = [to.arg(), at(&vector[..]), vector.len()];
            assert_eq!(call(&mut context, libc::SYS_writev, writev), Ok(size));
            let mut times = 2;
            if socket {
                let mut message: libc::msghdr = zeroed();
                message.msg_iov = vector.as_ptr() as *mut _;
                message.msg_iovlen = vector.len() as _;
                let sendmsg = [to.arg(), at(&message), libc::MSG_NOSIGNAL as usize];
                assert_eq!(call(&mut context, libc::SYS_sendmsg, sendmsg), Ok(size));
                let send = [to.arg(), at(&bytes[..]), size, 0, 0, 0];
                assert_eq!(call(&mut context, libc::SYS_sendto, send), Ok(size));
                times = 4;
            }
            drop(to);
            assert!(reader.join().expect("no panic") == bytes.repeat(times));
        }
    });
}

#[test]
fn a_receive_of_all_waits_for_all() {
    for_each(|way| {
        let size = if way.is_short() { 501 } else { 50_001 };
        let bytes = pattern(size, 5);
        for (to, from) in streams().split_off(1) {
            let mut context = way.context();
            let sent = bytes.repeat(2);
            let writer = std::thread::spawn(move || {
                for piece in sent.chunks(7_001) {
                    let mut rest = piece;
                    while !rest.is_empty() {
                        let written = rustix::io::write(&to, rest).expect("written");
                        rest = &rest[written..];
                    }
                    std::thread::sleep(Duration::from_micros(500));
                }
                to
            });
            let all = libc::MSG_WAITALL as usize;
            let mut whole = vec![0; size];
            let recv = [from.arg(), at_mut(&mut whole[..]), size, all, 0, 0];
            assert_eq!(call(&mut context, libc::SYS_recvfrom, recv), Ok(size));
            assert!(whole == bytes);
            let mut split = vec![0; size];
            let (a, b) = split.split_at_mut(17);
            let (b, c) = b.split_at_mut(size / 3);
            let vector = [iovec_mut(a), iovec_mut(b), iovec_mut(c)];
            let mut message: libc::msghdr = zeroed();
            message.msg_iov = vector.as_ptr() as *mut _;
            message.msg_iovlen = 3;
            let recvmsg = [from.arg(), at_mut(&mut message), all];
            assert_eq!(call(&mut context, libc::SYS_recvmsg, recvmsg), Ok(size));
            assert!(split == bytes);
            // At the end of the stream the receive returns the available bytes.
            let to = writer.join().expect("no panic");
            rustix::io::write(&to, b"end").expect("written");
            let recv = [from.arg(), at_mut(&mut whole[..]), size, all, 0, 0];
            let outcome = start(
                &mut context,
                libc::SYS_recvfrom,
                if way.goes_to_background() {
                    recv
                } else {
                    [from.arg(), at_mut(&mut whole[..]), 3, all, 0, 0]
                },
            );
            drop(to);
            assert_eq!(finish(&mut context, outcome), Ok(3));
            assert_eq!(&whole[..3], b"end");
        }
    });
}

#[test]
fn files_of_which_a_part_is_in_memory() {
    const SIZE: usize = 256 * 1024 + 123;
    const PAGE: usize = 4096;
    let directory = scratch();
    let contents = pattern(SIZE, 9);
    let Some(file) = laio_testing::or_skip(cold_file(directory.path(), &contents)) else {
        return;
    };
    let file = file.as_file();
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    for_each(|way| {
        // Each page is a step of three bytes, or all pages are one.
        let sizes: &[usize] = if way.is_short() {
            &[1000]
        } else {
            &[SIZE, 100_000]
        };
        for &size in sizes {
            for round in 0..3 {
                let mut context = way.context();
                if evict(file, 0, 0).is_err() {
                    return;
                }
                let mut byte = [0u8; 1];
                for page in (round..SIZE / PAGE).step_by(3 + round) {
                    rustix::io::pread(file, &mut byte, (page * PAGE) as u64).expect("a byte");
                }
                let offset = if size == SIZE { 0 } else { 4095 };
                let mut found = vec![0; size];
                let (number, args): (_, [usize; 4]) = match round {
                    0 => (
                        libc::SYS_pread64,
                        [file.arg(), at_mut(&mut found[..]), size, offset],
                    ),
                    1 => {
                        let lseek = [file.arg(), offset, 0];
                        plain(libc::SYS_lseek, lseek).expect("a place");
                        (
                            libc::SYS_read,
                            [file.arg(), at_mut(&mut found[..]), size, 0],
                        )
                    }
                    _ => {
                        let vector = vectors(&found);
                        let count = vector.len();
                        let vector = Vec::leak(vector);
                        (libc::SYS_preadv, [file.arg(), at(&*vector), count, offset])
                    }
                };
                assert_eq!(call(&mut context, number, args), Ok(size));
                assert!(found == contents[offset..offset + size]);
                if round == 1 {
                    let place = plain(libc::SYS_lseek, [file.arg(), 0, libc::SEEK_CUR as usize]);
                    assert_eq!(place, Ok(offset + size));
                }
                // Beyond the end the read returns the available bytes.
                let mut end = [0u8; 300];
                let pread = [file.arg(), at_mut(&mut end), 300, SIZE - 200];
                assert_eq!(call(&mut context, libc::SYS_pread64, pread), Ok(200));
                assert_eq!(end[..200], contents[SIZE - 200..]);
            }
        }
    });
}

#[test]
fn bytes_moved_before_the_peer_closed_are_reported() {
    for_each_pending(|way| {
        let size = if way.is_short() { 100_000 } else { 1_000_000 };
        let bytes = pattern(size, 4);
        for (to, from) in streams().drain(..2) {
            let mut context = way.context();
            let before = fill(&to);
            let outcome = start(
                &mut context,
                libc::SYS_write,
                [to.arg(), at(&bytes[..]), size],
            );
            assert!(matches!(outcome, Outcome::Pending(_)));
            context.flush().expect("flush");
            let reader = std::thread::spawn(move || {
                let mut buffer = vec![0; before / 4];
                rustix::io::read(&from, &mut buffer).expect("bytes");
                std::thread::sleep(Duration::from_millis(5));
                drop(from);
            });
            let moved = finish(&mut context, outcome);
            reader.join().expect("no panic");
            // The count depends on the buffers. A local socket first reports that data was left unread.
            let gone = [Err(Errno::PIPE), Err(Errno::CONNRESET)];
            let part = moved.is_ok_and(|moved| moved > 0 && moved < size);
            assert!(part || gone.contains(&moved), "{moved:?}");
            let one = [to.arg(), at(&bytes[..]), 1];
            let next = call(&mut context, libc::SYS_write, one);
            assert!(gone.contains(&next), "{next:?}");
        }
    });
}

#[test]
fn a_limit_of_size_cuts_a_write() {
    const LIMIT_OF_SIZE: usize = 10_000;
    child::check(LIMIT * 6, test_name!(), "", || {
        // SAFETY: SIG_IGN is a valid disposition.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let limit = libc::rlimit {
            rlim_cur: LIMIT_OF_SIZE as u64,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the struct lives through the call.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
        let directory = scratch();
        let bytes = pattern(8192, 6);
        for_each(|way| {
            let file = tempfile::tempfile_in(directory.path()).expect("a file");
            let mut context = way.context();
            let mut write = |number, args: [usize; 4]| {
                // SAFETY: the bytes live longer than the context.
                let outcome = unsafe { context.call(Call::new(number, args)) };
                finish(&mut context, outcome)
            };
            let buffer = at(&bytes[..]);
            let args = [file.arg(), buffer, 8192, 0];
            assert_eq!(write(libc::SYS_write, args), Ok(8192));
            assert_eq!(write(libc::SYS_write, args), Ok(LIMIT_OF_SIZE - 8192));
            assert_eq!(write(libc::SYS_write, args), Err(Errno::FBIG));
            let half = [iovec(&bytes[..100]), iovec(&bytes[100..300])];
            let args = [file.arg(), at(&half), 2, LIMIT_OF_SIZE - 150];
            assert_eq!(write(libc::SYS_pwritev, args), Ok(150));
            assert_eq!(file.metadata().expect("a file").len(), LIMIT_OF_SIZE as u64);
        });
    });
}

/// An `accept` with a bad address pointer fails after it has taken the connection, and must not be repeated.
#[test]
fn a_failed_accept_takes_one_connection() {
    use std::os::unix::net::{UnixListener, UnixStream};
    for_each_pending(|way| {
        let mut context = way.context();
        let directory = scratch();
        let name = directory.path().join("socket");
        let listener = OwnedFd::from(UnixListener::bind(&name).expect("a name"));
        let (mut address, mut length) = ([0u8; 128], -1i32);
        let accept = [listener.arg(), at_mut(&mut address), at_mut(&mut length)];
        let handle = pending(&mut context, libc::SYS_accept, accept);
        let first = UnixStream::connect(&name).expect("a listener");
        let result = wait_for(&mut context, handle).result;
        assert_eq!(result, Err(Errno::INVAL));
        let second = UnixStream::connect(&name).expect("a listener");
        let taken = call(&mut context, libc::SYS_accept, [listener.arg(), 0, 0]);
        assert_eq!(call(&mut context, libc::SYS_close, [taken.unwrap()]), Ok(0));
        drop((first, second));
    });
}

/// The kernel ignores the upper half of a count.
#[test]
fn the_upper_half_of_a_count_is_ignored() {
    for_each(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let bytes = pattern(30, 1);
        let vectors = vectors(&bytes);
        let count = vectors.len() | 7 << 32;
        let writev = [to.arg(), at(vectors.as_slice()), count];
        // An emulator of programs refuses it.
        let expected = plain(libc::SYS_writev, writev);
        if expected == Err(Errno::INVAL) {
            return;
        }
        assert_eq!(expected, Ok(30));
        assert_eq!(call(&mut context, libc::SYS_writev, writev), expected);
        let mut read = [0u8; 30];
        assert_eq!(rustix::io::read(&from, &mut read), Ok(30));
        assert_eq!(read[..], bytes[..]);
        let mut read = [0u8; 30];
        assert_eq!(rustix::io::read(&from, &mut read), Ok(30));
        assert_eq!(read[..], bytes[..]);
    });
}

/// Such a socket is always ready, but a non-blocking call on it fails with `EAGAIN`.
#[test]
fn a_receive_on_a_shut_down_datagram_socket_returns_zero() {
    use std::net::UdpSocket;
    for_each(|way| {
        let mut context = way.context();
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket
            .connect(socket.local_addr().unwrap())
            .expect("itself");
        let socket = OwnedFd::from(socket);
        let shut = [socket.arg(), libc::SHUT_RD as usize];
        assert_eq!(call(&mut context, libc::SYS_shutdown, shut), Ok(0));
        let mut bytes = [0u8; 8];
        let receive = [socket.arg(), at_mut(&mut bytes), 8, 0, 0, 0];
        assert_eq!(plain(libc::SYS_recvfrom, receive), Ok(0));
        assert_eq!(call(&mut context, libc::SYS_recvfrom, receive), Ok(0));
    });
}
