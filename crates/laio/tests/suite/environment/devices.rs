//! Devices, many of which can be opened only once, and notice each open and close.

use crate::harness::{
    Arg, LIMIT, Mode, Way, all_ways, at_mut, call, cstring, for_each_backend, own, plain,
};
use laio::{Context, Errno};
use laio_testing::temp::scratch;
use laio_testing::{Skip, child, or_skip, test_name};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{OwnedFd, RawFd};

fn open(context: &mut Context, name: &CString, flags: i32) -> Result<OwnedFd, Errno> {
    let here = libc::AT_FDCWD as usize;
    let flags = (flags | libc::O_CLOEXEC) as usize;
    let fd = call(context, libc::SYS_openat, [here, name.arg(), flags])?;
    context.forget(fd as RawFd);
    Ok(own(Ok(fd)))
}

/// A block device that consists of a file.
struct Loop {
    _file: File,
    device: File,
    name: CString,
}

const LOOP_SET_FD: usize = 0x4c00;
const LOOP_CLR_FD: usize = 0x4c01;
const LOOP_CTL_GET_FREE: usize = 0x4c82;

impl Loop {
    fn new() -> Result<Loop, Skip> {
        let because = |what: &str| Skip::because("loop-devices", format!("no loop device: {what}"));
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let both = || {
            let mut options = File::options();
            options.read(true).write(true);
            options
        };
        // Another process may take the free device first.
        for _ in 0..20 {
            let control = both()
                .open("/dev/loop-control")
                .map_err(|error| because(&error.to_string()))?;
            let number = plain(libc::SYS_ioctl, [control.arg(), LOOP_CTL_GET_FREE, 0])
                .map_err(|error| because(&error.to_string()))?;
            let path = format!("/dev/loop{number}");
            let device = both()
                .open(&path)
                .map_err(|error| because(&error.to_string()))?;
            match plain(libc::SYS_ioctl, [device.arg(), LOOP_SET_FD, file.arg()]) {
                Ok(_) => {
                    return Ok(Loop {
                        _file: file,
                        device,
                        name: cstring(path),
                    });
                }
                Err(Errno::BUSY) => {}
                Err(error) => return Err(because(&error.to_string())),
            }
        }
        Err(because("other processes took each free device first"))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = plain(libc::SYS_ioctl, [self.device.arg(), LOOP_CLR_FD, 0]);
    }
}

/// `mkfs` and `mount` open a device exclusively; no descriptor of the engine may prevent it.
#[test]
fn a_block_device_can_be_opened_exclusively() {
    // In a process of its own: a child of another test may have a copy of the descriptor for a moment.
    child::check(LIMIT, test_name!(), "", open_exclusively);
}

fn open_exclusively() {
    let Some(disk) = or_skip(Loop::new()) else {
        return;
    };
    let directory = scratch();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(disk.name.to_str().unwrap(), &link).unwrap();
    let link = cstring(link);
    for_each_backend(|way| {
        let mut context = way.context();
        for name in [&disk.name, &link] {
            for flags in [
                libc::O_RDWR,
                libc::O_RDONLY,
                libc::O_RDWR | libc::O_NONBLOCK,
            ] {
                let alone = open(&mut context, name, flags | libc::O_EXCL).expect("alone");
                let second = open(&mut context, name, flags | libc::O_EXCL);
                assert_eq!(second.map(drop), Err(Errno::BUSY));
                let shared = open(&mut context, name, flags).expect("not exclusive");
                let mut buffer = [1u8; 4];
                let args = [shared.arg(), at_mut(&mut buffer), 4, 0];
                assert_eq!(call(&mut context, libc::SYS_pread64, args), Ok(4));
                assert_eq!(buffer, [0; 4]);
                drop((alone, shared));
            }
        }
    });
}

/// A device is opened once, as inotify counts.
#[test]
fn a_device_is_opened_once() {
    let ways: Vec<Way> = all_ways();
    for way in ways.into_iter().filter(|way| way.mode == Mode::Natural) {
        child::check(LIMIT, test_name!(), &way.to_string(), || {
            let Some((_master, name)) = or_skip(terminal()) else {
                return;
            };
            let mut context = way.context();
            // The name is in the dentry cache from now on.
            std::fs::metadata(name.to_str().unwrap()).unwrap();
            for flags in [
                libc::O_RDWR,
                libc::O_RDONLY,
                libc::O_RDWR | libc::O_NONBLOCK,
            ] {
                let events = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK);
                let events = events.unwrap();
                // Two equal events merge, but a device that is opened twice is also closed once.
                let opens =
                    rustix::fs::inotify::WatchFlags::OPEN | rustix::fs::inotify::WatchFlags::CLOSE;
                rustix::fs::inotify::add_watch(&events, &name, opens).unwrap();
                let terminal = open(&mut context, &name, flags | libc::O_NOCTTY).unwrap();
                let mut buffer = [0u8; 1024];
                let length = rustix::io::read(&events, &mut buffer).unwrap();
                assert_eq!(length / size_of::<libc::inotify_event>(), 1, "opened once");
                drop(terminal);
            }
        });
    }
}

/// A terminal's master, and the name of its slave, which is not open.
fn terminal() -> Result<(OwnedFd, CString), Skip> {
    let mut name = [0 as libc::c_char; 64];
    // SAFETY: the buffer has the given length.
    let (fd, failed) = unsafe {
        let fd = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
        let failed = fd == -1
            || libc::grantpt(fd) != 0
            || libc::unlockpt(fd) != 0
            || libc::ptsname_r(fd, name.as_mut_ptr(), name.len()) != 0;
        (fd, failed)
    };
    if failed {
        let error = std::io::Error::last_os_error();
        return Err(Skip::because("terminals", format!("no terminal: {error}")));
    }
    // SAFETY: a string; the descriptor is ours.
    let name = unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) }.to_owned();
    Ok((own(Ok(fd as usize)), name))
}
