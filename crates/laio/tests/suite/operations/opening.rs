//! `OpenStat`: the file that `Open` opens, and its status where that does not wait.

use super::attributes::{errno, run};
use crate::harness::*;
use laio::ops::{FileStatus, Name, Open, OpenStat, Opened, ReadAt, StatFile};
use laio::{BackendKind, Context, Errno, Limits, Options, Outcome, Ticket};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::temp::{pattern, scratch};
use laio_testing::{FaultFs, or_skip};
use rustix::fs::{OFlags, fcntl_getfl};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

fn open(path: impl AsRef<Path>, flags: i32) -> OpenStat {
    OpenStat::new(Name::from_path(path).expect("a name"), flags)
}

fn plain_open(path: &Path, flags: i32) -> std::io::Result<OwnedFd> {
    let name = cstring(path);
    let args = [
        libc::AT_FDCWD.arg(),
        name.arg(),
        (flags | libc::O_CLOEXEC).arg(),
    ];
    Ok(own(Ok(plain(libc::SYS_openat, args)?)))
}

fn flags_of(file: impl AsFd) -> OFlags {
    fcntl_getfl(file).expect("flags")
}

/// Asserts that the status, if there is one, is that of the file.
#[track_caller]
fn describes(status: Option<&FileStatus>, path: &Path) {
    let Some(status) = status else { return };
    let expected = fs::metadata(path).expect("a status");
    assert_eq!(status.inode(), expected.ino());
    assert_eq!(status.device(), expected.dev());
    assert_eq!(
        (status.mode(), status.size()),
        (expected.mode(), expected.size())
    );
}

/// Whether files in this directory are on a file system that ignores O_NONBLOCK.
fn is_stored(path: &Path) -> bool {
    const STORED: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994];
    let kind = rustix::fs::statfs(path).expect("a file system").f_type;
    STORED.contains(&(kind as u64))
}

/// A directory with a file, a link to it, a directory, a link that leads nowhere, and a FIFO.
fn place() -> tempfile::TempDir {
    let root = scratch();
    fs::write(root.path().join("file"), pattern(5_000, 1)).expect("a file");
    fs::create_dir(root.path().join("directory")).expect("a directory");
    symlink("file", root.path().join("link")).expect("a link");
    symlink("missing", root.path().join("nowhere")).expect("a link");
    symlink("/dev/null", root.path().join("device")).expect("a link");
    let fifo = cstring(root.path().join("fifo"));
    // SAFETY: the name is a string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    root
}

#[test]
fn the_descriptor_has_the_flags_of_a_plain_one() {
    let root = place();
    let cases = [
        ("file", libc::O_RDONLY),
        ("file", libc::O_RDWR | libc::O_APPEND),
        ("file", libc::O_RDONLY | libc::O_NONBLOCK),
        ("file", libc::O_RDONLY | libc::O_DIRECT),
        ("file", libc::O_RDONLY | libc::O_NOATIME),
        ("file", libc::O_WRONLY | libc::O_DSYNC),
        ("file", libc::O_WRONLY | libc::O_TRUNC),
        ("file", libc::O_PATH),
        ("link", libc::O_RDONLY),
        ("link", libc::O_PATH | libc::O_NOFOLLOW),
        ("directory", libc::O_RDONLY),
        ("directory", libc::O_RDONLY | libc::O_DIRECTORY),
        ("new", libc::O_RDWR | libc::O_CREAT),
        (".", libc::O_RDWR | libc::O_TMPFILE),
        ("device", libc::O_RDWR),
        ("/dev/null", libc::O_RDWR),
        ("/proc/self/status", libc::O_RDONLY),
    ];
    for_each(|way| {
        let mut context = way.context();
        for (name, flags) in cases {
            let path = root.path().join(name);
            let expected = plain_open(&path, flags).map(flags_of);
            let opened = run(&mut context, open(&path, flags));
            match (opened, expected) {
                (Ok(opened), Ok(expected)) => {
                    let here = format!("{name} {flags:#o} {opened:?}");
                    if flags & (libc::O_NOFOLLOW | libc::O_TMPFILE) == 0 {
                        describes(opened.status(), &path);
                    }
                    let surplus = opened.has_surplus_mode();
                    assert!(!surplus || opened.is_stored(), "{here}");
                    let file = opened.into_descriptor().expect("a descriptor");
                    assert_eq!(flags_of(&file), expected, "{here}");
                    let of_descriptor = rustix::io::fcntl_getfd(&file);
                    assert_eq!(of_descriptor, Ok(rustix::io::FdFlags::CLOEXEC));
                }
                (opened, expected) => {
                    assert_eq!(errno(opened), errno(expected), "{name} {flags:#o}");
                }
            }
        }
    });
}

#[test]
fn the_errors_are_those_of_a_plain_open() {
    if laio_testing::lacks("openat2") {
        return;
    }
    let root = place();
    let file = libc::O_RDONLY;
    let cases = [
        ("missing", file, libc::ENOENT),
        ("nowhere", file, libc::ENOENT),
        ("", file, libc::ENOENT),
        ("file/below", file, libc::ENOTDIR),
        ("file", libc::O_DIRECTORY, libc::ENOTDIR),
        ("directory", libc::O_WRONLY, libc::EISDIR),
        ("link", libc::O_NOFOLLOW, libc::ELOOP),
        ("fifo", libc::O_WRONLY | libc::O_NONBLOCK, libc::ENXIO),
        ("file", libc::O_CREAT | libc::O_EXCL, libc::EEXIST),
    ];
    for_each(|way| {
        let mut context = way.context();
        for (name, flags, expected) in cases {
            // An empty name is not the directory.
            let path = match name {
                "" => "".into(),
                name => root.path().join(name),
            };
            let found = errno(run(&mut context, open(&path, flags)));
            assert_eq!(found, expected, "{name} {flags:#o}");
        }
        let beneath = Name::at(File::open(root.path()).expect("the root").into(), c"../x");
        let open: OpenStat = Open::new(beneath, file).beneath().into();
        assert_eq!(errno(run(&mut context, open)), libc::EXDEV);
    });
}

/// In the mode that the attempt has left, reads that must wait do wait, in the background.
#[test]
fn a_file_can_be_read_in_the_mode_that_it_has() {
    if laio_testing::lacks("openat2") {
        return;
    }
    let root = place();
    let path = root.path().join("file");
    let contents = pattern(5_000, 1);
    for_each(|way| {
        let mut context = way.context();
        let opened = run(&mut context, open(&path, libc::O_RDONLY)).expect("a file");
        if way.is_lazy() {
            let status = opened.status();
            assert!(status.is_some(), "the name is in the cache");
            assert_eq!(opened.is_stored(), is_stored(root.path()));
            assert_eq!(opened.has_surplus_mode(), opened.is_stored());
        }
        let has_surplus = opened.has_surplus_mode();
        let file = Rc::new(opened.into_own_descriptor());
        assert_eq!(flags_of(&file).contains(OFlags::NONBLOCK), has_surplus);
        for _ in 0..2 {
            // Afterwards the data is not in the cache, if the file system has a device.
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
            let read = ReadAt::new(file.clone(), Vec::with_capacity(6_000), 0);
            let (result, bytes) = run(&mut context, read);
            assert_eq!(result.expect("read"), contents.len());
            assert_eq!(bytes, contents);
        }
        describes(
            Some(&run(&mut context, StatFile::new(file)).expect("a status")),
            &path,
        );
    });
}

/// The kernel's own files may wait in a read, or fail in non-blocking mode.
#[test]
fn files_of_the_kernel_keep_no_other_mode() {
    for_each(|way| {
        let mut context = way.context();
        let path = Path::new("/proc/self/status");
        let opened = run(&mut context, open(path, libc::O_RDONLY)).expect("a file");
        assert!(!opened.is_stored() && !opened.has_surplus_mode());
        let file = opened.into_own_descriptor();
        assert!(!flags_of(&file).contains(OFlags::NONBLOCK));
    });
}

fn start(context: &mut Context, operation: OpenStat) -> Ticket<OpenStat> {
    match context.submit(operation) {
        Outcome::Pending(ticket) => ticket,
        Outcome::Done(output) => panic!("it did not wait: {output:?}"),
    }
}

fn take(context: &mut Context, ticket: Ticket<OpenStat>) -> std::io::Result<Opened> {
    wait_for(context, ticket.handle());
    context.take(ticket).expect("delivered")
}

#[test]
fn a_fifo_waits_for_its_peer() {
    for_each_pending(|way| {
        let root = place();
        let path = root.path().join("fifo");
        let mut context = way.context();
        let ticket = start(&mut context, open(&path, libc::O_RDONLY));
        let mut none = Vec::new();
        let soon = Some(Duration::from_millis(2));
        assert_eq!(
            context.poll(&mut none, soon),
            Ok(0),
            "opened without a peer"
        );
        let writer = std::thread::spawn(move || {
            let mut fifo = OpenOptions::new().write(true).open(path).expect("a FIFO");
            fifo.write_all(b"hello").expect("written");
            fifo
        });
        let opened = take(&mut context, ticket).expect("a FIFO");
        assert!(!opened.is_stored() && !opened.has_surplus_mode());
        let mut file = File::from(opened.into_own_descriptor());
        assert!(!flags_of(&file).contains(OFlags::NONBLOCK));
        drop(writer.join().expect("the writer"));
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
    });
}

#[test]
fn a_fifo_with_a_peer_is_blocking() {
    let root = place();
    let path = root.path().join("fifo");
    let peer = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("both ends");
    for_each(|way| {
        let mut context = way.context();
        for flags in [libc::O_RDONLY, libc::O_WRONLY] {
            let opened = run(&mut context, open(&path, flags)).expect("a FIFO");
            describes(opened.status(), &path);
            assert!(!opened.is_stored());
            assert!(!flags_of(opened.into_own_descriptor()).contains(OFlags::NONBLOCK));
        }
    });
    drop(peer);
}

#[test]
fn a_cancelled_or_abandoned_open_leaves_no_reader() {
    for_each_pending(|way| {
        let root = place();
        let path = root.path().join("fifo");
        let mut context = way.context();
        let ticket = start(&mut context, open(&path, libc::O_RDONLY));
        context.cancel(ticket.handle()).expect("in flight");
        let result = take(&mut context, ticket);
        assert_eq!(errno(result), Errno::CANCELED.raw());
        assert!(has_no_reader(libc::AT_FDCWD.arg(), &cstring(&path)));
        drop(start(&mut context, open(&path, libc::O_RDONLY)));
        while context.pending() > 0 {
            context
                .poll(&mut Vec::new(), Some(Duration::from_millis(1)))
                .expect("poll");
        }
        drop(context);
        assert!(has_no_reader(libc::AT_FDCWD.arg(), &cstring(&path)));
    });
}

/// A result that is delivered later because of the inline budget has the status too.
#[test]
fn a_deferred_result_has_the_status() {
    if laio_testing::lacks("openat2") {
        return;
    }
    let root = place();
    let path = root.path().join("file");
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| {
            options.limits(Limits {
                inline_budget: 1,
                ..Limits::default()
            })
        });
        let waiting = start(&mut context, open(root.path().join("fifo"), libc::O_RDONLY));
        let mut deferred = 0;
        for _ in 0..3 {
            match context.submit(open(&path, libc::O_RDONLY)) {
                Outcome::Done(opened) => describes(opened.expect("a file").status(), &path),
                Outcome::Pending(ticket) => {
                    let opened = take(&mut context, ticket).expect("a file");
                    if way.is_lazy() {
                        deferred += 1;
                        assert!(opened.status().is_some());
                    }
                    describes(opened.status(), &path);
                }
            }
            // Without a poll in between, the second result is over the budget.
            let Outcome::Pending(ticket) = context.submit(open(&path, libc::O_RDONLY)) else {
                continue;
            };
            let opened = take(&mut context, ticket).expect("a file");
            deferred += i32::from(opened.status().is_some());
            describes(opened.status(), &path);
        }
        assert!(deferred > 0 || !way.is_lazy());
        context.cancel(waiting.handle()).expect("in flight");
        assert!(take(&mut context, waiting).is_err());
    });
}

/// Neither the open nor its status waits for the server of a file system.
#[test]
fn a_hanging_server_does_not_stall_the_caller() {
    // A ring that was closed earlier interrupts its thread later.
    let options = FaultFs::options().cached(true).interruptible(false);
    let Some(server) = or_skip(options.mount()) else {
        return;
    };
    server.add_file("file", b"contents");
    let path = server.join("file");
    for_each_pending(|way| {
        // The name and the attributes are in the kernel's caches.
        let device = fs::metadata(&path).expect("a status").dev();
        let mut context = way.context();
        server.set(Kind::Open, Fault::Hang);
        server.set(Kind::Getattr, Fault::Hang);
        let ticket = start(&mut context, open(&path, libc::O_RDONLY));
        context.flush().expect("flush");
        assert!(server.wait_hung(1, scaled(LIMIT)), "no request");
        server.clear_all();
        server.release(Released::Served);
        let opened = take(&mut context, ticket).expect("a file");
        assert!(opened.status().is_none() && !opened.is_stored());
        let file = Rc::new(opened.into_own_descriptor());
        assert!(!flags_of(&file).contains(OFlags::NONBLOCK));
        let status = run(&mut context, StatFile::new(file)).expect("a status");
        assert_eq!((status.size(), status.device()), (8, device));
    });
}

/// The number of an earlier descriptor, closed behind the context's back, misleads no attempt.
#[test]
fn a_number_is_used_again() {
    let root = place();
    let (file, fifo) = (root.path().join("file"), root.path().join("fifo"));
    let custom = |flags| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        options.open(&fifo).expect("both ends")
    };
    for_each(|way| {
        let mut context = way.context();
        drop(run(&mut context, open(&file, libc::O_RDONLY)).expect("a file"));
        let other = Rc::new(OwnedFd::from(custom(libc::O_NONBLOCK)));
        let read = laio::ops::Read::new(other.clone(), Vec::with_capacity(4));
        let (result, _) = run(&mut context, read);
        assert_eq!(errno(result), libc::EAGAIN);
        assert!(
            flags_of(&other).contains(OFlags::NONBLOCK),
            "not the engine's to remove"
        );
    });
}

/// Back ends in which a thread makes the call.
fn for_each_with_threads(test: impl Fn(&mut Context)) {
    for kind in [BackendKind::Threads, BackendKind::Hybrid] {
        test(&mut Context::new(Options::new().backend(kind)).expect("a context"));
    }
}

/// The thread that opens a file reads its status, and brings its beginning into memory.
#[test]
fn a_file_is_opened_examined_and_loaded_with_one_wait() {
    let root = place();
    let path = root.path().join("file");
    for_each_with_threads(|context| {
        for (bytes, expected) in [(0, 0), (10, 10), (5_000, 5_000), (1 << 20, 5_000)] {
            let ticket = start(context, open(&path, libc::O_RDONLY).load(bytes));
            let opened = take(context, ticket).expect("a file");
            assert_eq!(opened.loaded(), expected);
            assert_eq!(opened.status().is_some(), bytes > 0);
            assert!(bytes == 0 || opened.is_stored() == is_stored(root.path()));
            assert!(!opened.has_surplus_mode());
            describes(opened.status(), &path);
            let file = Rc::new(opened.into_own_descriptor());
            // Its position is still the beginning.
            let read = laio::ops::Read::new(file, Vec::with_capacity(6_000));
            assert_eq!(run(context, read).1, pattern(5_000, 1));
        }
        // What is no regular file is not read.
        for name in ["directory", "fifo"] {
            let flags = libc::O_RDONLY | libc::O_NONBLOCK;
            let path = root.path().join(name);
            let ticket = start(context, open(&path, flags).load(100));
            let opened = take(context, ticket).expect("opened");
            assert_eq!(opened.loaded(), 0, "{name}");
            describes(opened.status(), &path);
        }
        let ticket = start(
            context,
            open(root.path().join("none"), libc::O_RDONLY).load(1),
        );
        assert_eq!(errno(take(context, ticket)), libc::ENOENT);
    });
}

/// Loads do not wait for the helper of one whose open waits for a server, though all have that helper at
/// first.
#[test]
fn loads_do_not_wait_for_an_open_that_hangs() {
    const FLAGS: i32 = libc::O_RDONLY | libc::O_NONBLOCK;
    const OTHERS: usize = 20;
    let Some(server) = or_skip(FaultFs::options().mount()) else {
        return;
    };
    server.add_file("file", b"contents");
    let root = place();
    let file = root.path().join("file");
    // The engine follows fewer links, so it takes the name for one of a local file.
    let mut slow = server.join("file");
    for step in 0..10 {
        let link = root.path().join(format!("step {step}"));
        symlink(&slow, &link).expect("a link");
        slow = link;
    }
    for_each_with_threads(|context| {
        for kind in [Kind::Lookup, Kind::Open] {
            server.set(kind, Fault::Hang);
            let hanging = start(context, open(&slow, FLAGS).load(8));
            let others = [(); OTHERS].map(|()| start(context, open(&file, FLAGS).load(8)));
            collect(context, OTHERS);
            for ticket in others {
                let opened = context.take(ticket).expect("delivered").expect("a file");
                assert_eq!(opened.loaded(), 8);
            }
            assert!(server.wait_hung(1, scaled(LIMIT)), "no request");
            server.clear_all();
            server.release(Released::Served);
            take(context, hanging).expect("a file");
        }
    });
}

/// A cancellation ends what follows the open, whose descriptor is delivered or closed.
#[test]
fn a_cancelled_load_leaves_the_open_file() {
    let Some(server) = or_skip(FaultFs::options().mount()) else {
        return;
    };
    server.add_file("file", b"contents");
    let path = server.join("file");
    for_each_with_threads(|context| {
        for abandons in [false, true] {
            server.set(Kind::Read, Fault::Hang);
            let ticket = start(context, open(&path, libc::O_RDONLY).load(8));
            context.flush().expect("flush");
            assert!(server.wait_hung(1, scaled(LIMIT)), "no request");
            if !abandons {
                context.cancel(ticket.handle()).expect("in flight");
            }
            let ticket = Some(ticket).filter(|_| !abandons);
            // A wait for a page may go on.
            server.clear_all();
            server.release(Released::Served);
            if let Some(ticket) = ticket {
                let opened = take(context, ticket).expect("a file");
                describes(opened.status(), &path);
            }
            while context.pending() > 0 {
                let soon = Some(Duration::from_millis(1));
                context.poll(&mut Vec::new(), soon).expect("poll");
            }
        }
    });
}
