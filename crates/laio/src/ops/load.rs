//! Reading a file into the page cache only.

use super::outputs::count;
use super::word;
use crate::Call;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::AsFd;

operation! {
    /// Reads from a position of a file and drops the bytes, so that the page cache holds them:
    /// `sendfile` and `splice`, which have no non-blocking form, then do not wait for the disk. All
    /// such reads share a few pages of memory, which stay in the processor's cache.
    pub struct Load<F: AsFd> {
        /// Reads at most `length` bytes at byte `offset`, and at most 16 MiB.
        new(file: F, offset: u64, length: usize);
        vectors: Vec<libc::iovec> = Vec::new(),
        flags: i32 = 0,
    }

    /// Reads only what the page cache holds (`RWF_NOWAIT`): the result is `EAGAIN` if that is nothing, and the kernel
    /// has begun to read it from the disk. `EOPNOTSUPP` on file systems without such reads, as of `preadv2`.
    with without_waiting(self) { self.flags = libc::RWF_NOWAIT }

    // SAFETY: the array is on the operation's heap, and what it points to is static.
    unsafe call(self) {
        let mut left = self.length.min(DROPPED_BYTES * VECTORS_MAX);
        self.vectors = Vec::with_capacity(left.div_ceil(DROPPED_BYTES));
        while left > 0 {
            let length = left.min(DROPPED_BYTES);
            self.vectors.push(libc::iovec { iov_base: DROPPED.0.get().cast(), iov_len: length });
            left -= length;
        }
        let (address, vectors) = (self.vectors.as_mut_ptr() as usize, self.vectors.len());
        let (file, offset) = (word(&self.file), self.offset as usize);
        match self.flags {
            0 => Call::new(libc::SYS_preadv, [file, address, vectors, offset]),
            flags => Call::new(libc::SYS_preadv2, [file, address, vectors, offset, 0, flags as usize]),
        }
    }

    /// The number of bytes that are in the page cache (0 at the end of the file).
    finish(self, result) -> io::Result<usize> { count(result) }
}

const DROPPED_BYTES: usize = 16 * 1024;
/// The kernel's limit of an array (`UIO_MAXIOV`).
const VECTORS_MAX: usize = 1024;

/// Memory that only the kernel writes to, and nothing reads.
#[repr(align(4096))]
struct Dropped(UnsafeCell<[u8; DROPPED_BYTES]>);

// SAFETY: only its address is used, by the kernel.
unsafe impl Sync for Dropped {}

static DROPPED: Dropped = Dropped(UnsafeCell::new([0; DROPPED_BYTES]));
