//! Rule 7: calls that wait without an end, for a file system whose server does not answer or for the other
//! end of a FIFO, keep no call on other files from its end, however many they are.

use crate::harness::{
    Arg, LIMIT, Way, at, at_mut, call, collect, cstring, for_each_pending_backend, later, own,
    pending, plain, scaled, start, wait_for,
};
use laio::{BackendKind, Context, Errno, Handle, Outcome};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::limit::wait_until;
use laio_testing::process::high_descriptor;
use laio_testing::temp::scratch;
use laio_testing::{FaultFs, or_skip};
use std::ffi::{CString, c_long};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread::available_parallelism;

const HERE: usize = libc::AT_FDCWD as usize;
const HELPERS: u32 = 2;

/// More than there are helpers, and workers of a ring.
fn many() -> usize {
    4 * available_parallelism().map_or(1, usize::from) + 4
}

/// The back end `activations` has a thread for each call that waits.
fn has_room(way: &Way) -> bool {
    way.backend != BackendKind::Activations || many() < 200
}

/// Calls on other files: each is over while the others wait.
fn work(context: &mut Context, directory: &Path) {
    let made = cstring(directory.join("made"));
    let moved = cstring(directory.join("moved"));
    let file = cstring(directory.join("file"));
    let mut call = |number: c_long, args: [usize; 5]| match start(context, number, args) {
        Outcome::Done(result) => result,
        Outcome::Pending(handle) => wait_for(context, handle).result,
    };
    let name = |name: &CString| at(name.as_bytes_with_nul());
    assert_eq!(
        call(libc::SYS_mkdirat, [HERE, name(&made), 0o700, 0, 0]),
        Ok(0)
    );
    let rename = [HERE, name(&made), HERE, name(&moved), 0];
    assert_eq!(call(libc::SYS_renameat2, rename), Ok(0));
    let mut status = [0u8; size_of::<libc::statx>()];
    let mask = libc::STATX_BASIC_STATS as usize;
    let statx = [HERE, name(&moved), 0, mask, at_mut(&mut status)];
    assert_eq!(call(libc::SYS_statx, statx), Ok(0));
    let remove = [HERE, name(&moved), libc::AT_REMOVEDIR as usize, 0, 0];
    assert_eq!(call(libc::SYS_unlinkat, remove), Ok(0));
    let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC) as usize;
    let opened = own(call(libc::SYS_openat, [HERE, name(&file), flags, 0o600, 0]));
    assert_eq!(mode_of(&opened), libc::O_RDWR);
    let text = *b"contents";
    let write = [opened.arg(), at(&text), text.len(), 0, 0];
    assert_eq!(call(libc::SYS_pwrite64, write), Ok(text.len()));
    assert_eq!(call(libc::SYS_fsync, [opened.arg(), 0, 0, 0, 0]), Ok(0));
    assert_eq!(
        call(libc::SYS_unlinkat, [HERE, name(&file), 0, 0, 0]),
        Ok(0)
    );
}

/// Access mode and non-blocking mode.
fn mode_of(file: &OwnedFd) -> i32 {
    let flags = plain(libc::SYS_fcntl, [file.arg(), libc::F_GETFL as usize]);
    flags.expect("flags") as i32 & (libc::O_ACCMODE | libc::O_NONBLOCK)
}

/// Starts calls on names of a file system that does not answer, each by another way.
fn hang(context: &mut Context, names: &[CString], root: &OwnedFd) -> Vec<Handle> {
    let status = Box::leak(Box::new([0u8; size_of::<libc::statx>()]));
    let mask = libc::STATX_BASIC_STATS as usize;
    let status = at_mut(status);
    let calls = names.iter().enumerate().map(|(index, name)| {
        let path = at(name.as_bytes_with_nul());
        let directory = if name.as_bytes().starts_with(b"/") {
            HERE
        } else {
            root.arg()
        };
        match index / 3 % 5 {
            0 => pending(context, libc::SYS_statx, [directory, path, 0, mask, status]),
            1 => pending(
                context,
                libc::SYS_openat,
                [directory, path, libc::O_CLOEXEC as usize],
            ),
            2 => pending(context, libc::SYS_mkdirat, [directory, path, 0o700]),
            3 => pending(context, libc::SYS_unlinkat, [directory, path, 0]),
            _ => pending(
                context,
                libc::SYS_renameat2,
                [directory, path, directory, path, 0],
            ),
        }
    });
    calls.collect()
}

/// Names below the root of the file system: absolute, relative to its root, and through a symbolic link.
fn names_in(server: &FaultFs, link: &Path) -> Vec<CString> {
    let name = |index: usize| {
        let name = index.to_string();
        match index % 3 {
            0 => cstring(server.join(&name)),
            1 => CString::new(name).expect("no zero"),
            _ => cstring(link.join(name)),
        }
    };
    (0..many()).map(name).collect()
}

#[test]
fn a_file_system_that_hangs_stops_no_call_on_another() {
    let Some(server) = or_skip(FaultFs::mount()) else {
        return;
    };
    for_each_pending_backend(|way| {
        if !has_room(way) {
            return;
        }
        let directory = scratch();
        let link = directory.path().join("link");
        symlink(server.path(), &link).expect("a link");
        let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
        let path = cstring(server.path());
        let open = [HERE, at(path.as_bytes_with_nul()), flags];
        let root = own(plain(libc::SYS_openat, open));
        let names = names_in(&server, &link);
        let mut context = way.with(|options| options.helpers(HELPERS));
        server.set(Kind::Lookup, Fault::Hang);
        let hung = hang(&mut context, &names, &root);
        context.flush().expect("submitted");
        assert!(server.wait_hung(HELPERS as usize, scaled(LIMIT)));
        work(&mut context, directory.path());
        let has_threads_for_each = way.backend == BackendKind::Activations;
        if !has_threads_for_each {
            assert_eq!(context.stats().unanswered, names.len() as u64);
            assert!(wait_until(LIMIT, || context.stats().hung_mounts == 1));
            let helpers = context.info().helper_threads();
            assert!(helpers <= 2 * HELPERS as usize, "{helpers} helpers");
        }
        work(&mut context, directory.path());
        server.clear_all();
        server.release(Released::Served);
        collect(&mut context, hung.len());
        let stats = context.stats();
        assert_eq!((stats.unanswered, stats.hung_mounts), (0, 0));
        work(&mut context, directory.path());
    });
}

/// The kernel gives the number of a file free before the close ends, which may never be. So the number may
/// belong to another file, whose calls wait for nothing.
#[test]
fn a_close_that_hangs_stops_no_call_on_a_file_with_its_number() {
    let Some(server) = or_skip(FaultFs::mount()) else {
        return;
    };
    server.add_file("file", b"contents");
    for_each_pending_backend(|way| {
        let directory = scratch();
        let local = std::fs::File::create_new(directory.path().join("local")).expect("a file");
        let remote = std::fs::File::open(server.join("file")).expect("a remote file");
        // Of no other test.
        let number = high_descriptor(6_000);
        let onto = |file: &dyn AsFd| {
            plain(
                libc::SYS_dup3,
                [file.as_fd().as_raw_fd() as usize, number, 0],
            )
        };
        let mut context = way.context();
        onto(&remote).expect("the number of a remote file");
        server.set(Kind::Flush, Fault::Hang);
        let close = pending(&mut context, libc::SYS_close, [number]);
        context.flush().expect("submitted");
        assert!(server.wait_hung(1, scaled(LIMIT)));
        onto(&local).expect("the number of a local file");
        let written = call(&mut context, libc::SYS_write, [number, at("text"), 4]);
        assert_eq!(written, Ok(4));
        assert_eq!(plain(libc::SYS_close, [number]), Ok(0));
        server.clear_all();
        server.release(Released::Served);
        assert_eq!(wait_for(&mut context, close).result, Ok(0));
    });
}

/// With a FUSE file system mounted, io_uring opens no name on the submitting thread; and with O_CREAT never.
#[test]
fn opens_of_fifos_stop_no_call_on_another_file() {
    let server = or_skip(FaultFs::mount());
    for flags in [libc::O_WRONLY, libc::O_WRONLY | libc::O_CREAT] {
        for_each_pending_backend(|way| {
            if has_room(way) {
                fifos_wait(way, flags | libc::O_CLOEXEC);
            }
        });
    }
    drop(server);
}

fn fifos_wait(way: &Way, flags: i32) {
    let directory = scratch();
    let fifo = |number: usize| {
        let path = directory.path().join(number.to_string());
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).expect("a FIFO");
        cstring(path)
    };
    let fifos: Vec<CString> = (0..many()).map(fifo).collect();
    let mut context = way.with(|options| options.helpers(HELPERS));
    let open = |fifo: &CString| {
        let args = [HERE, at(fifo.as_bytes_with_nul()), flags as usize, 0o600];
        pending(&mut context, libc::SYS_openat, args)
    };
    let opens: Vec<Handle> = fifos.iter().map(open).collect();
    context.flush().expect("submitted");
    work(&mut context, directory.path());
    let path = fifos[0].to_str().expect("text").to_owned();
    let reader = later(move || std::fs::File::open(path).expect("a reader"));
    let writer = own(wait_for(&mut context, opens[0]).result);
    assert_eq!(mode_of(&writer), libc::O_WRONLY);
    drop(reader.join().expect("a reader"));
    for open in &opens[1..] {
        context.cancel(*open).expect("in flight");
        assert_eq!(wait_for(&mut context, *open).result, Err(Errno::CANCELED));
    }
}
