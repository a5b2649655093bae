//! What a thread that opens a file does with it before it reports the result: it reads the status, and brings
//! the beginning of a regular file into memory. So a program that opens a file, reads its status and sends it
//! waits for the background once.

use crate::sys::abi::STATUS_MASK;
use crate::sys::interrupt::Interruptible;
use crate::{Call, Errno};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// What a thread has learned of a file that it has opened. It belongs to the operation.
#[derive(Debug)]
pub(crate) struct AfterOpen {
    /// How many bytes at the beginning of a file to bring into memory.
    wanted: usize,
    /// How many of them are there.
    pub(crate) loaded: usize,
    pub(crate) status: Option<libc::statx>,
}

/// The address of an [`AfterOpen`], for the thread that opens the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AfterOpenAddress(NonNull<AfterOpen>);

// SAFETY: what it points to is plain data, which the thread has to itself: see `run`.
unsafe impl Send for AfterOpenAddress {}

impl AfterOpen {
    pub(crate) fn new(wanted: usize) -> AfterOpen {
        AfterOpen {
            wanted,
            loaded: 0,
            status: None,
        }
    }

    /// How many bytes at the beginning of a file to bring into memory.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    pub(crate) fn address(&mut self) -> AfterOpenAddress {
        AfterOpenAddress(NonNull::from(self))
    }

    fn examine(&mut self, fd: RawFd, interruptible: &Interruptible) {
        self.status = status(fd, interruptible).ok();
    }

    /// Asks the kernel to begin reading.
    fn begin_load(&self, fd: RawFd, interruptible: &Interruptible) {
        let length = self.loadable();
        if length > 0 {
            let advice = libc::POSIX_FADV_WILLNEED as usize;
            let call = Call::new(libc::SYS_fadvise64, [fd as usize, 0, length, advice]);
            // SAFETY: the call has no pointers. Without its effect, `load` reads and waits.
            let _ = unsafe { interruptible.syscall(&call) };
        }
    }

    fn load(&mut self, fd: RawFd, interruptible: &Interruptible) {
        if let Some(null) = null() {
            self.loaded = load(fd, null, self.loadable(), interruptible);
        }
    }

    /// How many of the wanted bytes the file has: 0 if it is not a regular file.
    fn loadable(&self) -> usize {
        match &self.status {
            Some(status) if u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFREG => {
                self.wanted.min(status.stx_size as usize)
            }
            _ => 0,
        }
    }
}

impl AfterOpenAddress {
    /// Examines a file that was just opened, and loads it. A cancellation ends it; what it has learned so far
    /// stays.
    ///
    /// # Safety
    /// The operation lives, and nothing else uses its [`AfterOpen`] until the result was reported.
    pub(super) unsafe fn run(mut self, fd: RawFd, interruptible: &Interruptible) {
        // SAFETY: by the caller.
        let after_open = unsafe { self.0.as_mut() };
        after_open.examine(fd, interruptible);
        after_open.load(fd, interruptible);
    }

    /// The first part of [`AfterOpenAddress::run`]. It does not wait for the data: [`AfterOpenAddress::end`]
    /// does.
    ///
    /// # Safety
    /// As `run`.
    pub(super) unsafe fn begin(mut self, fd: RawFd, interruptible: &Interruptible) {
        // SAFETY: by the caller.
        let after_open = unsafe { self.0.as_mut() };
        after_open.examine(fd, interruptible);
        after_open.begin_load(fd, interruptible);
    }

    /// # Safety
    /// As `run`.
    pub(super) unsafe fn end(mut self, fd: RawFd, interruptible: &Interruptible) {
        // SAFETY: by the caller.
        unsafe { self.0.as_mut() }.load(fd, interruptible);
    }
}

fn status(fd: RawFd, interruptible: &Interruptible) -> Result<libc::statx, Errno> {
    // SAFETY: plain data, for which all zeros is a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    let args = [
        fd as usize,
        c"".as_ptr() as usize,
        libc::AT_EMPTY_PATH as usize,
        STATUS_MASK as usize,
        (&raw mut status) as usize,
    ];
    // SAFETY: the name and the struct live through the call.
    unsafe { interruptible.syscall(&Call::new(libc::SYS_statx, args)) }?;
    if status.stx_mask & libc::STATX_TYPE == 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(status)
}

/// Returns how many bytes at the beginning of a file are in memory now. `sendfile` waits until a page is
/// there, and `/dev/null` takes the page without a copy.
fn load(fd: RawFd, null: RawFd, wanted: usize, interruptible: &Interruptible) -> usize {
    let mut offset: i64 = 0;
    while (offset as usize) < wanted {
        let left = wanted - offset as usize;
        let args = [null as usize, fd as usize, (&raw mut offset) as usize, left];
        // SAFETY: the offset lives through the call.
        let sent = unsafe { interruptible.syscall(&Call::new(libc::SYS_sendfile, args)) };
        if !matches!(sent, Ok(count) if count > 0) {
            break;
        }
    }
    offset as usize
}

/// `/dev/null`, if the process may open it.
fn null() -> Option<RawFd> {
    static NULL: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let open = || {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty()).ok()
    };
    NULL.get_or_init(open).as_ref().map(AsRawFd::as_raw_fd)
}
