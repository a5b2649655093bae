//! Memory for reads: page-aligned blocks from a bounded pool, which reads fill piece by piece, and which
//! programs then share.

use crate::ops::Sink;
use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The alignment of blocks, in bytes.
pub(super) const ALIGNMENT: usize = 4096;

/// Bytes that the pool keeps for further reads, in the whole process, unless [`set_pool_limit`] says
/// otherwise. What programs hold does not count.
pub const POOL_BYTES: usize = 32 * 1024 * 1024;

/// Bytes of the largest block that the pool keeps.
const POOLED_MAX: usize = 8 * 1024 * 1024;

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: BTreeMap::new(),
    bytes: 0,
    limit: POOL_BYTES,
});

/// Sets how many bytes the pool keeps for further reads, in the whole process. A program that reads more at
/// a time pays a page fault for each 4 KiB above it, which takes longer than reading them from a fast
/// device.
pub fn set_pool_limit(bytes: usize) {
    let mut pool = lock();
    pool.limit = bytes;
    let mut freed = Vec::new();
    while pool.bytes > pool.limit
        && let Some(mut entry) = pool.free.last_entry()
    {
        let memory = entry.get_mut().pop();
        if entry.get().is_empty() {
            entry.remove();
        }
        pool.bytes -= memory.as_ref().map_or(0, |memory| memory.size);
        freed.extend(memory);
    }
    // Freed without the lock.
    drop(pool);
}

fn lock() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks that are not in use, by size.
struct Pool {
    free: BTreeMap<usize, Vec<Memory>>,
    bytes: usize,
    limit: usize,
}

/// A range of allocated memory, which its owner alone uses.
struct Memory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the value is the only owner of its memory.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { dealloc(self.start.as_ptr(), layout(self.size)) }
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGNMENT).expect("`allocate` has checked the size")
}

/// The size of the block for so many bytes: at most a quarter more, so that blocks fit later reads. `None`
/// if no object can be so large.
fn block_size(bytes: usize) -> Option<usize> {
    let unit = (bytes.checked_next_power_of_two()? / 8).max(ALIGNMENT);
    let size = bytes.max(1).checked_next_multiple_of(unit)?;
    (size <= isize::MAX as usize - ALIGNMENT).then_some(size)
}

/// A block: its pieces and the bytes of programs share it, and the last of them gives it back to the pool.
struct Block {
    start: NonNull<u8>,
    size: usize,
    /// The memory is the program's, and stays with it.
    is_lent: bool,
}

// SAFETY: shared, it only has an address; each byte is used by the one piece that has it, or only read.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    fn allocate(bytes: u64) -> io::Result<Block> {
        let size = usize::try_from(bytes).ok().and_then(block_size);
        let refused = || {
            let text = format!("cannot allocate {bytes} bytes for a range: ask for less at a time");
            io::Error::new(io::ErrorKind::OutOfMemory, text)
        };
        let size = size.ok_or_else(refused)?;
        let mut pool = lock();
        if let Some(memory) = pool.free.get_mut(&size).and_then(Vec::pop) {
            pool.bytes -= size;
            let start = memory.start;
            std::mem::forget(memory);
            return Ok(Block::own(start, size));
        }
        drop(pool);
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc(layout(size)) });
        let start = start.ok_or_else(refused)?;
        Ok(Block::own(start, size))
    }

    fn own(start: NonNull<u8>, size: usize) -> Block {
        let is_lent = false;
        Block {
            start,
            size,
            is_lent,
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        let memory = Memory {
            start: self.start,
            size: self.size,
        };
        if self.size > POOLED_MAX {
            return;
        }
        let mut pool = lock();
        if pool.bytes + self.size <= pool.limit {
            pool.bytes += self.size;
            pool.free.entry(self.size).or_default().push(memory);
            return;
        }
        // Freed without the lock.
        drop(pool);
    }
}

/// An address in memory of the program, which it has lent for the time of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent(pub(super) NonNull<u8>);

// SAFETY: an address; who lends the memory promises that nothing else uses it, on any thread.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

/// A piece of a block, into which one read at a time reads. It alone uses its bytes.
pub struct Piece {
    block: Arc<Block>,
    /// Its bytes in the block.
    range: Range<usize>,
    /// So many of them are initialized.
    filled: usize,
    /// So many of them may be filled.
    limit: usize,
}

impl Piece {
    /// Allocates a block for `total` bytes, in pieces that begin every `step` bytes.
    pub(super) fn allocate(total: u64, step: u64) -> io::Result<Vec<Piece>> {
        let block = Block::allocate(total)?;
        // The block has the size, so it is a `usize`.
        Ok(Piece::split(block, total as usize, step))
    }

    /// Pieces of the program's own memory.
    ///
    /// # Safety
    /// So many bytes from `start` on may be written, and nothing else uses them until the pieces are dropped,
    /// and the bytes that are made of them.
    pub(super) unsafe fn lend(Lent(start): Lent, total: usize, step: u64) -> Vec<Piece> {
        let (size, is_lent) = (total, true);
        let block = Block {
            start,
            size,
            is_lent,
        };
        Piece::split(block, total, step)
    }

    fn split(block: Block, total: usize, step: u64) -> Vec<Piece> {
        let block = Arc::new(block);
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        let pieces = (0..total).step_by(step).map(|start| {
            let range = start..total.min(start.saturating_add(step));
            Piece {
                block: block.clone(),
                limit: range.len(),
                filled: 0,
                range,
            }
        });
        pieces.collect()
    }

    /// The number of bytes that reads have filled.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Lets reads fill so many bytes, at most all of the piece.
    pub(super) fn set_limit(&mut self, limit: u64) {
        let most = self.range.len();
        self.limit = usize::try_from(limit).map_or(most, |limit| limit.min(most));
    }
}

// SAFETY: the memory is on the heap and never moves; no other piece has these bytes.
unsafe impl Sink for Piece {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        // SAFETY: within the block, or its end.
        let spare = unsafe { self.block.start.add(self.range.start + self.filled) };
        (spare.as_ptr(), self.limit.saturating_sub(self.filled))
    }

    unsafe fn append(&mut self, count: usize) {
        // The kernel was given no more than the limit; the bytes are written, by the caller.
        self.filled += count;
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("Piece");
        text.field("range", &self.range);
        text.field("filled", &self.filled).finish()
    }
}

/// Bytes of a range, in memory that they may share with other ranges.
///
/// The memory goes back to the pool when the last of them is dropped.
#[derive(Clone, Default)]
pub struct RangeBytes {
    /// `None` if there are no bytes.
    block: Option<Arc<Block>>,
    range: Range<usize>,
}

impl RangeBytes {
    /// The bytes that were filled from the start of the first piece on, without a gap. The pieces are all
    /// of one block, in their order.
    pub(super) fn of_pieces(pieces: Vec<Piece>) -> Option<RangeBytes> {
        let first = pieces.first()?;
        let (block, start) = (first.block.clone(), first.range.start);
        let mut end = start;
        for piece in pieces {
            if piece.range.start != end || !Arc::ptr_eq(&piece.block, &block) {
                break;
            }
            end = piece.range.start + piece.filled;
        }
        let range = start..end;
        let block = Some(block);
        Some(RangeBytes { block, range })
    }

    /// Some of the bytes: so many of `part` as exist.
    pub(super) fn slice(&self, part: Range<u64>) -> RangeBytes {
        let within = |offset: u64| {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            self.range.start + offset.min(self.range.len())
        };
        let start = within(part.start);
        let range = start..within(part.end).max(start);
        let block = self.block.clone();
        RangeBytes { block, range }
    }

    /// The same bytes in memory of the program: where they are, or copied.
    ///
    /// # Safety
    /// As for [`Piece::lend`], for as many bytes as there are.
    pub(super) unsafe fn moved_to(self, Lent(start): Lent) -> RangeBytes {
        let length = self.len();
        if self.as_ptr() != start.as_ptr() {
            // SAFETY: so many bytes may be written, by the caller; they are no part of a block of the pool.
            unsafe { start.copy_from_nonoverlapping(NonNull::from(&self[..]).cast(), length) };
        }
        let block = Arc::new(Block {
            start,
            size: length,
            is_lent: true,
        });
        RangeBytes {
            block: Some(block),
            range: 0..length,
        }
    }

    /// The number of bytes of memory that this keeps from the pool.
    pub(super) fn holds(&self) -> usize {
        self.block.as_ref().map_or(0, |block| block.size)
    }

    /// The number of bytes of memory that a copy would need.
    pub(super) fn needs(&self) -> usize {
        block_size(self.len()).unwrap_or(usize::MAX)
    }

    /// The same bytes in memory of their own.
    pub(super) fn copied(&self) -> io::Result<RangeBytes> {
        let mut pieces = Piece::allocate(self.range.len().max(1) as u64, u64::MAX)?;
        crate::ops::fill(&mut pieces[0], self);
        Ok(RangeBytes::of_pieces(pieces).expect("there is a piece"))
    }
}

impl Deref for RangeBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let Some(block) = &self.block else {
            return &[];
        };
        // SAFETY: `of_pieces` has consumed the pieces with these bytes, so nothing writes to them; they were
        // filled.
        unsafe {
            let start = block.start.add(self.range.start);
            std::slice::from_raw_parts(start.as_ptr(), self.range.len())
        }
    }
}

impl AsRef<[u8]> for RangeBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for RangeBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::fill;

    #[test]
    fn pieces_fill_one_block() {
        let mut pieces = Piece::allocate(10_000, 4096).unwrap();
        assert_eq!(pieces.len(), 3);
        for (piece, letter) in pieces.iter_mut().zip(b"abc") {
            let (address, length) = piece.spare_capacity();
            assert_eq!(address as usize % ALIGNMENT, 0);
            assert_eq!(fill(piece, &vec![*letter; 5000]), length);
        }
        let all = RangeBytes::of_pieces(pieces).unwrap();
        assert_eq!(all.len(), 10_000);
        assert_eq!(&all[4094..4098], b"aabb");
        assert_eq!(&all.slice(8190..8194)[..], b"bbcc");
        assert_eq!(&all.slice(9_999..u64::MAX)[..], b"c");
        assert_eq!(&all.slice(20_000..30_000)[..], b"");
        let copied = all.slice(4095..4097).copied().unwrap();
        assert_eq!((&copied[..], copied.holds()), (&b"ab"[..], ALIGNMENT));
        assert!(all.slice(5..5).copied().unwrap().is_empty());
    }

    #[test]
    fn bytes_end_at_the_first_gap() {
        let mut pieces = Piece::allocate(12, 4).unwrap();
        fill(&mut pieces[0], b"0123");
        pieces[1].set_limit(2);
        assert_eq!(fill(&mut pieces[1], b"4567"), 2);
        fill(&mut pieces[2], b"89ab");
        let all = RangeBytes::of_pieces(pieces).unwrap();
        assert_eq!(&all[..], b"012345");
        assert!(RangeBytes::of_pieces(Vec::new()).is_none());
        // Pieces of other blocks do not continue the bytes.
        let mut mixed = Piece::allocate(8, 4).unwrap();
        let mut other = Piece::allocate(8, 4).unwrap();
        fill(&mut mixed[0], b"abcd");
        fill(&mut other[1], b"efgh");
        let mixed = vec![mixed.remove(0), other.remove(1)];
        assert_eq!(&RangeBytes::of_pieces(mixed).unwrap()[..], b"abcd");
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_limit() {
        let blocks = || (0..4).map(|_| Piece::allocate(100_000, 1 << 20).unwrap());
        drop(blocks().collect::<Vec<_>>());
        set_pool_limit(150_000);
        assert!(lock().bytes <= 150_000);
        drop(blocks().collect::<Vec<_>>());
        assert!(lock().bytes <= 150_000);
        set_pool_limit(POOL_BYTES);
    }

    #[test]
    fn sizes_of_blocks() {
        for bytes in (0..100_000).chain([1 << 20, (1 << 20) + 1, 33_333_333]) {
            let size = block_size(bytes).unwrap();
            assert!(
                size >= bytes && size.is_multiple_of(ALIGNMENT),
                "{bytes}: {size}"
            );
            assert!(
                size <= (bytes + bytes / 4).max(bytes + ALIGNMENT),
                "{bytes}"
            );
        }
        assert_eq!(block_size(usize::MAX), None);
        assert_eq!(block_size(isize::MAX as usize), None);
        let error = Piece::allocate(u64::MAX, 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        let error = Piece::allocate(1 << 62, 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
