//! Rule 1, results are those of the plain call: pipes, sockets, event descriptors, message queues.

use crate::harness::{
    Arg, LIMIT, Sys, at, at_mut, bytes_of, iovec, iovec_mut, later, local_address, own, plain,
    socket_address, tcp_address, zeroed,
};
use laio_testing::temp::{datagram_pair, drain, fill, pattern, pipe, stream_pair, tcp_pair};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};

scenarios! {
    about_files: false;
    pipes,
    pipes_that_wait,
    packets_in_pipes,
    stream_sockets,
    stream_sockets_that_wait,
    everything_or_nothing,
    peeking_waits_for_all,
    receive_time_limits,
    datagrams,
    datagrams_that_wait,
    many_datagrams,
    many_datagrams_within_a_time,
    descriptors_as_freight,
    descriptors_as_freight_of_a_long_message,
    socket_administration,
    accepting,
    accepting_waits,
    connecting,
    connecting_to_a_full_backlog,
    event_descriptors,
    timers,
    message_queues,
    posix_message_queues,
    terminals,
}

fn pipes(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut room = [0u8; 100];
    let _ = sys.check(
        "write",
        libc::SYS_write,
        [writer.arg(), at("hello, world"), 12],
    );
    let _ = sys.check(
        "read of less",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 5],
    );
    sys.note("read", room);
    let _ = sys.check(
        "read of more",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 100],
    );
    sys.note("read", room);
    let vector = [iovec(b"ab"), iovec(b""), iovec(b"cdefg")];
    let _ = sys.check("writev", libc::SYS_writev, [writer.arg(), at(&vector), 3]);
    let (left, right) = room.split_at_mut(3);
    let vector = [iovec_mut(left), iovec_mut(right)];
    let _ = sys.check("readv", libc::SYS_readv, [reader.arg(), at(&vector), 2]);
    sys.note("read", room);
    let size = sys.check(
        "F_SETPIPE_SZ",
        libc::SYS_fcntl,
        [writer.arg(), libc::F_SETPIPE_SZ as usize, 4096],
    );
    sys.note("size", size);
    let mut count = 0i32;
    let _ = sys.check(
        "FIONREAD",
        libc::SYS_ioctl,
        [reader.arg(), libc::FIONREAD as usize, at_mut(&mut count)],
    );
    let mut pair = [0i32; 2];
    let _ = sys.check(
        "pipe2",
        libc::SYS_pipe2,
        [at_mut(&mut pair), libc::O_CLOEXEC as usize],
    );
    for fd in pair {
        drop(own(Ok(fd as usize)));
    }
}

fn pipes_that_wait(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut room = [0u8; 100];
    let peer = later(move || {
        rustix::io::write(&writer, b"at last").unwrap();
        writer
    });
    let _ = sys.check(
        "read",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 100],
    );
    sys.note("read", room);
    let writer = peer.join().unwrap();
    let peer = later(move || drop(writer));
    let _ = sys.check(
        "read of the end",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 100],
    );
    peer.join().unwrap();

    let (reader, writer) = pipe();
    let filled = fill(&writer);
    let bytes = pattern(if sys.short { 500 } else { 200_000 }, 1);
    let wanted = filled + bytes.len();
    let peer = later(move || {
        let mut file = std::fs::File::from(reader);
        let mut all = vec![0; wanted];
        file.read_exact(&mut all).unwrap();
        all
    });
    let _ = sys.check(
        "write",
        libc::SYS_write,
        [writer.arg(), at(&bytes[..]), bytes.len()],
    );
    sys.note("arrived", peer.join().unwrap()[filled..] == bytes);

    // The reader goes away in the middle.
    let (reader, writer) = pipe();
    let filled = fill(&writer);
    let peer = later(move || {
        let mut file = std::fs::File::from(reader);
        file.read_exact(&mut vec![0; filled]).unwrap();
    });
    if !sys.short {
        // What fits into the emptied pipe depends on when it is emptied.
        let written = sys.call(libc::SYS_write, [writer.arg(), at(&bytes[..]), bytes.len()]);
        let ended = written.map_or_else(
            |errno| errno == laio::Errno::PIPE,
            |some| some < bytes.len(),
        );
        sys.note("write", ended);
    }
    peer.join().unwrap();
    let _ = sys.check(
        "write after it",
        libc::SYS_write,
        [writer.arg(), at(&bytes[..]), 10],
    );
}

/// With O_DIRECT each write is a packet.
fn packets_in_pipes(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::DIRECT).unwrap();
    for text in ["one", "two", "three"] {
        let _ = sys.check(
            "write",
            libc::SYS_write,
            [writer.arg(), at(text), text.len()],
        );
    }
    let mut room = [0u8; 100];
    let _ = sys.check(
        "read",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 100],
    );
    let _ = sys.check(
        "read of less",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 1],
    );
    let _ = sys.check(
        "read of the next",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room), 100],
    );
    sys.note("read", room);
}

fn stream_sockets(sys: &mut Sys<'_>) {
    for kind in ["local", "TCP"] {
        sys.note("kind", kind);
        let (a, b) = match kind {
            "local" => stream_pair(),
            _ => {
                let (a, b) = tcp_pair();
                (OwnedFd::from(a), OwnedFd::from(b))
            }
        };
        let mut room = [0u8; 100];
        let _ = sys.check(
            "send",
            libc::SYS_sendto,
            [a.arg(), at("hello, world"), 12, 0, 0, 0],
        );
        let peek = libc::MSG_PEEK as usize;
        let _ = sys.check(
            "peek",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 5, peek, 0, 0],
        );
        let _ = sys.check(
            "recv",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 5, 0, 0, 0],
        );
        let waitall = libc::MSG_WAITALL as usize;
        let _ = sys.check(
            "recv, all",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 7, waitall, 0, 0],
        );
        sys.note("read", room);
        let _ = sys.check("write", libc::SYS_write, [b.arg(), at("answer"), 6]);
        let _ = sys.check("read", libc::SYS_read, [a.arg(), at_mut(&mut room), 100]);
        let vector = [iovec(b"ab"), iovec(b""), iovec(b"cdefg")];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_ptr().cast_mut();
        header.msg_iovlen = 3;
        let _ = sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0]);
        let (left, right) = room.split_at_mut(3);
        let mut vector = [iovec_mut(left), iovec_mut(right)];
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 2;
        let _ = sys.check(
            "recvmsg",
            libc::SYS_recvmsg,
            [b.arg(), at_mut(&mut header), 0],
        );
        sys.note("flags", header.msg_flags);
        sys.note("read", room);
        let mut length = 64u32;
        let mut address = [0u8; 64];
        rustix::io::write(&a, b"x").unwrap();
        let from = [
            b.arg(),
            at_mut(&mut room),
            10,
            0,
            at_mut(&mut address),
            at_mut(&mut length),
        ];
        let _ = sys.check("recvfrom", libc::SYS_recvfrom, from);
        sys.note("address", (length, address));
        let _ = sys.check(
            "sendto",
            libc::SYS_sendto,
            [a.arg(), at("y"), 1, 0, at(&address), 64],
        );
        let _ = sys.check(
            "out of band",
            libc::SYS_sendto,
            [a.arg(), at("z"), 1, libc::MSG_OOB as usize, 0, 0],
        );
        let _ = sys.check(
            "bad flags",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 10, libc::MSG_OOB as usize, 0, 0],
        );
    }
}

fn stream_sockets_that_wait(sys: &mut Sys<'_>) {
    let (a, b) = tcp_pair();
    let (a, b) = (OwnedFd::from(a), OwnedFd::from(b));
    let mut room = [0u8; 10];
    for (what, number, args) in [
        (
            "recv",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 10, 0, 0, 0],
        ),
        (
            "read",
            libc::SYS_read,
            [b.arg(), at_mut(&mut room), 10, 0, 0, 0],
        ),
        (
            "recv, a byte",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 1, 0, 0, 0],
        ),
        (
            "recv, the rest",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 10, 0, 0, 0],
        ),
    ] {
        let peer = own(plain(libc::SYS_dup, [a.arg()]));
        let peer = (what != "recv, the rest")
            .then(|| later(move || rustix::io::write(&peer, b"abc").unwrap()));
        let _ = sys.check(what, number, args);
        sys.note("read", room);
        if let Some(peer) = peer {
            peer.join().unwrap();
        }
    }
    let mut vector = [iovec_mut(&mut room)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    let peer = later(move || {
        rustix::io::write(&a, b"abcd").unwrap();
        rustix::net::shutdown(&a, rustix::net::Shutdown::Write).unwrap();
        a
    });
    let _ = sys.check(
        "recvmsg",
        libc::SYS_recvmsg,
        [b.arg(), at_mut(&mut header), 0],
    );
    let _a = peer.join().unwrap();
    let _ = sys.check(
        "recv of the end",
        libc::SYS_recvfrom,
        [b.arg(), at_mut(&mut room), 10, 0, 0, 0],
    );

    // More than fits: it comes through whole and in order.
    for number in [
        libc::SYS_sendto,
        libc::SYS_write,
        libc::SYS_sendmsg,
        libc::SYS_writev,
    ] {
        let (a, b) = stream_pair();
        let filled = fill(&a);
        let bytes = pattern(if sys.short { 500 } else { 600_000 }, 2);
        let wanted = filled + bytes.len();
        let peer = later(move || {
            let mut file = std::fs::File::from(b);
            let mut all = vec![0; wanted];
            file.read_exact(&mut all).unwrap();
            all
        });
        let vector = [
            iovec(&bytes[..7]),
            iovec(&bytes[7..400]),
            iovec(&bytes[400..]),
        ];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_ptr().cast_mut();
        header.msg_iovlen = 3;
        let _ = match number {
            libc::SYS_sendmsg => sys.check("sendmsg", number, [a.arg(), at(&header), 0]),
            libc::SYS_writev => sys.check("writev", number, [a.arg(), at(&vector), 3]),
            _ => sys.check(
                "send",
                number,
                [a.arg(), at(&bytes[..]), bytes.len(), 0, 0, 0],
            ),
        };
        sys.note("arrived", peer.join().unwrap()[filled..] == bytes);
    }
}

fn everything_or_nothing(sys: &mut Sys<'_>) {
    let waitall = libc::MSG_WAITALL as usize;
    for kind in ["local", "TCP"] {
        let pair = || match kind {
            "local" => stream_pair(),
            _ => {
                let (a, b) = tcp_pair();
                (OwnedFd::from(a), OwnedFd::from(b))
            }
        };
        let mut room = [0u8; 10];
        let (a, b) = pair();
        rustix::io::write(&a, b"abc").unwrap();
        let peer = later(move || {
            rustix::io::write(&a, b"de").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(3));
            rustix::io::write(&a, b"fghijkl").unwrap();
            a
        });
        let _ = sys.check(
            "all",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 10, waitall, 0, 0],
        );
        sys.note("read", room);
        let a = peer.join().unwrap();
        // Until the end, and so less than all.
        let peer = later(move || drop(a));
        let _ = sys.check(
            "what is left",
            libc::SYS_recvfrom,
            [b.arg(), at_mut(&mut room), 10, waitall, 0, 0],
        );
        peer.join().unwrap();

        let (a, b) = pair();
        let peer = later(move || {
            rustix::io::write(&a, b"abcde").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(3));
            rustix::io::write(&a, b"fghijkl").unwrap();
            a
        });
        let (left, right) = room.split_at_mut(6);
        let mut vector = [iovec_mut(left), iovec_mut(right)];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 2;
        let _ = sys.check(
            "all of a message",
            libc::SYS_recvmsg,
            [b.arg(), at_mut(&mut header), waitall],
        );
        sys.note("read", room);
        peer.join().unwrap();
    }
}

/// Over TCP, a peek with MSG_WAITALL waits until all of it can be seen. (Mostly: the kernel itself at
/// times reports what was there first.) It must not be put together from pieces.
fn peeking_waits_for_all(sys: &mut Sys<'_>) {
    let (mut a, b) = tcp_pair();
    a.write_all(b"abc").unwrap();
    let peer = later(move || {
        a.write_all(b"defghijkl").unwrap();
        a
    });
    let mut room = [0u8; 10];
    let flags = (libc::MSG_WAITALL | libc::MSG_PEEK) as usize;
    let args = [b.as_raw_fd().arg(), at_mut(&mut room), 10, flags, 0, 0];
    let seen = sys.call(libc::SYS_recvfrom, args).expect("a peek");
    sys.note("seen", (seen >= 3, room[..seen] == b"abcdefghij"[..seen]));
    peer.join().unwrap();
    sys.note("still there", drain(&b));
}

/// With SO_RCVTIMEO a receive gives up after a while.
fn receive_time_limits(sys: &mut Sys<'_>) {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let (a, b) = stream_pair();
    let soon = Some(std::time::Duration::from_millis(10));
    set_socket_timeout(&b, Timeout::Recv, soon).unwrap();
    set_socket_timeout(&a, Timeout::Send, soon).unwrap();
    let mut room = [0u8; 10];
    let _ = sys.check(
        "recv",
        libc::SYS_recvfrom,
        [b.arg(), at_mut(&mut room), 10, 0, 0, 0],
    );
    let _ = sys.check("read", libc::SYS_read, [b.arg(), at_mut(&mut room), 10]);
    rustix::io::write(&a, b"abc").unwrap();
    let waitall = libc::MSG_WAITALL as usize;
    let _ = sys.check(
        "not all",
        libc::SYS_recvfrom,
        [b.arg(), at_mut(&mut room), 10, waitall, 0, 0],
    );
    fill(&a);
    let _ = sys.check(
        "send",
        libc::SYS_sendto,
        [a.arg(), at(&pattern(100_000, 1)[..]), 100_000, 0, 0, 0],
    );
    let listener = crate::harness::lonely_listener();
    set_socket_timeout(&listener, Timeout::Recv, soon).unwrap();
    let _ = sys.check(
        "accept4",
        libc::SYS_accept4,
        [listener.as_raw_fd().arg(), 0, 0, 0],
    );
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
    let mut room = [0u8; 20];
    let target = udp_address(&b);
    let size = size_of_val(&target);
    let mut source: libc::sockaddr_in = zeroed();
    let mut length = size as u32;
    let _ = sys.check(
        "sendto",
        libc::SYS_sendto,
        [from, at("a datagram"), 10, 0, at(&target), size],
    );
    let peek = (libc::MSG_PEEK | libc::MSG_TRUNC) as usize;
    let _ = sys.check(
        "peek",
        libc::SYS_recvfrom,
        [to, at_mut(&mut room), 3, peek, 0, 0],
    );
    let args = [
        to,
        at_mut(&mut room),
        20,
        0,
        at_mut(&mut source),
        at_mut(&mut length),
    ];
    let _ = sys.check("recvfrom", libc::SYS_recvfrom, args);
    sys.note("source", bytes_of(&source) == bytes_of(&udp_address(&a)));
    sys.note("length", length);
    let _ = sys.check(
        "sendto",
        libc::SYS_sendto,
        [from, at("too long"), 8, 0, at(&target), size],
    );
    let _ = sys.check(
        "cut",
        libc::SYS_recvfrom,
        [to, at_mut(&mut room), 3, 0, 0, 0],
    );
    let _ = sys.check(
        "sendto",
        libc::SYS_sendto,
        [from, at("too long"), 8, 0, at(&target), size],
    );
    let _ = sys.check(
        "the true length",
        libc::SYS_recvfrom,
        [to, at_mut(&mut room), 3, libc::MSG_TRUNC as usize, 0, 0],
    );
    // MSG_WAITALL means nothing for datagrams.
    let _ = sys.check(
        "sendto",
        libc::SYS_sendto,
        [from, at("short"), 5, 0, at(&target), size],
    );
    let _ = sys.check(
        "all",
        libc::SYS_recvfrom,
        [to, at_mut(&mut room), 20, libc::MSG_WAITALL as usize, 0, 0],
    );
    let mut vector = [iovec_mut(&mut room)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    header.msg_name = at_mut(&mut source) as *mut _;
    header.msg_namelen = size as u32;
    let _ = sys.check(
        "sendto",
        libc::SYS_sendto,
        [
            from,
            at("in a message that is too long"),
            29,
            0,
            at(&target),
            size,
        ],
    );
    let _ = sys.check("recvmsg", libc::SYS_recvmsg, [to, at_mut(&mut header), 0]);
    sys.note("flags", (header.msg_flags, header.msg_namelen));
    sys.note("source", source.sin_port == udp_address(&a).sin_port);
    let _ = sys.check("no target", libc::SYS_sendto, [from, at("x"), 1, 0, 0, 0]);
    let big = vec![0u8; 70_000];
    let _ = sys.check(
        "too big",
        libc::SYS_sendto,
        [from, at(&big[..]), big.len(), 0, at(&target), size],
    );
    let _ = sys.check("connect", libc::SYS_connect, [from, at(&target), size]);
    if !sys.short {
        let _ = sys.check("write", libc::SYS_write, [from, at("written"), 7]);
        let _ = sys.check("read", libc::SYS_read, [to, at_mut(&mut room), 20]);
        sys.note("read", room);
    }
    // To a port where nobody is: the next call says so.
    drop(b);
    let _ = sys.check(
        "sendto nobody",
        libc::SYS_sendto,
        [from, at("x"), 1, 0, 0, 0],
    );
    let _ = sys.check(
        "refused",
        libc::SYS_recvfrom,
        [
            from,
            at_mut(&mut room),
            20,
            libc::MSG_DONTWAIT as usize,
            0,
            0,
        ],
    );
}

fn datagrams_that_wait(sys: &mut Sys<'_>) {
    let (a, b) = udp();
    let to = b.as_raw_fd().arg();
    let target = b.local_addr().unwrap();
    let mut room = [0u8; 20];
    let mut source: libc::sockaddr_in = zeroed();
    let mut length = size_of_val(&source) as u32;
    let copy = a.try_clone().unwrap();
    let peer = later(move || copy.send_to(b"at last", target).unwrap());
    let args = [
        to,
        at_mut(&mut room),
        20,
        0,
        at_mut(&mut source),
        at_mut(&mut length),
    ];
    let _ = sys.check("recvfrom", libc::SYS_recvfrom, args);
    sys.note("source", bytes_of(&source) == bytes_of(&udp_address(&a)));
    sys.note("read", room);
    peer.join().unwrap();
    let peer = later(move || a.send_to(b"in a message", target).unwrap());
    let mut vector = [iovec_mut(&mut room)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    header.msg_name = at_mut(&mut source) as *mut _;
    header.msg_namelen = length;
    let _ = sys.check("recvmsg", libc::SYS_recvmsg, [to, at_mut(&mut header), 0]);
    sys.note("header", (header.msg_namelen, header.msg_flags));
    peer.join().unwrap();
    let (c, d) = datagram_pair();
    while rustix::net::send(&c, b"x", rustix::net::SendFlags::DONTWAIT).is_ok() {}
    let peer = later(move || {
        let mut count = 0;
        let mut room = [0u8; 10];
        while rustix::io::read(&d, &mut room).unwrap() == 1 {
            count += 1;
        }
        count
    });
    let _ = sys.check(
        "send",
        libc::SYS_sendto,
        [c.arg(), at("the last"), 8, 0, 0, 0],
    );
    sys.note("before it", peer.join().unwrap());
}

fn headers(rooms: &mut [[u8; 20]], vectors: &mut Vec<libc::iovec>) -> Vec<libc::mmsghdr> {
    vectors.clear();
    vectors.extend(rooms.iter_mut().map(|room| iovec_mut(room)));
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
    let mut rooms = [
        *b"a datagram .........",
        *b"another datagram ...",
        *b"and yet a datagram .",
    ];
    let mut vectors = Vec::new();
    let mut messages = headers(&mut rooms, &mut vectors);
    let address = at_mut(&mut messages[..]);
    let _ = sys.check("sendmmsg", libc::SYS_sendmmsg, [a.arg(), address, 3, 0]);
    sys.note(
        "lengths",
        messages
            .iter()
            .map(|message| message.msg_len)
            .collect::<Vec<_>>(),
    );
    let _ = sys.check("recvmmsg", libc::SYS_recvmmsg, [b.arg(), address, 2, 0, 0]);
    let one = libc::MSG_WAITFORONE as usize;
    let _ = sys.check(
        "recvmmsg, at least one",
        libc::SYS_recvmmsg,
        [b.arg(), address, 3, one, 0],
    );
    let _ = sys.check(
        "recvmmsg of none",
        libc::SYS_recvmmsg,
        [b.arg(), address, 0, 0, 0],
    );
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let peer = later(move || {
        for text in [b"1", b"2", b"3"] {
            rustix::io::write(&copy, text).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    let _ = sys.check(
        "recvmmsg of all",
        libc::SYS_recvmmsg,
        [b.arg(), address, 3, 0, 0],
    );
    peer.join().unwrap();
    sys.note("rooms", rooms.concat());
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let peer = later(move || rustix::io::write(&copy, b"1").unwrap());
    let _ = sys.check(
        "the first of them",
        libc::SYS_recvmmsg,
        [b.arg(), address, 3, one, 0],
    );
    peer.join().unwrap();
    while rustix::net::send(&a, b"x", rustix::net::SendFlags::DONTWAIT).is_ok() {}
    let _ = sys.check(
        "no room",
        libc::SYS_sendmmsg,
        [a.arg(), address, 3, libc::MSG_DONTWAIT as usize],
    );
    let copy = own(plain(libc::SYS_dup, [b.arg()]));
    let peer = later(move || drain(&copy).len());
    let _ = sys.check("room later", libc::SYS_sendmmsg, [a.arg(), address, 3, 0]);
    peer.join().unwrap();
}

/// The time-out of recvmmsg is looked at after each datagram.
fn many_datagrams_within_a_time(sys: &mut Sys<'_>) {
    let (a, b) = datagram_pair();
    let mut rooms = [[0u8; 20]; 3];
    let mut vectors = Vec::new();
    let mut messages = headers(&mut rooms, &mut vectors);
    let address = at_mut(&mut messages[..]);
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    rustix::io::write(&a, b"first").unwrap();
    let copy = own(plain(libc::SYS_dup, [a.arg()]));
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let until = over.clone();
    // More and more of them: a second that comes before the call begins leaves it waiting for a third.
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
    // Two where nothing is late. One, where the kernel's own business (of a ring that goes away) interrupts it.
    sys.note("some of three", matches!(received, Ok(1..=3)));
    peer.join().unwrap();
    time = libc::timespec {
        tv_sec: 0,
        tv_nsec: -1,
    };
    let _ = sys.check(
        "a bad time",
        libc::SYS_recvmmsg,
        [b.arg(), address, 3, 0, at_mut(&mut time)],
    );
}

/// A message that carries descriptors.
#[repr(C, align(8))]
struct Freight {
    header: libc::cmsghdr,
    fds: [i32; 2],
}

impl Freight {
    fn new(fds: [i32; 2]) -> Freight {
        let mut header: libc::cmsghdr = zeroed();
        header.cmsg_len = (size_of::<libc::cmsghdr>() + 8) as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SCM_RIGHTS;
        Freight { header, fds }
    }
}

fn message_with(freight: &mut Freight, vector: &mut [libc::iovec]) -> libc::msghdr {
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = vector.len() as _;
    header.msg_control = at_mut(freight) as *mut _;
    header.msg_controllen = size_of::<Freight>() as _;
    header
}

fn descriptors_as_freight(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let file = sys.file("file", b"0123456789");
    for waits in [false, true] {
        sys.note("waits", waits);
        let mut freight = Freight::new([file.as_raw_fd(); 2]);
        let mut vector = [iovec(b"freight")];
        let header = message_with(&mut freight, &mut vector);
        let send =
            |sys: &mut Sys<'_>| sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0]);
        let mut room = [0u8; 20];
        let mut received = Freight::new([-1, -1]);
        let mut vector = [iovec_mut(&mut room)];
        let mut answer = message_with(&mut received, &mut vector);
        let flags = libc::MSG_CMSG_CLOEXEC as usize;
        if waits {
            let (from, message) = (a.arg(), at(&header));
            let peer = later(move || plain(libc::SYS_sendmsg, [from, message, 0]));
            let _ = sys.check(
                "recvmsg",
                libc::SYS_recvmsg,
                [b.arg(), at_mut(&mut answer), flags],
            );
            sys.note("sent", peer.join().unwrap());
        } else {
            let _ = send(sys);
            let _ = sys.check(
                "recvmsg",
                libc::SYS_recvmsg,
                [b.arg(), at_mut(&mut answer), flags],
            );
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
            let _ = sys.check(
                "read",
                libc::SYS_pread64,
                [fd.arg(), at_mut(&mut byte), 3, 4],
            );
            sys.note("read", byte);
        }
    }
    // No room for the freight.
    let mut freight = Freight::new([file.as_raw_fd(); 2]);
    let mut vector_of_freight = [iovec(b"freight")];
    let header = message_with(&mut freight, &mut vector_of_freight);
    let _ = sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0]);
    let mut room = [0u8; 20];
    let mut vector = [iovec_mut(&mut room)];
    let mut answer: libc::msghdr = zeroed();
    answer.msg_iov = vector.as_mut_ptr();
    answer.msg_iovlen = 1;
    let _ = sys.check(
        "recvmsg",
        libc::SYS_recvmsg,
        [b.arg(), at_mut(&mut answer), 0],
    );
    sys.note("flags", answer.msg_flags);
    let mut freight = Freight::new([-1, -1]);
    let header = message_with(&mut freight, &mut vector_of_freight);
    let _ = sys.check(
        "a bad descriptor",
        libc::SYS_sendmsg,
        [a.arg(), at(&header), 0],
    );
}

/// The message does not fit at once; its freight arrives once all the same.
fn descriptors_as_freight_of_a_long_message(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let file = sys.file("file", b"0123456789");
    let bytes = pattern(if sys.short { 2_000 } else { 500_000 }, 3);
    fill(&a);
    let filled = rustix_bytes_waiting(&b);
    let wanted = filled + bytes.len();
    let peer = later(move || {
        let (mut total, mut fds, mut all) = (0, 0, Vec::new());
        while total < wanted {
            let mut room = [0u8; 10_000];
            let mut received = Freight::new([-1, -1]);
            let mut vector = [iovec_mut(&mut room)];
            let mut answer = message_with(&mut received, &mut vector);
            let read = plain(libc::SYS_recvmsg, [b.arg(), at_mut(&mut answer), 0]).unwrap();
            if read == 0 {
                break;
            }
            total += read;
            all.extend_from_slice(&room[..read]);
            if answer.msg_controllen > 0 {
                for fd in received.fds {
                    drop(own(Ok(fd as usize)));
                    fds += 1;
                }
            }
        }
        (fds, all)
    });
    let mut freight = Freight::new([file.as_raw_fd(); 2]);
    let mut vector = [iovec(&bytes[..100]), iovec(&bytes[100..])];
    let header = message_with(&mut freight, &mut vector);
    let _ = sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0]);
    drop(a);
    let (fds, all) = peer.join().unwrap();
    sys.note("descriptors", fds);
    sys.note("bytes", all.len() == wanted && all[filled..] == bytes);
}

fn rustix_bytes_waiting(fd: &OwnedFd) -> usize {
    rustix::io::ioctl_fionread(fd).unwrap() as usize
}

fn socket_administration(sys: &mut Sys<'_>) {
    let stream = libc::SOCK_STREAM as usize;
    let socket = sys
        .open(
            "socket",
            libc::SYS_socket,
            [libc::AF_INET as usize, stream, 0],
        )
        .unwrap();
    let address = local_address(0);
    let size = size_of_val(&address);
    let one = 1i32;
    let reuse = [
        socket.arg(),
        libc::SOL_SOCKET as usize,
        libc::SO_REUSEADDR as usize,
        at(&one),
        4,
    ];
    let _ = sys.check("setsockopt", libc::SYS_setsockopt, reuse);
    let _ = sys.check("bind", libc::SYS_bind, [socket.arg(), at(&address), size]);
    let _ = sys.check(
        "bind again",
        libc::SYS_bind,
        [socket.arg(), at(&address), size],
    );
    let _ = sys.check("listen", libc::SYS_listen, [socket.arg(), 5]);
    let mut name: libc::sockaddr_in = zeroed();
    let mut length = size as u32;
    let _ = sys.check(
        "getsockname",
        libc::SYS_getsockname,
        [socket.arg(), at_mut(&mut name), at_mut(&mut length)],
    );
    sys.note("a port", name.sin_port != 0);
    let _ = sys.check(
        "getpeername",
        libc::SYS_getpeername,
        [socket.arg(), at_mut(&mut name), at_mut(&mut length)],
    );
    let mut value = 0i32;
    length = 4;
    let get = [
        socket.arg(),
        libc::SOL_SOCKET as usize,
        libc::SO_ACCEPTCONN as usize,
        at_mut(&mut value),
        at_mut(&mut length),
    ];
    let _ = sys.check("getsockopt", libc::SYS_getsockopt, get);
    sys.note("listens", value);
    let _ = sys.check("no such family", libc::SYS_socket, [99, stream, 0]);
    let _ = sys.check(
        "no such kind",
        libc::SYS_socket,
        [libc::AF_INET as usize, 99, 0],
    );
    let mut pair = [0i32; 2];
    let _ = sys.check(
        "socketpair",
        libc::SYS_socketpair,
        [libc::AF_UNIX as usize, stream, 0, at_mut(&mut pair)],
    );
    let [a, b] = pair.map(|fd| own(Ok(fd as usize)));
    let _ = sys.check(
        "shutdown",
        libc::SYS_shutdown,
        [a.arg(), libc::SHUT_WR as usize],
    );
    let mut byte = [0u8];
    let _ = sys.check("read", libc::SYS_read, [b.arg(), at_mut(&mut byte), 1]);
    let _ = sys.check("shutdown, unknown", libc::SYS_shutdown, [a.arg(), 99]);
}

fn accepting(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let fd = listener.as_raw_fd().arg();
    let connect = || std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    for (what, flags) in [
        ("nothing", 0),
        ("CLOEXEC", libc::SOCK_CLOEXEC),
        ("NONBLOCK", libc::SOCK_NONBLOCK),
    ] {
        let client = connect();
        let mut address: libc::sockaddr_in = zeroed();
        let mut length = size_of_val(&address) as u32;
        let args = [
            fd,
            at_mut(&mut address),
            at_mut(&mut length),
            flags as usize,
        ];
        let accepted = sys.open(what, libc::SYS_accept4, args).unwrap();
        sys.note(
            "address",
            address.sin_port == client.local_addr().unwrap().port().to_be(),
        );
        sys.note("length", length);
        sys.note("flags", rustix::io::fcntl_getfd(&accepted).unwrap());
        sys.note("status flags", rustix::fs::fcntl_getfl(&accepted).unwrap());
    }
    let _keep = connect();
    let _ = sys.check("unknown", libc::SYS_accept4, [fd, 0, 0, 0x1234]);
    let mut length = 0u32;
    let no_room = sys.open(
        "no room",
        libc::SYS_accept4,
        [fd, at_mut(&mut [0u8; 16]), at_mut(&mut length), 0],
    );
    sys.note("length", length);
    drop(no_room);
    #[cfg(target_arch = "x86_64")]
    {
        let _keep = connect();
        drop(sys.open("accept", libc::SYS_accept, [fd, 0, 0]));
    }
}

fn accepting_waits(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let address = listener.local_addr().unwrap();
    let peer = later(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"hello").unwrap();
        stream
    });
    let accepted = sys
        .open(
            "accept4",
            libc::SYS_accept4,
            [listener.as_raw_fd().arg(), 0, 0, 0],
        )
        .unwrap();
    let mut room = [0u8; 10];
    let _ = sys.check(
        "read",
        libc::SYS_read,
        [accepted.arg(), at_mut(&mut room), 10],
    );
    sys.note("read", room);
    peer.join().unwrap();
}

fn connecting(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let address = tcp_address(&listener);
    let size = size_of_val(&address);
    let socket = |kind: i32| {
        own(plain(
            libc::SYS_socket,
            [libc::AF_INET as usize, kind as usize, 0],
        ))
    };
    let client = socket(libc::SOCK_STREAM);
    let _ = sys.check(
        "connect",
        libc::SYS_connect,
        [client.arg(), at(&address), size],
    );
    let _ = sys.check(
        "again",
        libc::SYS_connect,
        [client.arg(), at(&address), size],
    );
    drop(listener);
    let client = socket(libc::SOCK_STREAM);
    let _ = sys.check(
        "refused",
        libc::SYS_connect,
        [client.arg(), at(&address), size],
    );
    let _ = sys.check(
        "too short",
        libc::SYS_connect,
        [client.arg(), at(&address), 3],
    );
    let mut wrong = address;
    wrong.sin_family = 99;
    let _ = sys.check(
        "another family",
        libc::SYS_connect,
        [client.arg(), at(&wrong), size],
    );
    let datagram = socket(libc::SOCK_DGRAM);
    let _ = sys.check(
        "a datagram socket",
        libc::SYS_connect,
        [datagram.arg(), at(&address), size],
    );
    let local = own(plain(
        libc::SYS_socket,
        [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0],
    ));
    let (name, length) = unix_address("none");
    let _ = sys.check(
        "no such name",
        libc::SYS_connect,
        [local.arg(), at(&name), length],
    );
    let _file = sys.file("file", b"");
    let (name, length) = unix_address(sys.dir.join("file").to_str().unwrap());
    let _ = sys.check(
        "a name of a file",
        libc::SYS_connect,
        [local.arg(), at(&name), length],
    );
}

fn unix_address(name: &str) -> (libc::sockaddr_un, usize) {
    let mut address: libc::sockaddr_un = zeroed();
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    (address, size_of::<libc::sockaddr_un>())
}

/// A local socket whose backlog is full makes `connect` wait.
fn connecting_to_a_full_backlog(sys: &mut Sys<'_>) {
    let name = sys.dir.join("socket");
    let listener = own(plain(
        libc::SYS_socket,
        [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0],
    ));
    let (address, length) = unix_address(name.to_str().unwrap());
    plain(libc::SYS_bind, [listener.arg(), at(&address), length]).unwrap();
    plain(libc::SYS_listen, [listener.arg(), 0]).unwrap();
    let socket = |flags: i32| {
        own(plain(
            libc::SYS_socket,
            [
                libc::AF_UNIX as usize,
                (libc::SOCK_STREAM | flags) as usize,
                0,
            ],
        ))
    };
    let first = socket(0);
    let _ = sys.check(
        "connect",
        libc::SYS_connect,
        [first.arg(), at(&address), length],
    );
    let nonblocking = socket(libc::SOCK_NONBLOCK);
    let _ = sys.check(
        "nonblocking",
        libc::SYS_connect,
        [nonblocking.arg(), at(&address), length],
    );
    let second = socket(0);
    let accepting = own(plain(libc::SYS_dup, [listener.arg()]));
    let peer = later(move || {
        let one = own(plain(libc::SYS_accept4, [accepting.arg(), 0, 0, 0]));
        (
            one,
            own(plain(libc::SYS_accept4, [accepting.arg(), 0, 0, 0])),
        )
    });
    let _ = sys.check(
        "connect",
        libc::SYS_connect,
        [second.arg(), at(&address), length],
    );
    peer.join().unwrap();
}

fn event_descriptors(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let event = sys.open("eventfd2", libc::SYS_eventfd2, [3, 0]).unwrap();
    let mut word = 0u64;
    let _ = sys.check("read", libc::SYS_read, [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    word = 5;
    let _ = sys.check("write", libc::SYS_write, [event.arg(), at(&word), 8]);
    let _ = sys.check("write", libc::SYS_write, [event.arg(), at(&word), 8]);
    let _ = sys.check("read", libc::SYS_read, [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    let copy = own(plain(libc::SYS_dup, [event.arg()]));
    let peer = later(move || rustix::io::write(&copy, &7u64.to_ne_bytes()).unwrap());
    let _ = sys.check("read", libc::SYS_read, [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    peer.join().unwrap();
    word = u64::MAX;
    let _ = sys.check("too much", libc::SYS_write, [event.arg(), at(&word), 8]);
    word = u64::MAX - 1;
    let _ = sys.check("full", libc::SYS_write, [event.arg(), at(&word), 8]);
    let copy = own(plain(libc::SYS_dup, [event.arg()]));
    let peer = later(move || rustix::io::read(&copy, &mut [0u8; 8]).unwrap());
    let _ = sys.check("more", libc::SYS_write, [event.arg(), at(&1u64), 8]);
    peer.join().unwrap();
    let semaphore = own(plain(libc::SYS_eventfd2, [2, libc::EFD_SEMAPHORE as usize]));
    let _ = sys.check(
        "semaphore",
        libc::SYS_read,
        [semaphore.arg(), at_mut(&mut word), 8],
    );
    sys.note("word", word);
    let _ = sys.check(
        "pread64",
        libc::SYS_pread64,
        [semaphore.arg(), at_mut(&mut word), 8, 0],
    );
    // A signalfd, whose reads are of the thread that reads: in the background there is nothing for it,
    // so only what is wrong with it is compared.
    let _ = sys.check(
        "signalfd4",
        libc::SYS_signalfd4,
        [event.arg(), at(&0u64), 8, 0],
    );
}

fn timers(sys: &mut Sys<'_>) {
    let timer = sys
        .open(
            "timerfd_create",
            libc::SYS_timerfd_create,
            [libc::CLOCK_MONOTONIC as usize, 0],
        )
        .unwrap();
    let mut time: libc::itimerspec = zeroed();
    time.it_value.tv_nsec = 3_000_000;
    let mut word = 0u64;
    let _ = sys.check(
        "timerfd_settime",
        libc::SYS_timerfd_settime,
        [timer.arg(), 0, at(&time), 0],
    );
    if !sys.short {
        let _ = sys.check("read", libc::SYS_read, [timer.arg(), at_mut(&mut word), 8]);
        sys.note("word", word);
    }
    time.it_value.tv_nsec = -1;
    let _ = sys.check(
        "a bad time",
        libc::SYS_timerfd_settime,
        [timer.arg(), 0, at(&time), 0],
    );
    let _ = sys.check(
        "timerfd_gettime",
        libc::SYS_timerfd_gettime,
        [timer.arg(), at_mut(&mut time)],
    );
}

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; 40],
}

fn message_queues(sys: &mut Sys<'_>) {
    let queue = sys
        .call(libc::SYS_msgget, [libc::IPC_PRIVATE as usize, 0o600])
        .expect("a queue");
    let mut message = Message {
        kind: 3,
        text: *b"a message, rather long, in a room of it.",
    };
    let _ = sys.check("msgsnd", libc::SYS_msgsnd, [queue, at(&message), 10, 0]);
    message.kind = 5;
    let _ = sys.check("msgsnd", libc::SYS_msgsnd, [queue, at(&message), 20, 0]);
    message.kind = -1;
    let _ = sys.check("a bad kind", libc::SYS_msgsnd, [queue, at(&message), 20, 0]);
    let _ = sys.check(
        "of a kind",
        libc::SYS_msgrcv,
        [queue, at_mut(&mut message), 40, 5, 0],
    );
    let _ = sys.check(
        "no room",
        libc::SYS_msgrcv,
        [queue, at_mut(&mut message), 3, 0, 0],
    );
    let _ = sys.check(
        "cut",
        libc::SYS_msgrcv,
        [
            queue,
            at_mut(&mut message),
            3,
            0,
            libc::MSG_NOERROR as usize,
        ],
    );
    let none = libc::IPC_NOWAIT as usize;
    let _ = sys.check(
        "none",
        libc::SYS_msgrcv,
        [queue, at_mut(&mut message), 40, 0, none],
    );
    let peer = later(move || {
        let message = Message {
            kind: 9,
            text: [7; 40],
        };
        plain(libc::SYS_msgsnd, [queue, at(&message), 15, 0])
    });
    let _ = sys.check(
        "later",
        libc::SYS_msgrcv,
        [queue, at_mut(&mut message), 40, 0, 0],
    );
    sys.note("message", (message.kind, message.text));
    peer.join().unwrap().unwrap();
    let mut sent = 0;
    while plain(libc::SYS_msgsnd, [queue, at(&message), 40, none]).is_ok() {
        sent += 1;
    }
    let _ = sys.check("full", libc::SYS_msgsnd, [queue, at(&message), 40, none]);
    let peer = later(move || {
        let mut message = Message {
            kind: 0,
            text: [0; 40],
        };
        plain(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, 0])
    });
    let _ = sys.check("room later", libc::SYS_msgsnd, [queue, at(&message), 40, 0]);
    peer.join().unwrap().unwrap();
    sys.note("sent", sent);
    while plain(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, none]).is_ok() {}
    // A queue that goes away wakes those who wait for it.
    let peer = later(move || plain(libc::SYS_msgctl, [queue, libc::IPC_RMID as usize, 0]));
    let removed = sys.call(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, 0]);
    let errno = removed.map_err(laio::Errno::raw);
    sys.note("removed", matches!(errno, Err(libc::EIDRM | libc::EINVAL)));
    peer.join().unwrap().unwrap();
    let _ = sys.check(
        "no such queue",
        libc::SYS_msgsnd,
        [queue, at(&message), 40, 0],
    );

    let set = sys
        .call(libc::SYS_semget, [libc::IPC_PRIVATE as usize, 1, 0o600])
        .expect("a semaphore");
    let operation = |by: i16| libc::sembuf {
        sem_num: 0,
        sem_op: by,
        sem_flg: 0,
    };
    let (up, down) = (operation(1), operation(-1));
    let _ = sys.check("semop", libc::SYS_semop, [set, at(&up), 1]);
    let _ = sys.check("semop", libc::SYS_semop, [set, at(&down), 1]);
    let soon = libc::timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    let _ = sys.check(
        "semtimedop",
        libc::SYS_semtimedop,
        [set, at(&down), 1, at(&soon)],
    );
    let peer = later(move || plain(libc::SYS_semop, [set, at(&operation(1)), 1]));
    let _ = sys.check("later", libc::SYS_semtimedop, [set, at(&down), 1, 0]);
    peer.join().unwrap().unwrap();
    let _ = sys.check(
        "semctl",
        libc::SYS_semctl,
        [set, 0, libc::IPC_RMID as usize],
    );
    let _ = sys.check("no such set", libc::SYS_semop, [set, at(&down), 1]);
}

fn posix_message_queues(sys: &mut Sys<'_>) {
    let name = format!("laio-{}-{:p}\0", std::process::id(), sys);
    let mut attributes = [0i64; 8];
    (attributes[1], attributes[2]) = (2, 16);
    let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
    let Ok(queue) = plain(
        libc::SYS_mq_open,
        [at(name.as_str()), flags, 0o600, at(&attributes)],
    ) else {
        return;
    };
    let queue = own(Ok(queue));
    let _ = sys.check("mq_unlink", libc::SYS_mq_unlink, [at(name.as_str())]);
    let mut room = [0u8; 16];
    let _ = sys.check(
        "send",
        libc::SYS_mq_timedsend,
        [queue.arg(), at("one"), 3, 1, 0],
    );
    let _ = sys.check(
        "send",
        libc::SYS_mq_timedsend,
        [queue.arg(), at("two"), 3, 2, 0],
    );
    let past = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let _ = sys.check(
        "full",
        libc::SYS_mq_timedsend,
        [queue.arg(), at("three"), 5, 3, at(&past)],
    );
    let mut priority = 0u32;
    let receive = [queue.arg(), at_mut(&mut room), 16, at_mut(&mut priority), 0];
    let _ = sys.check("receive", libc::SYS_mq_timedreceive, receive);
    sys.note("priority", priority);
    let _ = sys.check("receive", libc::SYS_mq_timedreceive, receive);
    let copy = own(plain(libc::SYS_dup, [queue.arg()]));
    let peer = later(move || plain(libc::SYS_mq_timedsend, [copy.arg(), at("late"), 4, 7, 0]));
    let _ = sys.check("receive later", libc::SYS_mq_timedreceive, receive);
    sys.note("received", (room, priority));
    peer.join().unwrap().unwrap();
    let _ = sys.check(
        "no room",
        libc::SYS_mq_timedreceive,
        [queue.arg(), at_mut(&mut room), 1, 0, 0],
    );
}

fn terminals(sys: &mut Sys<'_>) {
    // SAFETY: grantpt, unlockpt and ptsname_r are given a descriptor of our own and a buffer with its
    // length.
    let (master, name) = unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        if master < 0 {
            return;
        }
        let mut name = [0u8; 64];
        assert_eq!(libc::grantpt(master), 0);
        assert_eq!(libc::unlockpt(master), 0);
        assert_eq!(libc::ptsname_r(master, name.as_mut_ptr().cast(), 64), 0);
        (own(Ok(master as usize)), name)
    };
    let flags = (libc::O_RDWR | libc::O_NOCTTY) as usize;
    let terminal = sys.open(
        "open",
        libc::SYS_openat,
        [libc::AT_FDCWD.arg(), at(&name), flags],
    );
    let terminal = terminal.unwrap();
    let mut room = [0u8; 20];
    let _ = sys.check("write", libc::SYS_write, [master.arg(), at("a line\n"), 7]);
    if !sys.short {
        let _ = sys.check(
            "read",
            libc::SYS_read,
            [terminal.arg(), at_mut(&mut room), 20],
        );
        sys.note("read", room);
        let copy = own(plain(libc::SYS_dup, [master.arg()]));
        let peer = later(move || rustix::io::write(&copy, b"later\n").unwrap());
        let _ = sys.check(
            "read later",
            libc::SYS_read,
            [terminal.arg(), at_mut(&mut room), 20],
        );
        sys.note("read", room);
        peer.join().unwrap();
    }
    let _ = sys.check("write", libc::SYS_write, [terminal.arg(), at("out"), 3]);
    laio_testing::limit::wait_until(LIMIT, || rustix::io::ioctl_fionread(&master).unwrap() > 0);
    drop(terminal);
    let _ = sys.check(
        "the last of it",
        libc::SYS_read,
        [master.arg(), at_mut(&mut room), 1],
    );
}
