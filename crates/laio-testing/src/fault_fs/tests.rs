//! Tests: the file system with faults, through plain system calls.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::os::unix::thread::JoinHandleExt;
use std::thread;
use std::time::Instant;

use super::*;
use crate::child;
use crate::limit::{wait_until, within};
use crate::{or_skip, test_name};

/// A time limit for steps that take no time on an idle machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a test on a new file system, uncached, with a time limit.
#[track_caller]
fn on_fs(body: impl FnOnce(FaultFs) + Send + 'static) {
    on_fs_with(FaultFs::options(), body);
}

#[track_caller]
fn on_fs_with(options: Options, body: impl FnOnce(FaultFs) + Send + 'static) {
    within(LIMIT, move || {
        let Some(fs) = or_skip(options.mount()) else {
            return;
        };
        body(fs);
    });
}

fn is_mounted(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == path.to_str())
}

#[track_caller]
fn assert_errno<T>(result: io::Result<T>, errno: i32) {
    let error = result.err().expect("an error");
    assert_eq!(error.raw_os_error(), Some(errno), "{error}");
}

#[test]
fn it_is_a_file_system() {
    on_fs(|fs| {
        assert!(is_mounted(fs.path()));
        fs.add_dir("dir");
        fs.add_file("dir/given", b"from the test");
        assert_eq!(fs::read(fs.join("dir/given")).unwrap(), b"from the test");

        fs::write(fs.join("made"), b"through the kernel").unwrap();
        assert_eq!(fs.contents("made").unwrap(), b"through the kernel");
        let mut file = OpenOptions::new()
            .append(true)
            .open(fs.join("made"))
            .unwrap();
        file.write_all(b", and more").unwrap();
        assert_eq!(
            fs::read(fs.join("made")).unwrap(),
            b"through the kernel, and more"
        );
        file.set_len(7).unwrap();
        assert_eq!(fs::read(fs.join("made")).unwrap(), b"through");

        fs::create_dir(fs.join("dir/sub")).unwrap();
        fs::hard_link(fs.join("made"), fs.join("dir/second")).unwrap();
        symlink("dir/given", fs.join("link")).unwrap();
        assert_eq!(fs::read(fs.join("link")).unwrap(), b"from the test");
        fs::rename(fs.join("made"), fs.join("dir/sub/moved")).unwrap();
        assert_eq!(fs::read(fs.join("dir/sub/moved")).unwrap(), b"through");
        fs::remove_file(fs.join("dir/second")).unwrap();
        assert_errno(fs::remove_dir(fs.join("dir")), libc::ENOTEMPTY);
        fs::set_permissions(fs.join("dir/given"), fs::Permissions::from_mode(0o600)).unwrap();
        let mode = fs::metadata(fs.join("dir/given"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o600);

        let mut names: Vec<_> = fs::read_dir(fs.join("dir"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["given", "sub"]);
    });
}

#[test]
fn a_long_listing_is_complete() {
    on_fs(|fs| {
        for number in 0..1000 {
            fs.add_file(&format!("a file with a rather long name {number}"), b"");
        }
        assert_eq!(fs::read_dir(fs.path()).unwrap().count(), 1000);
        assert!(
            fs.requests_at("", Kind::Readdir) > 2,
            "it takes several requests"
        );
    });
}

#[test]
fn large_transfers_come_in_pieces() {
    on_fs(|fs| {
        let data = crate::temp::pattern(1_000_000, 1);
        fs::write(fs.join("large"), &data).unwrap();
        assert_eq!(fs.contents("large").unwrap(), data);
        assert_eq!(fs::read(fs.join("large")).unwrap(), data);
        assert!(fs.requests(Kind::Read) >= 8, "{}", fs.requests(Kind::Read));
    });
}

#[test]
fn a_read_hangs_until_it_is_released_and_nothing_else_does() {
    on_fs(|fs| {
        fs.add_file("slow", b"slow");
        fs.add_file("fast", b"fast");
        fs.set_at("slow", Kind::Read, Fault::Hang);
        let readers: Vec<_> = (0..10)
            .map(|_| {
                let path = fs.join("slow");
                thread::spawn(move || fs::read(path))
            })
            .collect();
        assert!(fs.wait_hung(10, LIMIT));
        assert_eq!(
            fs::read(fs.join("fast")).unwrap(),
            b"fast",
            "others are served"
        );
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        assert_eq!(fs.release(Released::Served), 10);
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap(), b"slow");
        }
        assert_eq!(fs.hung(), 0);
    });
}

#[test]
fn what_hangs_may_end_with_an_error() {
    on_fs(|fs| {
        fs.add_file("file", b"data");
        let file = File::open(fs.join("file")).unwrap();
        fs.next(Kind::Read, Fault::Hang);
        fs.next(Kind::Read, Fault::Hang);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4];
            (
                file.read_at(&mut buffer, 0),
                file.read_at(&mut buffer, 0),
                file.read_at(&mut buffer, 0),
            )
        });
        assert!(fs.wait_hung(1, LIMIT));
        assert!(fs.release_one(Released::Fail(libc::EIO)));
        assert!(fs.wait_hung(1, LIMIT), "the second rule is still there");
        assert!(fs.release_one(Released::Fail(libc::ENOSPC)));
        let (first, second, third) = reader.join().unwrap();
        assert_errno(first, libc::EIO);
        assert_errno(second, libc::ENOSPC);
        assert_eq!(third.unwrap(), 4);
        assert!(!fs.release_one(Released::Served));
    });
}

#[test]
fn a_delay_takes_its_time() {
    on_fs(|fs| {
        let delay = Duration::from_millis(30);
        fs.add_file("file", b"data");
        fs.set(Kind::Open, Fault::Delay(delay));
        let start = Instant::now();
        File::open(fs.join("file")).unwrap();
        assert!(start.elapsed() >= delay);
        fs.clear(Kind::Open);
        assert_eq!(fs.hung(), 0, "a delayed request does not hang");
    });
}

#[test]
fn bytes_flip_on_command() {
    on_fs(|fs| {
        fs.add_file("file", b"abc");
        fs.next_at("file", Kind::Read, Fault::Flip);
        assert_eq!(fs::read(fs.join("file")).unwrap(), b"\x9ebc");
        assert_eq!(fs::read(fs.join("file")).unwrap(), b"abc");
        fs.next_at("file", Kind::Write, Fault::Flip);
        fs::write(fs.join("file"), "xyz").unwrap();
        assert_eq!(fs.contents("file").unwrap(), b"\x87yz");
    });
}

#[test]
fn attributes_are_only_said_to_be_set_on_command() {
    use std::os::unix::fs::PermissionsExt;
    on_fs(|fs| {
        fs.add_file("file", b"abc");
        let mode = || fs::metadata(fs.join("file")).unwrap().permissions().mode() & 0o777;
        let set = |mode| fs::set_permissions(fs.join("file"), fs::Permissions::from_mode(mode));
        set(0o640).unwrap();
        fs.next_at("file", Kind::Setattr, Fault::Pretend);
        set(0o600).unwrap();
        assert_eq!(mode(), 0o640);
        set(0o600).unwrap();
        assert_eq!(mode(), 0o600);
    });
}

#[test]
fn a_file_is_as_old_as_it_is_told_to_be() {
    on_fs(|fs| {
        fs.add_file("file", b"abc");
        let modified = || fs::metadata(fs.join("file")).unwrap().modified().unwrap();
        let before = modified();
        fs.age("file", LIMIT);
        assert_eq!(before - LIMIT, modified());
    });
}

#[test]
fn transfers_are_short_on_command() {
    on_fs(|fs| {
        fs.add_file("file", b"0123456789");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(fs.join("file"))
            .unwrap();
        let mut buffer = [0; 10];
        fs.set(Kind::Read, Fault::Short(3));
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 3);
        assert_eq!(file.read_at(&mut buffer, 9).unwrap(), 1);
        assert_eq!(
            fs::read(fs.join("file")).unwrap(),
            b"0123456789",
            "in four pieces"
        );
        fs.clear_all();
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 10);
        fs.next_at("file", Kind::Write, Fault::Short(4));
        assert_eq!(file.write_at(b"abcdef", 0).unwrap(), 4);
        assert_eq!(fs.contents("file").unwrap(), b"abcd456789");
        fs.set(Kind::Readdir, Fault::Short(1));
        assert_eq!(fs::read_dir(fs.path()).unwrap().count(), 1);
    });
}

/// A call that sends a request.
type Sender = fn(&FaultFs) -> io::Result<()>;

/// All kinds of request for which a caller waits, with a call that sends each.
fn calls() -> Vec<(Kind, Sender)> {
    fn open(fs: &FaultFs) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(fs.join("file"))
    }
    vec![
        (Kind::Lookup, |fs| fs::metadata(fs.join("file")).map(drop)),
        // The root needs no lookup.
        (Kind::Getattr, |fs| fs::metadata(fs.path()).map(drop)),
        (Kind::Setattr, |fs| open(fs)?.set_len(0)),
        (Kind::Readlink, |fs| {
            fs::read_link(fs.join("link")).map(drop)
        }),
        (Kind::Mknod, |fs| {
            let mode = rustix::fs::Mode::RUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, fs.join("fifo"), fifo, mode, 0)?;
            assert!(fs::metadata(fs.join("fifo"))?.file_type().is_fifo());
            Ok(())
        }),
        (Kind::Mkdir, |fs| fs::create_dir(fs.join("new directory"))),
        (Kind::Unlink, |fs| fs::remove_file(fs.join("second"))),
        (Kind::Rmdir, |fs| fs::remove_dir(fs.join("empty"))),
        (Kind::Symlink, |fs| {
            symlink("target", fs.join("new symlink"))
        }),
        (Kind::Rename, |fs| {
            fs::rename(fs.join("old"), fs.join("new"))
        }),
        (Kind::Link, |fs| {
            fs::hard_link(fs.join("file"), fs.join("new link"))
        }),
        (Kind::Open, |fs| open(fs).map(drop)),
        (Kind::Create, |fs| {
            File::create_new(fs.join("created")).map(drop)
        }),
        (Kind::Read, |fs| open(fs)?.read(&mut [0]).map(drop)),
        (Kind::Write, |fs| open(fs)?.write(b"x").map(drop)),
        (Kind::Flush, |fs| {
            let file = std::os::fd::OwnedFd::from(open(fs)?);
            // SAFETY: the descriptor is given up here and closed once.
            match unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(file)) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }),
        (Kind::Fsync, |fs| open(fs)?.sync_all()),
        (Kind::Fallocate, |fs| {
            let flags = rustix::fs::FallocateFlags::empty();
            Ok(rustix::fs::fallocate(open(fs)?, flags, 0, 100)?)
        }),
        (Kind::Opendir, |fs| File::open(fs.path()).map(drop)),
        (Kind::Readdir, |fs| {
            fs::read_dir(fs.path())?.try_for_each(|entry| entry.map(drop))
        }),
        (Kind::Fsyncdir, |fs| File::open(fs.path())?.sync_all()),
        (Kind::Access, |fs| {
            Ok(rustix::fs::access(
                fs.join("file"),
                rustix::fs::Access::READ_OK,
            )?)
        }),
        (Kind::Statfs, |fs| {
            Ok(rustix::fs::statfs(fs.path()).map(drop)?)
        }),
    ]
}

#[test]
fn every_kind_is_counted_and_fails_on_command() {
    on_fs(|fs| {
        fs.add_file("file", b"data");
        fs.add_file("old", b"");
        fs.add_dir("empty");
        symlink("file", fs.join("link")).unwrap();
        fs::hard_link(fs.join("file"), fs.join("second")).unwrap();
        for (kind, call) in calls() {
            fs.set(kind, Fault::Fail(libc::EREMOTEIO));
            let before = fs.requests(kind);
            let result = call(&fs);
            assert!(fs.requests(kind) > before, "{kind:?} has not come");
            let error = result.expect_err(&format!("{kind:?} should fail"));
            assert_eq!(
                error.raw_os_error(),
                Some(libc::EREMOTEIO),
                "{kind:?}: {error}"
            );
            fs.clear(kind);
            call(&fs).unwrap_or_else(|error| panic!("{kind:?} without a fault: {error}"));
        }
        // No caller waits for these two, so their errors are not visible.
        for kind in [Kind::Release, Kind::Releasedir] {
            assert!(
                wait_until(LIMIT, || fs.requests(kind) > 0),
                "{kind:?} has not come"
            );
        }
        let covered = calls().len() + 2;
        assert_eq!(
            covered,
            Kind::ALL.len(),
            "a kind is missing in the list above"
        );
    });
}

#[test]
fn every_kind_hangs_on_command() {
    on_fs(|fs| {
        fs.add_file("file", b"data");
        fs.add_file("old", b"");
        fs.add_dir("empty");
        symlink("file", fs.join("link")).unwrap();
        fs::hard_link(fs.join("file"), fs.join("second")).unwrap();
        let fs = Arc::new(fs);
        for (kind, call) in calls() {
            fs.set(kind, Fault::Hang);
            let caller = thread::spawn({
                let fs = Arc::clone(&fs);
                move || call(&fs)
            });
            assert!(fs.wait_hung(1, LIMIT), "{kind:?} does not hang");
            assert!(!caller.is_finished(), "{kind:?}");
            // After an error the kernel repeats the lookup of a name that it knew.
            while !caller.is_finished() {
                fs.release_one(Released::Fail(libc::EREMOTEIO));
                thread::yield_now();
            }
            fs.clear(kind);
            let error = caller
                .join()
                .unwrap()
                .expect_err(&format!("{kind:?} should fail"));
            assert_eq!(
                error.raw_os_error(),
                Some(libc::EREMOTEIO),
                "{kind:?}: {error}"
            );
        }
        // close does not wait for a release.
        fs.set(Kind::Release, Fault::Hang);
        drop(File::open(fs.join("file")).unwrap());
        assert!(fs.wait_hung(1, LIMIT));
        fs::read(fs.join("file")).unwrap();
    });
}

#[test]
fn without_a_cache_every_question_is_asked() {
    on_fs(|fs| {
        fs.add_file("file", b"data");
        let mut file = File::open(fs.join("file")).unwrap();
        fs.reset_counts();
        for asked in 1..=3 {
            fs::metadata(fs.join("file")).unwrap();
            assert_eq!(fs.requests_at("file", Kind::Lookup), asked);
            file.metadata().unwrap();
            assert!(fs.requests_at("file", Kind::Getattr) >= asked);
            file.rewind().unwrap();
            file.read_exact(&mut [0; 4]).unwrap();
            assert_eq!(fs.requests_at("file", Kind::Read), asked);
        }
    });
}

#[test]
fn with_a_cache_every_question_is_asked_once() {
    on_fs_with(FaultFs::options().cached(true), |fs| {
        fs.add_file("file", b"data");
        for _ in 0..3 {
            let mut file = File::open(fs.join("file")).unwrap();
            file.metadata().unwrap();
            file.read_exact(&mut [0; 4]).unwrap();
        }
        assert_eq!(fs.requests_at("file", Kind::Lookup), 1);
        assert_eq!(fs.requests_at("file", Kind::Read), 1);
        assert!(fs.requests_at("file", Kind::Getattr) <= 1);
    });
}

extern "C" fn ignore(_: libc::c_int) {}

/// A thread that reads `file`, whose request hangs, and its thread id for signals.
fn hanging_reader(fs: &FaultFs) -> (thread::JoinHandle<io::Result<Vec<u8>>>, impl Fn() + use<>) {
    const SIGNAL: libc::c_int = libc::SIGURG;
    // SAFETY: the handler does nothing, and the action is initialized: no flags, so that system calls
    // are interrupted and not restarted, and an empty mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as *const () as usize;
        assert_eq!(libc::sigaction(SIGNAL, &action, std::ptr::null_mut()), 0);
    }
    fs.add_file("file", b"data");
    fs.set(Kind::Read, Fault::Hang);
    let path = fs.join("file");
    let reader = thread::spawn(move || {
        // fs::read would retry.
        let mut buffer = vec![0; 4];
        let read = File::open(path)?.read(&mut buffer)?;
        buffer.truncate(read);
        Ok(buffer)
    });
    assert!(fs.wait_hung(1, LIMIT));
    let id = reader.as_pthread_t();
    // SAFETY: the thread waits and is joined later, so its identifier is valid.
    let interrupt = move || unsafe {
        // An address with musl, a number with the GNU C library.
        libc::pthread_kill(id as _, SIGNAL);
    };
    (reader, interrupt)
}

#[test]
fn a_signal_ends_a_request_that_hangs() {
    on_fs(|fs| {
        let (reader, interrupt) = hanging_reader(&fs);
        interrupt();
        assert_errno(reader.join().unwrap(), libc::EINTR);
        assert_eq!(fs.hung(), 0);
    });
}

#[test]
fn a_signal_does_not_end_it_when_told_so() {
    on_fs_with(FaultFs::options().interruptible(false), |fs| {
        let (reader, interrupt) = hanging_reader(&fs);
        interrupt();
        thread::sleep(Duration::from_millis(30));
        assert!(!reader.is_finished());
        assert_eq!(fs.hung(), 1);
        fs.release(Released::Served);
        assert_eq!(reader.join().unwrap().unwrap(), b"data");
    });
}

#[test]
fn dropping_ends_what_hangs_and_unmounts_what_is_open() {
    on_fs_with(FaultFs::options().interruptible(false), |fs| {
        fs.add_file("file", b"data");
        let path = fs.path().to_owned();
        let file = File::open(fs.join("file")).unwrap();
        fs.set(Kind::Read, Fault::Hang);
        fs.set(Kind::Lookup, Fault::Delay(LIMIT * 10));
        let reader = thread::spawn(move || (file.read_at(&mut [0; 4], 0), file));
        let looker = thread::spawn({
            let path = fs.join("other");
            move || fs::metadata(path).map(drop)
        });
        assert!(fs.wait_hung(1, LIMIT));
        assert!(wait_until(LIMIT, || fs.requests_at("other", Kind::Lookup) > 0));
        drop(fs);
        assert!(!is_mounted(&path));
        assert!(!path.exists(), "the directory is gone too");
        assert_errno(looker.join().unwrap(), libc::ECONNABORTED);
        let (read, file) = reader.join().unwrap();
        assert_errno(read, libc::ECONNABORTED);
        assert!(
            file.read_at(&mut [0; 4], 0).is_err(),
            "the open file is dead"
        );
    });
}

#[test]
fn many_come_and_go() {
    within(LIMIT, || {
        for _ in 0..10 {
            let Some(fs) = or_skip(FaultFs::mount()) else {
                return;
            };
            fs.add_file("file", b"data");
            assert_eq!(fs::read(fs.join("file")).unwrap(), b"data");
        }
    });
}

#[test]
fn nothing_is_left_behind() {
    child::check(LIMIT, test_name!(), "", || {
        use crate::process::{open_fds, thread_names};
        let (fds, threads) = (open_fds(), thread_names().len());
        for _ in 0..3 {
            let Some(fs) = or_skip(FaultFs::mount()) else {
                return;
            };
            fs.add_file("file", b"data");
            fs.set(Kind::Read, Fault::Delay(Duration::from_millis(1)));
            fs::read(fs.join("file")).unwrap();
        }
        assert_eq!(open_fds(), fds);
        // A joined thread may still be listed for a moment.
        assert!(
            wait_until(LIMIT, || thread_names().len() == threads),
            "{:?}",
            thread_names()
        );
        // SAFETY: no pointer is passed but null.
        let child =
            unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
        assert_eq!(child, -1, "no process is left");
    });
}

/// Runs in a child process: mounts, prints the mount point, and starts a thread that hangs and ignores
/// signals.
fn hang_for_ever() {
    let Some(fs) = or_skip(FaultFs::options().interruptible(false).mount()) else {
        return;
    };
    println!("\nmounted on {}\n", fs.path().display());
    fs.add_file("file", b"data");
    fs.set(Kind::Read, Fault::Hang);
    let path = fs.join("file");
    thread::spawn(move || fs::read(path));
    assert!(fs.wait_hung(1, LIMIT));
    std::mem::forget(fs);
}

fn assert_unmounted(output: &str) {
    let mut lines = output.lines();
    let Some(path) = lines.find_map(|line| line.strip_prefix("mounted on ")) else {
        assert!(output.contains("skipped: "), "{output}");
        return;
    };
    assert!(
        wait_until(LIMIT, || !is_mounted(Path::new(path))),
        "{path} is still mounted"
    );
    assert!(
        wait_until(LIMIT, || !Path::new(path).exists()),
        "{path} is still there"
    );
}

#[test]
fn a_process_that_exits_is_not_kept_by_what_hangs() {
    let Some(ended) = child::run(LIMIT, test_name!(), "", hang_for_ever) else {
        return;
    };
    assert!(
        ended.status.is_some_and(|status| status.success()),
        "{ended:?}"
    );
    assert_unmounted(&ended.output);
}

#[test]
fn a_process_that_is_killed_is_not_kept_by_what_hangs() {
    let Some(ended) = child::run(LIMIT, test_name!(), "", || {
        hang_for_ever();
        // SAFETY: a signal to this very process; it takes no pointers.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }) else {
        return;
    };
    assert_eq!(
        ended.status.and_then(|status| status.signal()),
        Some(libc::SIGKILL),
        "{ended:?}"
    );
    assert_unmounted(&ended.output);
}
