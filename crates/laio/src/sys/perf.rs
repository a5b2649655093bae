//! Perf events of the process's own threads (`PERF_RECORD_SWITCH`), which report to another thread
//! at once that a thread has blocked.

use crate::sys::high_fd::HighFd;
use crate::{Errno, sys};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;

/// `struct perf_event_attr` in its first published version: the kernel assumes zeros for the rest.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config1: u64,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const WATERMARK: u64 = 1 << 14;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: usize = 1 << 3;

/// Offset of `data_head` in `struct perf_event_mmap_page`: how many bytes the kernel has written. `data_tail`,
/// how many have been read, follows.
const DATA_HEAD: usize = 1024;

/// The context-switch records of one thread: an event that unprivileged processes may open at the
/// usual setting, and the ring of its records. It becomes readable with each record.
#[derive(Debug)]
pub(crate) struct Switches {
    descriptor: HighFd,
    address: *mut c_void,
}

impl Switches {
    /// Opens those of a thread of this process; 0 is the calling one.
    pub(crate) fn for_thread(thread: u32) -> Result<Switches, Errno> {
        let descriptor = HighFd::from(open(thread)?);
        // Mapped writable, so that the kernel honours `data_tail`.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let no_place = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address =
            unsafe { mmap(no_place, length(), access, MapFlags::SHARED, &descriptor, 0)? };
        Ok(Switches {
            descriptor,
            address,
        })
    }

    /// In a forked child, which does not inherit the mapping: the address may be in use otherwise.
    pub(crate) fn forget_in_child(mut self) {
        self.address = std::ptr::null_mut();
    }

    /// `data_head` and `data_tail`.
    pub(crate) fn words(&self) -> &[AtomicU64; 2] {
        // SAFETY: within the mapping, aligned, and shared with the kernel as atomics are with a thread.
        unsafe { &*self.address.byte_add(DATA_HEAD).cast() }
    }
}

impl AsFd for Switches {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        if !self.address.is_null() {
            // SAFETY: mapped by `of`, and not used again. It cannot fail for a whole mapping.
            let _ = unsafe { munmap(self.address, length()) };
        }
    }
}

/// The control page, and one page of records.
fn length() -> usize {
    2 * rustix::param::page_size()
}

fn open(thread: u32) -> Result<OwnedFd, Errno> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: DUMMY,
        flags: EXCLUDE_KERNEL | WATERMARK | CONTEXT_SWITCH,
        wakeup_watermark: 1,
        ..Attributes::default()
    };
    let (any_cpu, no_group) = (usize::MAX, usize::MAX);
    let args = [
        (&raw const attributes) as usize,
        thread as usize,
        any_cpu,
        no_group,
        CLOSE_ON_EXEC,
    ];
    // SAFETY: the attributes live through the call and have the size that they say.
    let fd = unsafe { sys::raw(libc::SYS_perf_event_open, args)? };
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
