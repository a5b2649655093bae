//! Rule 1, results are those of the plain call: descriptors of unusual modes and kinds.

use crate::harness::{
    Arg, Sys, at, at_mut, iovec, iovec_mut, own, plain, wait_until_closed, wait_until_ready, zeroed,
};
use laio_testing::temp::{datagram_pair, drain, fill, pipe, stream_pair, tcp_pair};
use rustix::event::PollFlags;
use std::os::fd::{AsRawFd, OwnedFd};

scenarios! {
    about_files: true;
    nonblocking_descriptors,
    nonblocking_sockets,
    path_descriptors,
    directories_as_files,
    closed_peers,
    wrong_kinds,
}

fn nonblocking_descriptors(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut buffer = vec![0u8; 100_000];
    for fd in [&reader, &writer] {
        rustix::io::ioctl_fionbio(fd, true).unwrap();
    }
    let vector = [iovec(&buffer[..10])];
    same!(sys, "read of an empty pipe" => SYS_read [reader.arg(), at_mut(&mut buffer[..]), 10]);
    same!(sys, "readv" => SYS_readv [reader.arg(), at(&vector), 1]);
    if !sys.short {
        same!(sys, "preadv2" => SYS_preadv2 [reader.arg(), at(&vector), 1, usize::MAX, 0, 0]);
    }
    let written = sys.call(
        libc::SYS_write,
        [writer.arg(), at(&buffer[..]), buffer.len()],
    );
    // Small pieces do not fill the last page.
    let (written, slack) = (written.unwrap(), if sys.short { 16 } else { 0 });
    // The kernel gives a smaller pipe to a user with many pipes.
    let fits = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    sys.note("write of more than fits", fits - written <= slack);
    fill(&writer);
    same!(sys, "write to a full pipe" => SYS_write [writer.arg(), at(&buffer[..]), 10]);
    same!(sys, "writev" => SYS_writev [writer.arg(), at(&vector), 1]);
    drain(&reader);
    let (other, _keep) = pipe();
    let spliced = libc::SPLICE_F_NONBLOCK as usize;
    same!(sys, "splice" => SYS_splice [other.arg(), 0, writer.arg(), 0, 10, spliced]);
    same!(sys, "tee" => SYS_tee [other.arg(), writer.arg(), 10, spliced]);
    let event = own(plain(libc::SYS_eventfd2, [0, libc::EFD_NONBLOCK as usize]));
    if !sys.short {
        let mut word = u64::MAX - 1;
        same!(sys, "eventfd" => SYS_read [event.arg(), at_mut(&mut word), 8]);
        same!(sys, "eventfd, full" => SYS_write [event.arg(), at(&word), 8]);
        same!(sys, "eventfd, too much" => SYS_write [event.arg(), at(&word), 8]);
        let timer = own(plain(
            libc::SYS_timerfd_create,
            [1, libc::TFD_NONBLOCK as usize],
        ));
        same!(sys, "timerfd" => SYS_read [timer.arg(), at_mut(&mut word), 8]);
        let notify = own(plain(libc::SYS_inotify_init1, [libc::IN_NONBLOCK as usize]));
        same!(sys, "inotify" => SYS_read [notify.arg(), at_mut(&mut buffer[..]), 1000]);
    }
    let file = sys.file("file", b"0123456789");
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    same!(sys, "a file" => SYS_read [file.arg(), at_mut(&mut buffer[..]), 100]);
    same!(sys, "a file at its end" => SYS_read [file.arg(), at_mut(&mut buffer[..]), 100]);
}

fn nonblocking_sockets(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let (c, d) = datagram_pair();
    let mut memory = vec![0u8; 1 << 20];
    let buffer = at_mut(&mut memory[..]);
    for round in ["MSG_DONTWAIT", "O_NONBLOCK"] {
        sys.note("round", round);
        let flags = if round == "MSG_DONTWAIT" {
            libc::MSG_DONTWAIT as usize
        } else {
            0
        };
        if flags == 0 {
            for fd in [&a, &b, &c, &d] {
                rustix::io::ioctl_fionbio(fd, true).unwrap();
            }
            same!(sys, "read" => SYS_read [b.arg(), buffer, 10]);
        }
        let mut vector = [iovec_mut(&mut memory[..10])];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 1;
        let mut many = [libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }; 2];
        let waitall = flags | libc::MSG_WAITALL as usize;
        same!(sys, "recv" => SYS_recvfrom [b.arg(), buffer, 10, flags, 0, 0]);
        same!(sys, "recv, all" => SYS_recvfrom [b.arg(), buffer, 10, waitall, 0, 0]);
        same!(sys, "recvmsg" => SYS_recvmsg [b.arg(), at_mut(&mut header), flags]);
        same!(sys, "recvmmsg" => SYS_recvmmsg [d.arg(), at_mut(&mut many), 2, flags, 0]);
        rustix::io::write(&a, b"abc").unwrap();
        same!(sys, "recv, some of all" => SYS_recvfrom [b.arg(), buffer, 10, waitall, 0, 0]);
        rustix::io::write(&c, b"abc").unwrap();
        same!(sys, "recvmmsg, one of two" => SYS_recvmmsg [d.arg(), at_mut(&mut many), 2, flags, 0]);
        let sent = sys.call(libc::SYS_sendto, [a.arg(), buffer, 1 << 20, flags, 0, 0]);
        sys.note(
            "send of more than fits",
            sent.map(|sent| sent > 0 && sent < 1 << 20),
        );
        // A stream socket may still accept a few bytes, so this fills it completely.
        fill(&a);
        same!(sys, "send" => SYS_sendto [a.arg(), buffer, 1 << 16, flags, 0, 0]);
        same!(sys, "sendmsg" => SYS_sendmsg [a.arg(), at(&header), flags]);
        drain(&b);
        if flags == 0 {
            fill(&a);
            if !sys.short {
                same!(sys, "write" => SYS_write [a.arg(), buffer, 1 << 16]);
            }
            drain(&b);
        }
    }
    let stream = libc::SOCK_STREAM as usize | libc::SOCK_NONBLOCK as usize;
    let listener = crate::harness::lonely_listener();
    listener.set_nonblocking(true).unwrap();
    same!(sys, "accept4" => SYS_accept4 [listener.as_raw_fd().arg(), 0, 0, 0]);
    #[cfg(target_arch = "x86_64")]
    same!(sys, "accept" => SYS_accept [listener.as_raw_fd().arg(), 0, 0]);
    let address = crate::harness::tcp_address(&listener);
    let socket = own(plain(libc::SYS_socket, [libc::AF_INET as usize, stream, 0]));
    same!(sys, "connect" => SYS_connect [socket.arg(), at(&address), size_of_val(&address)]);
    laio_testing::limit::wait_until(crate::harness::LIMIT, || {
        plain(
            libc::SYS_getpeername,
            [socket.arg(), at_mut(&mut [0u8; 64]), at_mut(&mut 64u32)],
        )
        .is_ok()
    });
    same!(sys, "connect again" => SYS_connect [socket.arg(), at(&address), size_of_val(&address)]);
    same!(sys, "connect again" => SYS_connect [socket.arg(), at(&address), size_of_val(&address)]);
    // The client learns of the connection first.
    wait_until_ready(&listener, PollFlags::IN);
    let accepted = sys.open(
        "accept",
        libc::SYS_accept4,
        [
            listener.as_raw_fd().arg(),
            0,
            0,
            libc::SOCK_NONBLOCK as usize,
        ],
    );
    if let Some(accepted) = accepted {
        let flags = rustix::fs::fcntl_getfl(&accepted).unwrap();
        sys.note("flags", flags);
    }
}

fn path_descriptors(sys: &mut Sys<'_>) {
    sys.file("file", b"0123456789");
    let path = sys.path("file");
    let fd = own(plain(
        libc::SYS_openat,
        [libc::AT_FDCWD.arg(), path.arg(), libc::O_PATH as usize],
    ));
    let fd = fd.arg();
    let mut memory = [0u8; 200];
    let buffer = at_mut(&mut memory);
    same!(sys, "read" => SYS_read [fd, buffer, 8]);
    same!(sys, "pread64" => SYS_pread64 [fd, buffer, 8, 0]);
    same!(sys, "write" => SYS_write [fd, buffer, 8]);
    same!(sys, "pwrite64" => SYS_pwrite64 [fd, buffer, 8, 0]);
    same!(sys, "lseek" => SYS_lseek [fd, 0, 0]);
    same!(sys, "fsync" => SYS_fsync [fd]);
    same!(sys, "ftruncate" => SYS_ftruncate [fd, 0]);
    same!(sys, "fstat" => SYS_fstat [fd, buffer]);
    same!(sys, "getdents64" => SYS_getdents64 [fd, buffer, 200]);
    same!(sys, "flock" => SYS_flock [fd, libc::LOCK_SH as usize]);
    same!(sys, "fchmod" => SYS_fchmod [fd, 0o600]);
    same!(sys, "a name in a file" => SYS_openat [fd, c"x".arg(), 0]);
    same!(sys, "itself" => SYS_openat [fd, c"".arg(), 0]);
    let empty = libc::AT_EMPTY_PATH as usize;
    same!(sys, "newfstatat" => SYS_newfstatat [fd, c"".arg(), buffer, empty]);
    same!(sys, "without the flag" => SYS_newfstatat [fd, c"".arg(), buffer, 0]);
    same!(sys, "faccessat2" => SYS_faccessat2 [fd, c"".arg(), 4, empty]);
    drop(sys.open("dup", libc::SYS_dup, [fd]));
    let path = crate::harness::cstring(&sys.dir);
    let flags = (libc::O_PATH | libc::O_DIRECTORY) as usize;
    let dir = sys
        .open(
            "a directory",
            libc::SYS_openat,
            [libc::AT_FDCWD.arg(), path.arg(), flags],
        )
        .unwrap();
    drop(sys.open(
        "a name in it",
        libc::SYS_openat,
        [dir.arg(), c"file".arg(), 0],
    ));
    drop(sys.open(
        "a name not in it",
        libc::SYS_openat,
        [dir.arg(), c"none".arg(), 0],
    ));
}

fn directories_as_files(sys: &mut Sys<'_>) {
    sys.file("file", b"0123456789");
    std::fs::create_dir(sys.dir.join("full")).unwrap();
    std::fs::write(sys.dir.join("full/x"), b"").unwrap();
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let mut memory = [0u8; 16];
    let buffer = at_mut(&mut memory);
    let vector = [libc::iovec {
        iov_base: buffer as *mut _,
        iov_len: 16,
    }];
    let fd = dir.arg();
    same!(sys, "read" => SYS_read [fd, buffer, 16]);
    same!(sys, "pread64" => SYS_pread64 [fd, buffer, 16, 0]);
    same!(sys, "readv" => SYS_readv [fd, at(&vector), 1]);
    same!(sys, "preadv2" => SYS_preadv2 [fd, at(&vector), 1, 0, 0, 0]);
    same!(sys, "write" => SYS_write [fd, buffer, 16]);
    same!(sys, "pwrite64" => SYS_pwrite64 [fd, buffer, 16, 0]);
    same!(sys, "ftruncate" => SYS_ftruncate [fd, 0]);
    same!(sys, "fsync" => SYS_fsync [fd]);
    same!(sys, "getdents64, too small" => SYS_getdents64 [fd, buffer, 8]);
    same!(sys, "unlink" => SYS_unlinkat [fd, c"full".arg(), 0]);
    same!(sys, "rmdir" => SYS_unlinkat [fd, c"full".arg(), libc::AT_REMOVEDIR as usize]);
    same!(sys, "rmdir of a file" => SYS_unlinkat [fd, c"file".arg(), libc::AT_REMOVEDIR as usize]);
    same!(sys, "mkdir" => SYS_mkdirat [fd, c"full".arg(), 0o755]);
    same!(sys, "open to write" => SYS_openat [fd, c"full".arg(), libc::O_WRONLY as usize]);
    same!(sys, "open as a directory" => SYS_openat [fd, c"file".arg(), libc::O_DIRECTORY as usize]);
    same!(sys, "through a file" => SYS_openat [fd, c"file/x".arg(), 0]);
    same!(sys, "a slash behind a file" => SYS_openat [fd, c"file/".arg(), 0]);
    same!(sys, "rename over" => SYS_renameat2 [fd, c"file".arg(), fd, c"full".arg(), 0]);
    same!(sys, "rename into itself" => SYS_renameat2 [fd, c"full".arg(), fd, c"full/y".arg(), 0]);
}

fn closed_peers(sys: &mut Sys<'_>) {
    let mut memory = [0u8; 16];
    let buffer = at_mut(&mut memory);
    let vector = [libc::iovec {
        iov_base: buffer as *mut _,
        iov_len: 16,
    }];
    let (reader, writer) = pipe();
    drop(reader);
    wait_until_closed(&writer);
    same!(sys, "write to a pipe" => SYS_write [writer.arg(), buffer, 16]);
    same!(sys, "writev" => SYS_writev [writer.arg(), at(&vector), 1]);
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abc").unwrap();
    drop(writer);
    same!(sys, "read of the rest" => SYS_read [reader.arg(), buffer, 16]);
    same!(sys, "read of the end" => SYS_read [reader.arg(), buffer, 16]);
    same!(sys, "readv of the end" => SYS_readv [reader.arg(), at(&vector), 1]);
    for name in ["local", "TCP"] {
        sys.note("sockets", name);
        let (a, b) = match name {
            "local" => stream_pair(),
            _ => {
                let (a, b) = tcp_pair();
                (OwnedFd::from(a), OwnedFd::from(b))
            }
        };
        rustix::io::write(&a, b"abc").unwrap();
        drop(a);
        let waitall = libc::MSG_WAITALL as usize;
        same!(sys, "recv of the rest" => SYS_recvfrom [b.arg(), buffer, 16, waitall, 0, 0]);
        same!(sys, "recv of the end" => SYS_recvfrom [b.arg(), buffer, 16, 0, 0, 0]);
        same!(sys, "read of the end" => SYS_read [b.arg(), buffer, 16]);
        if name == "local" {
            same!(sys, "write" => SYS_write [b.arg(), buffer, 16]);
            same!(sys, "send" => SYS_sendto [b.arg(), buffer, 16, libc::MSG_NOSIGNAL as usize, 0, 0]);
        }
    }
    let (a, b) = tcp_pair();
    rustix::io::write(&b, b"never read").unwrap();
    rustix::net::sockopt::set_socket_linger(&a, Some(std::time::Duration::ZERO)).unwrap();
    drop(a);
    same!(sys, "recv after a reset" => SYS_recvfrom [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0]);
    same!(sys, "recv after that" => SYS_recvfrom [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0]);
    same!(sys, "send after a reset" => SYS_sendto [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0]);
    let (a, b) = stream_pair();
    same!(sys, "shutdown" => SYS_shutdown [a.arg(), libc::SHUT_WR as usize]);
    same!(sys, "write after it" => SYS_write [a.arg(), buffer, 16]);
    same!(sys, "read after it" => SYS_read [b.arg(), buffer, 16]);
    let (reader, writer) = pipe();
    drop(reader);
    wait_until_closed(&writer);
    let file = sys.file("file", b"0123456789");
    same!(sys, "splice" => SYS_splice [file.arg(), at_mut(&mut 0u64), writer.arg(), 0, 4, 0]);
    same!(sys, "sendfile" => SYS_sendfile [writer.arg(), file.arg(), 0, 4]);
}

fn wrong_kinds(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let (reader, writer) = pipe();
    let (stream, _peer) = stream_pair();
    let event = own(plain(libc::SYS_eventfd2, [0, libc::EFD_NONBLOCK as usize]));
    let mut memory = [0u8; 16];
    let buffer = at_mut(&mut memory);
    for (what, fd) in [
        ("a file", file.arg()),
        ("a pipe", reader.arg()),
        ("an eventfd", event.arg()),
    ] {
        sys.note("of", what);
        same!(sys, "recv" => SYS_recvfrom [fd, buffer, 16, 0, 0, 0]);
        same!(sys, "send" => SYS_sendto [fd, buffer, 16, 0, 0, 0]);
        let header: libc::msghdr = zeroed();
        same!(sys, "recvmsg" => SYS_recvmsg [fd, at(&header), 0]);
        same!(sys, "accept4" => SYS_accept4 [fd, 0, 0, 0]);
        same!(sys, "connect" => SYS_connect [fd, buffer, 16]);
        same!(sys, "listen" => SYS_listen [fd, 1]);
        same!(sys, "getdents64" => SYS_getdents64 [fd, buffer, 16]);
        same!(sys, "epoll_pwait" => SYS_epoll_pwait [fd, buffer, 1, 0, 0, 0]);
    }
    same!(sys, "accept4 without listen" => SYS_accept4 [stream.arg(), 0, 0, 0]);
    same!(sys, "read of the writing end" => SYS_read [writer.arg(), buffer, 16]);
    same!(sys, "write to the reading end" => SYS_write [reader.arg(), buffer, 16]);
    same!(sys, "fsync of a pipe" => SYS_fsync [reader.arg()]);
    same!(sys, "ftruncate of a pipe" => SYS_ftruncate [writer.arg(), 0]);
    same!(sys, "ftruncate below zero" => SYS_ftruncate [file.arg(), usize::MAX]);
    same!(sys, "fallocate of nothing" => SYS_fallocate [file.arg(), 0, 0, 0]);
    same!(sys, "fallocate below zero" => SYS_fallocate [file.arg(), 0, usize::MAX, 5]);
    same!(sys, "eventfd, a short buffer" => SYS_read [event.arg(), buffer, 4]);
    same!(sys, "eventfd, a short word" => SYS_write [event.arg(), buffer, 4]);
    let read_only = std::fs::File::open(sys.dir.join("file")).unwrap();
    same!(sys, "write without the right" => SYS_write [read_only.arg(), buffer, 4]);
    same!(sys, "pwrite without the right" => SYS_pwrite64 [read_only.arg(), buffer, 4, 0]);
    same!(sys, "ftruncate without the right" => SYS_ftruncate [read_only.arg(), 4]);
    let write_only = std::fs::File::options()
        .write(true)
        .open(sys.dir.join("file"))
        .unwrap();
    same!(sys, "read without the right" => SYS_read [write_only.arg(), buffer, 4]);
    same!(sys, "pread without the right" => SYS_pread64 [write_only.arg(), buffer, 4, 0]);
}
