//! Rules 7 and 11, where C says less by design. The rest of the suite is run through the C API too, by
//! `laio-through-c`.
//!
//! In C a limit of 0 means the default, and only the text of `laio_report` lists the file systems.

use super::statistics::{counted, for_each_lazy};
use crate::harness::{Arg, LIMIT, at, at_mut, call, for_each_backend, later, plain};
use laio::{Context, Errno, Limits};
use laio_testing::temp::{file_with, pattern, pipe, scratch};
use std::time::Instant;

fn mount<'a>(context: &'a Context, kind: &str) -> Option<&'a laio::Mount> {
    context.mounts().find(|mount| mount.fstype == kind)
}

/// What one file system does not know is not tried there again; elsewhere it is.
#[test]
fn each_file_system_is_latched_for_itself() {
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(8_192, 1));
    let fd = file.as_file().arg();
    let memory = match tempfile::tempdir_in("/dev/shm") {
        Ok(memory) => memory,
        Err(error) => return laio_testing::skip("shm", format!("/dev/shm: {error}")),
    };
    let in_memory = file_with(memory.path(), &pattern(8_192, 2));
    let shm = in_memory.as_file().arg();
    for_each_lazy(|way| {
        let mut context = way.context();
        let mut room = vec![0u8; 4_096];
        let buffer = at_mut(&mut room[..]);
        plain(libc::SYS_pread64, [fd, buffer, 4_096, 0]).unwrap();
        let read =
            |context: &mut Context, fd| call(context, libc::SYS_pread64, [fd, buffer, 4_096, 0]);
        let write =
            |context: &mut Context, fd| call(context, libc::SYS_pwrite64, [fd, buffer, 4_096, 0]);
        // A file in memory has no such reads; it needs none, since the plain call does not wait either.
        for count in 1..=3 {
            assert_eq!(read(&mut context, shm), Ok(4_096));
            assert_eq!(write(&mut context, shm), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
            counted(&context, libc::SYS_pwrite64, count, 0, 0, 0);
        }
        let tmpfs = mount(&context, "tmpfs").expect("it has been met");
        assert!(tmpfs.reads_latched && tmpfs.writes_latched, "{tmpfs:?}");
        assert_eq!(tmpfs.place, laio::Place::Memory);
        // The other one is not touched by that.
        for count in 4..=6 {
            assert_eq!(read(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
        }
        // ext4 knows no such writes: found out once, and remembered.
        let kind = rustix::fs::statfs(directory.path()).unwrap().f_type;
        const EXT4: i64 = 0xef53;
        if kind as i64 != EXT4 {
            return laio_testing::skip("ext4", "the latch of ext4, on another file system");
        }
        for count in 1..=3 {
            assert_eq!(write(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pwrite64, 3, 0, count, count - 1);
        }
        let disk = mount(&context, "ext4").expect("it has been met");
        assert!(disk.writes_latched && !disk.reads_latched, "{disk:?}");
        assert_eq!(disk.counts.latched, 2);
        for count in 7..=8 {
            assert_eq!(read(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
        }
    });
}

/// A flag of the caller's that the kernel does not know says nothing about the file system.
#[test]
fn a_bad_flag_latches_nothing() {
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(8_192, 1));
    let fd = file.as_file().arg();
    for_each_lazy(|way| {
        let mut context = way.context();
        let mut room = vec![0u8; 4_096];
        let vector = crate::harness::iovec_mut(&mut room);
        let unknown = call(
            &mut context,
            libc::SYS_preadv2,
            [fd, at(&vector), 1, 0, 0, 1 << 30],
        );
        assert_eq!(unknown, Err(Errno::OPNOTSUPP));
        plain(libc::SYS_preadv2, [fd, at(&vector), 1, 0, 0, 0]).unwrap();
        assert_eq!(
            call(
                &mut context,
                libc::SYS_preadv2,
                [fd, at(&vector), 1, 0, 0, 0]
            ),
            Ok(4_096)
        );
        assert!(context.mounts().all(|mount| !mount.reads_latched));
        assert_eq!(context.stats().call(libc::SYS_preadv2).inline, 1);
    });
}

/// The limits that were asked for are those in force, and nonsense is put right.
#[test]
fn odd_limits_are_put_right() {
    for_each_backend(|way| {
        for limits in [
            Limits {
                operations: 0,
                helpers: 0,
                waiting_helpers: 0,
                carriers: 0,
                ring_entries: 0,
                inline_budget: 0,
            },
            Limits {
                operations: u32::MAX,
                helpers: 1,
                waiting_helpers: 1,
                carriers: 1,
                ring_entries: u32::MAX,
                inline_budget: u32::MAX,
            },
        ] {
            let mut context = way.with(|options| options.limits(limits));
            assert_eq!(context.limits(), &limits);
            let (reader, writer) = pipe();
            let mut byte = [0u8];
            let peer = later(move || rustix::io::write(&writer, b"x").unwrap());
            let begin = Instant::now();
            assert_eq!(
                call(
                    &mut context,
                    libc::SYS_read,
                    [reader.arg(), at_mut(&mut byte), 1]
                ),
                Ok(1)
            );
            assert!(begin.elapsed() < LIMIT);
            peer.join().unwrap();
        }
    });
}
