//! Setting up a ring: its flags, what the kernel must have, and which opcodes it has.

use crate::sys::high_fd::HighFd;
use crate::{Errno, Limits};
use io_uring::{EnterFlags, IoUring, Probe};
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};

/// The smallest submission queue.
const RING_ENTRIES_MIN: u32 = 8;

/// Sets up a ring for the calling thread. Any error means that io_uring is not available:
/// `ENOSYS`, `EPERM` and `EACCES` where it is absent or forbidden, `ENOMEM` and `EMFILE` at limits,
/// `EOPNOTSUPP` where it lacks a required feature (Linux before 5.11).
pub(super) fn set_up(entries: u32) -> Result<(IoUring, Opcodes), Errno> {
    prepare(create(bounded(entries))?)
}

/// Sets up a ring to which any thread may submit, one at a time; errors as of [`set_up`].
pub(crate) fn set_up_for_threads(entries: u32) -> Result<IoUring, Errno> {
    let (ring, _) = prepare(create_cooperative(bounded(entries))?)?;
    Ok(ring)
}

fn bounded(entries: u32) -> u32 {
    entries.clamp(RING_ENTRIES_MIN, Limits::RING_ENTRIES_MAX)
}

/// Checks that a ring has what is needed.
fn prepare(ring: IoUring) -> Result<(IoUring, Opcodes), Errno> {
    let ring = move_high(ring)?;
    let parameters = ring.params();
    if !(parameters.is_feature_nodrop()
        && parameters.is_feature_ext_arg()
        && parameters.is_feature_rw_cur_pos()
        && parameters.is_feature_submit_stable())
    {
        return Err(Errno::OPNOTSUPP);
    }
    let opcodes = probe_opcodes(&ring)?;
    // A filter may allow io_uring_setup and forbid io_uring_enter.
    // SAFETY: nothing is submitted, and there are no arguments.
    unsafe {
        ring.submitter()
            .enter::<libc::sigset_t>(0, 0, EnterFlags::GETEVENTS.bits(), None)?
    };
    Ok((ring, opcodes))
}

/// With DEFER_TASKRUN (Linux 6.1), completions run only in io_uring_enter; with COOP_TASKRUN
/// (5.19) at any system call, without an inter-processor interrupt. Older kernels interrupt the
/// thread.
fn create(entries: u32) -> Result<IoUring, Errno> {
    let deferred = IoUring::builder()
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build(entries);
    let error = match deferred {
        Ok(ring) => return Ok(ring),
        Err(error) => Errno::from(error),
    };
    if error != Errno::INVAL {
        return Err(error);
    }
    create_cooperative(entries)
}

fn create_cooperative(entries: u32) -> Result<IoUring, Errno> {
    let mut cooperative = IoUring::builder();
    cooperative
        .setup_submit_all()
        .setup_coop_taskrun()
        .setup_taskrun_flag();
    match cooperative.build(entries).map_err(Errno::from) {
        Err(Errno::INVAL) => Ok(IoUring::builder().build(entries)?),
        result => result,
    }
}

/// Moves the ring's descriptor to a high number.
fn move_high(ring: IoUring) -> Result<IoUring, Errno> {
    // SAFETY: it is open as long as the ring is there.
    let descriptor = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    let Some(high) = HighFd::copy(&descriptor) else {
        return Ok(ring);
    };
    let parameters = ring.params().clone();
    // SAFETY: a descriptor of this ring, given away here, and what the kernel has said of it.
    Ok(unsafe { IoUring::from_fd(high.into_raw_fd(), parameters)? })
}

fn probe_opcodes(ring: &IoUring) -> Result<Opcodes, Errno> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let mut opcodes = Box::new([false; 256]);
    for code in 0..=u8::MAX {
        opcodes[code as usize] = probe.is_supported(code);
    }
    Ok(Opcodes(opcodes))
}

/// Which operations the kernel's io_uring has.
#[derive(Clone)]
pub(super) struct Opcodes(Box<[bool; 256]>);

impl std::fmt::Debug for Opcodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Opcodes({} supported)",
            self.0.iter().filter(|there| **there).count()
        )
    }
}

impl Opcodes {
    pub(super) fn has(&self, code: u8) -> bool {
        self.0[code as usize]
    }
}

std::thread_local! {
    /// The number of rings of the calling thread.
    static RINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The number of rings of the calling thread.
pub(super) fn rings_of_thread() -> usize {
    RINGS.get()
}

/// Whether the calling thread has rings. With `IORING_SETUP_SINGLE_ISSUER` no other thread can
/// submit to them.
pub(crate) fn thread_has_rings() -> bool {
    RINGS.get() > 0
}

/// Counts a ring while it lives.
#[derive(Debug)]
pub(super) struct Counted;

impl Counted {
    pub(super) fn new() -> Counted {
        let _ = RINGS.try_with(|rings| rings.set(rings.get() + 1));
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = RINGS.try_with(|rings| rings.set(rings.get() - 1));
    }
}
