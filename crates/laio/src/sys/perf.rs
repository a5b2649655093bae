//! perf events of one thread, and the ring into which the kernel writes their records.

use crate::sys::high_fd::HighFd;
use crate::{Errno, sys};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;
#[cfg(feature = "switches")]
use std::sync::atomic::Ordering;

/// An open event and its ring. It becomes readable when as many bytes of records wait as
/// [`Attributes::wakeup_watermark`] says.
#[derive(Debug)]
pub(crate) struct Ring {
    descriptor: HighFd,
    address: *mut c_void,
    /// The pages of records, which follow a page of control.
    pages: usize,
}

impl Ring {
    /// Opens an event of a thread; 0 is the calling one. An unprivileged user may lock 516 KiB of rings for
    /// each processor.
    pub(crate) fn open(thread: u32, attributes: &Attributes, pages: usize) -> Result<Ring, Errno> {
        let descriptor = HighFd::from(open(thread, attributes)?);
        // Mapped writable, so that the kernel honours `data_tail`.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (no_place, length) = (std::ptr::null_mut(), length(pages));
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe { mmap(no_place, length, access, MapFlags::SHARED, &descriptor, 0)? };
        Ok(Ring {
            descriptor,
            address,
            pages,
        })
    }

    /// In a forked child, which does not inherit the mapping: the address may be in use otherwise.
    pub(crate) fn forget_in_child(mut self) {
        self.address = std::ptr::null_mut();
    }

    /// `data_head`, how many bytes the kernel has written, and `data_tail`, how many have been read.
    pub(crate) fn words(&self) -> &[AtomicU64; 2] {
        /// Of `data_head` in `struct perf_event_mmap_page`.
        const OFFSET: usize = 1024;
        // SAFETY: within the mapping, aligned, and shared with the kernel as atomics are with a thread.
        unsafe { &*self.address.byte_add(OFFSET).cast() }
    }

    /// Takes the bytes of all records that wait.
    #[cfg(feature = "switches")]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let [head, tail] = self.words();
        // What the kernel has written before it moved the head is visible.
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let bytes = self.copy(start, (end - start) as usize);
        tail.store(end, Ordering::Release);
        bytes
    }

    #[cfg(feature = "switches")]
    fn copy(&self, from: u64, count: usize) -> Vec<u8> {
        let page = rustix::param::page_size();
        let capacity = self.pages * page;
        let count = count.min(capacity);
        let mut bytes = vec![0; count];
        let start = from as usize % capacity;
        let first = count.min(capacity - start);
        let data: *const u8 = self.address.wrapping_byte_add(page).cast();
        // SAFETY: both parts are in the mapping, between the tail and the head, where the kernel does not
        // write until the tail has moved.
        unsafe {
            std::ptr::copy_nonoverlapping(data.add(start), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), count - first);
        }
        bytes
    }
}

// SAFETY: the mapping belongs to the value; what is shared in it is atomic, and only a thread that has the
// value exclusively reads records.
#[cfg(feature = "switches")]
unsafe impl Send for Ring {}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.address.is_null() {
            // SAFETY: mapped by `open`, and not used again. It cannot fail for a whole mapping.
            let _ = unsafe { munmap(self.address, length(self.pages)) };
        }
    }
}

/// The control page, and the pages of records.
fn length(pages: usize) -> usize {
    (1 + pages) * rustix::param::page_size()
}

/// `struct perf_event_attr` in its third version, the first with a clock.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    kind: u32,
    size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    read_format: u64,
    flags: u64,
    pub(crate) wakeup_watermark: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

/// Values of `config` of a software event.
#[cfg(feature = "switches")]
pub(crate) const MAJOR_FAULTS: u64 = 6;
const DUMMY: u64 = 9;

const SOFTWARE: u32 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const WATERMARK: u64 = 1 << 14;
#[cfg(feature = "switches")]
const TIME_IN_ALL: u64 = 1 << 18;
#[cfg(feature = "switches")]
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;

impl Attributes {
    /// A record of each context switch, reported at once. Unprivileged processes may open it for their own
    /// threads at the usual setting. It has the first published size, which every kernel accepts.
    pub(crate) fn switches() -> Attributes {
        Attributes {
            kind: SOFTWARE,
            size: 64,
            config: DUMMY,
            flags: EXCLUDE_KERNEL | WATERMARK | CONTEXT_SWITCH,
            wakeup_watermark: 1,
            ..Attributes::default()
        }
    }

    /// As [`Attributes::switches`], and all records have the thread and the time of the monotonic clock.
    #[cfg(feature = "switches")]
    pub(crate) fn timed_switches() -> Attributes {
        let switches = Attributes::switches();
        Attributes {
            size: size_of::<Attributes>() as u32,
            flags: switches.flags | TIME_IN_ALL | USE_CLOCK,
            clock: libc::CLOCK_MONOTONIC,
            ..switches
        }
    }
}

fn open(thread: u32, attributes: &Attributes) -> Result<OwnedFd, Errno> {
    const CLOSE_ON_EXEC: usize = 1 << 3;
    let (any_cpu, no_group) = (usize::MAX, usize::MAX);
    let args = [
        std::ptr::from_ref(attributes) as usize,
        thread as usize,
        any_cpu,
        no_group,
        CLOSE_ON_EXEC,
    ];
    // SAFETY: the attributes live through the call and are at least as long as they say.
    let fd = unsafe { sys::raw(libc::SYS_perf_event_open, args)? };
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 96);
        assert_eq!(std::mem::offset_of!(Attributes, config2), 64);
    }
}
