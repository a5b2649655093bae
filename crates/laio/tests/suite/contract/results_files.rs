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
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
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
        same!(sys, "read" => SYS_read [file.arg(), buffer, 100]);
        same!(sys, "read of the end" => SYS_read [file.arg(), buffer, 100]);
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
        same!(sys, "pread64" => SYS_pread64 [fd, buffer, 500, 3]);
        same!(sys, "write" => SYS_write [fd, buffer, 500]);
        same!(sys, "pwrite64" => SYS_pwrite64 [fd, buffer, 500, 3]);
    }
    let directory = File::open("/proc/self").unwrap();
    same!(sys, "read of a directory" => SYS_read [directory.arg(), buffer, 100]);
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
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
    }
    same!(sys, "pwritev" => SYS_pwritev [fd, address, count, 100]);
    same!(sys, "pwritev2" => SYS_pwritev2 [fd, address, count, 4900, 0, 0]);
    same!(sys, "writev" => SYS_writev [fd, address, count]);
    let append = libc::RWF_APPEND as usize;
    same!(sys, "pwritev2, append" => SYS_pwritev2 [fd, address, count, 1, 0, append]);
    let sync = libc::RWF_DSYNC as usize;
    same!(sys, "pwritev2, sync" => SYS_pwritev2 [fd, address, count, 1, 0, sync]);
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
    same!(sys, "write" => SYS_write [fd, buffer, contents.len()]);
    same!(sys, "write more" => SYS_write [fd, buffer, 10]);
    same!(sys, "pwrite64" => SYS_pwrite64 [fd, buffer, 1000, 5]);
    same!(sys, "pwrite64 beyond the end" => SYS_pwrite64 [fd, buffer, 1000, 300_000]);
    same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
    sys.note(
        "the file",
        digest(&std::fs::read(sys.dir.join("file")).unwrap()),
    );
    let full = File::options().write(true).open("/dev/full").unwrap();
    same!(sys, "no space" => SYS_write [full.arg(), buffer, 10]);
    same!(sys, "too far" => SYS_pwrite64 [fd, buffer, 10, i64::MAX as usize]);
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
        same!(sys, "write" => SYS_write [fd, at(text), text.len()]);
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
    }
    same!(sys, "lseek" => SYS_lseek [fd, 0, libc::SEEK_SET as usize]);
    same!(sys, "write" => SYS_write [fd, at("four"), 4]);
    let vector = [iovec(b"fi"), iovec(b"ve")];
    same!(sys, "writev" => SYS_writev [fd, at(&vector), 2]);
    // On a file that is open for appending, pwrite appends: see BUGS in pwrite(2).
    same!(sys, "pwrite64" => SYS_pwrite64 [fd, at("six"), 3, 0]);
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
        same!(sys, "lseek" => SYS_lseek [fd, offset as usize, whence]);
    }
    let mut buffer = [0u8; 10];
    same!(sys, "read beyond the end" => SYS_read [fd, at_mut(&mut buffer), 10]);
    let copy = own(plain(libc::SYS_dup, [fd]));
    same!(sys, "lseek of a copy" => SYS_lseek [copy.arg(), 20, 0]);
    same!(sys, "read" => SYS_read [fd, at_mut(&mut buffer), 10]);
    sys.note("read", buffer);
}

fn holes_and_sizes(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let fd = file.arg();
    let path = sys.path("file");
    let mut buffer = [1u8; 20];
    same!(sys, "ftruncate" => SYS_ftruncate [fd, 5]);
    same!(sys, "ftruncate" => SYS_ftruncate [fd, 1 << 20]);
    same!(sys, "pread64 of a hole" => SYS_pread64 [fd, at_mut(&mut buffer), 20, 1000]);
    sys.note("read", buffer);
    same!(sys, "truncate" => SYS_truncate [path.arg(), 8]);
    same!(sys, "truncate of none" => SYS_truncate [c"/none".arg(), 8]);
    same!(sys, "fallocate" => SYS_fallocate [fd, 0, 4, 100]);
    let keep = libc::FALLOC_FL_KEEP_SIZE as usize;
    same!(sys, "fallocate, same size" => SYS_fallocate [fd, keep, 4, 10_000]);
    let punch = keep | libc::FALLOC_FL_PUNCH_HOLE as usize;
    same!(sys, "fallocate, a hole" => SYS_fallocate [fd, punch, 2, 2]);
    same!(sys, "fallocate, unknown" => SYS_fallocate [fd, 1 << 20, 2, 2]);
    sys.note("the file", std::fs::read(sys.dir.join("file")).unwrap());
}

fn to_the_device(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(10_000, 5));
    let fd = file.arg();
    let dir = File::open(&sys.dir).unwrap();
    same!(sys, "fsync" => SYS_fsync [fd]);
    same!(sys, "fdatasync" => SYS_fdatasync [fd]);
    same!(sys, "fsync of a directory" => SYS_fsync [dir.arg()]);
    same!(sys, "sync_file_range" => SYS_sync_file_range [fd, 0, 4096, 7]);
    same!(sys, "sync_file_range, to the end" => SYS_sync_file_range [fd, 0, 0, 7]);
    same!(sys, "sync_file_range, unknown" => SYS_sync_file_range [fd, 0, 0, 99]);
    same!(sys, "sync_file_range, wide" => SYS_sync_file_range [fd, 0, 1 << 40, 7]);
}

fn advice(sys: &mut Sys<'_>) {
    let file = sys.file("file", &pattern(10_000, 6));
    let fd = file.arg();
    for advice in [0, 1, 2, 3, 4, 5, 77] {
        same!(sys, "fadvise64" => SYS_fadvise64 [fd, 0, 5000, advice]);
        same!(sys, "fadvise64, the whole file" => SYS_fadvise64 [fd, 0, 0, advice]);
    }
    same!(sys, "readahead" => SYS_readahead [fd, 0, 5000]);
    let (reader, _writer) = pipe();
    same!(sys, "fadvise64 of a pipe" => SYS_fadvise64 [reader.arg(), 0, 0, 3]);
    same!(sys, "readahead of a pipe" => SYS_readahead [reader.arg(), 0, 10]);
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
        same!(sys, "position" => SYS_lseek [fd, 0, libc::SEEK_CUR as usize]);
    }
}

fn attributes(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let (fd, path) = (file.arg(), sys.path("file"));
    let mut buffer = [0u8; 100];
    let (name, value) = (c"user.laio", b"a value");
    let set = [path.arg(), name.arg(), at(value), value.len(), 0];
    let _ = sys.check("setxattr", libc::SYS_setxattr, set);
    same!(sys, "setxattr again" => SYS_setxattr [set[0], set[1], set[2], set[3], 1]);
    let _ = sys.check("lsetxattr", libc::SYS_lsetxattr, set);
    same!(sys, "fsetxattr" => SYS_fsetxattr [fd, name.arg(), at(value), 4, 2]);
    same!(sys, "getxattr" => SYS_getxattr [path.arg(), name.arg(), at_mut(&mut buffer), 100]);
    sys.note("value", buffer);
    same!(sys, "getxattr, size" => SYS_getxattr [path.arg(), name.arg(), 0, 0]);
    same!(sys, "getxattr, too small" => SYS_getxattr [path.arg(), name.arg(), at_mut(&mut buffer), 2]);
    same!(sys, "lgetxattr" => SYS_lgetxattr [path.arg(), name.arg(), at_mut(&mut buffer), 100]);
    same!(sys, "fgetxattr" => SYS_fgetxattr [fd, name.arg(), at_mut(&mut buffer), 100]);
    same!(sys, "getxattr of none" => SYS_getxattr [path.arg(), c"user.none".arg(), 0, 0]);
    same!(sys, "a bad name" => SYS_getxattr [path.arg(), c"none".arg(), 0, 0]);
    same!(sys, "listxattr" => SYS_listxattr [path.arg(), at_mut(&mut buffer), 100]);
    same!(sys, "flistxattr" => SYS_flistxattr [fd, at_mut(&mut buffer), 100]);
    same!(sys, "removexattr" => SYS_removexattr [path.arg(), name.arg()]);
    same!(sys, "fremovexattr" => SYS_fremovexattr [fd, name.arg()]);
    same!(sys, "fchmod" => SYS_fchmod [fd, 0o4751]);
    same!(sys, "fchown" => SYS_fchown [fd, usize::MAX, usize::MAX]);
    let times = [1_000_000i64, 5, 2_000_000, 7];
    same!(sys, "utimensat" => SYS_utimensat [libc::AT_FDCWD.arg(), path.arg(), at(&times), 0]);
    same!(sys, "of a descriptor" => SYS_utimensat [fd, 0, at(&times), 0]);
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
        same!(sys, "madvise" => SYS_madvise [base, 8192, advice as usize]);
    }
    same!(sys, "madvise, not aligned" => SYS_madvise [base + 1, 8192, 3]);
    same!(sys, "mlock" => SYS_mlock [base, 4096]);
    same!(sys, "munlock" => SYS_munlock [base, 4096]);
    same!(sys, "msync" => SYS_msync [base, 8192, libc::MS_SYNC as usize]);
    same!(sys, "munmap" => SYS_munmap [base, 8192]);
    same!(sys, "munmap, not aligned" => SYS_munmap [base + 1, 8192]);
    let mut random = [0u8; 64];
    same!(sys, "getrandom" => SYS_getrandom [at_mut(&mut random), 64, 0]);
    sys.note("filled", random != [0; 64]);
    same!(sys, "getrandom, unknown" => SYS_getrandom [at_mut(&mut random), 64, 99]);
}

fn closing(sys: &mut Sys<'_>) {
    use std::os::fd::IntoRawFd;
    let file = sys.file("file", b"0123456789");
    let copy = own(plain(libc::SYS_dup, [file.arg()]));
    same!(sys, "close" => SYS_close [file.into_raw_fd().arg()]);
    let mut buffer = [0u8; 4];
    same!(sys, "read of a copy" => SYS_read [copy.arg(), at_mut(&mut buffer), 4]);
    let (reader, writer) = pipe();
    same!(sys, "close of a pipe" => SYS_close [writer.into_raw_fd().arg()]);
    same!(sys, "read of its end" => SYS_read [reader.arg(), at_mut(&mut buffer), 4]);
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
    same!(sys, "read" => SYS_read [copy.arg(), at_mut(&mut buffer), 4]);
    sys.note("read", buffer);
    sys.note("flags", rustix::io::fcntl_getfd(&copy).unwrap());
    same!(sys, "dup3 onto itself" => SYS_dup3 [copy.arg(), copy.arg(), 0]);
    same!(sys, "dup3, unknown" => SYS_dup3 [copy.arg(), other.arg(), 99]);
    #[cfg(target_arch = "x86_64")]
    {
        let onto_itself = sys.call(libc::SYS_dup2, [copy.arg(), copy.arg()]);
        sys.note("dup2 onto itself", onto_itself == Ok(copy.arg()));
        let replaced = sys.call(libc::SYS_dup2, [file.arg(), copy.arg()]);
        sys.note("dup2", replaced == Ok(copy.arg()));
        same!(sys, "read" => SYS_read [copy.arg(), at_mut(&mut buffer), 4]);
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
    same!(sys, "close_range" => SYS_close_range [range, range, 0]);
    same!(sys, "closed" => SYS_fcntl [range, libc::F_GETFD as usize, 0]);
    same!(sys, "close_range, unknown" => SYS_close_range [range, range, 99]);
    same!(sys, "close_range, backwards" => SYS_close_range [range, range - 1, 0]);
}
