//! Rule 1, results are those of the plain call: arguments that are wrong, or at the edge of what is
//! right.

use crate::harness::{Arg, Sys, at, at_mut, call, for_each, iovec, iovec_mut, own, plain, zeroed};
use laio::Errno;
use laio_testing::temp::{datagram_pair, drain, fill, pattern, pipe, stream_pair, tcp_pair};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

scenarios! {
    about_files: true;
    bad_descriptors,
    bad_pointers,
    bad_vectors,
    buffers_that_end_early,
    offsets,
    zero_lengths,
    wide_lengths,
    nonblocking_descriptors,
    nonblocking_sockets,
    path_descriptors,
    directories_as_files,
    closed_peers,
    unknown_numbers,
    wrong_kinds,
}

/// No descriptor ever gets this number.
const NO_FD: i32 = 900_000;
const BAD: [usize; 2] = [0, 1];

fn bad_descriptors(sys: &mut Sys<'_>) {
    let mut buffer = [0u8; 16];
    let mut out: libc::stat = zeroed();
    let name = c"name";
    for fd in [-1i32, NO_FD, i32::MAX, i32::MIN, libc::AT_FDCWD] {
        let fd = fd.arg();
        let room = at_mut(&mut buffer);
        let mut vector = [iovec_mut(&mut [0u8; 4])];
        let vectors = at_mut(&mut vector);
        let numbers: &[(&str, i64, [usize; 6])] = &[
            ("read", libc::SYS_read, [fd, room, 8, 0, 0, 0]),
            ("write", libc::SYS_write, [fd, room, 8, 0, 0, 0]),
            ("pread64", libc::SYS_pread64, [fd, room, 8, 0, 0, 0]),
            ("pwrite64", libc::SYS_pwrite64, [fd, room, 8, 0, 0, 0]),
            ("readv", libc::SYS_readv, [fd, vectors, 1, 0, 0, 0]),
            ("writev", libc::SYS_writev, [fd, vectors, 1, 0, 0, 0]),
            ("preadv", libc::SYS_preadv, [fd, vectors, 1, 0, 0, 0]),
            ("pwritev2", libc::SYS_pwritev2, [fd, vectors, 1, 0, 0, 0]),
            ("lseek", libc::SYS_lseek, [fd, 0, 0, 0, 0, 0]),
            ("fstat", libc::SYS_fstat, [fd, at_mut(&mut out), 0, 0, 0, 0]),
            ("fsync", libc::SYS_fsync, [fd, 0, 0, 0, 0, 0]),
            ("fdatasync", libc::SYS_fdatasync, [fd, 0, 0, 0, 0, 0]),
            ("ftruncate", libc::SYS_ftruncate, [fd, 0, 0, 0, 0, 0]),
            ("fallocate", libc::SYS_fallocate, [fd, 0, 0, 8, 0, 0]),
            ("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0]),
            ("dup", libc::SYS_dup, [fd, 0, 0, 0, 0, 0]),
            ("dup3", libc::SYS_dup3, [fd, NO_FD as usize + 1, 0, 0, 0, 0]),
            (
                "fcntl",
                libc::SYS_fcntl,
                [fd, libc::F_GETFL as usize, 0, 0, 0, 0],
            ),
            ("recvfrom", libc::SYS_recvfrom, [fd, room, 8, 0, 0, 0]),
            ("sendto", libc::SYS_sendto, [fd, room, 8, 0, 0, 0]),
            ("accept4", libc::SYS_accept4, [fd, 0, 0, 0, 0, 0]),
            ("connect", libc::SYS_connect, [fd, room, 16, 0, 0, 0]),
            ("listen", libc::SYS_listen, [fd, 1, 0, 0, 0, 0]),
            ("shutdown", libc::SYS_shutdown, [fd, 2, 0, 0, 0, 0]),
            (
                "flock",
                libc::SYS_flock,
                [fd, libc::LOCK_SH as usize, 0, 0, 0, 0],
            ),
            ("getdents64", libc::SYS_getdents64, [fd, room, 16, 0, 0, 0]),
            ("epoll_pwait", libc::SYS_epoll_pwait, [fd, room, 1, 0, 0, 0]),
            ("sendfile", libc::SYS_sendfile, [fd, fd, 0, 8, 0, 0]),
            ("splice", libc::SYS_splice, [fd, 0, fd, 0, 8, 0]),
            ("tee", libc::SYS_tee, [fd, fd, 8, 0, 0, 0]),
            (
                "copy_file_range",
                libc::SYS_copy_file_range,
                [fd, 0, fd, 0, 8, 0],
            ),
            ("fadvise64", libc::SYS_fadvise64, [fd, 0, 0, 0, 0, 0]),
            ("fchdir", libc::SYS_fchdir, [fd, 0, 0, 0, 0, 0]),
        ];
        for &(what, number, args) in numbers {
            let _ = sys.check(what, number, args);
        }
        if fd != libc::AT_FDCWD.arg() {
            let _ = sys.check("openat", libc::SYS_openat, [fd, name.arg(), 0]);
            let _ = sys.check(
                "newfstatat",
                libc::SYS_newfstatat,
                [fd, name.arg(), at_mut(&mut out), 0],
            );
            let _ = sys.check("faccessat", libc::SYS_faccessat, [fd, name.arg(), 0]);
            let _ = sys.check("unlinkat", libc::SYS_unlinkat, [fd, name.arg(), 0]);
            let _ = sys.check(
                "readlinkat",
                libc::SYS_readlinkat,
                [fd, name.arg(), at_mut(&mut buffer), 8],
            );
        }
    }
}

fn bad_pointers(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abcdefgh").unwrap();
    let (a, b) = stream_pair();
    rustix::io::write(&a, b"abcdefgh").unwrap();
    let (client, server) = tcp_pair();
    rustix::io::write(&client, b"abcdefgh").unwrap();
    let (here, path) = (libc::AT_FDCWD.arg(), sys.path("file"));
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
    let data = rustix::event::epoll::EventData::new_u64(7);
    rustix::event::epoll::add(&epoll, &reader, data, rustix::event::epoll::EventFlags::IN).unwrap();
    for bad in BAD {
        let numbers: &[(&str, i64, [usize; 6])] = &[
            (
                "read of a file",
                libc::SYS_read,
                [file.arg(), bad, 8, 0, 0, 0],
            ),
            ("pread64", libc::SYS_pread64, [file.arg(), bad, 8, 0, 0, 0]),
            (
                "pread64 at the end",
                libc::SYS_pread64,
                [file.arg(), bad, 8, 100, 0, 0],
            ),
            (
                "write to a file",
                libc::SYS_write,
                [file.arg(), bad, 8, 0, 0, 0],
            ),
            (
                "pwrite64",
                libc::SYS_pwrite64,
                [file.arg(), bad, 8, 0, 0, 0],
            ),
            (
                "read of a pipe",
                libc::SYS_read,
                [reader.arg(), bad, 8, 0, 0, 0],
            ),
            (
                "write to a pipe",
                libc::SYS_write,
                [writer.arg(), bad, 8, 0, 0, 0],
            ),
            (
                "read of a socket",
                libc::SYS_read,
                [b.arg(), bad, 8, 0, 0, 0],
            ),
            (
                "write to a socket",
                libc::SYS_write,
                [b.arg(), bad, 8, 0, 0, 0],
            ),
            ("recvfrom", libc::SYS_recvfrom, [b.arg(), bad, 8, 0, 0, 0]),
            ("sendto", libc::SYS_sendto, [a.arg(), bad, 8, 0, 0, 0]),
            (
                "recv of TCP",
                libc::SYS_recvfrom,
                [server.as_raw_fd().arg(), bad, 8, 0, 0, 0],
            ),
            (
                "send to TCP",
                libc::SYS_sendto,
                [server.as_raw_fd().arg(), bad, 8, 0, 0, 0],
            ),
            ("recvmsg", libc::SYS_recvmsg, [b.arg(), bad, 0, 0, 0, 0]),
            ("sendmsg", libc::SYS_sendmsg, [b.arg(), bad, 0, 0, 0, 0]),
            ("recvmmsg", libc::SYS_recvmmsg, [b.arg(), bad, 1, 0, 0, 0]),
            ("sendmmsg", libc::SYS_sendmmsg, [b.arg(), bad, 1, 0, 0, 0]),
            ("connect", libc::SYS_connect, [a.arg(), bad, 16, 0, 0, 0]),
            ("openat", libc::SYS_openat, [here, bad, 0, 0, 0, 0]),
            ("openat2", libc::SYS_openat2, [here, bad, bad, 24, 0, 0]),
            (
                "openat2, struct",
                libc::SYS_openat2,
                [here, path.arg(), bad, 24, 0, 0],
            ),
            (
                "newfstatat",
                libc::SYS_newfstatat,
                [here, bad, at_mut(&mut [0u64; 20]), 0, 0, 0],
            ),
            (
                "newfstatat, struct",
                libc::SYS_newfstatat,
                [here, path.arg(), bad, 0, 0, 0],
            ),
            ("fstat", libc::SYS_fstat, [file.arg(), bad, 0, 0, 0, 0]),
            (
                "statx",
                libc::SYS_statx,
                [here, path.arg(), 0, 0x7ff, bad, 0],
            ),
            ("faccessat", libc::SYS_faccessat, [here, bad, 0, 0, 0, 0]),
            (
                "readlinkat",
                libc::SYS_readlinkat,
                [here, bad, bad, 8, 0, 0],
            ),
            (
                "getdents64",
                libc::SYS_getdents64,
                [dir.arg(), bad, 100, 0, 0, 0],
            ),
            ("unlinkat", libc::SYS_unlinkat, [here, bad, 0, 0, 0, 0]),
            ("mkdirat", libc::SYS_mkdirat, [here, bad, 0, 0, 0, 0]),
            (
                "renameat2",
                libc::SYS_renameat2,
                [here, path.arg(), here, bad, 0, 0],
            ),
            (
                "symlinkat",
                libc::SYS_symlinkat,
                [bad, here, path.arg(), 0, 0, 0],
            ),
            ("linkat", libc::SYS_linkat, [here, bad, here, bad, 0, 0]),
            ("nanosleep", libc::SYS_nanosleep, [bad, 0, 0, 0, 0, 0]),
            (
                "clock_nanosleep",
                libc::SYS_clock_nanosleep,
                [1, 0, bad, 0, 0, 0],
            ),
            ("ppoll", libc::SYS_ppoll, [bad, 1, 0, 0, 0, 0]),
            (
                "epoll_pwait",
                libc::SYS_epoll_pwait,
                [epoll.arg(), bad, 1, 1000, 0, 0],
            ),
            ("pipe2", libc::SYS_pipe2, [bad, 0, 0, 0, 0, 0]),
            ("getcwd", libc::SYS_getcwd, [bad, 100, 0, 0, 0, 0]),
            ("statfs", libc::SYS_statfs, [path.arg(), bad, 0, 0, 0, 0]),
            ("uname", libc::SYS_uname, [bad, 0, 0, 0, 0, 0]),
        ];
        for &(what, number, args) in numbers {
            let _ = sys.check(what, number, args);
        }
    }
    sys.note("left in the pipe", drain(&reader));
    sys.note("left in the socket", drain(&b));
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
}

/// An injected bound reads the vectors beforehand, so these are not for it.
fn bad_vectors(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let file = sys.file("file", &pattern(100, 1));
    let mut room = [0u8; 100];
    let many = vec![iovec(&room[..1]); 1025];
    let huge = libc::iovec {
        iov_base: at_mut(&mut room) as *mut _,
        iov_len: usize::MAX,
    };
    let halfway = [
        iovec(&room[..10]),
        libc::iovec {
            iov_base: std::ptr::without_provenance_mut(1),
            iov_len: 10,
        },
    ];
    let fd = file.arg();
    for (what, vectors, count) in [
        ("null", 0, 1),
        ("one", 1, 1),
        ("none", at(&many[0]), 0),
        ("too many", at(&many[0]), 1025),
        ("the most", at(&many[0]), 1024),
        ("huge", at(&huge), 1),
        ("half good", at(&halfway), 2),
        ("negative count", at(&halfway), usize::MAX),
    ] {
        let _ = sys.check(what, libc::SYS_preadv, [fd, vectors, count, 0]);
        let _ = sys.check(what, libc::SYS_preadv2, [fd, vectors, count, 0, 0, 0]);
        let _ = sys.check(what, libc::SYS_readv, [fd, vectors, count]);
        // Where a fault leaves the position is not promised: the ring moves it only at the end.
        let _ = plain(libc::SYS_lseek, [fd, 0, 0]);
        if what != "huge" {
            let _ = sys.check(what, libc::SYS_pwritev, [fd, vectors, count, 0]);
        }
    }
    let _ = sys.check(
        "the caller's own flag",
        libc::SYS_preadv2,
        [
            fd,
            at(&many[0]),
            4,
            0,
            0,
            libc::RWF_NOWAIT as usize | libc::RWF_HIPRI as usize,
        ],
    );
    let _ = sys.check(
        "an unknown flag",
        libc::SYS_preadv2,
        [fd, at(&many[0]), 4, 0, 0, 1 << 30],
    );
    let _ = sys.check(
        "an unknown flag, writing",
        libc::SYS_pwritev2,
        [fd, at(&many[0]), 4, 0, 0, 1 << 30],
    );
    let _ = sys.check(
        "RWF_APPEND",
        libc::SYS_pwritev2,
        [fd, at(&many[0]), 4, 0, 0, libc::RWF_APPEND as usize],
    );
    sys.note("size", file.metadata().unwrap().len());
}

/// Two pages of which the second is not there.
fn buffers_that_end_early(sys: &mut Sys<'_>) {
    let page = rustix::param::page_size();
    // SAFETY: a new mapping, of which the second page is given back at once; nothing refers to it.
    let base = unsafe {
        let base = libc::mmap(
            std::ptr::null_mut(),
            2 * page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert!(base != libc::MAP_FAILED);
        libc::mprotect(base.add(page), page, libc::PROT_NONE);
        base as usize
    };
    let edge = base + page - 4;
    let file = sys.file("file", b"0123456789");
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abcdefgh").unwrap();
    let (a, b) = stream_pair();
    rustix::io::write(&a, b"abcdefgh").unwrap();
    let _ = sys.check("pread64", libc::SYS_pread64, [file.arg(), edge, 8, 0]);
    // Where a fault leaves the position is not promised: the ring moves it only at the end.
    let _ = sys.check("read", libc::SYS_read, [file.arg(), edge, 8]);
    let _ = sys.check("pwrite64", libc::SYS_pwrite64, [file.arg(), edge, 8, 2]);
    if !sys.short {
        let _ = sys.check("read of a pipe", libc::SYS_read, [reader.arg(), edge, 8]);
        let _ = sys.check("write to a pipe", libc::SYS_write, [writer.arg(), edge, 8]);
        let _ = sys.check("recv", libc::SYS_recvfrom, [b.arg(), edge, 8, 0, 0, 0]);
        let _ = sys.check("send", libc::SYS_sendto, [b.arg(), edge, 8, 0, 0, 0]);
        sys.note("left in the pipe", drain(&reader));
        sys.note("left in the socket", drain(&b));
    }
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(base as *mut _, 2 * page) };
}

fn offsets(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let mut room = [0u8; 4];
    let fd = file.arg();
    for offset in [0, 8, 10, 11, -1i64, -2, i64::MIN, i64::MAX, i64::MAX - 3] {
        let at_offset = offset as usize;
        let buffer = at_mut(&mut room);
        let vector = [libc::iovec {
            iov_base: buffer as *mut _,
            iov_len: 4,
        }];
        let vectors = at(&vector);
        if sys.short && offset > 100 {
            // Less of it fits below the largest offset.
            continue;
        }
        sys.note("offset", offset);
        let _ = sys.check("pread64", libc::SYS_pread64, [fd, buffer, 4, at_offset]);
        let _ = sys.check("preadv", libc::SYS_preadv, [fd, vectors, 1, at_offset]);
        let _ = sys.check(
            "preadv2",
            libc::SYS_preadv2,
            [fd, vectors, 1, at_offset, 0, 0],
        );
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
        sys.note("read", room);
        if offset < 100 {
            room = *b"wxyz";
            let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, buffer, 4, at_offset]);
            let _ = sys.check("pwritev", libc::SYS_pwritev, [fd, vectors, 1, at_offset]);
            let _ = sys.check(
                "pwritev2",
                libc::SYS_pwritev2,
                [fd, vectors, 1, at_offset, 0, 0],
            );
        }
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
        let _ = sys.check(
            "lseek",
            libc::SYS_lseek,
            [fd, at_offset, libc::SEEK_SET as usize],
        );
    }
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abcdefgh").unwrap();
    let _ = sys.check(
        "pread64 of a pipe",
        libc::SYS_pread64,
        [reader.arg(), at_mut(&mut room), 4, 0],
    );
    let _ = sys.check(
        "pwrite64 to a pipe",
        libc::SYS_pwrite64,
        [writer.arg(), at(&room), 4, 0],
    );
    let _ = sys.check("lseek of a pipe", libc::SYS_lseek, [reader.arg(), 0, 0]);
    if !sys.short {
        let vector = [iovec_mut(&mut room)];
        let _ = sys.check(
            "preadv2 of a pipe",
            libc::SYS_preadv2,
            [reader.arg(), at(&vector), 1, usize::MAX, 0, 0],
        );
        sys.note("read", room);
    }
}

fn zero_lengths(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let directory = std::fs::File::open(&sys.dir).unwrap();
    let read_only = std::fs::File::open(sys.dir.join("file")).unwrap();
    let (reader, writer) = pipe();
    let (a, b) = stream_pair();
    let (c, d) = datagram_pair();
    let event = own(plain(libc::SYS_eventfd2, [3, 0]));
    let timer = own(plain(
        libc::SYS_timerfd_create,
        [libc::CLOCK_MONOTONIC as usize, 0],
    ));
    let (memory, zero) = (
        std::fs::File::open("/proc/self/maps").unwrap(),
        std::fs::File::open("/dev/zero").unwrap(),
    );
    let here = at(&0u8);
    for (what, fd) in [
        ("a file", file.as_fd()),
        ("a directory", directory.as_fd()),
        ("a file open for reading", read_only.as_fd()),
        ("an empty pipe", reader.as_fd()),
        ("the wrong end of a pipe", writer.as_fd()),
        ("a socket", b.as_fd()),
        ("an eventfd", event.as_fd()),
        ("a timerfd", timer.as_fd()),
        ("a file of /proc", memory.as_fd()),
        ("/dev/zero", zero.as_fd()),
    ] {
        let fd = fd.as_raw_fd().arg();
        sys.note("of", what);
        let _ = sys.check("read", libc::SYS_read, [fd, here, 0]);
        let _ = sys.check("read from null", libc::SYS_read, [fd, 0, 0]);
        let _ = sys.check("readv", libc::SYS_readv, [fd, 0, 0]);
        let _ = sys.check("pread64", libc::SYS_pread64, [fd, here, 0, 0]);
        let _ = sys.check("write", libc::SYS_write, [fd, here, 0]);
        let _ = sys.check("writev", libc::SYS_writev, [fd, 0, 0]);
        let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, here, 0, 0]);
    }
    // A datagram may be empty.
    let _ = sys.check("write of a datagram", libc::SYS_write, [c.arg(), here, 0]);
    sys.note("peeked", rustix_recv(&d));
    let empty = iovec(&[]);
    let _ = sys.check(
        "writev of a datagram",
        libc::SYS_writev,
        [c.arg(), at(&empty), 1],
    );
    sys.note("peeked", rustix_recv(&d));
    let _ = sys.check(
        "send of a datagram",
        libc::SYS_sendto,
        [c.arg(), here, 0, 0, 0, 0],
    );
    sys.note("peeked", rustix_recv(&d));
    rustix::io::write(&a, b"data").unwrap();
    let _ = sys.check("recv", libc::SYS_recvfrom, [b.arg(), here, 0, 0, 0, 0]);
    let _ = sys.check("send", libc::SYS_sendto, [b.arg(), here, 0, 0, 0, 0]);
    sys.note("left", drain(&b));
}

/// Takes a datagram without waiting.
fn rustix_recv(fd: &OwnedFd) -> Result<usize, rustix::io::Errno> {
    let mut room = [0u8; 8];
    rustix::net::recv(fd, &mut room, rustix::net::RecvFlags::DONTWAIT).map(|(read, _)| read)
}

fn wide_lengths(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let null = std::fs::File::options()
        .write(true)
        .open("/dev/null")
        .unwrap();
    let file = sys.file("file", b"0123456789");
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abcdefgh").unwrap();
    let (a, b) = stream_pair();
    rustix::io::write(&a, b"abcdefgh").unwrap();
    let mut room = [0u8; 16];
    let buffer = at_mut(&mut room);
    for length in [1 << 63, usize::MAX, usize::MAX / 2] {
        sys.note("length", length);
        let _ = sys.check("read", libc::SYS_read, [file.arg(), buffer, length]);
        let _ = sys.check(
            "pread64",
            libc::SYS_pread64,
            [file.arg(), buffer, length, 0],
        );
        let _ = sys.check(
            "read of a pipe",
            libc::SYS_read,
            [reader.arg(), buffer, length],
        );
        let _ = sys.check("write", libc::SYS_write, [null.arg(), buffer, length]);
        let _ = sys.check(
            "pwrite64",
            libc::SYS_pwrite64,
            [file.arg(), buffer, length, 0],
        );
        let _ = sys.check(
            "recv",
            libc::SYS_recvfrom,
            [b.arg(), buffer, length, libc::MSG_PEEK as usize, 0, 0],
        );
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [file.arg(), 0, libc::SEEK_CUR as usize],
        );
    }
    // Reads move what there is, as long as the buffer's first bytes are good.
    let wide = 3 << 30;
    let _ = sys.check("a file", libc::SYS_pread64, [file.arg(), buffer, wide, 0]);
    let _ = sys.check("a pipe", libc::SYS_read, [reader.arg(), buffer, wide]);
    let _ = sys.check(
        "a socket",
        libc::SYS_recvfrom,
        [b.arg(), buffer, wide, 0, 0, 0],
    );
    let _ = sys.check("/dev/null", libc::SYS_write, [null.arg(), buffer, wide]);
    let vector = [
        iovec(&room),
        libc::iovec {
            iov_base: buffer as *mut _,
            iov_len: wide,
        },
    ];
    let _ = sys.check(
        "/dev/null, a vector",
        libc::SYS_writev,
        [null.arg(), at(&vector), 2],
    );
}

fn nonblocking_descriptors(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let mut room = vec![0u8; 100_000];
    for fd in [&reader, &writer] {
        rustix::io::ioctl_fionbio(fd, true).unwrap();
    }
    let vector = [iovec(&room[..10])];
    let _ = sys.check(
        "read of an empty pipe",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut room[..]), 10],
    );
    let _ = sys.check("readv", libc::SYS_readv, [reader.arg(), at(&vector), 1]);
    if !sys.short {
        let _ = sys.check(
            "preadv2",
            libc::SYS_preadv2,
            [reader.arg(), at(&vector), 1, usize::MAX, 0, 0],
        );
    }
    let written = sys.call(libc::SYS_write, [writer.arg(), at(&room[..]), room.len()]);
    // Small pieces do not fill the last page.
    let (written, slack) = (written.unwrap(), if sys.short { 16 } else { 0 });
    sys.note("write of more than fits", 65_536 - written <= slack);
    fill(&writer);
    let _ = sys.check(
        "write to a full pipe",
        libc::SYS_write,
        [writer.arg(), at(&room[..]), 10],
    );
    let _ = sys.check("writev", libc::SYS_writev, [writer.arg(), at(&vector), 1]);
    drain(&reader);
    let (other, _keep) = pipe();
    let spliced = libc::SPLICE_F_NONBLOCK as usize;
    let _ = sys.check(
        "splice",
        libc::SYS_splice,
        [other.arg(), 0, writer.arg(), 0, 10, spliced],
    );
    let _ = sys.check(
        "tee",
        libc::SYS_tee,
        [other.arg(), writer.arg(), 10, spliced],
    );
    let event = own(plain(libc::SYS_eventfd2, [0, libc::EFD_NONBLOCK as usize]));
    if !sys.short {
        let mut word = u64::MAX - 1;
        let _ = sys.check(
            "eventfd",
            libc::SYS_read,
            [event.arg(), at_mut(&mut word), 8],
        );
        let _ = sys.check(
            "eventfd, full",
            libc::SYS_write,
            [event.arg(), at(&word), 8],
        );
        let _ = sys.check(
            "eventfd, too much",
            libc::SYS_write,
            [event.arg(), at(&word), 8],
        );
        let timer = own(plain(
            libc::SYS_timerfd_create,
            [1, libc::TFD_NONBLOCK as usize],
        ));
        let _ = sys.check(
            "timerfd",
            libc::SYS_read,
            [timer.arg(), at_mut(&mut word), 8],
        );
        let notify = own(plain(libc::SYS_inotify_init1, [libc::IN_NONBLOCK as usize]));
        let _ = sys.check(
            "inotify",
            libc::SYS_read,
            [notify.arg(), at_mut(&mut room[..]), 1000],
        );
    }
    let file = sys.file("file", b"0123456789");
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    let _ = sys.check(
        "a file",
        libc::SYS_read,
        [file.arg(), at_mut(&mut room[..]), 100],
    );
    let _ = sys.check(
        "a file at its end",
        libc::SYS_read,
        [file.arg(), at_mut(&mut room[..]), 100],
    );
}

fn nonblocking_sockets(sys: &mut Sys<'_>) {
    let (a, b) = stream_pair();
    let (c, d) = datagram_pair();
    let mut room = vec![0u8; 1 << 20];
    let buffer = at_mut(&mut room[..]);
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
            let _ = sys.check("read", libc::SYS_read, [b.arg(), buffer, 10]);
        }
        let mut vector = [iovec_mut(&mut room[..10])];
        let mut header: libc::msghdr = zeroed();
        header.msg_iov = vector.as_mut_ptr();
        header.msg_iovlen = 1;
        let mut many = [libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }; 2];
        let waitall = flags | libc::MSG_WAITALL as usize;
        let _ = sys.check(
            "recv",
            libc::SYS_recvfrom,
            [b.arg(), buffer, 10, flags, 0, 0],
        );
        let _ = sys.check(
            "recv, all",
            libc::SYS_recvfrom,
            [b.arg(), buffer, 10, waitall, 0, 0],
        );
        let _ = sys.check(
            "recvmsg",
            libc::SYS_recvmsg,
            [b.arg(), at_mut(&mut header), flags],
        );
        let _ = sys.check(
            "recvmmsg",
            libc::SYS_recvmmsg,
            [d.arg(), at_mut(&mut many), 2, flags, 0],
        );
        rustix::io::write(&a, b"abc").unwrap();
        let _ = sys.check(
            "recv, some of all",
            libc::SYS_recvfrom,
            [b.arg(), buffer, 10, waitall, 0, 0],
        );
        rustix::io::write(&c, b"abc").unwrap();
        let _ = sys.check(
            "recvmmsg, one of two",
            libc::SYS_recvmmsg,
            [d.arg(), at_mut(&mut many), 2, flags, 0],
        );
        let sent = sys.call(libc::SYS_sendto, [a.arg(), buffer, 1 << 20, flags, 0, 0]);
        sys.note(
            "send of more than fits",
            sent.map(|sent| sent > 0 && sent < 1 << 20),
        );
        // A stream socket may have room for a few bytes more, so it is filled for good.
        fill(&a);
        let _ = sys.check(
            "send",
            libc::SYS_sendto,
            [a.arg(), buffer, 1 << 16, flags, 0, 0],
        );
        let _ = sys.check("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), flags]);
        drain(&b);
        if flags == 0 {
            fill(&a);
            if !sys.short {
                let _ = sys.check("write", libc::SYS_write, [a.arg(), buffer, 1 << 16]);
            }
            drain(&b);
        }
    }
    let stream = libc::SOCK_STREAM as usize | libc::SOCK_NONBLOCK as usize;
    let listener = crate::harness::lonely_listener();
    listener.set_nonblocking(true).unwrap();
    let _ = sys.check(
        "accept4",
        libc::SYS_accept4,
        [listener.as_raw_fd().arg(), 0, 0, 0],
    );
    #[cfg(target_arch = "x86_64")]
    let _ = sys.check(
        "accept",
        libc::SYS_accept,
        [listener.as_raw_fd().arg(), 0, 0],
    );
    let address = crate::harness::tcp_address(&listener);
    let socket = own(plain(libc::SYS_socket, [libc::AF_INET as usize, stream, 0]));
    let _ = sys.check(
        "connect",
        libc::SYS_connect,
        [socket.arg(), at(&address), size_of_val(&address)],
    );
    laio_testing::limit::wait_until(crate::harness::LIMIT, || {
        plain(
            libc::SYS_getpeername,
            [socket.arg(), at_mut(&mut [0u8; 64]), at_mut(&mut 64u32)],
        )
        .is_ok()
    });
    let _ = sys.check(
        "connect again",
        libc::SYS_connect,
        [socket.arg(), at(&address), size_of_val(&address)],
    );
    let _ = sys.check(
        "connect once more",
        libc::SYS_connect,
        [socket.arg(), at(&address), size_of_val(&address)],
    );
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
    let mut room = [0u8; 200];
    let buffer = at_mut(&mut room);
    let _ = sys.check("read", libc::SYS_read, [fd, buffer, 8]);
    let _ = sys.check("pread64", libc::SYS_pread64, [fd, buffer, 8, 0]);
    let _ = sys.check("write", libc::SYS_write, [fd, buffer, 8]);
    let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, buffer, 8, 0]);
    let _ = sys.check("lseek", libc::SYS_lseek, [fd, 0, 0]);
    let _ = sys.check("fsync", libc::SYS_fsync, [fd]);
    let _ = sys.check("ftruncate", libc::SYS_ftruncate, [fd, 0]);
    let _ = sys.check("fstat", libc::SYS_fstat, [fd, buffer]);
    let _ = sys.check("getdents64", libc::SYS_getdents64, [fd, buffer, 200]);
    let _ = sys.check("flock", libc::SYS_flock, [fd, libc::LOCK_SH as usize]);
    let _ = sys.check("fchmod", libc::SYS_fchmod, [fd, 0o600]);
    let _ = sys.check("a name in a file", libc::SYS_openat, [fd, c"x".arg(), 0]);
    let _ = sys.check("itself", libc::SYS_openat, [fd, c"".arg(), 0]);
    let empty = libc::AT_EMPTY_PATH as usize;
    let _ = sys.check(
        "newfstatat",
        libc::SYS_newfstatat,
        [fd, c"".arg(), buffer, empty],
    );
    let _ = sys.check(
        "without the flag",
        libc::SYS_newfstatat,
        [fd, c"".arg(), buffer, 0],
    );
    let _ = sys.check(
        "faccessat2",
        libc::SYS_faccessat2,
        [fd, c"".arg(), 4, empty],
    );
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
    let mut room = [0u8; 16];
    let buffer = at_mut(&mut room);
    let vector = [libc::iovec {
        iov_base: buffer as *mut _,
        iov_len: 16,
    }];
    let fd = dir.arg();
    let _ = sys.check("read", libc::SYS_read, [fd, buffer, 16]);
    let _ = sys.check("pread64", libc::SYS_pread64, [fd, buffer, 16, 0]);
    let _ = sys.check("readv", libc::SYS_readv, [fd, at(&vector), 1]);
    let _ = sys.check("preadv2", libc::SYS_preadv2, [fd, at(&vector), 1, 0, 0, 0]);
    let _ = sys.check("write", libc::SYS_write, [fd, buffer, 16]);
    let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, buffer, 16, 0]);
    let _ = sys.check("ftruncate", libc::SYS_ftruncate, [fd, 0]);
    let _ = sys.check("fsync", libc::SYS_fsync, [fd]);
    let _ = sys.check("getdents64, no room", libc::SYS_getdents64, [fd, buffer, 8]);
    let _ = sys.check("unlink", libc::SYS_unlinkat, [fd, c"full".arg(), 0]);
    let _ = sys.check(
        "rmdir",
        libc::SYS_unlinkat,
        [fd, c"full".arg(), libc::AT_REMOVEDIR as usize],
    );
    let _ = sys.check(
        "rmdir of a file",
        libc::SYS_unlinkat,
        [fd, c"file".arg(), libc::AT_REMOVEDIR as usize],
    );
    let _ = sys.check("mkdir", libc::SYS_mkdirat, [fd, c"full".arg(), 0o755]);
    let _ = sys.check(
        "open to write",
        libc::SYS_openat,
        [fd, c"full".arg(), libc::O_WRONLY as usize],
    );
    let _ = sys.check(
        "open as a directory",
        libc::SYS_openat,
        [fd, c"file".arg(), libc::O_DIRECTORY as usize],
    );
    let _ = sys.check("through a file", libc::SYS_openat, [fd, c"file/x".arg(), 0]);
    let _ = sys.check(
        "a slash behind a file",
        libc::SYS_openat,
        [fd, c"file/".arg(), 0],
    );
    let _ = sys.check(
        "rename over",
        libc::SYS_renameat2,
        [fd, c"file".arg(), fd, c"full".arg(), 0],
    );
    let _ = sys.check(
        "rename into itself",
        libc::SYS_renameat2,
        [fd, c"full".arg(), fd, c"full/y".arg(), 0],
    );
}

fn closed_peers(sys: &mut Sys<'_>) {
    let mut room = [0u8; 16];
    let buffer = at_mut(&mut room);
    let vector = [libc::iovec {
        iov_base: buffer as *mut _,
        iov_len: 16,
    }];
    let (reader, writer) = pipe();
    drop(reader);
    let _ = sys.check(
        "write to a pipe",
        libc::SYS_write,
        [writer.arg(), buffer, 16],
    );
    let _ = sys.check("writev", libc::SYS_writev, [writer.arg(), at(&vector), 1]);
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abc").unwrap();
    drop(writer);
    let _ = sys.check(
        "read of the rest",
        libc::SYS_read,
        [reader.arg(), buffer, 16],
    );
    let _ = sys.check(
        "read of the end",
        libc::SYS_read,
        [reader.arg(), buffer, 16],
    );
    let _ = sys.check(
        "readv of the end",
        libc::SYS_readv,
        [reader.arg(), at(&vector), 1],
    );
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
        let _ = sys.check(
            "recv of the rest",
            libc::SYS_recvfrom,
            [b.arg(), buffer, 16, waitall, 0, 0],
        );
        let _ = sys.check(
            "recv of the end",
            libc::SYS_recvfrom,
            [b.arg(), buffer, 16, 0, 0, 0],
        );
        let _ = sys.check("read of the end", libc::SYS_read, [b.arg(), buffer, 16]);
        if name == "local" {
            let _ = sys.check("write", libc::SYS_write, [b.arg(), buffer, 16]);
            let _ = sys.check(
                "send",
                libc::SYS_sendto,
                [b.arg(), buffer, 16, libc::MSG_NOSIGNAL as usize, 0, 0],
            );
        }
    }
    let (a, b) = tcp_pair();
    rustix::io::write(&b, b"never read").unwrap();
    rustix::net::sockopt::set_socket_linger(&a, Some(std::time::Duration::ZERO)).unwrap();
    drop(a);
    let _ = sys.check(
        "recv after a reset",
        libc::SYS_recvfrom,
        [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0],
    );
    let _ = sys.check(
        "recv after that",
        libc::SYS_recvfrom,
        [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0],
    );
    let _ = sys.check(
        "send after a reset",
        libc::SYS_sendto,
        [b.as_raw_fd().arg(), buffer, 16, 0, 0, 0],
    );
    let (a, b) = stream_pair();
    let _ = sys.check(
        "shutdown",
        libc::SYS_shutdown,
        [a.arg(), libc::SHUT_WR as usize],
    );
    let _ = sys.check("write after it", libc::SYS_write, [a.arg(), buffer, 16]);
    let _ = sys.check("read after it", libc::SYS_read, [b.arg(), buffer, 16]);
    let (reader, writer) = pipe();
    drop(reader);
    let file = sys.file("file", b"0123456789");
    let _ = sys.check(
        "splice",
        libc::SYS_splice,
        [file.arg(), at_mut(&mut 0u64), writer.arg(), 0, 4, 0],
    );
    let _ = sys.check(
        "sendfile",
        libc::SYS_sendfile,
        [writer.arg(), file.arg(), 0, 4],
    );
}

fn unknown_numbers(sys: &mut Sys<'_>) {
    for number in [500, 600, 1000, 100_000, i64::from(i32::MAX)] {
        let _ = sys.check("a call that is none", number, [1, 2, 3]);
    }
    #[cfg(target_arch = "x86_64")]
    for number in [libc::SYS_getpmsg, libc::SYS_tuxcall, libc::SYS_vserver] {
        let _ = sys.check("a call that is gone", number, [1, 2, 3]);
    }
}

fn wrong_kinds(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let (reader, writer) = pipe();
    let (stream, _peer) = stream_pair();
    let event = own(plain(libc::SYS_eventfd2, [0, libc::EFD_NONBLOCK as usize]));
    let mut room = [0u8; 16];
    let buffer = at_mut(&mut room);
    for (what, fd) in [
        ("a file", file.arg()),
        ("a pipe", reader.arg()),
        ("an eventfd", event.arg()),
    ] {
        sys.note("of", what);
        let _ = sys.check("recv", libc::SYS_recvfrom, [fd, buffer, 16, 0, 0, 0]);
        let _ = sys.check("send", libc::SYS_sendto, [fd, buffer, 16, 0, 0, 0]);
        let header: libc::msghdr = zeroed();
        let _ = sys.check("recvmsg", libc::SYS_recvmsg, [fd, at(&header), 0]);
        let _ = sys.check("accept4", libc::SYS_accept4, [fd, 0, 0, 0]);
        let _ = sys.check("connect", libc::SYS_connect, [fd, buffer, 16]);
        let _ = sys.check("listen", libc::SYS_listen, [fd, 1]);
        let _ = sys.check("getdents64", libc::SYS_getdents64, [fd, buffer, 16]);
        let _ = sys.check(
            "epoll_pwait",
            libc::SYS_epoll_pwait,
            [fd, buffer, 1, 0, 0, 0],
        );
    }
    let _ = sys.check(
        "accept4 without listen",
        libc::SYS_accept4,
        [stream.arg(), 0, 0, 0],
    );
    let _ = sys.check(
        "read of the writing end",
        libc::SYS_read,
        [writer.arg(), buffer, 16],
    );
    let _ = sys.check(
        "write to the reading end",
        libc::SYS_write,
        [reader.arg(), buffer, 16],
    );
    let _ = sys.check("fsync of a pipe", libc::SYS_fsync, [reader.arg()]);
    let _ = sys.check(
        "ftruncate of a pipe",
        libc::SYS_ftruncate,
        [writer.arg(), 0],
    );
    let _ = sys.check(
        "ftruncate below zero",
        libc::SYS_ftruncate,
        [file.arg(), usize::MAX],
    );
    let _ = sys.check(
        "fallocate of nothing",
        libc::SYS_fallocate,
        [file.arg(), 0, 0, 0],
    );
    let _ = sys.check(
        "fallocate below zero",
        libc::SYS_fallocate,
        [file.arg(), 0, usize::MAX, 5],
    );
    let _ = sys.check(
        "eventfd, a short buffer",
        libc::SYS_read,
        [event.arg(), buffer, 4],
    );
    let _ = sys.check(
        "eventfd, a short word",
        libc::SYS_write,
        [event.arg(), buffer, 4],
    );
    let read_only = std::fs::File::open(sys.dir.join("file")).unwrap();
    let _ = sys.check(
        "write without the right",
        libc::SYS_write,
        [read_only.arg(), buffer, 4],
    );
    let _ = sys.check(
        "pwrite without the right",
        libc::SYS_pwrite64,
        [read_only.arg(), buffer, 4, 0],
    );
    let _ = sys.check(
        "ftruncate without the right",
        libc::SYS_ftruncate,
        [read_only.arg(), 4],
    );
    let write_only = std::fs::File::options()
        .write(true)
        .open(sys.dir.join("file"))
        .unwrap();
    let _ = sys.check(
        "read without the right",
        libc::SYS_read,
        [write_only.arg(), buffer, 4],
    );
    let _ = sys.check(
        "pread without the right",
        libc::SYS_pread64,
        [write_only.arg(), buffer, 4, 0],
    );
}

/// These have no plain result to compare with: the plain call would fork the test.
#[test]
fn refused_calls_say_so() {
    for_each(|way| {
        let mut context = way.context();
        for (number, errno) in [
            (libc::SYS_clone, Errno::NOSYS),
            (libc::SYS_clone3, Errno::NOSYS),
            (libc::SYS_rt_sigreturn, Errno::NOSYS),
            (libc::SYS_restart_syscall, Errno::NOSYS),
            (libc::SYS_rt_sigsuspend, Errno::OPNOTSUPP),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_fork, Errno::NOSYS),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_vfork, Errno::NOSYS),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_pause, Errno::OPNOTSUPP),
        ] {
            assert_eq!(
                call(&mut context, number, [0]),
                Err(errno),
                "number {number}"
            );
        }
    });
}

/// The kernel looks at the low half of the number only, and so must the table.
#[test]
fn numbers_are_half_a_word() {
    for_each(|way| {
        let mut context = way.context();
        let high: libc::c_long = 1 << 32;
        let clone = call(&mut context, libc::SYS_clone | high, [0]);
        assert_eq!(clone, Err(Errno::NOSYS));
        for number in [
            -1,
            libc::c_long::MAX,
            libc::SYS_getpid | high,
            libc::SYS_gettid | high,
        ] {
            assert_eq!(
                call(&mut context, number, [0]),
                plain(number, [0]),
                "{number:#x}"
            );
        }
    });
}
