//! A table with one entry for each descriptor of the process, by number.

use std::ops::Range;
use std::os::fd::RawFd;

#[derive(Debug, Default)]
pub(crate) struct FdTable<T> {
    entries: Vec<T>,
}

impl<T: Copy + Default> FdTable<T> {
    #[inline]
    pub(crate) fn get(&self, fd: RawFd) -> Option<&T> {
        self.entries.get(fd as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, fd: RawFd) -> Option<&mut T> {
        self.entries.get_mut(fd as usize)
    }

    /// The entry of a descriptor, which is made if the descriptor is open: an arbitrary number must
    /// not allocate memory.
    #[inline]
    pub(crate) fn track(&mut self, fd: RawFd) -> Option<&mut T> {
        let tracked = (0..self.entries.len()).contains(&(fd as usize)) || self.grow_for(fd);
        tracked.then(|| &mut self.entries[fd as usize])
    }

    #[cold]
    fn grow_for(&mut self, fd: RawFd) -> bool {
        if fd < 0 {
            return false;
        }
        // SAFETY: F_GETFD takes no pointers.
        let open =
            unsafe { crate::sys::raw(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize]) };
        if open.is_err() {
            return false;
        }
        let length = (fd as usize + 1).next_power_of_two().max(64);
        self.entries.resize(length, T::default());
        true
    }

    /// The numbers of a range (both ends included) that have an entry.
    pub(crate) fn tracked(&self, first: RawFd, last: RawFd) -> Range<RawFd> {
        first..last.saturating_add(1).min(self.entries.len() as RawFd)
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<T>()
    }
}
