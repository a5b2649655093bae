//! Buffers that an operation can own.

use std::ops::{Bound, Range, RangeBounds};
use std::rc::Rc;
use std::sync::Arc;

/// Bytes to write or send.
///
/// # Safety
/// The slice that `bytes` returns must stay valid and unchanged while the value is neither moved,
/// dropped nor otherwise used.
pub unsafe trait Source: 'static {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

/// A buffer to read or receive into. Bytes are appended.
///
/// # Safety
/// The memory must stay valid while the value is neither moved, dropped nor otherwise used.
pub unsafe trait Sink: 'static {
    /// Returns the address and length of the memory to fill.
    fn spare_capacity(&mut self) -> (*mut u8, usize);

    /// Appends the first `count` bytes of that memory to the contents.
    ///
    /// # Safety
    /// These bytes must have been written.
    unsafe fn append(&mut self, count: usize);
}

/// Appends bytes to a buffer, as many as fit into its free capacity. Returns their number.
///
/// ```
/// let mut buffer = Vec::with_capacity(3);
/// assert_eq!(laio::ops::fill(&mut buffer, b"hello"), 3);
/// assert_eq!(buffer, b"hel");
/// ```
pub fn fill(buffer: &mut impl Sink, bytes: &[u8]) -> usize {
    let (address, length) = buffer.spare_capacity();
    let count = length.min(bytes.len());
    // SAFETY: the memory is the buffer's, which is borrowed mutably, and has room for so many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), address, count);
        buffer.append(count);
    }
    count
}

macro_rules! source {
    ($($type:ty)*) => {$(
        // SAFETY: the bytes are on the heap, shared and immutable, or static; none of the types
        // changes them unless it is used.
        unsafe impl Source for $type {
            fn bytes(&self) -> &[u8] {
                self.as_ref()
            }
        }
    )*};
}

source!(Vec<u8> Box<[u8]> Rc<[u8]> Arc<[u8]> Rc<Vec<u8>> &'static [u8] &'static str String);

// SAFETY: static bytes are immutable.
unsafe impl<const N: usize> Source for &'static [u8; N] {
    fn bytes(&self) -> &[u8] {
        *self
    }
}

// SAFETY: inside the value, which the engine does not move while the kernel uses it.
unsafe impl<const N: usize> Source for [u8; N] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: the spare capacity is on the heap and does not move unless the vector is used.
unsafe impl Sink for Vec<u8> {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        let spare = self.spare_capacity_mut();
        (spare.as_mut_ptr().cast(), spare.len())
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: within the capacity, because the kernel was given no more; written, by the caller.
        unsafe { self.set_len(self.len() + count) }
    }
}

/// The bytes of any owner, for example of a string object of another language.
///
/// ```
/// use laio::ops::{Owned, Source};
/// let text: std::borrow::Cow<'static, [u8]> = b"hello".into();
/// assert_eq!(Owned::new(text).bytes(), b"hello");
/// ```
#[derive(Debug)]
pub struct Owned<T>(Box<T>);

impl<T: AsRef<[u8]> + 'static> Owned<T> {
    /// Takes the owner of the bytes.
    pub fn new(owner: T) -> Owned<T> {
        Owned(Box::new(owner))
    }

    /// Returns the owner.
    pub fn into_inner(self) -> T {
        *self.0
    }
}

// SAFETY: the owner has a stable address on the heap and is only ever borrowed as shared, which leaves
// the slice that it returns valid; `T` promises no more than that, so bytes that it lets others change
// (in cells) may be written in either state.
unsafe impl<T: AsRef<[u8]> + 'static> Source for Owned<T> {
    fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// A part of a source: some of the bytes of a buffer that is larger, or shared.
///
/// ```
/// use laio::ops::{Part, Source};
/// let part = Part::new("hello, world", 7..);
/// assert_eq!(part.bytes(), b"world");
/// assert_eq!(part.into_inner(), "hello, world");
/// ```
#[derive(Clone, Debug)]
pub struct Part<B> {
    buffer: B,
    range: Range<usize>,
}

impl<B: Source> Part<B> {
    /// The bytes of `buffer` in `range`.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    pub fn new(buffer: B, range: impl RangeBounds<usize>) -> Part<B> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => buffer.bytes().len(),
        };
        let range = start..end;
        assert!(
            buffer.bytes().get(range.clone()).is_some(),
            "{range:?} is not within the {} bytes of the buffer",
            buffer.bytes().len()
        );
        Part { buffer, range }
    }
}

impl<B> Part<B> {
    /// The whole buffer.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

// SAFETY: a part of bytes that have the wanted property.
unsafe impl<B: Source> Source for Part<B> {
    fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[self.range.clone()]
    }
}

/// A sink that takes at most a given number of bytes, even if the buffer has more capacity.
///
/// ```
/// use laio::ops::{Limit, Sink};
/// let mut limit = Limit::new(Vec::with_capacity(100), 10);
/// assert_eq!(limit.spare_capacity().1, 10);
/// ```
#[derive(Clone, Debug)]
pub struct Limit<B> {
    buffer: B,
    left: usize,
}

impl<B: Sink> Limit<B> {
    /// Takes at most `most` bytes, over all the operations that use it.
    pub fn new(buffer: B, most: usize) -> Limit<B> {
        Limit { buffer, left: most }
    }
}

impl<B> Limit<B> {
    /// Returns the number of bytes that it still takes, if the buffer has the capacity.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The buffer, with what was read.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

// SAFETY: the first part of a buffer that has the wanted property.
unsafe impl<B: Sink> Sink for Limit<B> {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        let (address, length) = self.buffer.spare_capacity();
        (address, length.min(self.left))
    }

    unsafe fn append(&mut self, count: usize) {
        self.left -= count;
        // SAFETY: by the caller.
        unsafe { self.buffer.append(count) }
    }
}

/// Returns the address and length of the bytes, as argument words.
pub(super) fn bytes(source: &impl Source) -> (usize, usize) {
    let bytes = source.bytes();
    (bytes.as_ptr() as usize, bytes.len())
}

/// Returns the address and length of the memory to fill, as argument words.
pub(super) fn spare(sink: &mut impl Sink) -> (usize, usize) {
    let (address, length) = sink.spare_capacity();
    (address as usize, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_within_the_buffer() {
        let shared: Rc<[u8]> = Rc::from(*b"0123456789");
        assert_eq!(Part::new(shared.clone(), 2..=4).bytes(), b"234");
        assert_eq!(Part::new(shared.clone(), ..).bytes(), b"0123456789");
        assert_eq!(Part::new(shared.clone(), 10..).bytes(), b"");
        assert!(std::panic::catch_unwind(|| Part::new("abc", 2..4)).is_err());
        assert!(std::panic::catch_unwind(|| Part::new("abc", 3..usize::MAX)).is_err());
    }

    #[test]
    fn limits_count_down() {
        let mut limit = Limit::new(Vec::with_capacity(64), 10);
        let (address, length) = limit.spare_capacity();
        assert_eq!(length, 10);
        // SAFETY: the buffer has ten bytes, and six of them are written before they are appended.
        unsafe {
            address.write_bytes(b'x', 6);
            limit.append(6);
        }
        assert_eq!((limit.spare_capacity().1, limit.left()), (4, 4));
        assert_eq!(limit.into_inner(), b"xxxxxx");
    }
}
