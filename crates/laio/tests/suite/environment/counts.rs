//! Rule 11, statistics; and a check that injected faults take effect.

use super::support::result_of;
use crate::harness::{
    Arg, Mode, Way, add_one, all_ways, at_mut, call, cstring, event_counter, for_each_backend, own,
    pending, plain,
};
use laio::testing::Inject;
use laio::{BackendKind, Context, Counts, Options};
use laio_testing::fault_fs::Kind;
use laio_testing::{FaultFs, or_skip, temp};
use std::fs::File;

/// The counts inline, background, fallback and latched.
fn counts(context: &Context, number: libc::c_long) -> (u64, u64, u64, u64) {
    let Counts {
        inline,
        background,
        fallback,
        latched,
        ..
    } = context.stats().call(number);
    (inline, background, fallback, latched)
}

/// A file whose contents are in memory.
fn warm_file() -> tempfile::NamedTempFile {
    let directory = temp::scratch();
    let parent = directory.path().parent().expect("a directory").to_owned();
    temp::file_with(&parent, b"contents")
}

fn read_at(context: &mut Context, file: &File) {
    let mut buffer = [0u8; 8];
    let args = [file.arg(), at_mut(&mut buffer), 8, 0];
    assert_eq!(call(context, libc::SYS_pread64, args), Ok(8));
    assert_eq!(&buffer, b"contents");
}

#[test]
fn each_strategy_is_counted() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for_each_backend(|way| {
        let mut context = way.context();
        let file = warm_file();
        let counter = event_counter();
        read_at(&mut context, file.as_file());
        let found = counts(&context, libc::SYS_pread64);
        match way.backend {
            // Updating the access time may wait for the journal.
            BackendKind::Activations => assert_eq!((found.0 + found.1, found.2), (1, 0), "a file"),
            BackendKind::Sync | BackendKind::Lazy => assert_eq!(found, (1, 0, 0, 0), "a file"),
            _ => assert_eq!(found, (0, 0, 1, 0), "a file"),
        }
        // A pipe with bytes, and an empty one.
        let mut buffer = [0u8; 8];
        let args = [counter.arg(), at_mut(&mut buffer), 8];
        add_one(&counter);
        assert_eq!(call(&mut context, libc::SYS_read, args), Ok(8));
        let (inline, fallback) = match way.backend {
            BackendKind::Threads | BackendKind::Uring => (0, 1),
            _ => (1, 0),
        };
        assert_eq!(
            counts(&context, libc::SYS_read),
            (inline, 0, fallback, 0),
            "a stream"
        );
        if way.goes_to_background() {
            let read = pending(&mut context, libc::SYS_read, args);
            add_one(&counter);
            assert_eq!(result_of(&mut context, read), Ok(8));
            let (background, fallback) = match way.backend {
                BackendKind::Threads | BackendKind::Uring => (0, 2),
                _ => (1, 0),
            };
            let expected = (inline, background, fallback, 0);
            assert_eq!(
                counts(&context, libc::SYS_read),
                expected,
                "an empty stream"
            );
        }
        // This call has no non-blocking form.
        assert_eq!(
            call(&mut context, libc::SYS_fsync, [file.as_file().arg()]),
            Ok(0)
        );
        let found = counts(&context, libc::SYS_fsync);
        match way.backend {
            // Depends on the time that the disk takes.
            BackendKind::Activations => assert_eq!(found.0 + found.1, 1),
            BackendKind::Sync => assert_eq!(found, (1, 0, 0, 0)),
            _ => assert_eq!(found, (0, 0, 1, 0)),
        }
        let stats = context.stats();
        assert_eq!(stats.operations, stats.completions);
        assert_eq!(
            stats.operations,
            stats.total().background + stats.total().fallback
        );
        let named: Vec<_> = stats.calls().map(|(name, _)| name).collect();
        assert!(
            named.contains(&"pread64") && named.contains(&"fsync"),
            "{named:?}"
        );
    });
}

fn lazy_ways() -> Vec<Way> {
    all_ways().into_iter().filter(Way::is_lazy).collect()
}

fn mount_of<'a>(context: &'a Context, fstype: &str) -> Option<&'a laio::Mount> {
    context.info().mounts().find(|mount| mount.fstype == fstype)
}

#[test]
fn a_file_in_memory_is_read_inline_without_an_attempt() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for way in lazy_ways() {
        let mut context = way.context();
        let file = temp::file_with("/dev/shm".as_ref(), b"contents");
        if !temp::in_memory(file.path()) {
            return laio_testing::skip("shm", "/dev/shm is not in memory");
        }
        for _ in 0..3 {
            read_at(&mut context, file.as_file());
        }
        assert_eq!(counts(&context, libc::SYS_pread64), (3, 0, 0, 0));
        let args = [file.as_file().arg(), c"CONTENTS".arg(), 8, 0];
        for _ in 0..3 {
            assert_eq!(call(&mut context, libc::SYS_pwrite64, args), Ok(8));
        }
        assert_eq!(counts(&context, libc::SYS_pwrite64), (3, 0, 0, 0));
        if let Some(mount) = mount_of(&context, "tmpfs") {
            assert_eq!(mount.place, laio::Place::Memory);
            assert!(mount.point.starts_with("/dev/shm"), "{}", mount.point);
            assert!(mount.reads_latched || mount.writes_latched);
        } else {
            println!("tmpfs takes attempts here");
        }
        // The refusal does not change the state of the other file system.
        let other = warm_file();
        read_at(&mut context, other.as_file());
        assert_eq!(counts(&context, libc::SYS_pread64), (4, 0, 0, 0));
        let latched = context.info().mounts().filter(|mount| mount.reads_latched);
        assert!(latched.into_iter().all(|mount| mount.fstype == "tmpfs"));
    }
}

#[test]
fn refused_writes_are_remembered_for_the_file_system() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for way in lazy_ways() {
        let mut context = way.context();
        let file = warm_file();
        let args = [file.as_file().arg(), c"contents".arg(), 8, 0];
        for _ in 0..3 {
            assert_eq!(call(&mut context, libc::SYS_pwrite64, args), Ok(8));
        }
        let (inline, _, fallback, latched) = counts(&context, libc::SYS_pwrite64);
        let refused = context.info().mounts().find(|mount| mount.writes_latched);
        match refused {
            Some(mount) => {
                assert_eq!((inline, fallback, latched), (0, 3, 2), "{mount:?}");
                assert!(!mount.reads_latched);
                assert_eq!(
                    (mount.counts.fallback, mount.counts.latched),
                    (3, 2),
                    "{mount:?}"
                );
            }
            None => assert_eq!((fallback, latched), (0, 0), "no refusal, so no latch"),
        }
        // Reads on this file system, and writes on another, are still attempted.
        read_at(&mut context, file.as_file());
        assert_eq!(counts(&context, libc::SYS_pread64), (1, 0, 0, 0));
    }
}

/// Reads until a read goes to the background. The attempt also starts the read from the disk, which may finish before
/// the attempt reaches the page, so this may take several reads.
fn read_in_the_background(way: &Way, file: &File) -> Context {
    let read = |_| {
        temp::make_cold(file).expect("a cold file");
        let mut context = way.context();
        read_at(&mut context, file);
        let counts = counts(&context, libc::SYS_pread64);
        assert!([(0, 1, 0, 0), (1, 0, 0, 0)].contains(&counts), "{counts:?}");
        (counts.1 == 1).then_some(context)
    };
    (0..100).find_map(read).expect("a read in the background")
}

#[test]
fn a_cold_file_is_read_in_the_background() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for way in lazy_ways() {
        let directory = temp::scratch();
        let Some(file) = or_skip(temp::cold_file(directory.path(), b"contents")) else {
            return;
        };
        let mut context = read_in_the_background(&way, file.as_file());
        read_at(&mut context, file.as_file());
        assert_eq!(counts(&context, libc::SYS_pread64), (1, 1, 0, 0));
    }
}

/// A direct read would wait for the device inside the attempt.
#[test]
fn direct_reads_are_not_attempted() {
    if laio_testing::lacks("nowait") {
        return;
    }
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let directory = temp::scratch();
    let contents = temp::pattern(4096, 3);
    let file = temp::file_with(directory.path(), &contents);
    let name = cstring(file.path());
    for way in lazy_ways() {
        let mut context = way.context();
        let mut page = Page([0; 4096]);
        let mut counted = 0;
        let mut read = |context: &mut Context, fd: usize, background: bool| {
            page.0.fill(0);
            let args = [fd, page.0.as_mut_ptr() as usize, 4096, 0];
            assert_eq!(call(context, libc::SYS_pread64, args), Ok(4096));
            assert!(page.0[..] == contents[..]);
            counted += u64::from(background);
            let (_, background, fallback, _) = counts(context, libc::SYS_pread64);
            assert_eq!(background + fallback, counted, "{way}");
        };
        let flags = libc::O_RDONLY | libc::O_DIRECT;
        let open = [libc::AT_FDCWD.arg(), name.arg(), flags as usize];
        let Ok(fd) = call(&mut context, libc::SYS_openat, open) else {
            println!("no direct I/O here");
            return;
        };
        let direct = own(Ok(fd));
        read(&mut context, direct.arg(), true);
        read(&mut context, direct.arg(), true);
        // The program sets and clears the flag.
        let set = |context: &mut Context, flags: i32| {
            let args = [direct.arg(), libc::F_SETFL as usize, flags as usize];
            assert_eq!(call(context, libc::SYS_fcntl, args), Ok(0));
        };
        set(&mut context, 0);
        // A read without the flag has brought the file into the cache.
        let mut byte = [0u8];
        let args = [direct.arg(), at_mut(&mut byte), 1, 0];
        assert_eq!(plain(libc::SYS_pread64, args), Ok(1));
        read(&mut context, direct.arg(), false);
        set(&mut context, libc::O_DIRECT);
        read(&mut context, direct.arg(), true);
    }
}

#[test]
fn injected_faults_are_injected() {
    if laio_testing::lacks("nowait") {
        return;
    }
    for way in all_ways()
        .iter()
        .filter(|way| way.backend == BackendKind::Lazy)
    {
        let mut context = way.context();
        let file = warm_file();
        let name = cstring(file.path());
        let open = [libc::AT_FDCWD.arg(), name.arg(), 0];
        type Make<'a> = &'a dyn Fn(&mut Context);
        let read: Make<'_> = &|context| read_at(context, file.as_file());
        let open: Make<'_> = &|context| drop(own(call(context, libc::SYS_openat, open)));
        for (number, make) in [(libc::SYS_pread64, read), (libc::SYS_openat, open)] {
            make(&mut context);
            match way.mode {
                Mode::AttemptsFail => assert_eq!(counts(&context, number), (0, 1, 0, 0), "{way}"),
                Mode::ForceBlock => assert_eq!(counts(&context, number), (0, 0, 1, 0), "{way}"),
                // A mount or a rename by another process at the same moment makes the kernel's cached look-up fail.
                _ => {
                    let inline = |context: &mut Context| {
                        make(context);
                        counts(context, number).0 > 0
                    };
                    let some = counts(&context, number).0 > 0;
                    assert!(some || (0..100).any(|_| inline(&mut context)), "{way}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_end_of_file_is_confirmed_in_the_background() {
    if laio_testing::lacks("nowait") {
        return;
    }
    let directory = temp::scratch();
    for way in all_ways().iter().filter(|way| way.mode == Mode::FalseEof) {
        let Some(file) = or_skip(temp::cold_file(directory.path(), b"contents")) else {
            return;
        };
        if way.backend == BackendKind::Lazy {
            read_in_the_background(way, file.as_file());
        } else {
            read_at(&mut way.context(), file.as_file());
        }
    }
}

#[test]
fn a_short_transfer_goes_in_pieces() {
    for way in all_ways()
        .iter()
        .filter(|way| way.mode == Mode::ShortTransfer)
    {
        if !way.goes_to_background() || way.backend == BackendKind::Sync {
            continue;
        }
        let Some(fs) = or_skip(FaultFs::mount()) else {
            return;
        };
        fs.add_file("file", b"contents");
        let file = File::open(fs.join("file")).expect("a file");
        let bounded = Inject {
            short_transfer: 2,
            ..Inject::default()
        };
        let options = Options::new().backend(way.backend).ring(!way.without_ring);
        let mut context = Context::new(options.inject(bounded)).expect("a context");
        fs.reset_counts();
        read_at(&mut context, &file);
        assert!(
            fs.requests(Kind::Read) >= 4,
            "{way}: {} requests",
            fs.requests(Kind::Read)
        );
    }
}
