//! The kernel's records of the calling thread's context switches.

use crate::{Call, Errno};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// `struct perf_event_attr` in its first version, of 64 bytes: a software event (type 1) that counts
/// nothing (`PERF_COUNT_SW_DUMMY`), with the flags `exclude_kernel`, `watermark` and `context_switch`,
/// and a wakeup for each byte.
static ATTRIBUTES: [u64; 8] = [1 | 64 << 32, 9, 0, 0, 0, 1 << 5 | 1 << 14 | 1 << 26, 1, 0];
const FLAG_FD_CLOEXEC: usize = 1 << 3;
/// The offset in the mapping of the number of bytes that the kernel has written.
const DATA_HEAD: usize = 1024;

/// A perf event that records when the calling thread is switched, opened as the back end
/// `activations` opens it.
#[derive(Debug)]
pub struct Sleeps {
    _event: OwnedFd,
    address: *mut c_void,
}

impl Sleeps {
    /// Opens and maps the event.
    ///
    /// # Errors
    /// Those of `perf_event_open` and `mmap`.
    pub fn of_thread() -> Result<Sleeps, Errno> {
        let (this_thread, any_processor, no_group) = (0, usize::MAX, usize::MAX);
        let address = ATTRIBUTES.as_ptr() as usize;
        let args = [
            address,
            this_thread,
            any_processor,
            no_group,
            FLAG_FD_CLOEXEC,
        ];
        // SAFETY: the attributes are static, and of the size that they contain.
        let event = unsafe { Call::new(libc::SYS_perf_event_open, args).plain()? };
        // SAFETY: the kernel has just made the descriptor, for this function.
        let event = unsafe { OwnedFd::from_raw_fd(event as RawFd) };
        let (access, kernel_chooses) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                kernel_chooses,
                length(),
                access,
                MapFlags::SHARED,
                &event,
                0,
            )?
        };
        Ok(Sleeps {
            _event: event,
            address,
        })
    }

    /// Whether a switch was recorded.
    pub fn any_recorded(&self) -> bool {
        // SAFETY: within the mapping, and aligned; the kernel writes it as another thread would.
        let written = unsafe { &*self.address.byte_add(DATA_HEAD).cast::<AtomicU64>() };
        written.load(Relaxed) > 0
    }
}

/// The control page, and one page of records.
fn length() -> usize {
    2 * rustix::param::page_size()
}

impl Drop for Sleeps {
    fn drop(&mut self) {
        // SAFETY: mapped by `of_thread`, and not used again. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.address, length()) };
    }
}
