//! Rule 1, results are those of the plain call: invalid arguments and boundary values.

use crate::harness::{Arg, Sys, at, at_mut, call, for_each, iovec, iovec_mut, own, plain, zeroed};
use laio::Errno;
use laio_testing::temp::{datagram_pair, drain, pattern, pipe, stream_pair, tcp_pair};
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
    unknown_numbers,
}

/// A number that no descriptor ever gets.
const NO_FD: i32 = 900_000;

const BAD: [usize; 2] = [0, 1];

fn bad_descriptors(sys: &mut Sys<'_>) {
    let mut buffer = [0u8; 16];
    let mut out: libc::stat = zeroed();
    let name = c"name";
    for fd in [-1i32, NO_FD, i32::MAX, i32::MIN, libc::AT_FDCWD] {
        let fd = fd.arg();
        let memory = at_mut(&mut buffer);
        let mut vector = [iovec_mut(&mut [0u8; 4])];
        let vectors = at_mut(&mut vector);
        #[rustfmt::skip]
        let numbers: &[(&str, i64, [usize; 6])] = &[
            ("read", libc::SYS_read, [fd, memory, 8, 0, 0, 0]),
            ("write", libc::SYS_write, [fd, memory, 8, 0, 0, 0]),
            ("pread64", libc::SYS_pread64, [fd, memory, 8, 0, 0, 0]),
            ("pwrite64", libc::SYS_pwrite64, [fd, memory, 8, 0, 0, 0]),
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
            ("fcntl", libc::SYS_fcntl, [fd, libc::F_GETFL as usize, 0, 0, 0, 0]),
            ("recvfrom", libc::SYS_recvfrom, [fd, memory, 8, 0, 0, 0]),
            ("sendto", libc::SYS_sendto, [fd, memory, 8, 0, 0, 0]),
            ("accept4", libc::SYS_accept4, [fd, 0, 0, 0, 0, 0]),
            ("connect", libc::SYS_connect, [fd, memory, 16, 0, 0, 0]),
            ("listen", libc::SYS_listen, [fd, 1, 0, 0, 0, 0]),
            ("shutdown", libc::SYS_shutdown, [fd, 2, 0, 0, 0, 0]),
            ("flock", libc::SYS_flock, [fd, libc::LOCK_SH as usize, 0, 0, 0, 0]),
            ("getdents64", libc::SYS_getdents64, [fd, memory, 16, 0, 0, 0]),
            ("epoll_pwait", libc::SYS_epoll_pwait, [fd, memory, 1, 0, 0, 0]),
            ("sendfile", libc::SYS_sendfile, [fd, fd, 0, 8, 0, 0]),
            ("splice", libc::SYS_splice, [fd, 0, fd, 0, 8, 0]),
            ("tee", libc::SYS_tee, [fd, fd, 8, 0, 0, 0]),
            ("copy_file_range", libc::SYS_copy_file_range, [fd, 0, fd, 0, 8, 0]),
            ("fadvise64", libc::SYS_fadvise64, [fd, 0, 0, 0, 0, 0]),
            ("fchdir", libc::SYS_fchdir, [fd, 0, 0, 0, 0, 0]),
        ];
        for &(what, number, args) in numbers {
            let _ = sys.check(what, number, args);
        }
        if fd != libc::AT_FDCWD.arg() {
            same!(sys, "openat" => SYS_openat [fd, name.arg(), 0]);
            same!(sys, "newfstatat" => SYS_newfstatat [fd, name.arg(), at_mut(&mut out), 0]);
            same!(sys, "faccessat" => SYS_faccessat [fd, name.arg(), 0]);
            same!(sys, "unlinkat" => SYS_unlinkat [fd, name.arg(), 0]);
            same!(sys, "readlinkat" => SYS_readlinkat [fd, name.arg(), at_mut(&mut buffer), 8]);
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
        #[rustfmt::skip]
        let numbers: &[(&str, i64, [usize; 6])] = &[
            ("read of a file", libc::SYS_read, [file.arg(), bad, 8, 0, 0, 0]),
            ("pread64", libc::SYS_pread64, [file.arg(), bad, 8, 0, 0, 0]),
            ("pread64 at the end", libc::SYS_pread64, [file.arg(), bad, 8, 100, 0, 0]),
            ("write to a file", libc::SYS_write, [file.arg(), bad, 8, 0, 0, 0]),
            ("pwrite64", libc::SYS_pwrite64, [file.arg(), bad, 8, 0, 0, 0]),
            ("read of a pipe", libc::SYS_read, [reader.arg(), bad, 8, 0, 0, 0]),
            ("write to a pipe", libc::SYS_write, [writer.arg(), bad, 8, 0, 0, 0]),
            ("read of a socket", libc::SYS_read, [b.arg(), bad, 8, 0, 0, 0]),
            ("write to a socket", libc::SYS_write, [b.arg(), bad, 8, 0, 0, 0]),
            ("recvfrom", libc::SYS_recvfrom, [b.arg(), bad, 8, 0, 0, 0]),
            ("sendto", libc::SYS_sendto, [a.arg(), bad, 8, 0, 0, 0]),
            ("recv of TCP", libc::SYS_recvfrom, [server.as_raw_fd().arg(), bad, 8, 0, 0, 0]),
            ("send to TCP", libc::SYS_sendto, [server.as_raw_fd().arg(), bad, 8, 0, 0, 0]),
            ("recvmsg", libc::SYS_recvmsg, [b.arg(), bad, 0, 0, 0, 0]),
            ("sendmsg", libc::SYS_sendmsg, [b.arg(), bad, 0, 0, 0, 0]),
            ("recvmmsg", libc::SYS_recvmmsg, [b.arg(), bad, 1, 0, 0, 0]),
            ("sendmmsg", libc::SYS_sendmmsg, [b.arg(), bad, 1, 0, 0, 0]),
            ("connect", libc::SYS_connect, [a.arg(), bad, 16, 0, 0, 0]),
            ("openat", libc::SYS_openat, [here, bad, 0, 0, 0, 0]),
            ("openat2", libc::SYS_openat2, [here, bad, bad, 24, 0, 0]),
            ("openat2, struct", libc::SYS_openat2, [here, path.arg(), bad, 24, 0, 0]),
            ("newfstatat", libc::SYS_newfstatat, [here, bad, at_mut(&mut [0u64; 20]), 0, 0, 0]),
            ("newfstatat, struct", libc::SYS_newfstatat, [here, path.arg(), bad, 0, 0, 0]),
            ("fstat", libc::SYS_fstat, [file.arg(), bad, 0, 0, 0, 0]),
            ("statx", libc::SYS_statx, [here, path.arg(), 0, 0x7ff, bad, 0]),
            ("faccessat", libc::SYS_faccessat, [here, bad, 0, 0, 0, 0]),
            ("readlinkat", libc::SYS_readlinkat, [here, bad, bad, 8, 0, 0]),
            ("getdents64", libc::SYS_getdents64, [dir.arg(), bad, 100, 0, 0, 0]),
            ("unlinkat", libc::SYS_unlinkat, [here, bad, 0, 0, 0, 0]),
            ("mkdirat", libc::SYS_mkdirat, [here, bad, 0, 0, 0, 0]),
            ("renameat2", libc::SYS_renameat2, [here, path.arg(), here, bad, 0, 0]),
            ("symlinkat", libc::SYS_symlinkat, [bad, here, path.arg(), 0, 0, 0]),
            ("linkat", libc::SYS_linkat, [here, bad, here, bad, 0, 0]),
            ("nanosleep", libc::SYS_nanosleep, [bad, 0, 0, 0, 0, 0]),
            ("clock_nanosleep", libc::SYS_clock_nanosleep, [1, 0, bad, 0, 0, 0]),
            ("ppoll", libc::SYS_ppoll, [bad, 1, 0, 0, 0, 0]),
            ("epoll_pwait", libc::SYS_epoll_pwait, [epoll.arg(), bad, 1, 1000, 0, 0]),
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

/// Scenarios without an injected bound, because the bound reads the vectors before the call.
fn bad_vectors(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let file = sys.file("file", &pattern(100, 1));
    let mut buffer = [0u8; 100];
    let many = vec![iovec(&buffer[..1]); 1025];
    let huge = libc::iovec {
        iov_base: at_mut(&mut buffer) as *mut _,
        iov_len: usize::MAX,
    };
    let halfway = [
        iovec(&buffer[..10]),
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
        same!(sys, what => SYS_preadv [fd, vectors, count, 0]);
        same!(sys, what => SYS_preadv2 [fd, vectors, count, 0, 0, 0]);
        same!(sys, what => SYS_readv [fd, vectors, count]);
        // The position after a fault is not specified: the ring moves it only at the end.
        let _ = plain(libc::SYS_lseek, [fd, 0, 0]);
        if what != "huge" {
            same!(sys, what => SYS_pwritev [fd, vectors, count, 0]);
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
    same!(sys, "an unknown flag" => SYS_preadv2 [fd, at(&many[0]), 4, 0, 0, 1 << 30]);
    same!(sys, "an unknown flag, writing" => SYS_pwritev2 [fd, at(&many[0]), 4, 0, 0, 1 << 30]);
    same!(sys, "RWF_APPEND" => SYS_pwritev2 [fd, at(&many[0]), 4, 0, 0, libc::RWF_APPEND as usize]);
    sys.note("size", file.metadata().unwrap().len());
}

/// Buffers in two mapped pages, the second of which is unmapped.
fn buffers_that_end_early(sys: &mut Sys<'_>) {
    if laio_testing::lacks("split-buffers") {
        return;
    }
    let page = rustix::param::page_size();
    // SAFETY: a new mapping, of which the second page is unmapped at once; nothing refers to it.
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
    same!(sys, "pread64" => SYS_pread64 [file.arg(), edge, 8, 0]);
    // The position after a fault is not specified: the ring moves it only at the end.
    same!(sys, "read" => SYS_read [file.arg(), edge, 8]);
    same!(sys, "pwrite64" => SYS_pwrite64 [file.arg(), edge, 8, 2]);
    if !sys.short {
        same!(sys, "read of a pipe" => SYS_read [reader.arg(), edge, 8]);
        same!(sys, "write to a pipe" => SYS_write [writer.arg(), edge, 8]);
        same!(sys, "recv" => SYS_recvfrom [b.arg(), edge, 8, 0, 0, 0]);
        same!(sys, "send" => SYS_sendto [b.arg(), edge, 8, 0, 0, 0]);
        sys.note("left in the pipe", drain(&reader));
        sys.note("left in the socket", drain(&b));
    }
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
    // SAFETY: the mapping made above.
    unsafe { libc::munmap(base as *mut _, 2 * page) };
}

fn offsets(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let mut memory = [0u8; 4];
    let fd = file.arg();
    for offset in [0, 8, 10, 11, -1i64, -2, i64::MIN, i64::MAX, i64::MAX - 3] {
        let at_offset = offset as usize;
        let buffer = at_mut(&mut memory);
        let vector = [libc::iovec {
            iov_base: buffer as *mut _,
            iov_len: 4,
        }];
        let vectors = at(&vector);
        if sys.short && offset > 100 {
            // A part of the bytes fits below the largest offset.
            continue;
        }
        sys.note("offset", offset);
        same!(sys, "pread64" => SYS_pread64 [fd, buffer, 4, at_offset]);
        same!(sys, "preadv" => SYS_preadv [fd, vectors, 1, at_offset]);
        same!(sys, "preadv2" => SYS_preadv2 [fd, vectors, 1, at_offset, 0, 0]);
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
        sys.note("read", memory);
        if offset < 100 {
            memory = *b"wxyz";
            same!(sys, "pwrite64" => SYS_pwrite64 [fd, buffer, 4, at_offset]);
            same!(sys, "pwritev" => SYS_pwritev [fd, vectors, 1, at_offset]);
            same!(sys, "pwritev2" => SYS_pwritev2 [fd, vectors, 1, at_offset, 0, 0]);
        }
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
        same!(sys, "lseek" => SYS_lseek [fd, at_offset, libc::SEEK_SET as usize]);
    }
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
    let (reader, writer) = pipe();
    rustix::io::write(&writer, b"abcdefgh").unwrap();
    same!(sys, "pread64 of a pipe" => SYS_pread64 [reader.arg(), at_mut(&mut memory), 4, 0]);
    same!(sys, "pwrite64 to a pipe" => SYS_pwrite64 [writer.arg(), at(&memory), 4, 0]);
    same!(sys, "lseek of a pipe" => SYS_lseek [reader.arg(), 0, 0]);
    if !sys.short {
        let vector = [iovec_mut(&mut memory)];
        same!(sys, "preadv2 of a pipe" => SYS_preadv2 [reader.arg(), at(&vector), 1, usize::MAX, 0, 0]);
        sys.note("read", memory);
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
        same!(sys, "read" => SYS_read [fd, here, 0]);
        same!(sys, "read from null" => SYS_read [fd, 0, 0]);
        same!(sys, "readv" => SYS_readv [fd, 0, 0]);
        same!(sys, "pread64" => SYS_pread64 [fd, here, 0, 0]);
        same!(sys, "write" => SYS_write [fd, here, 0]);
        same!(sys, "writev" => SYS_writev [fd, 0, 0]);
        same!(sys, "pwrite64" => SYS_pwrite64 [fd, here, 0, 0]);
    }
    // A datagram may be empty.
    same!(sys, "write of a datagram" => SYS_write [c.arg(), here, 0]);
    sys.note("peeked", rustix_recv(&d));
    let empty = iovec(&[]);
    same!(sys, "writev of a datagram" => SYS_writev [c.arg(), at(&empty), 1]);
    sys.note("peeked", rustix_recv(&d));
    same!(sys, "send of a datagram" => SYS_sendto [c.arg(), here, 0, 0, 0, 0]);
    sys.note("peeked", rustix_recv(&d));
    rustix::io::write(&a, b"data").unwrap();
    same!(sys, "recv" => SYS_recvfrom [b.arg(), here, 0, 0, 0, 0]);
    same!(sys, "send" => SYS_sendto [b.arg(), here, 0, 0, 0, 0]);
    sys.note("left", drain(&b));
}

/// Takes a datagram without waiting.
fn rustix_recv(fd: &OwnedFd) -> Result<usize, rustix::io::Errno> {
    let mut buffer = [0u8; 8];
    rustix::net::recv(fd, &mut buffer, rustix::net::RecvFlags::DONTWAIT).map(|(read, _)| read)
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
    let mut memory = [0u8; 16];
    let buffer = at_mut(&mut memory);
    for length in [1 << 63, usize::MAX, usize::MAX / 2] {
        sys.note("length", length);
        same!(sys, "read" => SYS_read [file.arg(), buffer, length]);
        same!(sys, "pread64" => SYS_pread64 [file.arg(), buffer, length, 0]);
        same!(sys, "read of a pipe" => SYS_read [reader.arg(), buffer, length]);
        same!(sys, "write" => SYS_write [null.arg(), buffer, length]);
        same!(sys, "pwrite64" => SYS_pwrite64 [file.arg(), buffer, length, 0]);
        same!(sys, "recv" => SYS_recvfrom [b.arg(), buffer, length, libc::MSG_PEEK as usize, 0, 0]);
        same!(sys, "position" => SYS_lseek [file.arg(), 0, libc::SEEK_CUR as usize]);
    }
    // Reads succeed as long as the buffer's first bytes are writable.
    let wide = 3 << 30;
    same!(sys, "a file" => SYS_pread64 [file.arg(), buffer, wide, 0]);
    same!(sys, "a pipe" => SYS_read [reader.arg(), buffer, wide]);
    same!(sys, "a socket" => SYS_recvfrom [b.arg(), buffer, wide, 0, 0, 0]);
    same!(sys, "/dev/null" => SYS_write [null.arg(), buffer, wide]);
    let vector = [
        iovec(&memory),
        libc::iovec {
            iov_base: buffer as *mut _,
            iov_len: wide,
        },
    ];
    same!(sys, "/dev/null, a vector" => SYS_writev [null.arg(), at(&vector), 2]);
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

/// These calls cannot be compared with the plain call, which would fork the test.
#[test]
fn refused_calls_return_an_error() {
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

/// The kernel uses only the low half of the number, and the table does the same.
#[test]
fn the_table_uses_the_low_half_of_the_number() {
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
