//! Rule 1, results are those of the plain call: datagrams, and messages that carry descriptors.

use crate::harness::{
    Arg, LIMIT, Sys, at, at_mut, bytes_of, iovec, iovec_mut, later, own, plain, socket_address,
    timespec, wait_until_ready, zeroed,
};
use laio_testing::limit;
use laio_testing::temp::{datagram_pair, drain, fill, pattern, stream_pair};
use rustix::event::PollFlags;
use std::io::{Error, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

scenarios! {
    about_files: false;
    datagrams,
    datagrams_that_wait,
    many_datagrams,
    many_datagrams_within_a_time,
    descriptors_in_messages,
    descriptors_in_a_long_message,
}

fn udp() -> (UdpSocket, UdpSocket) {
    let host = crate::harness::lonely_host();
    (
        UdpSocket::bind((host, 0)).unwrap(),
        UdpSocket::bind((host, 0)).unwrap(),
    )
}

fn udp_address(socket: &UdpSocket) -> libc::sockaddr_in {
    socket_address(socket.local_addr().unwrap())
}

fn datagrams(sys: &mut Sys<'_>) {
    let (a, b) = udp();
    let (from, to) = (a.as_raw_fd().arg(), b.as_raw_fd().arg());
    let mut buffer = [0u8; 20];
    let target = udp_address(&b);
    let size = size_of_val(&target);
    let mut source: libc::sockaddr_in = zeroed();
    let mut length = size as u32;
    same!(sys, "sendto" => SYS_sendto [from, at("a datagram"), 10, 0, at(&target), size]);
    let peek = (libc::MSG_PEEK | libc::MSG_TRUNC) as usize;
    same!(sys, "peek" => SYS_recvfrom [to, at_mut(&mut buffer), 3, peek, 0, 0]);
    let args = [
        to,
        at_mut(&mut buffer),
        20,
        0,
        at_mut(&mut source),
        at_mut(&mut length),
    ];
    let _ = sys.check("recvfrom", libc::SYS_recvfrom, args);
    sys.note("source", bytes_of(&source) == bytes_of(&udp_address(&a)));
    sys.note("length", length);
    same!(sys, "sendto" => SYS_sendto [from, at("too long"), 8, 0, at(&target), size]);
    same!(sys, "cut" => SYS_recvfrom [to, at_mut(&mut buffer), 3, 0, 0, 0]);
    same!(sys, "sendto" => SYS_sendto [from, at("too long"), 8, 0, at(&target), size]);
    let _ = sys.check(
        "the true length",
        libc::SYS_recvfrom,
        [to, at_mut(&mut buffer), 3, libc::MSG_TRUNC as usize, 0, 0],
    );
    // MSG_WAITALL has no effect on datagrams.
    same!(sys, "sendto" => SYS_sendto [from, at("short"), 5, 0, at(&target), size]);
    same!(sys, "all" => SYS_recvfrom [to, at_mut(&mut buffer), 20, libc::MSG_WAITALL as usize, 0, 0]);
    let mut vector = [iovec_mut(&mut buffer)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    header.msg_name = at_mut(&mut source) as *mut _;
    header.msg_namelen = size as u32;
    same!(sys, "sendto" => SYS_sendto [from, at("in a message that is too long"), 29, 0, at(&target), size]);
    same!(sys, "recvmsg" => SYS_recvmsg [to, at_mut(&mut header), 0]);
    sys.note("flags", (header.msg_flags, header.msg_namelen));
    sys.note("source", source.sin_port == udp_address(&a).sin_port);
    same!(sys, "no target" => SYS_sendto [from, at("x"), 1, 0, 0, 0]);
    let big = vec![0u8; 70_000];
    same!(sys, "too big" => SYS_sendto [from, at(&big[..]), big.len(), 0, at(&target), size]);
    same!(sys, "connect" => SYS_connect [from, at(&target), size]);
    if !sys.short {
        same!(sys, "write" => SYS_write [from, at("written"), 7]);
        same!(sys, "read" => SYS_read [to, at_mut(&mut buffer), 20]);
        sys.note("read", buffer);
    }
    // The port has no socket: the next call fails.
    close(b);
    same!(sys, "sendto a closed port" => SYS_sendto [from, at("x"), 1, 0, 0, 0]);
    wait_until_ready(&a, PollFlags::empty());
    same!(sys, "refused" => SYS_recvfrom [from, at_mut(&mut buffer), 20, libc::MSG_DONTWAIT as usize, 0, 0]);
}

/// Closes a socket, and waits until its port has none: another test's child may have a copy of it.
fn close(socket: UdpSocket) {
    let address = socket.local_addr().unwrap();
    // Bound before, because it could get the port of the closed socket, and would reach itself.
    let probe = UdpSocket::bind((address.ip(), 0)).unwrap();
    drop(socket);
    probe.connect(address).unwrap();
    probe.set_nonblocking(true).unwrap();
    let unreachable = || {
        let refused = |error: Error| error.kind() == ErrorKind::ConnectionRefused;
        probe.send(b"?").is_err_and(refused) || probe.recv(&mut [0]).is_err_and(refused)
    };
    assert!(limit::wait_until(LIMIT, unreachable), "{address}");
}

fn datagrams_that_wait(sys: &mut Sys<'_>) {
    let (a, b) = udp();
    let to = b.as_raw_fd().arg();
    let target = b.local_addr().unwrap();
    let mut buffer = [0u8; 20];
    let mut source: libc::sockaddr_in = zeroed();
    let mut length = size_of_val(&source) as u32;
    let copy = a.try_clone().unwrap();
    let peer = later(move || copy.send_to(b"at last", target).unwrap());
    let args = [
        to,
        at_mut(&mut buffer),
        20,
        0,
        at_mut(&mut source),
        at_mut(&mut length),
    ];
    let _ = sys.check("recvfrom", libc::SYS_recvfrom, args);
    sys.note("source", bytes_of(&source) == bytes_of(&udp_address(&a)));
    sys.note("read", buffer);
    peer.join().unwrap();
    let peer = later(move || a.send_to(b"in a message", target).unwrap());
    let mut vector = [iovec_mut(&mut buffer)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    header.msg_name = at_mut(&mut source) as *mut _;
    header.msg_namelen = length;
    same!(sys, "recvmsg" => SYS_recvmsg [to, at_mut(&mut header), 0]);
    sys.note("header", (header.msg_namelen, header.msg_flags));
    peer.join().unwrap();
    let (c, d) = datagram_pair();
    while rustix::net::send(&c, b"x", rustix::net::SendFlags::DONTWAIT).is_ok() {}
    let peer = later(move || {
        let mut count = 0;
        let mut buffer = [0u8; 10];
        while rustix::io::read(&d, &mut buffer).unwrap() == 1 {
            count += 1;
        }
        count
    });
    same!(sys, "send" => SYS_sendto [c.arg(), at("the last"), 8, 0, 0, 0]);
    sys.note("before it", peer.join().unwrap());
}

fn headers(buffers: &mut [[u8; 20]], vectors: &mut Vec<libc::iovec>) -> Vec<libc::mmsghdr> {
    vectors.clear();
    vectors.extend(buffers.iter_mut().map(|buffer| iovec_mut(buffer)));
    let header = |vector: &mut libc::iovec| {
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }
    };
    vectors.iter_mut().map(header).collect()
}

fn many_datagrams(sys: &mut Sys<'_>) {
    let (a, b) = datagram_pair();
    let mut buffers = [
        *b"a datagram .........",
        *b"another datagram ...",
        *b"and yet a datagram .",
    ];
    let mut vectors = Vec::new();
    let mut messages = headers(&mut buffers, &mut vectors);
    let address = at_mut(&mut messages[..]);
    same!(sys, "sendmmsg" => SYS_sendmmsg [a.arg(), address, 3, 0]);
    sys.note(
        "lengths",
        messages
            .iter()
            .map(|message| message.msg_len)
            .collect::<Vec<_>>(),
    );
    same!(sys, "recvmmsg" => SYS_recvmmsg [b.arg(), address, 2, 0, 0]);
    let one = libc::MSG_WAITFORONE as usize;
    same!(sys, "recvmmsg, at least one" => SYS_recvmmsg [b.arg(), address, 3, one, 0]);
    same!(sys, "recvmmsg of none" => SYS_recvmmsg [b.arg(), address, 0, 0, 0]);
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let peer = later(move || {
        for text in [b"1", b"2", b"3"] {
            rustix::io::write(&copy, text).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    same!(sys, "recvmmsg of all" => SYS_recvmmsg [b.arg(), address, 3, 0, 0]);
    peer.join().unwrap();
    sys.note("buffers", buffers.concat());
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let peer = later(move || rustix::io::write(&copy, b"1").unwrap());
    same!(sys, "the first of them" => SYS_recvmmsg [b.arg(), address, 3, one, 0]);
    peer.join().unwrap();
    while rustix::net::send(&a, b"x", rustix::net::SendFlags::DONTWAIT).is_ok() {}
    same!(sys, "not enough space" => SYS_sendmmsg [a.arg(), address, 3, libc::MSG_DONTWAIT as usize]);
    let copy = own(plain(libc::SYS_dup, [b.arg()]));
    let peer = later(move || drain(&copy).len());
    same!(sys, "space later" => SYS_sendmmsg [a.arg(), address, 3, 0]);
    peer.join().unwrap();
}

/// `recvmmsg` checks its timeout after each datagram.
fn many_datagrams_within_a_time(sys: &mut Sys<'_>) {
    if laio_testing::lacks("timed-receive") {
        return;
    }
    let (a, b) = datagram_pair();
    let mut buffers = [[0u8; 20]; 3];
    let mut vectors = Vec::new();
    let mut messages = headers(&mut buffers, &mut vectors);
    let address = at_mut(&mut messages[..]);
    let mut time = timespec(0, 1_000_000);
    rustix::io::write(&a, b"first").unwrap();
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let until = over.clone();
    // Sends more and more datagrams: if the second one arrives before the call begins, the call waits for a third.
    let peer = later(move || {
        while !until.load(std::sync::atomic::Ordering::SeqCst) {
            rustix::net::send(&copy, b"next", rustix::net::SendFlags::DONTWAIT).ok();
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    });
    let received = sys.call(
        libc::SYS_recvmmsg,
        [b.arg(), address, 3, 0, at_mut(&mut time)],
    );
    over.store(true, std::sync::atomic::Ordering::SeqCst);
    // Two without delays; one if the kernel's cleanup of a dropped ring interrupts the call.
    sys.note("some of three", matches!(received, Ok(1..=3)));
    peer.join().unwrap();
    time = timespec(0, -1);
    same!(sys, "a bad time" => SYS_recvmmsg [b.arg(), address, 3, 0, at_mut(&mut time)]);
}

/// A message that carries descriptors.
#[repr(C, align(8))]
struct ControlMessage {
    header: libc::cmsghdr,
    fds: [i32; 2],
}

impl ControlMessage {
    fn new(fds: [i32; 2]) -> ControlMessage {
        let mut header: libc::cmsghdr = zeroed();
        header.cmsg_len = (size_of::<libc::cmsghdr>() + 8) as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        ControlMessage { header, fds }
    }
}

fn message_with(control: &mut ControlMessage, vector: &mut [libc::iovec]) -> libc::msghdr {
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = vector.len() as _;
    header.msg_control = at_mut(control) as *mut _;
    header.msg_controllen = size_of::<ControlMessage>() as _;
    header
}

fn descriptors_in_messages(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let file = sys.file("file", b"0123456789");
    for waits in [false, true] {
        sys.note("waits", waits);
        let mut control = ControlMessage::new([file.as_raw_fd(); 2]);
        let mut vector = [iovec(b"message")];
        let header = message_with(&mut control, &mut vector);
        let send =
            |sys: &mut Sys<'_>| sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0]);
        let mut buffer = [0u8; 20];
        let mut received = ControlMessage::new([-1, -1]);
        let mut vector = [iovec_mut(&mut buffer)];
        let mut answer = message_with(&mut received, &mut vector);
        let flags = libc::MSG_CMSG_CLOEXEC as usize;
        if waits {
            let (from, message) = (a.arg(), at(&header));
            let peer = later(move || plain(libc::SYS_sendmsg, [from, message, 0]));
            same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut answer), flags]);
            sys.note("sent", peer.join().unwrap());
        } else {
            let _ = send(sys);
            same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut answer), flags]);
        }
        sys.note(
            "header",
            (
                answer.msg_flags,
                answer.msg_controllen,
                received.header.cmsg_len,
            ),
        );
        for fd in received.fds {
            let fd = own(Ok(fd as usize));
            sys.note("flags", rustix::io::fcntl_getfd(&fd).unwrap());
            let mut byte = [0u8; 3];
            same!(sys, "read" => SYS_pread64 [fd.arg(), at_mut(&mut byte), 3, 4]);
            sys.note("read", byte);
        }
    }
    // The control buffer is too small for the descriptors.
    let mut control = ControlMessage::new([file.as_raw_fd(); 2]);
    let mut vector_of_control = [iovec(b"message")];
    let header = message_with(&mut control, &mut vector_of_control);
    same!(sys, "sendmsg" => SYS_sendmsg [a.arg(), at(&header), 0]);
    let mut buffer = [0u8; 20];
    let mut vector = [iovec_mut(&mut buffer)];
    let mut answer: libc::msghdr = zeroed();
    answer.msg_iov = vector.as_mut_ptr();
    answer.msg_iovlen = 1;
    same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut answer), 0]);
    sys.note("flags", answer.msg_flags);
    let mut control = ControlMessage::new([-1, -1]);
    let header = message_with(&mut control, &mut vector_of_control);
    same!(sys, "a bad descriptor" => SYS_sendmsg [a.arg(), at(&header), 0]);
}

/// A message that does not fit at once delivers its descriptors exactly once.
fn descriptors_in_a_long_message(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let file = sys.file("file", b"0123456789");
    let bytes = pattern(if sys.short { 2_000 } else { 500_000 }, 3);
    fill(&a);
    let filled = rustix_bytes_waiting(&b);
    let wanted = filled + bytes.len();
    let peer = later(move || {
        let (mut total, mut fds, mut all) = (0, 0, Vec::new());
        while total < wanted {
            let mut buffer = [0u8; 10_000];
            let mut received = ControlMessage::new([-1, -1]);
            let mut vector = [iovec_mut(&mut buffer)];
            let mut answer = message_with(&mut received, &mut vector);
            let read = plain(libc::SYS_recvmsg, [b.arg(), at_mut(&mut answer), 0]).unwrap();
            if read == 0 {
                break;
            }
            total += read;
            all.extend_from_slice(&buffer[..read]);
            if answer.msg_controllen > 0 {
                for fd in received.fds {
                    drop(own(Ok(fd as usize)));
                    fds += 1;
                }
            }
        }
        (fds, all)
    });
    let mut control = ControlMessage::new([file.as_raw_fd(); 2]);
    let mut vector = [iovec(&bytes[..100]), iovec(&bytes[100..])];
    let header = message_with(&mut control, &mut vector);
    same!(sys, "sendmsg" => SYS_sendmsg [a.arg(), at(&header), 0]);
    drop(a);
    let (fds, all) = peer.join().unwrap();
    sys.note("descriptors", fds);
    sys.note("bytes", all.len() == wanted && all[filled..] == bytes);
}

fn rustix_bytes_waiting(fd: &OwnedFd) -> usize {
    rustix::io::ioctl_fionread(fd).unwrap() as usize
}
