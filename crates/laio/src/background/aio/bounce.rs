//! Bounce buffers: aligned memory for direct I/O whose own memory or offset is not aligned, and
//! copying between the two.

use crate::sys::raw;
use crate::{Errno, Limits};
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

/// The alignment that direct I/O on a file needs, of addresses and of offsets and lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    pub(super) memory: usize,
    pub(super) offset: usize,
}

impl Alignment {
    /// Some file systems report 0, which must not be divided by.
    pub(super) fn new(memory: u32, offset: u32) -> Alignment {
        let sane = |value: u32| (value.clamp(1, 1 << 16) as usize).next_power_of_two();
        Alignment {
            memory: sane(memory),
            offset: sane(offset),
        }
    }

    pub(super) fn suits_memory(self, address: usize, length: usize) -> bool {
        // An aligned length is not implied by the alignment of offsets.
        address.is_multiple_of(self.memory) && length.is_multiple_of(self.memory.min(self.offset))
    }

    pub(super) fn suits_place(self, offset: i64, length: usize) -> bool {
        (offset as usize).is_multiple_of(self.offset) && length.is_multiple_of(self.offset)
    }

    /// Returns the aligned range around a part of a file, at most as long as one step: its start,
    /// its length, and the bytes of the part that it covers.
    pub(super) fn around(self, offset: i64, length: usize) -> (i64, usize, usize) {
        let start = offset as usize / self.offset * self.offset;
        let before = offset as usize - start;
        let whole = (before + length).div_ceil(self.offset) * self.offset;
        let whole = whole.min(Limits::AIO_BOUNCE_STEP.max(self.offset));
        (start as i64, whole, (whole - before).min(length))
    }
}

/// The bounce buffer of one request.
#[derive(Debug)]
pub(super) struct Bounce {
    memory: NonNull<u8>,
    layout: Layout,
    /// The number of bytes before the requested ones.
    pub(super) before: usize,
    /// The number of requested bytes.
    pub(super) wanted: usize,
}

impl Bounce {
    /// Returns `None` if memory cannot be allocated.
    pub(super) fn new(
        alignment: Alignment,
        length: usize,
        before: usize,
        wanted: usize,
    ) -> Option<Bounce> {
        let align = alignment.memory.max(alignment.offset);
        let layout = Layout::from_size_align(length.max(1), align).ok()?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc(layout) })?;
        Some(Bounce {
            memory,
            layout,
            before,
            wanted,
        })
    }

    pub(super) fn address(&self) -> usize {
        self.memory.as_ptr() as usize
    }

    pub(super) fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns how many of the requested bytes are among the first `read`.
    pub(super) fn useful(&self, read: usize) -> usize {
        read.saturating_sub(self.before).min(self.wanted)
    }

    /// Copies the requested bytes to the caller's memory. The kernel copies, so that bad memory is
    /// `EFAULT` and not a crash.
    ///
    /// # Safety
    /// The vectors can be read.
    pub(super) unsafe fn copy_out(
        &self,
        useful: usize,
        vectors: &[libc::iovec],
    ) -> Result<usize, Errno> {
        if useful == 0 {
            return Ok(0);
        }
        // SAFETY: by the caller; the request is over, so the memory is ours.
        unsafe {
            copy(
                libc::SYS_process_vm_writev,
                self.address() + self.before,
                useful,
                vectors,
            )
        }
    }

    /// Copies the bytes to write from the caller's memory; fails with `EFAULT` also if only a part
    /// of it cannot be read.
    ///
    /// # Safety
    /// The vectors can be read.
    pub(super) unsafe fn copy_in(&mut self, vectors: &[libc::iovec]) -> Result<(), Errno> {
        // SAFETY: by the caller; no request uses the memory yet.
        let copied = unsafe {
            copy(
                libc::SYS_process_vm_readv,
                self.address(),
                self.wanted,
                vectors,
            )?
        };
        if copied == self.wanted {
            Ok(())
        } else {
            Err(Errno::FAULT)
        }
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Makes the kernel copy between a range and vectors, both of this process.
///
/// # Safety
/// The vectors can be read, and the range is the caller's to use.
unsafe fn copy(
    call: libc::c_long,
    address: usize,
    length: usize,
    vectors: &[libc::iovec],
) -> Result<usize, Errno> {
    let range = libc::iovec {
        iov_base: address as *mut _,
        iov_len: length,
    };
    let us = std::process::id() as usize;
    let range = (&raw const range) as usize;
    let others = vectors.as_ptr() as usize;
    // SAFETY: by the caller; what the vectors name is looked at by the kernel.
    unsafe { raw(call, [us, range, 1, others, vectors.len(), 0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_around_is_aligned_and_bounded() {
        let disk = Alignment::new(4, 512);
        assert_eq!(disk.around(1000, 100), (512, 1024, 100));
        assert_eq!(disk.around(1024, 1), (1024, 512, 1));
        assert!(disk.suits_place(1024, 512) && !disk.suits_place(1024, 100));
        let (start, length, covered) = disk.around(700, 10 << 20);
        assert_eq!(start, 512);
        assert_eq!(length, Limits::AIO_BOUNCE_STEP);
        assert_eq!(covered, length - (700 - 512));
        assert_eq!(Alignment::new(0, 0), Alignment::new(1, 1));
    }
}
