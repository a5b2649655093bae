//! The memory on which the calls of a program work.

use std::ptr::NonNull;

/// The maximum number of bytes that one step uses.
const SIZE: usize = 1 << 20;
/// The content of unused memory, with which out-of-bounds writes are detected.
pub(super) const FILL: u8 = 0xEE;
/// The size of the gap of unused memory behind each piece.
pub(super) const GAP: usize = 64;

/// A region of memory at a fixed address, which lives as long as the world. So a call that ends too late
/// corrupts a later step, which is detected, and no other memory. Behind the region is an inaccessible page.
///
/// Pieces are identified by their address, because calls get addresses.
#[derive(Debug)]
pub(super) struct Arena {
    base: NonNull<u8>,
    used: usize,
}

// SAFETY: the region belongs to the arena alone and has no thread of its own.
unsafe impl Send for Arena {}

impl Arena {
    pub(super) fn new() -> Arena {
        let guard = rustix::param::page_size();
        // SAFETY: a new private mapping of SIZE bytes and the guard page, at an address that the
        // kernel chooses; the last page of it is then made inaccessible.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                SIZE + guard,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert!(base != libc::MAP_FAILED, "memory for a world");
            assert_eq!(
                libc::mprotect(base.byte_add(SIZE), guard, libc::PROT_NONE),
                0
            );
            base
        };
        Arena {
            base: NonNull::new(base.cast()).expect("not at address 0"),
            used: 0,
        }
    }

    /// Frees all pieces.
    pub(super) fn reset(&mut self) {
        self.used = 0;
    }

    /// Returns a new piece, filled with [`FILL`], and its gap.
    pub(super) fn space(&mut self, length: usize) -> usize {
        let start = self.used;
        let end = start + length + GAP;
        assert!(end <= SIZE, "a step uses at most {SIZE} bytes");
        self.used = end.next_multiple_of(64);
        // SAFETY: the range is inside the region, to which no other reference exists.
        unsafe { self.base.add(start).write_bytes(FILL, length + GAP) };
        self.base.as_ptr().expose_provenance() + start
    }

    /// Returns a new piece with these bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let address = self.space(bytes.len());
        let start = self.at(address).as_ptr();
        // SAFETY: the piece was made just now, inside the region, with this length.
        unsafe { start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        address
    }

    /// Returns a new piece with these words.
    pub(super) fn put_words(&mut self, words: &[usize]) -> usize {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    /// Returns the bytes of a piece, or of its beginning, or with its gap.
    pub(super) fn get(&self, address: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let start = self.at(address).as_ptr();
        assert!(address + length <= self.base.addr().get() + SIZE);
        // SAFETY: the range is inside the region, and the vector is as long.
        unsafe { start.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        bytes
    }

    fn at(&self, address: usize) -> NonNull<u8> {
        let offset = address - self.base.addr().get();
        assert!(offset < SIZE);
        // SAFETY: the offset is inside the region.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the region was mapped with this length and is not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIZE + rustix::param::page_size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_and_clean() {
        let mut arena = Arena::new();
        let first = arena.put(b"hello");
        let second = arena.space(3);
        assert!(second >= first + 5 + GAP);
        assert_eq!(arena.get(first, 5), b"hello");
        assert_eq!(arena.get(first + 5, GAP), vec![FILL; GAP]);
        assert_eq!(arena.get(second, 3), [FILL; 3]);
        arena.reset();
        assert_eq!(arena.space(SIZE - GAP), first);
        assert_eq!(arena.get(first, 5), [FILL; 5]);
    }
}
