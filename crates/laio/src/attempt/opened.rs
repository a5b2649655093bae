//! What an attempt has opened in non-blocking mode: a file, which goes back into the caller's mode, or
//! a FIFO or device, which the background opens again.

use super::{Attempted, Blocked, Why};
use crate::background::after_open::AfterOpen;
use crate::knowledge::Knowledge;
use crate::knowledge::mounts::{FileKind, MountIndex, peek};
use crate::sys;
use crate::sys::abi::STATUS_MASK;
use crate::sys::high_fd::HighFd;
use crate::transfer::Provisional;
use std::cell::Cell;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What an attempt to open a file, or a thread that has opened it, has learned of the file, for an operation
/// that wants its status.
#[derive(Default)]
pub struct Examined {
    found: Cell<Option<Found>>,
    /// Filled in if something was found.
    status: Cell<Status>,
    loaded: Cell<usize>,
}

#[derive(Clone, Copy)]
struct Status(libc::statx);

/// What follows from the status.
#[derive(Clone, Copy)]
struct Found {
    kind: FileKind,
    mount: Option<MountIndex>,
    /// It is a file or directory, whose open waits for no peer or device.
    is_file: bool,
    /// It is a file or directory of a file system on which O_NONBLOCK has no effect.
    is_stored: bool,
    /// It is in non-blocking mode, for which the caller has not asked.
    has_surplus_mode: bool,
}

impl Default for Status {
    fn default() -> Status {
        // SAFETY: plain data, for which all zeros is a valid value.
        Status(unsafe { std::mem::zeroed() })
    }
}

impl Examined {
    /// The status, if it could be read.
    pub(crate) fn status(&self) -> Option<libc::statx> {
        self.found.get().map(|_| self.status.get().0)
    }

    /// How many bytes at the beginning of the file are in memory, as far as is known.
    pub(crate) fn loaded(&self) -> usize {
        self.loaded.get()
    }

    /// Whether it is a file or directory of a file system on which O_NONBLOCK has no effect.
    pub(crate) fn is_stored(&self) -> bool {
        self.found.get().is_some_and(|found| found.is_stored)
    }

    /// Whether it is in non-blocking mode, for which the caller has not asked.
    pub(crate) fn has_surplus_mode(&self) -> bool {
        self.found.get().is_some_and(|found| found.has_surplus_mode)
    }
}

impl std::fmt::Debug for Examined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Examined")
            .field("is_stored", &self.is_stored())
            .field("has_surplus_mode", &self.has_surplus_mode())
            .finish_non_exhaustive()
    }
}

impl Knowledge {
    /// Ends an attempt that has opened a descriptor in non-blocking mode. A file or directory goes
    /// back into the caller's mode, unless the caller wants its status and the mode has no effect.
    /// Anything else is opened by a helper, where the open may wait, and with the descriptor number
    /// that it would have without this attempt.
    pub(super) fn settle(&mut self, fd: RawFd, flags: i32, wanted: Option<&Examined>) -> Attempted {
        self.examine(fd, wanted);
        let found = wanted.and_then(|examined| examined.found.get());
        if let (Some(examined), Some(mut found)) = (wanted, found)
            && found.is_stored
        {
            found.has_surplus_mode = true;
            examined.found.set(Some(found));
            return Attempted::Done(Ok(fd as usize));
        }
        let is_file = found.map_or_else(|| is_file(fd), |found| found.is_file);
        if (is_file || has_peer(fd, flags)) && set_mode(fd, flags) {
            return Attempted::Done(Ok(fd as usize));
        }
        Attempted::Blocked(Blocked {
            provisional: Some(provisional(fd)),
            ..Blocked::because(Why::WouldBlock)
        })
    }

    /// Reads the status of a file that was just opened and is not remote, if the caller wants it.
    pub(super) fn examine(&mut self, fd: RawFd, wanted: Option<&Examined>) {
        let Some(examined) = wanted else { return };
        let args = [
            fd as usize,
            c"".as_ptr() as usize,
            libc::AT_EMPTY_PATH as usize,
            STATUS_MASK as usize,
            examined.status.as_ptr() as usize,
        ];
        // SAFETY: the name and the struct live through the call.
        let read = unsafe { sys::raw(libc::SYS_statx, args) };
        if read.is_ok() {
            self.note_status(examined);
        }
    }

    /// Takes what a thread of the background has found out about a file that it has opened.
    pub(crate) fn learn_opened(&mut self, fd: RawFd, after_open: &AfterOpen) -> Examined {
        let examined = Examined::default();
        if let Some(status) = after_open.status {
            examined.status.set(Status(status));
            examined.loaded.set(after_open.loaded);
            self.note_status(&examined);
            if let Some(found) = examined.found.get() {
                self.hints.learn(fd, found.kind, found.mount);
            }
        }
        examined
    }

    /// Finds out what follows from a status.
    fn note_status(&mut self, examined: &Examined) {
        let Status(status) = examined.status.get();
        if status.stx_mask & libc::STATX_TYPE == 0 {
            // A filter may forbid `statx`.
            return;
        }
        let device = libc::makedev(status.stx_dev_major, status.stx_dev_minor);
        let mount = self.mounts.find_device(device, status.stx_mnt_id);
        let stores = mount.is_some_and(|mount| self.mounts.get(mount).ignores_nonblocking());
        let kind = u32::from(status.stx_mode) & libc::S_IFMT;
        let is_file = matches!(kind, libc::S_IFREG | libc::S_IFDIR);
        examined.found.set(Some(Found {
            kind: FileKind::of_mode(status.stx_mode),
            mount,
            is_file,
            is_stored: stores && is_file,
            has_surplus_mode: false,
        }));
    }

    /// Remembers what is known of a descriptor that was just opened. Its number may have belonged
    /// to one that was closed behind the context's back.
    pub(super) fn note_opened(&mut self, fd: RawFd, flags: i32, examined: Option<&Examined>) {
        self.hints.forget(fd);
        if let Some(found) = examined.and_then(|examined| examined.found.get()) {
            self.hints.learn(fd, found.kind, found.mount);
        }
        if flags & (libc::O_DIRECT | libc::O_PATH) == 0 {
            self.hints.set_not_direct_io(fd, true);
        }
    }
}

/// Sets the mode that the caller's flags ask for. Returns whether that succeeded.
pub(crate) fn set_mode(fd: RawFd, flags: i32) -> bool {
    let flags = (flags & STATUS_FLAGS & !libc::O_NONBLOCK) as usize;
    let args = [fd as usize, libc::F_SETFL as usize, flags];
    // SAFETY: F_SETFL takes no pointers.
    unsafe { sys::raw(libc::SYS_fcntl, args) }.is_ok()
}

/// Flags that F_SETFL sets; all others it leaves alone.
const STATUS_FLAGS: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;

/// Wraps a FIFO or device that an attempt has opened. The program does not know of it, so no child
/// may inherit it.
pub(crate) fn provisional(fd: RawFd) -> Provisional {
    // SAFETY: the descriptor was opened just now and has no other owner.
    let opened = unsafe { OwnedFd::from_raw_fd(fd) };
    if !is_fifo(fd) {
        return Provisional::Device;
    }
    let _ = rustix::io::fcntl_setfd(&opened, rustix::io::FdFlags::CLOEXEC);
    Provisional::Fifo(HighFd::from(opened))
}

fn is_fifo(fd: RawFd) -> bool {
    peek(fd).is_ok_and(|status| u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFIFO)
}

/// Whether the descriptor is a file, directory or link, rather than a FIFO or device.
pub(crate) fn is_file(fd: RawFd) -> bool {
    let mut size = 0u64;
    // FIOQSIZE works for these only; it is the cheapest such check.
    let args = [fd as usize, FIOQSIZE, (&raw mut size) as usize];
    // SAFETY: the kernel writes eight bytes to `size`.
    unsafe { sys::raw(libc::SYS_ioctl, args) }.is_ok()
}

/// Whether the descriptor is a FIFO, opened in non-blocking mode, that has a peer, so that the
/// plain call would not have waited. The descriptor then serves as the call's result. Opening the
/// FIFO again instead could wait for ever: the peer's open succeeded because of this descriptor,
/// and the peer may be gone by then.
pub(crate) fn has_peer(fd: RawFd, flags: i32) -> bool {
    if !is_fifo(fd) {
        return false;
    }
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        // Without a reader the open would have failed.
        return true;
    }
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(borrowed) = sys::borrow(fd) else {
        return false;
    };
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut events = [PollFd::new(&borrowed, PollFlags::IN)];
    if poll(&mut events, Some(&now)).is_ok_and(|ready| ready > 0) {
        // There is data, or a writer has opened and closed it.
        return true;
    }
    // For an empty FIFO, tee() fails if there is a writer and returns 0 if there is none.
    let Ok((_reader, writer)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else {
        return false;
    };
    let args = [
        fd as usize,
        writer.as_raw_fd() as usize,
        1,
        libc::SPLICE_F_NONBLOCK as usize,
    ];
    // SAFETY: tee takes no pointers.
    let copied = unsafe { sys::raw(libc::SYS_tee, args) };
    copied != Ok(0)
}

/// `_IOR('f', 128, size_t)`-like by history: the number in `<asm-generic/ioctls.h>`, which x86-64 and
/// aarch64 share.
const FIOQSIZE: usize = 0x5460;
