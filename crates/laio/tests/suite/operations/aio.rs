//! Tests specific to the back ends `posix-aio` and `linux-aio`: which calls they take, direct I/O,
//! their limits, forked children, kernels without AIO.

use crate::harness::{
    Arg, LIMIT, at, at_mut, call, collect, finish, iovec_mut, pending, start, wait_for,
};
use laio::{BackendKind, Context, Errno, Limits, Options, Outcome};
use laio_testing::forbid::{self, Forbid};
use laio_testing::{child, temp, test_name};
use std::alloc::Layout;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const BLOCK: usize = 4096;

fn context(kind: BackendKind) -> Option<Context> {
    context_with(kind, Options::new())
}

fn context_with(kind: BackendKind, options: Options) -> Option<Context> {
    match Context::new(options.backend(kind)) {
        Ok(context) => Some(context),
        Err(errno) => {
            let need = match kind {
                BackendKind::LinuxAio => "linux-aio",
                _ => "io_uring",
            };
            laio_testing::skip(need, format!("the back end {kind}: {errno}"));
            None
        }
    }
}

fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A file opened with O_DIRECT, and its directory; `None` where the file system does not support it.
fn direct(contents: &[u8]) -> Option<(tempfile::TempDir, File)> {
    let directory = temp::scratch();
    let path = directory.path().join("file");
    std::fs::write(&path, contents).expect("a file");
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    match options.open(&path) {
        Ok(file) => {
            // Direct reads wait until the cache is clean.
            file.sync_all().expect("a clean cache");
            // On Linux 5.10 those that may not wait are refused where the cache has pages, clean or not.
            let _ = temp::make_cold(&file);
            Some((directory, file))
        }
        Err(error) => {
            laio_testing::skip(
                "direct-io",
                format!("the file system has no O_DIRECT: {error}"),
            );
            None
        }
    }
}

/// Aligned bytes.
struct Aligned(*mut u8, usize);

impl Aligned {
    fn new(length: usize) -> Aligned {
        let layout = Layout::from_size_align(length, BLOCK).unwrap();
        // SAFETY: not empty.
        Aligned(unsafe { std::alloc::alloc_zeroed(layout) }, length)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: allocated in this length, and borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.0, self.1) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: as it was allocated.
        unsafe { std::alloc::dealloc(self.0, Layout::from_size_align(self.1, BLOCK).unwrap()) };
    }
}

#[test]
fn aio_takes_the_calls_that_it_supports() {
    for kind in [BackendKind::PosixAio, BackendKind::LinuxAio] {
        let Some(mut context) = context(kind) else {
            continue;
        };
        let bytes = contents(3 * BLOCK);
        let Some((_directory, file)) = direct(&bytes) else {
            return;
        };
        let mut buffer = Aligned::new(BLOCK);
        let place = at_mut(buffer.bytes());
        let read = [file.arg(), place, BLOCK, BLOCK];
        assert_eq!(call(&mut context, libc::SYS_pread64, read), Ok(BLOCK));
        assert_eq!(buffer.bytes(), &bytes[BLOCK..2 * BLOCK]);
        buffer.bytes().fill(b'w');
        let write = [file.arg(), place, BLOCK, 0];
        assert_eq!(call(&mut context, libc::SYS_pwrite64, write), Ok(BLOCK));
        assert_eq!(call(&mut context, libc::SYS_fsync, [file.arg()]), Ok(0));
        assert_eq!(call(&mut context, libc::SYS_fdatasync, [file.arg()]), Ok(0));
        assert_eq!(context.stats().aio.requests, 4, "{kind}");
        assert_eq!(context.stats().aio.refused, 0, "{kind}");
        assert_eq!(context.info().helper_threads(), 0, "{kind}");
        // Neither has a request that moves a file's position.
        let read = [file.arg(), place, BLOCK];
        assert_eq!(call(&mut context, libc::SYS_read, read), Ok(BLOCK));
        assert_eq!(buffer.bytes(), [b'w'; BLOCK]);
        assert_eq!(context.stats().aio.requests, 4, "{kind}");
    }
}

#[test]
fn reads_past_the_cache_need_no_alignment_on_linux_aio() {
    let Some(mut context) = context(BackendKind::LinuxAio) else {
        return;
    };
    // Longer than one step through the bounce memory, with an unaligned end.
    let bytes = contents(2 * Limits::AIO_BOUNCE_STEP + 1234);
    let Some((_directory, file)) = direct(&bytes) else {
        return;
    };
    let end = bytes.len();
    for (offset, length) in [
        (0, 1),
        (1, 5000),
        (4000, 200),
        (511, 2 * BLOCK),
        (0, end),
        (77, end),
        (end - 10, 100),
        (end, 10),
        (end + 10_000, 10),
    ] {
        let mut buffer = vec![0xEE; length + 1];
        let args = [file.arg(), at_mut(&mut buffer[1..]), length, offset];
        let expected = &bytes[offset.min(end)..(offset + length).min(end)];
        let read = call(&mut context, libc::SYS_pread64, args);
        assert_eq!(read, Ok(expected.len()), "{length} at {offset}");
        assert_eq!(
            &buffer[1..=expected.len()],
            expected,
            "{length} at {offset}"
        );
        let beyond = &buffer[expected.len() + 1..];
        assert!(beyond.iter().all(|&byte| byte == 0xEE), "beyond the end");
    }
    assert!(context.stats().aio.bounced > 9);
    // Also reads into vectors, and reports bad memory.
    let (mut first, mut second) = (vec![0; 1000], vec![0; 3000]);
    let vectors = [iovec_mut(&mut first), iovec_mut(&mut second)];
    let args = [file.arg(), at(&vectors), 2, 300];
    assert_eq!(call(&mut context, libc::SYS_preadv, args), Ok(4000));
    assert_eq!([first, second].concat(), bytes[300..4300]);
    for bad in [8, usize::MAX - 4095] {
        let args = [file.arg(), bad, 100, 0];
        assert!(call(&mut context, libc::SYS_pread64, args).is_err());
    }
}

/// Dirty pages make the kernel's AIO return EAGAIN.
#[test]
fn reads_past_a_dirty_cache_need_no_alignment_either() {
    let Some(mut context) = context(BackendKind::LinuxAio) else {
        return;
    };
    let bytes = contents(8 * BLOCK);
    let Some((directory, file)) = direct(&bytes) else {
        return;
    };
    let name = directory.path().join("file");
    for round in 0..20 {
        let cached = File::options().write(true).open(&name).unwrap();
        rustix::io::pwrite(&cached, &[round], 100).unwrap();
        let mut buffer = [0; 10];
        let args = [file.arg(), at_mut(&mut buffer), 10, 100];
        assert_eq!(call(&mut context, libc::SYS_pread64, args), Ok(10));
        assert_eq!(buffer[0], round);
        assert_eq!(buffer[1..], bytes[101..110]);
    }
}

#[test]
fn direct_writes_are_never_split() {
    let Some(mut context) = context(BackendKind::LinuxAio) else {
        return;
    };
    let bytes = contents(4 * BLOCK);
    let Some((directory, file)) = direct(&bytes) else {
        return;
    };
    // Unaligned memory works, and so do many writes at once.
    let mut sources = vec![vec![0u8; BLOCK + 1]; 4];
    for (index, source) in sources.iter_mut().enumerate() {
        source.fill(b'a' + index as u8);
        let args = [file.arg(), at(&source[1..]), BLOCK, index * BLOCK];
        pending(&mut context, libc::SYS_pwrite64, args);
    }
    assert!(
        collect(&mut context, 4)
            .iter()
            .all(|one| one.result == Ok(BLOCK))
    );
    let expected: Vec<u8> = (0..4 * BLOCK).map(|at| b'a' + (at / BLOCK) as u8).collect();
    assert_eq!(
        std::fs::read(directory.path().join("file")).unwrap(),
        expected
    );
    assert!(context.stats().aio.bounced > 0);
    // An unaligned offset gives the result of the plain call.
    let args = [file.arg(), at(&sources[0]), 100, 50];
    let plain = file.write_at(&sources[0][..100], 50);
    let plain = plain.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()));
    assert_eq!(call(&mut context, libc::SYS_pwrite64, args), plain);
    // A helper makes writes that extend the file, because these wait for space.
    let mut source = Aligned::new(BLOCK);
    let declined = context.stats().aio.declined;
    let args = [file.arg(), at_mut(source.bytes()), BLOCK, 4 * BLOCK];
    assert_eq!(call(&mut context, libc::SYS_pwrite64, args), Ok(BLOCK));
    assert_eq!(context.stats().aio.declined, declined + 1);
    assert_eq!(context.stats().aio.blocked, 0);
}

#[test]
fn buffered_io_blocks_in_submission_only_if_requested() {
    for blocking in [false, true] {
        let options = Options::new().backend(BackendKind::LinuxAio);
        let mut context = match Context::new(options.allow_blocking_aio(blocking)) {
            Ok(context) => context,
            Err(errno) => return laio_testing::skip("linux-aio", format!("no context: {errno}")),
        };
        let directory = temp::scratch();
        let file = File::create_new(directory.path().join("file")).unwrap();
        let args = [file.arg(), at("abcdef"), 6, 3];
        assert_eq!(call(&mut context, libc::SYS_pwrite64, args), Ok(6));
        let aio = context.stats().aio;
        if blocking {
            assert_eq!((aio.requests, aio.blocked, aio.declined), (1, 1, 0));
            assert!(aio.blocked_ns > 0);
            assert_eq!(context.info().helper_threads(), 0);
        } else {
            assert_eq!((aio.requests, aio.blocked, aio.declined), (0, 0, 1));
            assert_eq!(context.info().helper_threads(), 1);
        }
        assert_eq!(
            std::fs::read(directory.path().join("file")).unwrap(),
            b"\0\0\0abcdef"
        );
    }
}

/// More operations than AIO accepts at once: the others wait, and all complete; some are cancelled.
#[test]
fn operations_beyond_the_limit_of_aio_wait() {
    for kind in [BackendKind::PosixAio, BackendKind::LinuxAio] {
        let Some(mut context) = context(kind) else {
            continue;
        };
        let count = 3 * Limits::AIO_REQUESTS as usize;
        let bytes = contents(8 * BLOCK);
        let Some((_directory, file)) = direct(&bytes) else {
            return;
        };
        let mut buffers: Vec<Vec<u8>> = vec![vec![0; 600]; count];
        let mut aligned: Vec<Aligned> = (0..count).map(|_| Aligned::new(BLOCK)).collect();
        let mut handles = Vec::new();
        for (index, (buffer, aligned)) in buffers.iter_mut().zip(&mut aligned).enumerate() {
            let args = if kind == BackendKind::LinuxAio && index % 2 == 0 {
                [file.arg(), at_mut(&mut buffer[..]), 600, index]
            } else {
                [
                    file.arg(),
                    at_mut(aligned.bytes()),
                    BLOCK,
                    (index % 8) * BLOCK,
                ]
            };
            handles.push(pending(&mut context, libc::SYS_pread64, args));
        }
        for handle in handles.iter().step_by(5) {
            assert_eq!(context.cancel(*handle), Ok(()));
        }
        let mut cancelled = 0;
        for done in collect(&mut context, count) {
            let index = handles.iter().position(|&one| one == done.handle).unwrap();
            match done.result {
                Err(Errno::CANCELED) if index % 5 == 0 => cancelled += 1,
                Ok(BLOCK) => {
                    let start = (index % 8) * BLOCK;
                    assert_eq!(aligned[index].bytes(), &bytes[start..start + BLOCK]);
                }
                result => {
                    assert_eq!(result, Ok(600));
                    assert_eq!(buffers[index], bytes[index..index + 600]);
                }
            }
        }
        assert!(cancelled > 0, "{kind}: no waiting operation was cancelled");
        assert_eq!(context.pending(), 0);
    }
}

/// The watcher of POSIX AIO waits for a list of requests; it must also notice requests that start later, also through
/// the pollable descriptor, while the first is in flight.
#[test]
fn later_requests_end_an_earlier_wait() {
    let Some(mut context) = context(BackendKind::PosixAio) else {
        return;
    };
    let bytes = contents(64 * BLOCK);
    let directory = temp::scratch();
    let path = directory.path().join("file");
    std::fs::write(&path, &bytes).unwrap();
    let files: Vec<File> = (0..8)
        .map(|_| File::options().read(true).write(true).open(&path).unwrap())
        .collect();
    let descriptor = std::os::fd::AsFd::as_fd(&context.descriptor().unwrap())
        .try_clone_to_owned()
        .unwrap();
    let mut buffers = vec![vec![0u8; BLOCK]; 64];
    let mut pendings = 0;
    for (index, buffer) in buffers.iter_mut().enumerate() {
        let file = &files[index % files.len()];
        if index % 3 == 0 {
            pending(&mut context, libc::SYS_fsync, [file.arg()]);
            pendings += 1;
        }
        let args = [file.arg(), at_mut(&mut buffer[..]), BLOCK, index * BLOCK];
        pending(&mut context, libc::SYS_pread64, args);
        pendings += 1;
        if index % 4 == 3 {
            let mut done = Vec::new();
            let mut ready = [rustix::event::PollFd::new(
                &descriptor,
                rustix::event::PollFlags::IN,
            )];
            let limit = rustix::event::Timespec {
                tv_sec: LIMIT.as_secs() as i64,
                tv_nsec: 0,
            };
            assert_eq!(
                rustix::event::poll(&mut ready, Some(&limit)),
                Ok(1),
                "never readable"
            );
            context
                .poll(&mut done, Some(std::time::Duration::ZERO))
                .unwrap();
            pendings -= done.len();
        }
    }
    collect(&mut context, pendings);
    assert_eq!(buffers.concat(), bytes);
}

/// A child has none of the C library's threads: its calls go to helpers, and the parent's context works.
#[test]
fn a_child_works_without_the_threads_of_its_parent() {
    if laio_testing::lacks("wipe-on-fork") {
        return;
    }
    child::check(LIMIT * 3, test_name!(), "", || {
        for kind in [BackendKind::PosixAio, BackendKind::LinuxAio] {
            let Some(mut context) = context(kind) else {
                continue;
            };
            let bytes = contents(BLOCK);
            let Some((_directory, file)) = direct(&bytes) else {
                return;
            };
            let mut buffer = Aligned::new(BLOCK);
            let args = [file.arg(), at_mut(buffer.bytes()), BLOCK, 0];
            assert_eq!(call(&mut context, libc::SYS_pread64, args), Ok(BLOCK));
            let in_flight = pending(&mut context, libc::SYS_pread64, args);
            // SAFETY: the child leaves by _exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let read = call(&mut context, libc::SYS_pread64, args) == Ok(BLOCK);
                let mut other = Context::new(Options::new().backend(kind)).unwrap();
                let again = call(&mut other, libc::SYS_pread64, args) == Ok(BLOCK);
                let without = kind != BackendKind::PosixAio || other.stats().aio.requests == 0;
                drop((context, other));
                // SAFETY: as above.
                unsafe { libc::_exit(i32::from(!(read && again && without))) };
            }
            let mut status = 0;
            // SAFETY: the status is a local word.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0, "{kind}");
            assert_eq!(wait_for(&mut context, in_flight).result, Ok(BLOCK));
            assert_eq!(call(&mut context, libc::SYS_pread64, args), Ok(BLOCK));
        }
    });
}

#[test]
fn a_kernel_without_aio_is_reported() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let forbidden = Forbid::new(&[libc::SYS_io_setup], errno);
        forbid::child(test_name!(), &forbidden, || {
            let made = Context::new(Options::new().backend(BackendKind::LinuxAio));
            assert_eq!(made.err(), Some(Errno::from_raw(errno)));
        });
    }
}

/// If submission is forbidden later, or the system has no free request, helpers make the calls.
#[test]
fn without_requests_helpers_make_the_calls() {
    for (number, errno) in [
        (libc::SYS_io_submit, libc::EPERM),
        (libc::SYS_io_submit, libc::EAGAIN),
        (libc::SYS_io_setup, libc::EAGAIN),
    ] {
        let mark = format!("{number} {errno}");
        child::check(LIMIT * 3, test_name!(), &mark, || {
            // Where a filter may exist, helpers make the calls from the start.
            let options = Options::new().rights(laio::Rights::Settled);
            let Some(mut context) = context_with(BackendKind::LinuxAio, options) else {
                return;
            };
            forbid::forbid(&[number], errno);
            let bytes = contents(2 * BLOCK);
            let Some((_directory, file)) = direct(&bytes) else {
                return;
            };
            let mut buffers = [Aligned::new(BLOCK), Aligned::new(BLOCK)];
            let mut in_flight = 0;
            for (index, buffer) in buffers.iter_mut().enumerate() {
                let args = [file.arg(), at_mut(buffer.bytes()), BLOCK, index * BLOCK];
                let outcome = start(&mut context, libc::SYS_pread64, args);
                in_flight += usize::from(matches!(outcome, Outcome::Pending(_)));
            }
            assert_eq!(in_flight, 2);
            assert!(
                collect(&mut context, 2)
                    .iter()
                    .all(|one| one.result == Ok(BLOCK))
            );
            for (index, buffer) in buffers.iter_mut().enumerate() {
                assert_eq!(buffer.bytes(), &bytes[index * BLOCK..][..BLOCK]);
            }
            assert_eq!(context.stats().aio.refused, 2);
        });
    }
}

/// With an ordered descriptor, completions come in the order of the calls, in either library.
#[test]
fn ordered_descriptors_are_ordered() {
    for kind in [BackendKind::PosixAio, BackendKind::LinuxAio] {
        let Some(mut context) = context(kind) else {
            continue;
        };
        let bytes = contents(16 * BLOCK);
        let Some((_directory, file)) = direct(&bytes) else {
            return;
        };
        context
            .set_ordered(std::os::fd::AsRawFd::as_raw_fd(&file), true)
            .unwrap();
        let mut buffers: Vec<Aligned> = (0..16).map(|_| Aligned::new(BLOCK)).collect();
        let mut handles = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let args = [
                file.arg(),
                at_mut(buffer.bytes()),
                BLOCK,
                (15 - index) * BLOCK,
            ];
            let outcome = start(&mut context, libc::SYS_pread64, args);
            let Outcome::Pending(handle) = outcome else {
                assert_eq!(finish(&mut context, outcome), Ok(BLOCK));
                continue;
            };
            handles.push(handle);
        }
        let done = collect(&mut context, handles.len());
        let order: Vec<_> = done.iter().map(|one| one.handle).collect();
        assert_eq!(order, handles, "{kind}");
    }
}
