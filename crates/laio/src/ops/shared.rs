//! Memory that is also a file, so that bytes read into it can be sent from it inside the kernel.

use super::Sink;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::rc::Rc;

/// A buffer backed by a memfd: reads append to it, and `sendfile` or `splice` take the bytes from
/// [`SharedBuffer::file`], without a copy to user space. It is aligned to pages, as direct I/O
/// needs it.
pub struct SharedBuffer {
    file: Rc<OwnedFd>,
    memory: NonNull<u8>,
    capacity: usize,
    length: usize,
}

impl SharedBuffer {
    /// Returns a buffer of `capacity` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// `ENOSYS` where there is no `memfd_create`; `EMFILE`, `ENFILE`, `ENOMEM` at limits.
    pub fn new(capacity: usize) -> io::Result<SharedBuffer> {
        let page = rustix::param::page_size();
        let capacity = capacity.max(1).next_multiple_of(page);
        let file = rustix::fs::memfd_create(c"laio-shared-buffer", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, capacity as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let memory = unsafe {
            let hint = std::ptr::null_mut();
            rustix::mm::mmap(hint, capacity, protection, MapFlags::SHARED, &file, 0)?
        };
        Ok(SharedBuffer {
            file: Rc::new(file),
            memory: NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            capacity,
            length: 0,
        })
    }

    /// Returns the file whose first bytes are those of the buffer.
    pub fn file(&self) -> &Rc<OwnedFd> {
        &self.file
    }

    /// Returns the number of bytes read into it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no bytes were read into it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns its capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Empties it, and gives it new memory: pages sent from the old memory may still be in a pipe
    /// or socket queue, and do not change.
    ///
    /// # Errors
    /// Those of `fallocate`: nothing was changed.
    pub fn renew(&mut self) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&*self.file, flags, 0, self.capacity as u64)?;
        self.length = 0;
        Ok(())
    }
}

// SAFETY: the mapping is the buffer's own until it is dropped, and its memory is never lent out: only the kernel
// writes to it. If another process shortens the file, the kernel finds no memory there (EFAULT).
unsafe impl Sink for SharedBuffer {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        let left = self.capacity - self.length;
        // At most to the end of the mapping.
        (self.memory.as_ptr().wrapping_add(self.length), left)
    }

    unsafe fn append(&mut self, count: usize) {
        self.length += count;
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // SAFETY: our mapping, to which nothing points any more.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.capacity) };
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBuffer")
            .field("capacity", &self.capacity)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::ReadAt;
    use crate::{BackendKind, Context, Options, Outcome};

    #[test]
    fn what_was_sent_stays_when_the_buffer_is_renewed() {
        let options = Options::new().backend(BackendKind::Sync);
        let mut context = Context::new(options).unwrap();
        let (from, to) = rustix::pipe::pipe().unwrap();
        let source = Rc::new(rustix::fs::memfd_create(c"source", MemfdFlags::CLOEXEC).unwrap());
        let mut shared = SharedBuffer::new(5000).unwrap();
        for byte in *b"ab" {
            rustix::io::pwrite(&*source, &[byte; 5000], 0).unwrap();
            shared.renew().unwrap();
            assert!(shared.is_empty() && shared.capacity() >= 5000);
            let read = ReadAt::new(source.clone(), shared, 0);
            let Outcome::Done((result, filled)) = context.submit(read) else {
                panic!("plain calls do not wait");
            };
            assert_eq!((result.unwrap(), filled.len()), (5000, 5000));
            shared = filled;
            let mut offset = 0;
            let sent = rustix::fs::sendfile(&to, shared.file(), Some(&mut offset), 5000);
            assert_eq!(sent, Ok(5000));
        }
        drop(shared);
        let mut found = [0; 10_000];
        let mut filled = 0;
        while filled < found.len() {
            filled += rustix::io::read(&from, &mut found[filled..]).unwrap();
        }
        assert!(found[..5000].iter().all(|&byte| byte == b'a'));
        assert!(found[5000..].iter().all(|&byte| byte == b'b'));
    }
}
