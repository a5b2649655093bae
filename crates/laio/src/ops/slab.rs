//! Small buffers side by side in large blocks, for receives that may wait for long.

use super::Sink;
use std::cell::RefCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes of a block: so many that the C library takes them from the kernel as pages of their own.
const BLOCK_BYTES: usize = 256 * 1024;

/// Buffers of one size for operations that wait for long, such as receives from idle connections.
///
/// A page becomes resident when the kernel first writes to it, and nothing but buffers lies in a block. Buffers are taken
/// from the oldest blocks, and a block of which no buffer is in use is freed, except one that is kept for the next
/// buffers. So the memory follows the number of buffers in use, also after a burst.
///
/// ```
/// use laio::ops::{Recv, Slab};
/// use laio::{Context, Options, Outcome};
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
///
/// let (mut client, server) = UnixStream::pair()?;
/// client.write_all(b"hello")?;
/// let slab = Slab::new(1024);
/// let mut context = Context::new(Options::new())?;
/// let Outcome::Done((result, buffer)) = context.submit(Recv::new(server, slab.take())) else {
///     panic!("the bytes are there");
/// };
/// assert_eq!((result?, &buffer[..]), (5, &b"hello"[..]));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Slab(Rc<Shared>);

struct Shared {
    /// Bytes of a buffer.
    size: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None` for a block that was freed.
    blocks: Vec<Option<Block>>,
    /// No block before this one has a free buffer.
    first: usize,
    /// The number of blocks of which no buffer is in use: 0 or 1.
    unused: usize,
}

struct Block {
    /// From a box, which would lose its claim to be the only reference when a buffer is taken.
    memory: NonNull<[MaybeUninit<u8>]>,
    /// The buffers that are not in use, by number; the last one was used last.
    free: Vec<u32>,
}

impl Slab {
    /// Returns a slab of buffers with `size` bytes each, without any memory yet.
    ///
    /// # Panics
    /// If `size` is 0 or more than 256 KiB.
    pub fn new(size: usize) -> Slab {
        assert!(
            (1..=BLOCK_BYTES).contains(&size),
            "a buffer of a slab has 1 to {BLOCK_BYTES} bytes, not {size}"
        );
        Slab(Rc::new(Shared {
            size,
            state: RefCell::default(),
        }))
    }

    /// Takes an empty buffer. It returns to the slab when it is dropped.
    pub fn take(&self) -> SlabBuffer {
        let (block, memory) = self.0.state.borrow_mut().take(self.0.size);
        SlabBuffer {
            slab: self.0.clone(),
            memory,
            block,
            length: 0,
        }
    }

    /// Returns the number of bytes in blocks, resident or not.
    pub fn reserved_bytes(&self) -> usize {
        let state = self.0.state.borrow();
        let blocks = state.blocks.iter().flatten();
        blocks.map(|block| block.memory.len()).sum()
    }
}

impl State {
    /// Returns a free buffer, and the number of its block.
    fn take(&mut self, size: usize) -> (u32, NonNull<u8>) {
        let has_free =
            |block: &Option<Block>| block.as_ref().is_some_and(|block| !block.free.is_empty());
        let found = self.blocks[self.first..].iter().position(has_free);
        let number = match found {
            Some(after_first) => self.first + after_first,
            None => self.add(size),
        };
        self.first = number;
        let block = self.blocks[number]
            .as_mut()
            .expect("a block with a free buffer");
        if block.is_unused(size) {
            self.unused -= 1;
        }
        (number as u32, block.take(size))
    }

    /// Adds a block, and returns its number.
    fn add(&mut self, size: usize) -> usize {
        let freed = self.blocks.iter().position(Option::is_none);
        let number = freed.unwrap_or_else(|| {
            self.blocks.push(None);
            self.blocks.len() - 1
        });
        self.blocks[number] = Some(Block::new(size));
        self.unused += 1;
        number
    }

    fn put_back(&mut self, number: u32, memory: NonNull<u8>, size: usize) {
        let number = number as usize;
        let block = self.blocks[number].as_mut().expect("the block of a buffer");
        block.put_back(memory, size);
        if !block.is_unused(size) {
            self.first = self.first.min(number);
        } else if self.unused == 0 {
            self.first = self.first.min(number);
            self.unused = 1;
        } else {
            self.blocks[number] = None;
        }
    }
}

impl Block {
    fn new(size: usize) -> Block {
        let count = BLOCK_BYTES / size;
        Block {
            memory: NonNull::from(Box::leak(Box::new_uninit_slice(count * size))),
            // The first ones are taken first.
            free: (0..count as u32).rev().collect(),
        }
    }

    fn is_unused(&self, size: usize) -> bool {
        self.free.len() * size == self.memory.len()
    }

    fn take(&mut self, size: usize) -> NonNull<u8> {
        let number = self.free.pop().expect("a free buffer") as usize;
        // SAFETY: the numbers are those of the buffers within the memory.
        unsafe { self.memory.cast::<u8>().byte_add(number * size) }
    }

    fn put_back(&mut self, memory: NonNull<u8>, size: usize) {
        let offset = memory.addr().get() - self.memory.addr().get();
        self.free.push((offset / size) as u32);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: from `Box::leak`, and no buffer of it is in use: each one has the slab, and a slab drops a block
        // only when all its buffers are free.
        drop(unsafe { Box::from_raw(self.memory.as_ptr()) });
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.borrow();
        f.debug_struct("Slab")
            .field("size", &self.0.size)
            .field("blocks", &state.blocks.iter().flatten().count())
            .finish_non_exhaustive()
    }
}

/// A buffer of a [`Slab`], which derefs to the bytes received so far.
pub struct SlabBuffer {
    slab: Rc<Shared>,
    memory: NonNull<u8>,
    block: u32,
    length: u32,
}

impl Deref for SlabBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the block lives as long as the slab, and these bytes of it are this buffer's, and written.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.length as usize) }
    }
}

// SAFETY: the block does not move and lives as long as the slab, and only this buffer uses this part of it.
unsafe impl Sink for SlabBuffer {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        // At most to the end of the buffer.
        let length = self.length as usize;
        let rest = self.memory.as_ptr().wrapping_add(length);
        (rest, self.slab.size - length)
    }

    unsafe fn append(&mut self, count: usize) {
        self.length += count as u32;
    }
}

impl Drop for SlabBuffer {
    fn drop(&mut self) {
        let mut state = self.slab.state.borrow_mut();
        state.put_back(self.block, self.memory, self.slab.size);
    }
}

impl fmt::Debug for SlabBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlabBuffer")
            .field("capacity", &self.slab.size)
            .field("length", &self.length)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(buffer: &mut SlabBuffer, bytes: &[u8]) {
        let (memory, capacity) = buffer.spare_capacity();
        assert!(bytes.len() <= capacity);
        // SAFETY: within the capacity.
        unsafe {
            memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            buffer.append(bytes.len());
        }
    }

    #[test]
    fn buffers_do_not_overlap_and_are_used_again() {
        let slab = Slab::new(1000);
        let per_block = BLOCK_BYTES / 1000;
        let mut buffers: Vec<SlabBuffer> = (0..per_block + 1).map(|_| slab.take()).collect();
        for (number, buffer) in buffers.iter_mut().enumerate() {
            fill(buffer, &[number as u8; 400]);
            fill(buffer, &[!number as u8; 600]);
            assert_eq!(buffer.spare_capacity().1, 0);
        }
        for (number, buffer) in buffers.iter().enumerate() {
            let (first, second) = buffer.split_at(400);
            assert_eq!(
                (first, second),
                (&[number as u8; 400][..], &[!number as u8; 600][..])
            );
        }
        let block = per_block * 1000;
        assert_eq!(slab.reserved_bytes(), 2 * block);
        let last = buffers.pop().expect("a buffer");
        let memory = last.memory;
        drop(last);
        let again = slab.take();
        assert!(again.is_empty() && again.memory == memory);
        drop(again);
        // The second block is kept for the next buffers, and the first one is freed when it is unused too.
        assert_eq!(slab.reserved_bytes(), 2 * block);
        drop(buffers);
        assert_eq!(slab.reserved_bytes(), block);
        (0..2 * per_block).for_each(|_| drop(slab.take()));
        assert_eq!(slab.reserved_bytes(), block);
    }

    #[test]
    fn memory_follows_the_buffers_in_use() {
        let slab = Slab::new(BLOCK_BYTES / 4);
        let mut buffers: Vec<_> = (0..40).map(|_| slab.take()).collect();
        assert_eq!(slab.reserved_bytes(), 10 * BLOCK_BYTES);
        // One buffer of each block stays.
        let mut number = 0;
        buffers.retain(|_| {
            number += 1;
            number % 4 == 0
        });
        assert_eq!(slab.reserved_bytes(), 10 * BLOCK_BYTES);
        // The oldest blocks are filled first, so the others are freed with their last buffer.
        let more: Vec<_> = (0..9).map(|_| slab.take()).collect();
        assert!(more.iter().all(|buffer| buffer.block < 3));
        drop(buffers);
        assert_eq!(slab.reserved_bytes(), 4 * BLOCK_BYTES);
        let many: Vec<_> = (0..100).map(|_| slab.take()).collect();
        drop((more, many));
        assert_eq!(slab.reserved_bytes(), BLOCK_BYTES);
    }

    #[test]
    fn a_buffer_outlives_its_slab() {
        let mut buffer = Slab::new(16).take();
        fill(&mut buffer, b"bytes");
        assert_eq!(&buffer[..], b"bytes");
    }
}
