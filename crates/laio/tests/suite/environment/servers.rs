//! A hanging file-system server never blocks the caller.

use super::support::{Rescue, assert_works_with, pipe, result_of};
use crate::harness::{
    Arg, LIMIT, Way, at_mut, bytes_of, call, cstring, for_each_pending_backend, later, own, start,
    zeroed,
};
use laio::{Call, Context, Errno, Handle, Outcome};
use laio_testing::fault_fs::{self, Fault, Kind, Released};
use laio_testing::{FaultFs, child, extent, or_skip, test_name};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONTENTS: &[u8] = b"contents of a file";

/// A mounted file system with a file and a directory; it releases its requests when a test takes too long.
struct Server {
    fs: Arc<FaultFs>,
    file: CString,
    directory: CString,
    /// Opened early: a close that hangs has freed the descriptor's number already.
    pipe: (OwnedFd, OwnedFd),
    /// Releases all requests after a time limit, so that a failing test ends.
    _last_resort: Rescue,
}

impl Server {
    /// Mounts a server that ignores interrupts. A while after a thread has closed a ring, the kernel interrupts that
    /// thread once, without a signal (`io_ring_exit_work` adds task work): requests that end then would not hang.
    fn mount(cached: bool) -> Option<Server> {
        Server::start(FaultFs::options().cached(cached).interruptible(false))
    }

    fn mount_interruptible(cached: bool) -> Option<Server> {
        Server::start(FaultFs::options().cached(cached))
    }

    fn start(options: fault_fs::Options) -> Option<Server> {
        let fs = or_skip(options.mount())?;
        fs.add_file("file", CONTENTS);
        fs.add_dir("dir");
        fs.add_file("dir/inside", b"");
        let fs = Arc::new(fs);
        Some(Server {
            file: cstring(fs.join("file")),
            directory: cstring(fs.join("dir")),
            pipe: pipe(),
            _last_resort: Rescue::after(2 * LIMIT, {
                let fs = fs.clone();
                move || {
                    fs.release(Released::Served);
                }
            }),
            fs,
        })
    }

    fn open(&self, write: bool) -> File {
        File::options()
            .read(true)
            .write(write)
            .open(self.fs.join("file"))
            .expect("a file")
    }

    fn open_directory(&self) -> OwnedFd {
        File::open(self.fs.join("dir")).expect("a directory").into()
    }

    fn rescue(&self) -> Rescue {
        let fs = self.fs.clone();
        Rescue::new(move || {
            fs.release(Released::Served);
        })
    }

    /// Makes a call whose request hangs, and asserts that the caller continues.
    #[track_caller]
    fn hangs(&self, context: &mut Context, kind: Kind, what: Call) -> Handle {
        self.fs.set(kind, Fault::Hang);
        let rescue = self.rescue();
        // SAFETY: the tests wait for every operation before they leave their buffers.
        let outcome = unsafe { context.call(what) };
        // Submits the ring's batch.
        context.flush().expect("flush");
        rescue.was_not_needed();
        self.wait_hung(context, kind);
        let Outcome::Pending(handle) = outcome else {
            panic!("{kind:?}: done while the server hangs: {outcome:?}");
        };
        assert_works_with(context, &self.pipe);
        handle
    }

    /// Waits until the request hangs. A context makes an interrupted call again when it is polled.
    #[track_caller]
    fn wait_hung(&self, context: &mut Context, kind: Kind) {
        const STEP: Duration = Duration::from_millis(20);
        let end = Instant::now() + LIMIT;
        while !self.fs.wait_hung(1, STEP) {
            let mut completions = Vec::new();
            context
                .poll(&mut completions, Some(Duration::ZERO))
                .expect("poll");
            assert!(
                completions.is_empty() && Instant::now() < end,
                "{kind:?}: the server has no request; {completions:?}; threads:\n{}",
                laio_testing::watchdog::threads()
            );
        }
    }

    fn release(&self) {
        self.fs.release(Released::Served);
        self.fs.clear_all();
    }

    /// Makes a call that hangs, releases it, and asserts its result.
    #[track_caller]
    fn hangs_and_ends(
        &self,
        context: &mut Context,
        kind: Kind,
        what: Call,
    ) -> Result<usize, Errno> {
        let handle = self.hangs(context, kind, what);
        self.release();
        result_of(context, handle)
    }
}

/// Runs a test on an uncached and on a cached mount, in every back end that has a background: by default each
/// back end has one of the two.
fn on_servers(test: impl Fn(&Way, &Server, bool)) {
    on_mounts(Server::mount, test);
}

fn on_mounts(mount: impl Fn(bool) -> Option<Server>, test: impl Fn(&Way, &Server, bool)) {
    for (index, cached) in [false, true].into_iter().enumerate() {
        for_each_pending_backend(|way| {
            if !extent::chooses(&way.to_string(), index, 2) {
                return;
            }
            let Some(server) = mount(cached) else {
                return;
            };
            test(way, &server, cached);
        });
    }
}

fn openat(name: &CString, flags: i32) -> Call {
    Call::new(
        libc::SYS_openat,
        [libc::AT_FDCWD.arg(), name.arg(), flags.arg()],
    )
}

#[test]
fn looking_a_name_up() {
    on_servers(|way, server, cached| {
        let mut context = way.context();
        let mut stat: libc::stat = zeroed();
        let mut statx: libc::statx = zeroed();
        let here = libc::AT_FDCWD.arg();
        let name = server.file.arg();
        let mask = libc::STATX_BASIC_STATS as usize;
        #[rustfmt::skip]
        let calls = [
            Call::new(libc::SYS_newfstatat, [here, name, at_mut(&mut stat), 0]),
            Call::new(libc::SYS_statx, [here, name, 0, mask, at_mut(&mut statx)]),
            Call::new(libc::SYS_faccessat, [here, name, libc::R_OK.arg()]),
        ];
        for what in calls {
            assert_eq!(
                server.hangs_and_ends(&mut context, Kind::Lookup, what),
                Ok(0)
            );
            if cached {
                // Cached from now on, until it is renamed.
                break;
            }
        }
        if !cached {
            assert_eq!(stat.st_size as usize, CONTENTS.len());
            let flags = libc::O_RDONLY | libc::O_CLOEXEC;
            let what = openat(&server.file, flags);
            drop(own(server.hangs_and_ends(&mut context, Kind::Lookup, what)));
        }
    });
}

#[test]
fn opening_a_file() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        // The name is cached, if the mount caches names.
        drop(server.open(false));
        for flags in [
            libc::O_RDONLY,
            libc::O_RDWR,
            libc::O_RDONLY | libc::O_NONBLOCK,
        ] {
            let what = openat(&server.file, flags | libc::O_CLOEXEC);
            let fd = own(server.hangs_and_ends(&mut context, Kind::Open, what));
            let mut buffer = [0u8; 64];
            let args = [fd.arg(), at_mut(&mut buffer), 64];
            assert_eq!(call(&mut context, libc::SYS_read, args), Ok(CONTENTS.len()));
            assert_eq!(
                call(&mut context, libc::SYS_close, [fd.into_raw_fd().arg()]),
                Ok(0)
            );
        }
    });
}

#[test]
fn opening_a_directory() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        drop(server.open_directory());
        let what = openat(&server.directory, libc::O_DIRECTORY | libc::O_CLOEXEC);
        drop(own(server.hangs_and_ends(
            &mut context,
            Kind::Opendir,
            what,
        )));
    });
}

#[test]
fn reading() {
    for positioned in [false, true] {
        on_servers(|way, server, _| {
            let mut context = way.context();
            let file = server.open(false);
            let mut buffer = [0u8; 64];
            let what = if positioned {
                Call::new(libc::SYS_pread64, [file.arg(), at_mut(&mut buffer), 64, 0])
            } else {
                Call::new(libc::SYS_read, [file.arg(), at_mut(&mut buffer), 64])
            };
            let result = server.hangs_and_ends(&mut context, Kind::Read, what);
            assert_eq!(result, Ok(CONTENTS.len()));
            assert_eq!(&buffer[..CONTENTS.len()], CONTENTS);
        });
    }
}

#[test]
fn writing() {
    for positioned in [false, true] {
        on_servers(|way, server, cached| {
            let mut context = way.context();
            let file = server.open(true);
            let what = if positioned {
                Call::new(libc::SYS_pwrite64, [file.arg(), c"CON".arg(), 3, 0])
            } else {
                Call::new(libc::SYS_write, [file.arg(), c"CON".arg(), 3])
            };
            assert_eq!(
                server.hangs_and_ends(&mut context, Kind::Write, what),
                Ok(3)
            );
            let contents = server.fs.contents("file").expect("a file");
            assert_eq!(&contents[..4], b"CONt", "cached: {cached}");
        });
    }
}

#[test]
fn asking_for_attributes() {
    on_servers(|way, server, cached| {
        let mut context = way.context();
        let file = server.open(false);
        let mut statx: libc::statx = zeroed();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
        let mask = libc::STATX_BASIC_STATS as usize;
        let args = [file.arg(), c"".arg(), flags.arg(), mask, at_mut(&mut statx)];
        let what = Call::new(libc::SYS_statx, args);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Getattr, what),
            Ok(0)
        );
        assert_eq!(statx.stx_size as usize, CONTENTS.len());
        if !cached {
            let mut stat: libc::stat = zeroed();
            let what = Call::new(libc::SYS_fstat, [file.arg(), at_mut(&mut stat)]);
            assert_eq!(
                server.hangs_and_ends(&mut context, Kind::Getattr, what),
                Ok(0)
            );
            assert_eq!(stat.st_size as usize, CONTENTS.len());
            // Only the server knows the end of the file.
            let what = Call::new(libc::SYS_lseek, [file.arg(), 0, libc::SEEK_END.arg()]);
            let end = server.hangs_and_ends(&mut context, Kind::Getattr, what);
            assert_eq!(end, Ok(CONTENTS.len()));
        }
        let mut statfs: libc::statfs = zeroed();
        let what = Call::new(libc::SYS_fstatfs, [file.arg(), at_mut(&mut statfs)]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Statfs, what),
            Ok(0)
        );
        let what = Call::new(
            libc::SYS_ftruncate,
            [server.open(true).into_raw_fd().arg(), 3],
        );
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Setattr, what),
            Ok(0)
        );
        assert_eq!(call(&mut context, libc::SYS_close, [what.args[0]]), Ok(0));
    });
}

#[test]
fn closing() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        // Opened without the context, so that the context has no hint about it.
        let foreign = server.open(false).into_raw_fd();
        let what = Call::new(libc::SYS_close, [foreign.arg()]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Flush, what),
            Ok(0)
        );
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        let own = call(
            &mut context,
            libc::SYS_openat,
            [libc::AT_FDCWD.arg(), server.file.arg(), flags.arg()],
        );
        let what = Call::new(libc::SYS_close, [own.expect("a descriptor")]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Flush, what),
            Ok(0)
        );
        // Replaced by another descriptor.
        let replaced = server.open(false).into_raw_fd();
        let null = File::open("/dev/null").expect("the null device");
        let what = Call::new(libc::SYS_dup3, [null.arg(), replaced.arg(), 0]);
        let result = server.hangs_and_ends(&mut context, Kind::Flush, what);
        assert_eq!(result, Ok(replaced as usize));
        assert_eq!(call(&mut context, libc::SYS_close, [replaced.arg()]), Ok(0));
    });
}

#[test]
fn syncing_and_listing() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        let file = server.open(true);
        let what = Call::new(libc::SYS_fsync, [file.arg()]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Fsync, what),
            Ok(0)
        );
        let directory = server.open_directory();
        let mut entries = [0u8; 1024];
        let what = Call::new(
            libc::SYS_getdents64,
            [directory.arg(), at_mut(&mut entries), 1024],
        );
        let listed = server.hangs_and_ends(&mut context, Kind::Readdir, what);
        let listed = listed.expect("entries");
        assert!(entries[..listed].windows(6).any(|name| name == b"inside"));
    });
}

#[test]
fn changing_names() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        let new = cstring(server.fs.join("new"));
        let here = libc::AT_FDCWD.arg();
        let what = Call::new(libc::SYS_mkdirat, [here, new.arg(), 0o755]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Mkdir, what),
            Ok(0)
        );
        let removed = libc::AT_REMOVEDIR.arg();
        let what = Call::new(libc::SYS_unlinkat, [here, new.arg(), removed]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Rmdir, what),
            Ok(0)
        );
        let what = Call::new(
            libc::SYS_renameat2,
            [here, server.file.arg(), here, new.arg(), 0],
        );
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Rename, what),
            Ok(0)
        );
        let what = Call::new(libc::SYS_unlinkat, [here, new.arg(), 0]);
        assert_eq!(
            server.hangs_and_ends(&mut context, Kind::Unlink, what),
            Ok(0)
        );
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC;
        let what = Call::new(libc::SYS_openat, [here, new.arg(), flags.arg(), 0o644]);
        drop(own(server.hangs_and_ends(&mut context, Kind::Create, what)));
    });
}

/// A server that sees FUSE interrupts gives up a request whose operation is cancelled.
#[test]
fn cancelling() {
    on_mounts(Server::mount_interruptible, |way, server, cached| {
        let mut context = way.context();
        let file = server.open(true);
        let mut buffer = [0u8; 64];
        let mut statx: libc::statx = zeroed();
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_FORCE_SYNC;
        let (fd, name) = (file.arg(), server.file.arg());
        #[rustfmt::skip]
        let requests = [
            (Kind::Open, openat(&server.file, libc::O_CLOEXEC)),
            (Kind::Read, Call::new(libc::SYS_pread64, [fd, at_mut(&mut buffer), 64, 0])),
            (Kind::Write, Call::new(libc::SYS_pwrite64, [fd, c"CON".arg(), 3, 0])),
            (Kind::Fsync, Call::new(libc::SYS_fsync, [fd])),
            (Kind::Getattr, {
                let args = [fd, c"".arg(), flags.arg(), 0x7ff, at_mut(&mut statx)];
                Call::new(libc::SYS_statx, args)
            }),
            (Kind::Unlink, Call::new(libc::SYS_unlinkat, [libc::AT_FDCWD.arg(), name, 0])),
        ];
        for (kind, what) in requests {
            if cached && kind == Kind::Read {
                // The kernel then waits for the page, and no signal interrupts this wait.
                continue;
            }
            let handle = server.hangs(&mut context, kind, what);
            assert_eq!(context.cancel(handle), Ok(()), "{kind:?}");
            let rescue = server.rescue();
            let result = result_of(&mut context, handle);
            rescue.was_not_needed();
            assert_eq!(result, Err(Errno::CANCELED), "{kind:?}");
            server.release();
        }
        assert!(
            server
                .fs
                .contents("file")
                .expect("a file")
                .ends_with(b"file")
        );
    });
}

/// With a server that ignores interrupts, dropping the context waits until the server has answered.
#[test]
fn dropping_the_context_waits_for_the_buffers() {
    for_each_pending_backend(|way| {
        let options = FaultFs::options().interruptible(false);
        let Some(fs) = or_skip(options.mount()) else {
            return;
        };
        fs.add_file("file", CONTENTS);
        let fs = Arc::new(fs);
        let file = File::open(fs.join("file")).expect("a file");
        fs.set(Kind::Read, Fault::Hang);
        let mut buffer = [0u8; 64];
        let mut context = way.context();
        let outcome = start(
            &mut context,
            libc::SYS_pread64,
            [file.arg(), at_mut(&mut buffer), 64, 0],
        );
        assert!(matches!(outcome, Outcome::Pending(_)));
        context.flush().expect("flush");
        assert!(fs.wait_hung(1, LIMIT));
        let releaser = later({
            let fs = fs.clone();
            move || fs.release(Released::Served)
        });
        drop(context);
        assert_eq!(
            fs.hung(),
            0,
            "the context is dropped, but a request still hangs"
        );
        assert_eq!(releaser.join().expect("a releaser"), 1);
        // No operation writes to the buffer from here on.
        let before = buffer;
        std::thread::yield_now();
        assert_eq!(bytes_of(&buffer), bytes_of(&before));
    });
}

/// A file system that is mounted after the context was made; the next `poll` notices the mount, whatever its timeout.
#[test]
fn mounted_after_the_context_was_made() {
    child::check(LIMIT * 6, test_name!(), "", || {
        if !without_other_servers() {
            return laio_testing::skip("mounts", "no mount namespace for this test");
        }
        let times = [Some(Duration::ZERO), Some(Duration::from_millis(1)), None];
        for time in times {
            for_each_pending_backend(|way| {
                let mut context = way.context();
                // Polls while idle first, like an event loop.
                let mut completions = Vec::new();
                assert_eq!(context.poll(&mut completions, time), Ok(0));
                let Some(server) = Server::mount(true) else {
                    return;
                };
                assert_eq!(context.poll(&mut completions, time), Ok(0));
                drop(server.open(false));
                let what = openat(&server.file, libc::O_RDONLY | libc::O_CLOEXEC);
                drop(own(server.hangs_and_ends(&mut context, Kind::Open, what)));
            });
        }
    });
}

/// Enters a mount namespace where no file system has a server, if that is permitted.
fn without_other_servers() -> bool {
    let (root, none) = (c"/".as_ptr(), std::ptr::null());
    // SAFETY: strings, and flags that need no data.
    let alone = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                none,
                root,
                none,
                libc::MS_REC | libc::MS_PRIVATE,
                none.cast(),
            ) == 0
    };
    let table = std::fs::read_to_string("/proc/thread-self/mountinfo").expect("mounts");
    for line in table.lines().filter(|line| line.contains(" - fuse ")) {
        let point = cstring(line.split(' ').nth(4).expect("a mount point"));
        // SAFETY: a string.
        unsafe { libc::umount2(point.as_ptr(), libc::MNT_DETACH) };
    }
    alone
}

/// A name that begins on another file system, and reaches or leaves the mounted one by a symbolic link.
#[test]
fn through_links() {
    on_servers(|way, server, _| {
        let mut context = way.context();
        let outside = laio_testing::temp::scratch();
        let link = outside.path().join("link");
        std::os::unix::fs::symlink(server.fs.join("file"), &link).expect("a link");
        std::fs::write(outside.path().join("local"), CONTENTS).expect("a file");
        drop(server.open(false));
        let link = cstring(link);
        let what = openat(&link, libc::O_RDONLY | libc::O_CLOEXEC);
        drop(own(server.hangs_and_ends(&mut context, Kind::Open, what)));
        let local = cstring(outside.path().join("local"));
        let rescue = server.rescue();
        server.fs.set(Kind::Lookup, Fault::Hang);
        let args = openat(&local, libc::O_RDONLY | libc::O_CLOEXEC).args;
        let fd = own(call(&mut context, libc::SYS_openat, args));
        rescue.was_not_needed();
        server.release();
        drop(fd);
    });
}

/// A context notices mounts when it polls. Until then the attempt, which FUSE refuses, shows that the file is
/// not an ordinary one. (`uring` attempts nothing.)
#[test]
fn reading_from_a_server_mounted_after_the_context() {
    for_each_pending_backend(|way| {
        if !way.is_lazy() {
            return;
        }
        let mut context = way.context();
        let Some(server) = Server::mount(false) else {
            return;
        };
        let file = server.open(false);
        let mut buffer = [0; 8];
        let read = Call::new(
            libc::SYS_pread64,
            [file.as_raw_fd() as usize, at_mut(&mut buffer), 8, 0],
        );
        let result = server.hangs_and_ends(&mut context, Kind::Read, read);
        assert_eq!((result, &buffer[..]), (Ok(8), &CONTENTS[..8]));
    });
}
