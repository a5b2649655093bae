//! A buffer that begins on a page.

use super::{Sink, Source};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A buffer of a fixed capacity whose memory begins on a page.
///
/// `O_DIRECT` demands this of most file systems. Calls that copy gain too: the kernel copies files of large
/// folios a quarter faster than to and from the addresses that an allocator usually gives, 16 bytes behind a
/// page (decision 084).
///
/// ```
/// use laio::ops::{AlignedBuffer, Sink};
/// let mut buffer = AlignedBuffer::with_capacity(100_000);
/// assert_eq!(buffer.spare_capacity().0 as usize % AlignedBuffer::ALIGNMENT, 0);
/// buffer.resize(3, b'x');
/// assert_eq!(&buffer[..], b"xxx");
/// ```
pub struct AlignedBuffer {
    start: NonNull<u8>,
    capacity: usize,
    /// So many bytes are initialized.
    length: usize,
}

// SAFETY: the value is the only owner of its memory.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as above; shared, it only gives out shared bytes.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// The alignment of the memory, in bytes.
    pub const ALIGNMENT: usize = 4096;

    /// Allocates an empty buffer.
    ///
    /// # Panics
    /// If the capacity is 0, or larger than an object may be.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> AlignedBuffer {
        assert!(capacity > 0, "a buffer has at least one byte");
        let layout = AlignedBuffer::layout(capacity);
        // SAFETY: the size of the layout is not zero.
        let start = NonNull::new(unsafe { alloc(layout) });
        AlignedBuffer {
            start: start.unwrap_or_else(|| handle_alloc_error(layout)),
            capacity,
            length: 0,
        }
    }

    /// The number of bytes that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Removes the contents.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// Shortens the contents to `length` bytes, if they are longer.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Shortens or extends the contents to `length` bytes; new ones have this value.
    ///
    /// # Panics
    /// If `length` is more than the capacity.
    pub fn resize(&mut self, length: usize, value: u8) {
        assert!(length <= self.capacity, "{length} bytes do not fit");
        if let Some(more) = length.checked_sub(self.length) {
            // SAFETY: both ends are within the memory.
            unsafe { self.start.add(self.length).write_bytes(value, more) };
        }
        self.length = length;
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, AlignedBuffer::ALIGNMENT).expect("a capacity")
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.start.as_ptr(), AlignedBuffer::layout(self.capacity)) }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: these bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("AlignedBuffer");
        text.field("length", &self.length);
        text.field("capacity", &self.capacity).finish()
    }
}

// SAFETY: the bytes are on the heap, and change only if the value is used.
unsafe impl Source for AlignedBuffer {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: the memory is on the heap and never moves.
unsafe impl Sink for AlignedBuffer {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        // SAFETY: within the memory, or its end.
        let spare = unsafe { self.start.add(self.length) };
        (spare.as_ptr(), self.capacity - self.length)
    }

    unsafe fn append(&mut self, count: usize) {
        // The kernel was given no more than the capacity; the bytes are written, by the caller.
        self.length += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_within_the_capacity() {
        let mut buffer = AlignedBuffer::with_capacity(5000);
        let (address, length) = buffer.spare_capacity();
        assert_eq!(
            (address as usize % AlignedBuffer::ALIGNMENT, length),
            (0, 5000)
        );
        // SAFETY: the bytes are written before they are appended.
        unsafe {
            address.write_bytes(b'a', 10);
            buffer.append(10);
        }
        assert_eq!(buffer.spare_capacity().1, 4990);
        buffer.resize(12, b'b');
        assert_eq!(&buffer[..], b"aaaaaaaaaabb");
        buffer[0] = b'c';
        buffer.truncate(1);
        buffer.truncate(2);
        assert_eq!(buffer.bytes(), b"c");
        buffer.clear();
        assert!(buffer.is_empty());
        assert!(std::panic::catch_unwind(move || buffer.resize(5001, 0)).is_err());
        assert!(std::panic::catch_unwind(|| AlignedBuffer::with_capacity(0)).is_err());
    }
}
