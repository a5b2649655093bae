//! Memory that an operation may own.

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

/// Room to read or receive into. Bytes are appended.
///
/// # Safety
/// The room must stay valid while the value is neither moved, dropped nor otherwise used.
pub unsafe trait Sink: 'static {
    /// Address and length of the room.
    fn room(&mut self) -> (*mut u8, usize);

    /// Makes the first `count` bytes of the room part of the contents.
    ///
    /// # Safety
    /// They have been written.
    unsafe fn append(&mut self, count: usize);
}

// SAFETY: the bytes are on the heap, or static, or inside the value itself; none of the types changes
// them unless it is used.
unsafe impl Source for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for Vec.
unsafe impl Source for Box<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for Vec; shared bytes are immutable.
unsafe impl Source for Rc<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for Rc.
unsafe impl Source for Arc<[u8]> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for Rc.
unsafe impl Source for Rc<Vec<u8>> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: static bytes are immutable.
unsafe impl Source for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: static bytes are immutable.
unsafe impl Source for &'static str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

// SAFETY: as for Vec.
unsafe impl Source for String {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
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
    fn room(&mut self) -> (*mut u8, usize) {
        let room = self.spare_capacity_mut();
        (room.as_mut_ptr().cast(), room.len())
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: within the capacity, because the kernel was given no more; written, by the caller.
        unsafe { self.set_len(self.len() + count) }
    }
}
