//! Rule 1, results are those of the plain call: pipes and stream sockets.

use crate::harness::{
    Arg, Sys, at, at_mut, iovec, iovec_mut, later, own, plain, wait_until_closed, wait_until_ready,
    wait_until_there, zeroed,
};
use laio_testing::or_skip;
use laio_testing::temp::{fill, holds, pattern, pipe, stream_pair, tcp_pair};
use rustix::event::PollFlags;
use std::io::{Read, Write};
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
}

fn pipes(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut buffer = [0u8; 100];
    same!(sys, "write" => SYS_write [writer.arg(), at("hello, world"), 12]);
    same!(sys, "read of less" => SYS_read [reader.arg(), at_mut(&mut buffer), 5]);
    sys.note("read", buffer);
    same!(sys, "read of more" => SYS_read [reader.arg(), at_mut(&mut buffer), 100]);
    sys.note("read", buffer);
    let vector = [iovec(b"ab"), iovec(b""), iovec(b"cdefg")];
    same!(sys, "writev" => SYS_writev [writer.arg(), at(&vector), 3]);
    let (left, right) = buffer.split_at_mut(3);
    let vector = [iovec_mut(left), iovec_mut(right)];
    same!(sys, "readv" => SYS_readv [reader.arg(), at(&vector), 2]);
    sys.note("read", buffer);
    let size = sys.check(
        "F_SETPIPE_SZ",
        libc::SYS_fcntl,
        [writer.arg(), libc::F_SETPIPE_SZ as usize, 4096],
    );
    sys.note("size", size);
    let mut count = 0i32;
    same!(sys, "FIONREAD" => SYS_ioctl [reader.arg(), libc::FIONREAD as usize, at_mut(&mut count)]);
    let mut pair = [0i32; 2];
    same!(sys, "pipe2" => SYS_pipe2 [at_mut(&mut pair), libc::O_CLOEXEC as usize]);
    for fd in pair {
        drop(own(Ok(fd as usize)));
    }
}

fn pipes_that_wait(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut buffer = [0u8; 100];
    let peer = later(move || {
        rustix::io::write(&writer, b"at last").unwrap();
        writer
    });
    same!(sys, "read" => SYS_read [reader.arg(), at_mut(&mut buffer), 100]);
    sys.note("read", buffer);
    let writer = peer.join().unwrap();
    let peer = later(move || drop(writer));
    same!(sys, "read of the end" => SYS_read [reader.arg(), at_mut(&mut buffer), 100]);
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
    same!(sys, "write" => SYS_write [writer.arg(), at(&bytes[..]), bytes.len()]);
    sys.note("arrived", peer.join().unwrap()[filled..] == bytes);

    // The reader closes its end while the write is in progress.
    let (reader, writer) = pipe();
    let filled = fill(&writer);
    let peer = later(move || {
        let mut file = std::fs::File::from(reader);
        file.read_exact(&mut vec![0; filled]).unwrap();
    });
    if !sys.short {
        // The number of bytes that fit depends on when the reader empties the pipe.
        let written = sys.call(libc::SYS_write, [writer.arg(), at(&bytes[..]), bytes.len()]);
        let ended = written.map_or_else(
            |errno| errno == laio::Errno::PIPE,
            |some| some < bytes.len(),
        );
        sys.note("write", ended);
    }
    peer.join().unwrap();
    // A process that another test starts has a copy of the reader's end until it executes its program.
    wait_until_closed(&writer);
    same!(sys, "write after it" => SYS_write [writer.arg(), at(&bytes[..]), 10]);
}

/// With O_DIRECT each write is a packet.
fn packets_in_pipes(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::DIRECT).unwrap();
    // Each packet takes a page.
    if or_skip(holds(&writer, 64 << 10)).is_none() {
        return;
    }
    for text in ["one", "two", "three"] {
        same!(sys, "write" => SYS_write [writer.arg(), at(text), text.len()]);
    }
    let mut buffer = [0u8; 100];
    same!(sys, "read" => SYS_read [reader.arg(), at_mut(&mut buffer), 100]);
    same!(sys, "read of less" => SYS_read [reader.arg(), at_mut(&mut buffer), 1]);
    same!(sys, "read of the next" => SYS_read [reader.arg(), at_mut(&mut buffer), 100]);
    sys.note("read", buffer);
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
        let mut buffer = [0u8; 100];
        same!(sys, "send" => SYS_sendto [a.arg(), at("hello, world"), 12, 0, 0, 0]);
        wait_until_there(&b, 12);
        let peek = libc::MSG_PEEK as usize;
        same!(sys, "peek" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 5, peek, 0, 0]);
        same!(sys, "recv" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 5, 0, 0, 0]);
        let waitall = libc::MSG_WAITALL as usize;
        same!(sys, "recv, all" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 7, waitall, 0, 0]);
        sys.note("read", buffer);
        same!(sys, "write" => SYS_write [b.arg(), at("answer"), 6]);
        wait_until_there(&a, 6);
        same!(sys, "read" => SYS_read [a.arg(), at_mut(&mut buffer), 100]);
        let vector = [iovec(b"ab"), iovec(b""), iovec(b"cdefg")];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_ptr().cast_mut();
        header.msg_iovlen = 3;
        same!(sys, "sendmsg" => SYS_sendmsg [a.arg(), at(&header), 0]);
        wait_until_there(&b, 7);
        let (left, right) = buffer.split_at_mut(3);
        let mut vector = [iovec_mut(left), iovec_mut(right)];
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 2;
        same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut header), 0]);
        sys.note("flags", header.msg_flags);
        sys.note("read", buffer);
        let mut length = 64u32;
        let mut address = [0u8; 64];
        rustix::io::write(&a, b"x").unwrap();
        let from = [
            b.arg(),
            at_mut(&mut buffer),
            10,
            0,
            at_mut(&mut address),
            at_mut(&mut length),
        ];
        let _ = sys.check("recvfrom", libc::SYS_recvfrom, from);
        sys.note("address", (length, address));
        same!(sys, "sendto" => SYS_sendto [a.arg(), at("y"), 1, 0, at(&address), 64]);
        let urgent = sys.check(
            "out of band",
            libc::SYS_sendto,
            [a.arg(), at("z"), 1, libc::MSG_OOB as usize, 0, 0],
        );
        if urgent.is_ok() {
            wait_until_ready(&b, PollFlags::PRI);
        }
        let _ = sys.check(
            "bad flags",
            libc::SYS_recvfrom,
            [
                b.arg(),
                at_mut(&mut buffer),
                10,
                libc::MSG_OOB as usize,
                0,
                0,
            ],
        );
    }
}

fn stream_sockets_that_wait(sys: &mut Sys<'_>) {
    let (a, b) = tcp_pair();
    let (a, b) = (OwnedFd::from(a), OwnedFd::from(b));
    let mut buffer = [0u8; 10];
    #[rustfmt::skip]
    let cases = [
        ("recv", libc::SYS_recvfrom, [b.arg(), at_mut(&mut buffer), 10, 0, 0, 0]),
        ("read", libc::SYS_read, [b.arg(), at_mut(&mut buffer), 10, 0, 0, 0]),
        ("recv, a byte", libc::SYS_recvfrom, [b.arg(), at_mut(&mut buffer), 1, 0, 0, 0]),
        ("recv, the rest", libc::SYS_recvfrom, [b.arg(), at_mut(&mut buffer), 10, 0, 0, 0]),
    ];
    for (what, number, args) in cases {
        let peer = own(plain(libc::SYS_dup, [a.arg()]));
        let peer = (what != "recv, the rest")
            .then(|| later(move || rustix::io::write(&peer, b"abc").unwrap()));
        let _ = sys.check(what, number, args);
        sys.note("read", buffer);
        if let Some(peer) = peer {
            peer.join().unwrap();
        }
    }
    let mut vector = [iovec_mut(&mut buffer)];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = vector.as_mut_ptr();
    header.msg_iovlen = 1;
    let peer = later(move || {
        rustix::io::write(&a, b"abcd").unwrap();
        rustix::net::shutdown(&a, rustix::net::Shutdown::Write).unwrap();
        a
    });
    same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut header), 0]);
    let _a = peer.join().unwrap();
    same!(sys, "recv of the end" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 10, 0, 0, 0]);

    // A message larger than the buffer of the socket arrives complete and in order.
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
        let mut buffer = [0u8; 10];
        let (a, b) = pair();
        rustix::io::write(&a, b"abc").unwrap();
        let peer = later(move || {
            rustix::io::write(&a, b"de").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(3));
            rustix::io::write(&a, b"fghijkl").unwrap();
            a
        });
        same!(sys, "all" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 10, waitall, 0, 0]);
        sys.note("read", buffer);
        let a = peer.join().unwrap();
        // Receives until the end, and so fewer than all bytes.
        let peer = later(move || drop(a));
        same!(sys, "what is left" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 10, waitall, 0, 0]);
        peer.join().unwrap();

        let (a, b) = pair();
        let peer = later(move || {
            rustix::io::write(&a, b"abcde").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(3));
            rustix::io::write(&a, b"fghijkl").unwrap();
            a
        });
        let (left, right) = buffer.split_at_mut(6);
        let mut vector = [iovec_mut(left), iovec_mut(right)];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 2;
        same!(sys, "all of a message" => SYS_recvmsg [b.arg(), at_mut(&mut header), waitall]);
        sys.note("read", buffer);
        peer.join().unwrap();
    }
}

/// Over TCP, a peek with MSG_WAITALL waits until all bytes are there. (The kernel itself sometimes
/// returns the first bytes only.) The engine must not assemble the result from several peeks.
fn peeking_waits_for_all(sys: &mut Sys<'_>) {
    let (mut a, b) = tcp_pair();
    a.write_all(b"abc").unwrap();
    let peer = later(move || {
        a.write_all(b"defghijkl").unwrap();
        a
    });
    let mut buffer = [0u8; 10];
    let flags = (libc::MSG_WAITALL | libc::MSG_PEEK) as usize;
    let args = [b.as_raw_fd().arg(), at_mut(&mut buffer), 10, flags, 0, 0];
    let seen = sys.call(libc::SYS_recvfrom, args).expect("a peek");
    sys.note("seen", (seen >= 3, buffer[..seen] == b"abcdefghij"[..seen]));
    peer.join().unwrap();
    let mut there = [0u8; 12];
    let mut b = b;
    b.read_exact(&mut there).unwrap();
    sys.note("still there", there);
}

/// With SO_RCVTIMEO a receive fails after that time.
fn receive_time_limits(sys: &mut Sys<'_>) {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    let (a, b) = stream_pair();
    let soon = Some(std::time::Duration::from_millis(10));
    set_socket_timeout(&b, Timeout::Recv, soon).unwrap();
    set_socket_timeout(&a, Timeout::Send, soon).unwrap();
    let mut buffer = [0u8; 10];
    same!(sys, "recv" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 10, 0, 0, 0]);
    same!(sys, "read" => SYS_read [b.arg(), at_mut(&mut buffer), 10]);
    rustix::io::write(&a, b"abc").unwrap();
    let waitall = libc::MSG_WAITALL as usize;
    same!(sys, "not all" => SYS_recvfrom [b.arg(), at_mut(&mut buffer), 10, waitall, 0, 0]);
    fill(&a);
    same!(sys, "send" => SYS_sendto [a.arg(), at(&pattern(100_000, 1)[..]), 100_000, 0, 0, 0]);
    let listener = crate::harness::lonely_listener();
    set_socket_timeout(&listener, Timeout::Recv, soon).unwrap();
    same!(sys, "accept4" => SYS_accept4 [listener.as_raw_fd().arg(), 0, 0, 0]);
}
