//! Per-descriptor state of a context: the operations in flight, in order, and cached hints.
//!
//! A hint (kind, mount) may be stale, because a descriptor can be closed behind the context's back.
//! Hints therefore only choose which of several safe attempts is made first; see
//! [`crate::attempt`].

use crate::mounts::{FileKind, MountIndex};
use crate::operation::{Operations, Slot};
use std::os::fd::RawFd;

/// How an operation uses a descriptor, as bits: it decides which later calls must wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const CLOSE: u8 = 4;

    pub(crate) const NONE: Access = Access(0);
    pub(crate) const READING: Access = Access(Access::READ);
    pub(crate) const WRITING: Access = Access(Access::WRITE);
    pub(crate) const BOTH: Access = Access(Access::READ | Access::WRITE);
    pub(crate) const CLOSING: Access = Access(Access::CLOSE);

    fn overlaps(self, other: Access) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the union of both accesses.
    pub(crate) fn union(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    fn is_closing(self) -> bool {
        self.0 & Access::CLOSE != 0
    }

    /// Whether an operation with this access must wait for an earlier one with the other access.
    pub(crate) fn waits_for(self, earlier: Access) -> bool {
        self.is_closing() || earlier.is_closing() || self.overlaps(earlier)
    }
}

/// The link of an operation in the list of one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) fd: RawFd,
    pub(crate) access: Access,
    previous: u32,
    next: u32,
}

impl Link {
    pub(crate) const UNUSED: Link = Link {
        fd: -1,
        access: Access::NONE,
        previous: 0,
        next: 0,
    };

    pub(crate) fn new(fd: RawFd, access: Access) -> Link {
        Link {
            fd,
            access,
            ..Link::UNUSED
        }
    }
}

/// State of one descriptor. References to operations are slot * 2 + link index + 1; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    first: u32,
    last: u32,
    readers: u32,
    writers: u32,
    closers: u16,
    /// The number of operations that wait for an earlier one on this descriptor.
    queued: u32,
    /// Index of the mount + 1; 0 is unknown.
    mount: MountIndex,
    flags: u8,
}

impl Entry {
    const STREAM: u8 = 1;
    const REGULAR: u8 = 2;
    const ORDERED: u8 = 4;
    const SOCKET: u8 = 8;
    const NOT_DIRECT_IO: u8 = 16;
}

/// The states of all descriptors, by number.
#[derive(Debug, Default)]
pub(crate) struct Descriptors {
    entries: Vec<Entry>,
}

impl Descriptors {
    /// Whether any operation is in flight on the descriptor.
    #[inline]
    pub(crate) fn is_busy(&self, fd: RawFd) -> bool {
        self.entries
            .get(fd as usize)
            .is_some_and(|entry| entry.first != 0)
    }

    /// Whether more than one operation is in flight on the descriptor.
    pub(crate) fn has_others(&self, fd: RawFd) -> bool {
        let entry = self.entries.get(fd as usize);
        entry.is_some_and(|entry| entry.first != entry.last)
    }

    /// Whether a call with this access would overtake an operation in flight.
    #[inline]
    pub(crate) fn must_wait(&self, fd: RawFd, access: Access) -> bool {
        match self.entries.get(fd as usize) {
            Some(entry) if entry.first != 0 => {
                let ordered = entry.flags & Entry::ORDERED != 0;
                entry.closers > 0
                    || access.is_closing()
                    || ordered
                    || (access.0 & Access::READ != 0 && entry.readers > 0)
                    || (access.0 & Access::WRITE != 0 && entry.writers > 0)
            }
            _ => false,
        }
    }

    /// Makes sure that the table has an entry for the descriptor. Only for open descriptors: an
    /// arbitrary number must not allocate memory.
    #[inline]
    fn track(&mut self, fd: RawFd) -> bool {
        (0..self.entries.len()).contains(&(fd as usize)) || self.grow_for(fd)
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
        self.entries.resize(
            (fd as usize + 1).next_power_of_two().max(64),
            Entry::default(),
        );
        true
    }

    /// Adds a new operation at the end of the lists of its descriptors. Returns whether it must wait.
    pub(crate) fn link(&mut self, operations: &mut Operations, slot: Slot) -> bool {
        let mut waits = false;
        let links = operations[slot].links;
        for (which, Link { fd, access, .. }) in links.into_iter().enumerate() {
            if fd < 0 {
                continue;
            }
            if !self.track(fd) {
                operations[slot].links[which] = Link::UNUSED;
                continue;
            }
            waits |= self.must_wait(fd, access);
            let reference = slot * 2 + which as u32 + 1;
            let entry = &mut self.entries[fd as usize];
            let last = std::mem::replace(&mut entry.last, reference);
            if last == 0 {
                entry.first = reference;
            } else {
                operations.link_mut(last).next = reference;
            }
            entry.count(access, 1);
            let link = &mut operations[slot].links[which];
            link.previous = last;
            link.next = 0;
        }
        if waits {
            self.count_queued(operations, slot, 1);
        }
        waits
    }

    /// Removes an operation from the lists of its descriptors.
    pub(crate) fn unlink(&mut self, operations: &mut Operations, slot: Slot) {
        for which in 0..2 {
            let link = operations[slot].links[which];
            if link.fd < 0 {
                continue;
            }
            let entry = &mut self.entries[link.fd as usize];
            entry.count(link.access, -1);
            match link.previous {
                0 => entry.first = link.next,
                previous => operations.link_mut(previous).next = link.next,
            }
            match link.next {
                0 => entry.last = link.previous,
                next => operations.link_mut(next).previous = link.previous,
            }
        }
    }

    /// Adjusts the number of waiting operations of the descriptors of `slot`.
    pub(crate) fn count_queued(&mut self, operations: &Operations, slot: Slot, by: i32) {
        for link in operations[slot].links {
            if link.fd >= 0 {
                let queued = &mut self.entries[link.fd as usize].queued;
                *queued = queued.wrapping_add_signed(by);
            }
        }
    }

    /// Whether operations wait on the descriptor for earlier ones.
    pub(crate) fn has_queued(&self, fd: RawFd) -> bool {
        self.entries
            .get(fd as usize)
            .is_some_and(|entry| entry.queued > 0)
    }

    /// The operations in flight on a descriptor, oldest first.
    pub(crate) fn operations(&self, operations: &Operations, fd: RawFd) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut reference = self.entries.get(fd as usize).map_or(0, |entry| entry.first);
        while reference != 0 {
            slots.push((reference - 1) / 2);
            reference = operations.link(reference).next;
        }
        slots
    }

    /// Whether an operation that waits still has an earlier one before it.
    pub(crate) fn still_waits(&self, operations: &Operations, slot: Slot) -> bool {
        operations[slot].links.iter().any(|link| {
            let Some(entry) = self.entries.get(link.fd as usize) else {
                return false;
            };
            let ordered = entry.flags & Entry::ORDERED != 0;
            let mut reference = entry.first;
            while reference != 0 && (reference - 1) / 2 != slot {
                let earlier = operations.link(reference);
                if ordered || link.access.waits_for(earlier.access) {
                    return true;
                }
                reference = earlier.next;
            }
            false
        })
    }

    /// Descriptors with operations in flight, within a range of numbers.
    pub(crate) fn busy_in(&self, first: RawFd, last: RawFd) -> impl Iterator<Item = RawFd> + '_ {
        let last = (last as usize).min(self.entries.len().saturating_sub(1));
        (first as usize..=last)
            .filter(|&fd| self.entries.get(fd).is_some_and(|entry| entry.first != 0))
            .map(|fd| fd as RawFd)
    }

    /// Makes all calls on the descriptor ordered, or no longer.
    pub(crate) fn set_ordered(&mut self, fd: RawFd, ordered: bool) {
        if !self.track(fd) {
            return;
        }
        let flags = &mut self.entries[fd as usize].flags;
        *flags = if ordered {
            *flags | Entry::ORDERED
        } else {
            *flags & !Entry::ORDERED
        };
    }

    pub(crate) fn is_ordered(&self, fd: RawFd) -> bool {
        self.entries
            .get(fd as usize)
            .is_some_and(|entry| entry.flags & Entry::ORDERED != 0)
    }

    /// The cached kind of file of the descriptor.
    #[inline]
    pub(crate) fn kind(&self, fd: RawFd) -> Option<FileKind> {
        let entry = self.entries.get(fd as usize)?;
        match entry.flags & (Entry::STREAM | Entry::REGULAR) {
            Entry::STREAM if entry.flags & Entry::SOCKET != 0 => Some(FileKind::Socket),
            Entry::STREAM => Some(FileKind::Stream),
            Entry::REGULAR => Some(FileKind::Regular),
            _ => None,
        }
    }

    /// The cached mount of the descriptor.
    #[inline]
    pub(crate) fn mount(&self, fd: RawFd) -> Option<MountIndex> {
        self.entries
            .get(fd as usize)
            .and_then(|entry| entry.mount.checked_sub(1))
    }

    /// Caches the kind and the mount of a descriptor.
    pub(crate) fn learn(&mut self, fd: RawFd, kind: FileKind, mount: Option<MountIndex>) {
        if !self.track(fd) {
            return;
        }
        let entry = &mut self.entries[fd as usize];
        entry.mount = mount.map_or(0, |index| index + 1);
        entry.flags &= !(Entry::STREAM | Entry::SOCKET | Entry::REGULAR);
        entry.flags |= match kind {
            FileKind::Stream => Entry::STREAM,
            FileKind::Socket => Entry::STREAM | Entry::SOCKET,
            FileKind::Regular => Entry::REGULAR,
            FileKind::Directory => 0,
        };
    }

    /// Whether the descriptor is known to use the page cache (no `O_DIRECT`).
    #[inline]
    pub(crate) fn not_direct_io(&self, fd: RawFd) -> bool {
        self.entries
            .get(fd as usize)
            .is_some_and(|entry| entry.flags & Entry::NOT_DIRECT_IO != 0)
    }

    /// Sets or clears the hint that the descriptor uses the page cache.
    pub(crate) fn set_not_direct_io(&mut self, fd: RawFd, not_direct_io: bool) {
        if !self.track(fd) {
            return;
        }
        let flags = &mut self.entries[fd as usize].flags;
        *flags = if not_direct_io {
            *flags | Entry::NOT_DIRECT_IO
        } else {
            *flags & !Entry::NOT_DIRECT_IO
        };
    }

    /// Clears the hints of a descriptor that is closed or replaced.
    #[inline]
    pub(crate) fn forget(&mut self, fd: RawFd) {
        if let Some(entry) = self.entries.get_mut(fd as usize) {
            entry.mount = 0;
            entry.flags = 0;
        }
    }

    /// Clears the hints of a range of descriptors.
    pub(crate) fn forget_range(&mut self, first: RawFd, last: RawFd) {
        for fd in first..=last.min(self.entries.len() as RawFd - 1) {
            self.forget(fd);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

impl Entry {
    fn count(&mut self, access: Access, by: i32) {
        if access.0 & Access::READ != 0 {
            self.readers = self.readers.wrapping_add_signed(by);
        }
        if access.0 & Access::WRITE != 0 {
            self.writers = self.writers.wrapping_add_signed(by);
        }
        if access.is_closing() {
            self.closers = self.closers.wrapping_add_signed(by as i16);
        }
    }
}
