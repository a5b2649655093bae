//! Rule 2: transfers are complete, and report the bytes that they moved before an error.

use crate::harness::*;
use laio::{Errno, Outcome};
use laio_testing::temp::{fill, pattern, pipe, scratch, stream_pair};
use std::os::fd::OwnedFd;
use std::time::Duration;

#[test]
fn bytes_moved_before_the_peer_closed_are_reported() {
    for_each_pending(|way| {
        let size = if way.is_short() { 100_000 } else { 1_000_000 };
        let bytes = pattern(size, 4);
        let (from, to) = pipe();
        for (to, from) in [(to, from), stream_pair()] {
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
        let vectors = [iovec(&bytes[..7]), iovec(&[]), iovec(&bytes[7..])];
        let count = vectors.len() | 7 << 32;
        let writev = [to.arg(), at(&vectors), count];
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
