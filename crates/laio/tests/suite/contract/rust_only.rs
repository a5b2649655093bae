//! Rules 7 and 11, where the C API reports less by design. `laio-through-c` also runs the rest of the suite through
//! the C API.
//!
//! In C a limit of 0 means the default, and only the text of `laio_report` lists the file systems.

use super::failing_calls::make_calls;
use super::statistics::{counted, for_each_lazy};
use crate::harness::{
    Arg, LIMIT, Mode, Way, at, at_mut, call, for_each_backend, for_each_pending, later, plain,
};
use laio::testing::{FailingEntry, Inject};
use laio::{BackendKind, Context, Errno, Limits};
use laio_testing::extent::Extent;
use laio_testing::temp::{file_with, pattern, pipe, scratch};
use std::time::Instant;

fn mount<'a>(context: &'a Context, kind: &str) -> Option<&'a laio::Mount> {
    context.info().mounts().find(|mount| mount.fstype == kind)
}

/// A call that one file system does not support is not attempted there again, and still attempted elsewhere.
#[test]
fn each_file_system_is_remembered_separately() {
    if laio_testing::lacks("nowait") {
        return;
    }
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
        let mut space = vec![0u8; 4_096];
        let buffer = at_mut(&mut space[..]);
        plain(libc::SYS_pread64, [fd, buffer, 4_096, 0]).unwrap();
        let read =
            |context: &mut Context, fd| call(context, libc::SYS_pread64, [fd, buffer, 4_096, 0]);
        let write =
            |context: &mut Context, fd| call(context, libc::SYS_pwrite64, [fd, buffer, 4_096, 0]);
        // tmpfs does not support such reads and does not need them, since its plain reads do not wait.
        for count in 1..=3 {
            assert_eq!(read(&mut context, shm), Ok(4_096));
            assert_eq!(write(&mut context, shm), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
            counted(&context, libc::SYS_pwrite64, count, 0, 0, 0);
        }
        let tmpfs = mount(&context, "tmpfs").expect("the context has used this mount");
        assert!(tmpfs.reads_latched && tmpfs.writes_latched, "{tmpfs:?}");
        assert_eq!(tmpfs.place, laio::Place::Memory);
        // The call on tmpfs does not change the state of this mount.
        for count in 4..=6 {
            assert_eq!(read(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
        }
        // ext4 does not support such writes: the context finds out once, and remembers it.
        let kind = rustix::fs::statfs(directory.path()).unwrap().f_type;
        const EXT4: i64 = 0xef53;
        if kind as i64 != EXT4 {
            return laio_testing::skip("ext4", "the test needs a directory on ext4");
        }
        for count in 1..=3 {
            assert_eq!(write(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pwrite64, 3, 0, count, count - 1);
        }
        let disk = mount(&context, "ext4").expect("the context has used this mount");
        assert!(disk.writes_latched && !disk.reads_latched, "{disk:?}");
        assert_eq!(disk.counts.latched, 2);
        for count in 7..=8 {
            assert_eq!(read(&mut context, fd), Ok(4_096));
            counted(&context, libc::SYS_pread64, count, 0, 0, 0);
        }
    });
}

/// A flag of the caller that the kernel does not know proves nothing about the file system.
#[test]
fn a_bad_flag_changes_no_mount() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let directory = scratch();
    let file = file_with(directory.path(), &pattern(8_192, 1));
    let fd = file.as_file().arg();
    for_each_lazy(|way| {
        let mut context = way.context();
        let mut buffer = vec![0u8; 4_096];
        let vector = crate::harness::iovec_mut(&mut buffer);
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
        assert!(context.info().mounts().all(|mount| !mount.reads_latched));
        assert_eq!(context.stats().call(libc::SYS_preadv2).inline, 1);
    });
}

/// Valid limits are in force as requested; invalid ones are replaced.
#[test]
fn invalid_limits_are_replaced() {
    for_each_backend(|way| {
        for limits in [
            Limits {
                operations: 0,
                helpers: 0,
                waiting_helpers: 0,
                carriers: 0,
                ring_entries: 0,
                inline_budget: 0,
                spin_us: 0,
            },
            Limits {
                operations: u32::MAX,
                helpers: 1,
                waiting_helpers: 1,
                carriers: 1,
                ring_entries: u32::MAX,
                inline_budget: u32::MAX,
                spin_us: u32::MAX,
            },
        ] {
            let mut context = way.with(|options| options.limits(limits));
            assert_eq!(context.info().limits(), &limits);
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

/// No system call fails then, only a CQE: see `failing_calls` for those.
#[test]
fn an_operation_that_the_ring_refuses_is_the_only_one_that_fails() {
    const ERRNOS: [Errno; 6] = [
        Errno::IO,
        Errno::NOMEM,
        Errno::ACCES,
        Errno::INTR,
        Errno::AGAIN,
        Errno::CANCELED,
    ];
    // As for `failing_calls`.
    let step = match Extent::wanted() {
        Extent::Usual => 41,
        Extent::All => 13,
        Extent::Full => 1,
    };
    let natural = |way: &Way| way.mode == Mode::Natural || way.mode == Mode::ForceBlock;
    for_each_pending(|way| {
        let has_ring = matches!(way.backend, BackendKind::Lazy | BackendKind::Uring);
        if !has_ring || way.without_ring || !natural(way) {
            return;
        }
        for nth in (1..=200u64).step_by(step) {
            let errno = ERRNOS[nth as usize % ERRNOS.len()];
            let failing_entry = Some(FailingEntry { nth, errno });
            let options = way.options().inject(Inject {
                force_block: way.mode == Mode::ForceBlock,
                failing_entry,
                ..Inject::default()
            });
            make_calls(options, Some(errno));
        }
    });
}
