//! Unmounts when the test process dies.
//!
//! The process that uses the file system also serves it. If it is killed while one of its threads waits for a
//! reply, the thread waits forever: the server is dead, and the waiting thread holds the device open, whose
//! closing would end the wait. So a second process watches the first. A thread that lives as long as the
//! mount creates it, and the second process requests a signal for the death of that thread.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use crate::Skip;

/// The signal to the watchdog process when the thread that created it dies.
const SIGNAL: libc::c_int = libc::SIGUSR1;

/// The watchdog process, and the thread that created it.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    /// Starts watching a mount.
    pub(super) fn start(mountpoint: &Path) -> Result<Watchdog, Skip> {
        let failed = || Skip::because("fuse", "no process can be made to watch over a FUSE mount");
        let duty = Duty::new(mountpoint).ok_or_else(failed)?;
        if !duty.can_be_done() {
            return Err(Skip::because(
                "fuse",
                "a hanging FUSE mount could not be ended if the test died: be root, or mount fusectl \
                 on /sys/fs/fuse/connections",
            ));
        }
        let (stop, stopped) = channel();
        let (made, pid) = channel();
        let thread = thread::Builder::new()
            .name("faultfs-watchdog".into())
            .spawn(move || {
                let pid = make(&duty);
                let _ = made.send(pid.is_some());
                if let Some(pid) = pid {
                    // Ends with an error when the other side is dropped.
                    let _ = stopped.recv();
                    end(pid);
                }
            })
            .map_err(|_| failed())?;
        match pid.recv() {
            Ok(true) => Ok(Watchdog { stop, thread }),
            _ => Err(failed()),
        }
    }

    /// Ends the watchdog.
    pub(super) fn stop(self) {
        drop(self.stop);
        // A thread that panicked has also ended.
        let _ = self.thread.join();
    }
}

/// The data of the watchdog process, prepared before the fork, because the process must not allocate.
#[derive(Debug)]
struct Duty {
    mountpoint: CString,
    /// The file that aborts all requests of the mount.
    abort: CString,
    parent: libc::pid_t,
}

impl Duty {
    fn new(mountpoint: &Path) -> Option<Duty> {
        // The number of a connection is the device number of its files. This call returns it without a
        // request, which the test might count.
        let flags = rustix::fs::AtFlags::STATX_DONT_SYNC;
        let nothing = rustix::fs::StatxFlags::empty();
        let found = rustix::fs::statx(rustix::fs::CWD, mountpoint, flags, nothing).ok()?;
        let abort = format!("/sys/fs/fuse/connections/{}/abort", found.stx_dev_minor);
        Some(Duty {
            mountpoint: CString::new(mountpoint.as_os_str().as_bytes()).ok()?,
            abort: CString::new(abort).ok()?,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
        })
    }

    /// Whether requests can be aborted from outside: by a user who may unmount, or through the file.
    fn can_be_done(&self) -> bool {
        let may_unmount = rustix::thread::capabilities(None).is_ok_and(|sets| {
            sets.effective
                .contains(rustix::thread::CapabilitySet::SYS_ADMIN)
        });
        may_unmount
            || rustix::fs::access(self.abort.as_c_str(), rustix::fs::Access::WRITE_OK).is_ok()
    }
}

/// Unmounts at once, even with open files, and ends all requests. Does nothing without the permission.
pub(super) fn unmount_by_force(mountpoint: &Path) {
    if let Ok(path) = CString::new(mountpoint.as_os_str().as_bytes()) {
        // SAFETY: the path is a string that lives during the call.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH) };
    }
}

/// Runs code with all signals blocked, also in the threads that it starts: a signal to the process must not
/// be delivered to the threads that serve the file system.
pub(super) fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    let mask = |how, new: &libc::sigset_t| {
        let mut old = MaybeUninit::uninit();
        // SAFETY: both sets live during the call, which fills the old one.
        unsafe {
            assert_eq!(libc::pthread_sigmask(how, new, old.as_mut_ptr()), 0);
            old.assume_init()
        }
    };
    let mut all = MaybeUninit::uninit();
    // SAFETY: the set is filled before it is used.
    let all = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        all.assume_init()
    };
    let before = mask(libc::SIG_SETMASK, &all);
    let value = body();
    mask(libc::SIG_SETMASK, &before);
    value
}

/// Creates the watchdog process. The calling thread must live as long as the mount, and handles no signals
/// from here on.
fn make(duty: &Duty) -> Option<libc::pid_t> {
    // SAFETY: the signal set is initialized by sigfillset before it is used. SYS_clone with no flags
    // and no stack is fork, except that the end of the child sends no signal and waiting for "any
    // child" does not see it. The child is alone in a copy of the memory where other threads may have
    // held locks; `watch` makes system calls only and never returns.
    unsafe {
        // The child inherits the mask: only SIGKILL ends it, not Ctrl-C.
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        match libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) {
            0 => watch(duty),
            pid if pid > 0 => Some(pid as libc::pid_t),
            _ => None,
        }
    }
}

/// Ends the watchdog process.
fn end(pid: libc::pid_t) {
    // SAFETY: the process is our child, for which only we wait, so the number is still its own;
    // no status is asked for.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        // Only this flag finds a child without an exit signal.
        while libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) < 0
            && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
        {}
    }
}

/// The code of the watchdog process: waits for the death of the thread that created it, then unmounts.
///
/// # Safety
///
/// Only in a forked process with all signals blocked. It makes system calls only.
unsafe fn watch(duty: &Duty) -> ! {
    // SAFETY: all arguments are numbers, or strings and sets that live in this process. Nothing here
    // allocates or takes a lock.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, SIGNAL, 0, 0, 0);
        // Close inherited descriptors, whose other ends may wait for that: pipes, the device itself.
        if libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) != 0 {
            for fd in 0..4096 {
                libc::close(fd);
            }
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, SIGNAL);
        // If the thread died before the signal was requested, the signal never comes.
        while libc::getppid() == duty.parent {
            if libc::sigwaitinfo(&set, std::ptr::null_mut()) == SIGNAL {
                break;
            }
        }
        // With the permission to unmount.
        libc::umount2(duty.mountpoint.as_ptr(), libc::MNT_FORCE | libc::MNT_DETACH);
        // Without the permission: first abort all requests, then run the helper to unmount.
        let abort = libc::open(duty.abort.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if abort >= 0 {
            libc::write(abort, b"1".as_ptr().cast(), 1);
            fusermount(&duty.mountpoint);
        }
        libc::rmdir(duty.mountpoint.as_ptr());
        libc::_exit(0)
    }
}

/// Unmounts through FUSE's helper program, and waits for it.
///
/// # Safety
///
/// As [`watch`].
unsafe fn fusermount(mountpoint: &CStr) {
    const PROGRAMS: [&CStr; 3] = [
        c"/usr/bin/fusermount3",
        c"/bin/fusermount3",
        c"/usr/local/bin/fusermount3",
    ];
    // SAFETY: the strings and the two arrays of pointers to them live in this process, and the
    // arrays end with a null pointer. The child is a copy as in `make`, and ends here.
    unsafe {
        match libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) {
            0 => {
                let arguments = [
                    PROGRAMS[0].as_ptr(),
                    c"-u".as_ptr(),
                    c"-q".as_ptr(),
                    c"-z".as_ptr(),
                    c"--".as_ptr(),
                    mountpoint.as_ptr(),
                    std::ptr::null(),
                ];
                let environment = [std::ptr::null()];
                for program in PROGRAMS {
                    libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
                }
                libc::_exit(1)
            }
            pid => {
                libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), libc::__WALL);
            }
        }
    }
}
