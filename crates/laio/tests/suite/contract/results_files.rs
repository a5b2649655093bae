//! Rule 1, results are those of the plain call: reading, writing and changing files.

use crate::harness::{Arg, Sys, at, at_mut, iovec, iovec_mut, own, plain};
use laio_testing::temp::{pattern, pipe, resident_pages};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

scenarios! {
    about_files: true;
    reads,
    reads_of_the_kernels_files,
    vectors,
    writes,
    appending,
    positions,
    holes_and_sizes,
    to_the_device,
    advice,
    cold_pages,
    attributes,
    memory,
    closing,
    duplicating,
}

fn reads(sys: &mut Sys<'_>) {
    let contents = pattern(if sys.short { 2_000 } else { 100_000 }, 1);
    let file = sys.file("file", &contents);
    let mut memory = vec![0u8; contents.len() + 100];
    let buffer = at_mut(&mut memory[..]);
    let fd = file.arg();
    let end = contents.len();
    for (offset, length) in [
        (0, 1),
        (0, 4096),
        (100, 5000),
        (0, end),
        (5, end),
        (end - 1, 5),
        (end, 5),
        (end + 1, 5),
    ] {
        let length = if sys.short { length.min(1000) } else { length };
        memory.fill(0);
        let read = sys
            .check("pread64", libc::SYS_pread64, [fd, buffer, length, offset])
            .unwrap();
        sys.note(
            "right",
            memory[..read] == contents[offset.min(end)..][..read],
        );
        sys.note("and no more", memory[read..].iter().all(|&byte| byte == 0));
    }
    let mut at_position = 0;
    for length in [1, 500, 1000, 499, end, 10] {
        let read = sys
            .check("read", libc::SYS_read, [fd, buffer, length])
            .unwrap();
        sys.note("right", memory[..read] == contents[at_position..][..read]);
        at_position += read;
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
    }
}

fn reads_of_the_kernels_files(sys: &mut Sys<'_>) {
    let mut memory = vec![0u8; 10_000];
    let buffer = at_mut(&mut memory[..]);
    for name in [
        "/proc/sys/kernel/ostype",
        "/proc/self/comm",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let Ok(file) = File::open(name) else { continue };
        sys.note("name", name);
        let read = sys
            .check("pread64", libc::SYS_pread64, [file.arg(), buffer, 100, 0])
            .unwrap();
        sys.note(
            "contents",
            String::from_utf8_lossy(&memory[..read]).into_owned(),
        );
        let _ = sys.check("read", libc::SYS_read, [file.arg(), buffer, 100]);
        let _ = sys.check("read of the end", libc::SYS_read, [file.arg(), buffer, 100]);
    }
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let zero = File::options()
        .read(true)
        .write(true)
        .open("/dev/zero")
        .unwrap();
    let full = File::options()
        .read(true)
        .write(true)
        .open("/dev/full")
        .unwrap();
    let random = File::open("/dev/urandom").unwrap();
    for (what, file) in [
        ("null", &null),
        ("zero", &zero),
        ("full", &full),
        ("urandom", &random),
    ] {
        sys.note("device", what);
        let fd = file.arg();
        // A device that generates its bytes may stop between pages if the call must not wait.
        let read = sys.call(libc::SYS_read, [fd, buffer, 5000]);
        sys.note(
            "read",
            read.map(|read| if read >= 4096 { 5000 } else { read }),
        );
        let _ = sys.check("pread64", libc::SYS_pread64, [fd, buffer, 500, 3]);
        let _ = sys.check("write", libc::SYS_write, [fd, buffer, 500]);
        let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, buffer, 500, 3]);
    }
    let directory = File::open("/proc/self").unwrap();
    let _ = sys.check(
        "read of a directory",
        libc::SYS_read,
        [directory.arg(), buffer, 100],
    );
}

fn vectors(sys: &mut Sys<'_>) {
    let contents = pattern(5_000, 2);
    let file = sys.file("file", &contents);
    let fd = file.arg();
    let mut buffers = [
        vec![0u8; 1],
        vec![0; 7],
        vec![],
        vec![0; 4000],
        vec![0; 500],
    ];
    let vector: Vec<libc::iovec> = buffers.iter_mut().map(|buffer| iovec_mut(buffer)).collect();
    let (address, count) = (at(&vector[..]), vector.len());
    for (what, number, offset) in [
        ("preadv", libc::SYS_preadv, 3),
        ("preadv2", libc::SYS_preadv2, 4),
        ("preadv2 at the position", libc::SYS_preadv2, usize::MAX),
        ("readv", libc::SYS_readv, 0),
        ("readv at the end", libc::SYS_readv, 0),
    ] {
        let _ = sys.check(what, number, [fd, address, count, offset, 0, 0]);
        sys.note("read", buffers.concat()[..20].to_vec());
        sys.note(
            "all of it",
            buffers
                .concat()
                .iter()
                .map(|&byte| u64::from(byte))
                .sum::<u64>(),
        );
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
    }
    let _ = sys.check("pwritev", libc::SYS_pwritev, [fd, address, count, 100]);
    let _ = sys.check(
        "pwritev2",
        libc::SYS_pwritev2,
        [fd, address, count, 4900, 0, 0],
    );
    let _ = sys.check("writev", libc::SYS_writev, [fd, address, count]);
    let append = libc::RWF_APPEND as usize;
    let _ = sys.check(
        "pwritev2, append",
        libc::SYS_pwritev2,
        [fd, address, count, 1, 0, append],
    );
    let sync = libc::RWF_DSYNC as usize;
    let _ = sys.check(
        "pwritev2, sync",
        libc::SYS_pwritev2,
        [fd, address, count, 1, 0, sync],
    );
    sys.note(
        "the file",
        digest(&std::fs::read(sys.dir.join("file")).unwrap()),
    );
}

/// Returns the length and a simple checksum, which identify the contents.
pub(crate) fn digest(bytes: &[u8]) -> (usize, u64) {
    let sum = bytes.iter().fold(0u64, |sum, &byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    (bytes.len(), sum)
}

fn writes(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"");
    let fd = file.arg();
    let contents = pattern(if sys.short { 3_000 } else { 200_000 }, 3);
    let buffer = at(&contents[..]);
    let _ = sys.check("write", libc::SYS_write, [fd, buffer, contents.len()]);
    let _ = sys.check("write more", libc::SYS_write, [fd, buffer, 10]);
    let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, buffer, 1000, 5]);
    let _ = sys.check(
        "pwrite64 beyond the end",
        libc::SYS_pwrite64,
        [fd, buffer, 1000, 300_000],
    );
    let _ = sys.check(
        "position",
        libc::SYS_lseek,
        [fd, 0, libc::SEEK_CUR as usize],
    );
    sys.note(
        "the file",
        digest(&std::fs::read(sys.dir.join("file")).unwrap()),
    );
    let full = File::options().write(true).open("/dev/full").unwrap();
    let _ = sys.check("no space", libc::SYS_write, [full.arg(), buffer, 10]);
    let _ = sys.check(
        "too far",
        libc::SYS_pwrite64,
        [fd, buffer, 10, i64::MAX as usize],
    );
}

fn appending(sys: &mut Sys<'_>) {
    sys.file("file", b"begin");
    let file = File::options()
        .append(true)
        .read(true)
        .open(sys.dir.join("file"))
        .unwrap();
    let fd = file.arg();
    for text in ["one", "two", "three"] {
        let _ = sys.check("write", libc::SYS_write, [fd, at(text), text.len()]);
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
    }
    let _ = sys.check("lseek", libc::SYS_lseek, [fd, 0, libc::SEEK_SET as usize]);
    let _ = sys.check("write", libc::SYS_write, [fd, at("four"), 4]);
    let vector = [iovec(b"fi"), iovec(b"ve")];
    let _ = sys.check("writev", libc::SYS_writev, [fd, at(&vector), 2]);
    // On a file that is open for appending, pwrite appends: see BUGS in pwrite(2).
    let _ = sys.check("pwrite64", libc::SYS_pwrite64, [fd, at("six"), 3, 0]);
    sys.note(
        "the file",
        std::fs::read_to_string(sys.dir.join("file")).unwrap(),
    );
}

fn positions(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(100, 4));
    let fd = file.arg();
    for (offset, whence) in [
        (10i64, 0),
        (-5, 1),
        (-5, 2),
        (50, 2),
        (-500, 1),
        (0, 99),
        (0, 3),
        (0, 4),
        (200, 3),
    ] {
        let _ = sys.check("lseek", libc::SYS_lseek, [fd, offset as usize, whence]);
    }
    let mut buffer = [0u8; 10];
    let _ = sys.check(
        "read beyond the end",
        libc::SYS_read,
        [fd, at_mut(&mut buffer), 10],
    );
    let copy = own(plain(libc::SYS_dup, [fd]));
    let _ = sys.check("lseek of a copy", libc::SYS_lseek, [copy.arg(), 20, 0]);
    let _ = sys.check("read", libc::SYS_read, [fd, at_mut(&mut buffer), 10]);
    sys.note("read", buffer);
}

fn holes_and_sizes(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let fd = file.arg();
    let path = sys.path("file");
    let mut buffer = [1u8; 20];
    let _ = sys.check("ftruncate", libc::SYS_ftruncate, [fd, 5]);
    let _ = sys.check("ftruncate", libc::SYS_ftruncate, [fd, 1 << 20]);
    let _ = sys.check(
        "pread64 of a hole",
        libc::SYS_pread64,
        [fd, at_mut(&mut buffer), 20, 1000],
    );
    sys.note("read", buffer);
    let _ = sys.check("truncate", libc::SYS_truncate, [path.arg(), 8]);
    let _ = sys.check("truncate of none", libc::SYS_truncate, [c"/none".arg(), 8]);
    let _ = sys.check("fallocate", libc::SYS_fallocate, [fd, 0, 4, 100]);
    let keep = libc::FALLOC_FL_KEEP_SIZE as usize;
    let _ = sys.check(
        "fallocate, same size",
        libc::SYS_fallocate,
        [fd, keep, 4, 10_000],
    );
    let punch = keep | libc::FALLOC_FL_PUNCH_HOLE as usize;
    let _ = sys.check("fallocate, a hole", libc::SYS_fallocate, [fd, punch, 2, 2]);
    let _ = sys.check(
        "fallocate, unknown",
        libc::SYS_fallocate,
        [fd, 1 << 20, 2, 2],
    );
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
}

fn to_the_device(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(10_000, 5));
    let fd = file.arg();
    let dir = File::open(&sys.dir).unwrap();
    let _ = sys.check("fsync", libc::SYS_fsync, [fd]);
    let _ = sys.check("fdatasync", libc::SYS_fdatasync, [fd]);
    let _ = sys.check("fsync of a directory", libc::SYS_fsync, [dir.arg()]);
    let _ = sys.check(
        "sync_file_range",
        libc::SYS_sync_file_range,
        [fd, 0, 4096, 7],
    );
    let _ = sys.check(
        "sync_file_range, to the end",
        libc::SYS_sync_file_range,
        [fd, 0, 0, 7],
    );
    let _ = sys.check(
        "sync_file_range, unknown",
        libc::SYS_sync_file_range,
        [fd, 0, 0, 99],
    );
    let _ = sys.check(
        "sync_file_range, wide",
        libc::SYS_sync_file_range,
        [fd, 0, 1 << 40, 7],
    );
}

fn advice(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(10_000, 6));
    let fd = file.arg();
    for advice in [0, 1, 2, 3, 4, 5, 77] {
        let _ = sys.check("fadvise64", libc::SYS_fadvise64, [fd, 0, 5000, advice]);
        let _ = sys.check(
            "fadvise64, the whole file",
            libc::SYS_fadvise64,
            [fd, 0, 0, advice],
        );
    }
    let _ = sys.check("readahead", libc::SYS_readahead, [fd, 0, 5000]);
    let (reader, _writer) = pipe();
    let _ = sys.check(
        "fadvise64 of a pipe",
        libc::SYS_fadvise64,
        [reader.arg(), 0, 0, 3],
    );
    let _ = sys.check(
        "readahead of a pipe",
        libc::SYS_readahead,
        [reader.arg(), 0, 10],
    );
}

/// Reads all of a file that is not, or only partly, in the page cache. On a file system in memory this is an
/// ordinary read.
fn cold_pages(sys: &mut Sys<'_>) {
    let contents = pattern(if sys.short { 5_200 } else { 40 * 4096 + 100 }, 7);
    let file = sys.file("file", &contents);
    let mut buffer = vec![0u8; contents.len() + 1];
    let fd = file.arg();
    for warm in [vec![], vec![0], vec![0, 1, 3], vec![1], vec![40]] {
        let cold = laio_testing::temp::make_cold(&file).is_ok();
        for page in &warm {
            let mut byte = [0u8];
            let _ = plain(
                libc::SYS_fadvise64,
                [fd, 0, 0, libc::POSIX_FADV_RANDOM as usize],
            );
            let _ = plain(libc::SYS_pread64, [fd, at_mut(&mut byte), 1, page * 4096]);
        }
        // The test is meaningless if the page is in memory.
        assert!(!cold || resident_pages(&file) <= warm.len() + 2);
        buffer.fill(0);
        let read = sys.check(
            "pread64",
            libc::SYS_pread64,
            [fd, at_mut(&mut buffer[..]), buffer.len(), 0],
        );
        sys.note("right", read.is_ok_and(|read| buffer[..read] == contents));
        let _ = laio_testing::temp::make_cold(&file);
        let _ = plain(libc::SYS_lseek, [fd, 10, 0]);
        buffer.fill(0);
        let (left, right) = buffer.split_at_mut(5001);
        let vector = [iovec_mut(left), iovec_mut(right)];
        let read = sys.check("readv", libc::SYS_readv, [fd, at(&vector), 2]);
        sys.note(
            "right",
            read.is_ok_and(|read| buffer[..read] == contents[10..]),
        );
        let _ = sys.check(
            "position",
            libc::SYS_lseek,
            [fd, 0, libc::SEEK_CUR as usize],
        );
    }
}

fn attributes(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let (fd, path) = (file.arg(), sys.path("file"));
    let mut buffer = [0u8; 100];
    let (name, value) = (c"user.laio", b"a value");
    let set = [path.arg(), name.arg(), at(value), value.len(), 0];
    let _ = sys.check("setxattr", libc::SYS_setxattr, set);
    let _ = sys.check(
        "setxattr again",
        libc::SYS_setxattr,
        [set[0], set[1], set[2], set[3], 1],
    );
    let _ = sys.check("lsetxattr", libc::SYS_lsetxattr, set);
    let _ = sys.check(
        "fsetxattr",
        libc::SYS_fsetxattr,
        [fd, name.arg(), at(value), 4, 2],
    );
    let _ = sys.check(
        "getxattr",
        libc::SYS_getxattr,
        [path.arg(), name.arg(), at_mut(&mut buffer), 100],
    );
    sys.note("value", buffer);
    let _ = sys.check(
        "getxattr, size",
        libc::SYS_getxattr,
        [path.arg(), name.arg(), 0, 0],
    );
    let _ = sys.check(
        "getxattr, too small",
        libc::SYS_getxattr,
        [path.arg(), name.arg(), at_mut(&mut buffer), 2],
    );
    let _ = sys.check(
        "lgetxattr",
        libc::SYS_lgetxattr,
        [path.arg(), name.arg(), at_mut(&mut buffer), 100],
    );
    let _ = sys.check(
        "fgetxattr",
        libc::SYS_fgetxattr,
        [fd, name.arg(), at_mut(&mut buffer), 100],
    );
    let _ = sys.check(
        "getxattr of none",
        libc::SYS_getxattr,
        [path.arg(), c"user.none".arg(), 0, 0],
    );
    let _ = sys.check(
        "a bad name",
        libc::SYS_getxattr,
        [path.arg(), c"none".arg(), 0, 0],
    );
    let _ = sys.check(
        "listxattr",
        libc::SYS_listxattr,
        [path.arg(), at_mut(&mut buffer), 100],
    );
    let _ = sys.check(
        "flistxattr",
        libc::SYS_flistxattr,
        [fd, at_mut(&mut buffer), 100],
    );
    let _ = sys.check(
        "removexattr",
        libc::SYS_removexattr,
        [path.arg(), name.arg()],
    );
    let _ = sys.check("fremovexattr", libc::SYS_fremovexattr, [fd, name.arg()]);
    let _ = sys.check("fchmod", libc::SYS_fchmod, [fd, 0o4751]);
    let _ = sys.check("fchown", libc::SYS_fchown, [fd, usize::MAX, usize::MAX]);
    let times = [1_000_000i64, 5, 2_000_000, 7];
    let _ = sys.check(
        "utimensat",
        libc::SYS_utimensat,
        [libc::AT_FDCWD.arg(), path.arg(), at(&times), 0],
    );
    let _ = sys.check(
        "of a descriptor",
        libc::SYS_utimensat,
        [fd, 0, at(&times), 0],
    );
    let status = rustix::fs::fstat(&file).unwrap();
    sys.note(
        "times",
        (status.st_atime, status.st_mtime, status.st_mtime_nsec),
    );
    sys.note("mode", status.st_mode);
}

fn memory(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(10_000, 10));
    // SAFETY: a new mapping of a file of our own, unmapped below; nothing refers to it.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    } as usize;
    for advice in [
        libc::MADV_NORMAL,
        libc::MADV_WILLNEED,
        libc::MADV_DONTNEED,
        22,
        7777,
    ] {
        let _ = sys.check("madvise", libc::SYS_madvise, [base, 8192, advice as usize]);
    }
    let _ = sys.check(
        "madvise, not aligned",
        libc::SYS_madvise,
        [base + 1, 8192, 3],
    );
    let _ = sys.check("mlock", libc::SYS_mlock, [base, 4096]);
    let _ = sys.check("munlock", libc::SYS_munlock, [base, 4096]);
    let _ = sys.check(
        "msync",
        libc::SYS_msync,
        [base, 8192, libc::MS_SYNC as usize],
    );
    let _ = sys.check("munmap", libc::SYS_munmap, [base, 8192]);
    let _ = sys.check("munmap, not aligned", libc::SYS_munmap, [base + 1, 8192]);
    let mut random = [0u8; 64];
    let _ = sys.check(
        "getrandom",
        libc::SYS_getrandom,
        [at_mut(&mut random), 64, 0],
    );
    sys.note("filled", random != [0; 64]);
    let _ = sys.check(
        "getrandom, unknown",
        libc::SYS_getrandom,
        [at_mut(&mut random), 64, 99],
    );
}

fn closing(sys: &mut Sys<'_>) {
    use std::os::fd::IntoRawFd;
    let file = sys.file("file", b"0123456789");
    let copy = own(plain(libc::SYS_dup, [file.arg()]));
    let _ = sys.check("close", libc::SYS_close, [file.into_raw_fd().arg()]);
    let mut buffer = [0u8; 4];
    let _ = sys.check(
        "read of a copy",
        libc::SYS_read,
        [copy.arg(), at_mut(&mut buffer), 4],
    );
    let (reader, writer) = pipe();
    let _ = sys.check(
        "close of a pipe",
        libc::SYS_close,
        [writer.into_raw_fd().arg()],
    );
    let _ = sys.check(
        "read of its end",
        libc::SYS_read,
        [reader.arg(), at_mut(&mut buffer), 4],
    );
}

fn duplicating(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let other = sys.file("other", b"abcdefghij");
    let copy = sys.open("dup", libc::SYS_dup, [file.arg()]).unwrap();
    let mut buffer = [0u8; 4];
    let replaced = sys.call(
        libc::SYS_dup3,
        [other.arg(), copy.arg(), libc::O_CLOEXEC as usize],
    );
    sys.note("dup3", replaced == Ok(copy.arg()));
    let _ = sys.check("read", libc::SYS_read, [copy.arg(), at_mut(&mut buffer), 4]);
    sys.note("read", buffer);
    sys.note("flags", rustix::io::fcntl_getfd(&copy).unwrap());
    let _ = sys.check(
        "dup3 onto itself",
        libc::SYS_dup3,
        [copy.arg(), copy.arg(), 0],
    );
    let _ = sys.check(
        "dup3, unknown",
        libc::SYS_dup3,
        [copy.arg(), other.arg(), 99],
    );
    #[cfg(target_arch = "x86_64")]
    {
        let onto_itself = sys.call(libc::SYS_dup2, [copy.arg(), copy.arg()]);
        sys.note("dup2 onto itself", onto_itself == Ok(copy.arg()));
        let replaced = sys.call(libc::SYS_dup2, [file.arg(), copy.arg()]);
        sys.note("dup2", replaced == Ok(copy.arg()));
        let _ = sys.check("read", libc::SYS_read, [copy.arg(), at_mut(&mut buffer), 4]);
        sys.note("read", buffer);
    }
    let high = sys.call(
        libc::SYS_fcntl,
        [file.arg(), libc::F_DUPFD_CLOEXEC as usize, 100],
    );
    sys.note("F_DUPFD_CLOEXEC", high.is_ok_and(|fd| fd >= 100));
    drop(high.map(|fd| own(Ok(fd))));
    let high: OwnedFd = own(plain(
        libc::SYS_fcntl,
        [
            file.arg(),
            libc::F_DUPFD_CLOEXEC as usize,
            laio_testing::process::high_descriptor(5_000),
        ],
    ));
    let range = high.arg();
    std::mem::forget(high);
    let _ = sys.check("close_range", libc::SYS_close_range, [range, range, 0]);
    let _ = sys.check(
        "closed",
        libc::SYS_fcntl,
        [range, libc::F_GETFD as usize, 0],
    );
    let _ = sys.check(
        "close_range, unknown",
        libc::SYS_close_range,
        [range, range, 99],
    );
    let _ = sys.check(
        "close_range, backwards",
        libc::SYS_close_range,
        [range, range - 1, 0],
    );
}
