//! The operations in flight on each descriptor, in order.

use super::{Slot, Slots};
use crate::Call;
use crate::fd_table::FdTable;
use crate::knowledge::hints::Hints;
use crate::table::{Attempt, Descriptor, Row, Transfer, Use};
use std::ops::RangeInclusive;
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
    fn union(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    fn is_closing(self) -> bool {
        self.0 & Access::CLOSE != 0
    }

    /// Whether it reads and whether it writes; closing is both.
    pub(crate) fn directions(self) -> [bool; 2] {
        [Access::READ, Access::WRITE].map(|bit| self.0 & (bit | Access::CLOSE) != 0)
    }

    /// Whether an operation with this access must wait for an earlier one with the other access.
    fn waits_for(self, earlier: Access) -> bool {
        self.is_closing() || earlier.is_closing() || self.overlaps(earlier)
    }
}

/// Which readiness an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    /// The direction whose readiness a call waits for.
    pub(crate) fn for_row(row: &Row) -> Direction {
        match row.descriptors[0].map(|descriptor| descriptor.usage) {
            Some(Use::Write) => Direction::Write,
            _ => Direction::Read,
        }
    }
}

/// The link of an operation in the list of one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) fd: RawFd,
    pub(crate) access: Access,
    /// Whether the operation waits for all earlier ones on the descriptor.
    pub(crate) ordered: bool,
    previous: u32,
    next: u32,
}

impl Link {
    pub(crate) const UNUSED: Link = Link {
        fd: -1,
        access: Access::NONE,
        ordered: false,
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

    /// The same link, for a descriptor whose operations all run in order.
    pub(crate) fn ordered(self, ordered: bool) -> Link {
        Link { ordered, ..self }
    }

    /// Whether the operation has an order to keep on a descriptor.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.fd >= 0 && (self.access != Access::NONE || self.ordered)
    }

    /// Whether an operation with this link must wait for an earlier one with the other link.
    fn waits_for(&self, earlier: &Link) -> bool {
        self.ordered || self.access.waits_for(earlier.access)
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
    /// The number of operations that wait only for those which close the descriptor.
    bystanders: u32,
    /// The number of operations that wait for an earlier one on this descriptor.
    queued: u32,
}

/// A `close_range` in flight. It stands in no list: later operations on its descriptors wait for it.
#[derive(Debug)]
struct RangeClose {
    slot: Slot,
    fds: RangeInclusive<RawFd>,
    /// The operations in flight for which it waits: those that were on its descriptors before it.
    older: Vec<Slot>,
}

/// The lists of all descriptors, by number. Operations wait for older ones only, so the oldest that
/// waits can start when those before it have ended, and no wait lasts for ever.
#[derive(Debug, Default)]
pub(crate) struct Order {
    entries: FdTable<Entry>,
    /// Oldest first.
    range_closes: Vec<RangeClose>,
}

impl Order {
    /// Whether any operation is in flight on the descriptor.
    #[inline]
    pub(crate) fn is_busy(&self, fd: RawFd) -> bool {
        self.entries.get(fd).is_some_and(|entry| entry.first != 0) || self.is_in_range(fd)
    }

    /// Whether a `close_range` in flight names the descriptor.
    #[inline]
    fn is_in_range(&self, fd: RawFd) -> bool {
        let mut closes = self.range_closes.iter();
        closes.any(|close| close.fds.contains(&fd))
    }

    /// Whether more than one operation is in flight on the descriptor.
    pub(crate) fn has_others(&self, fd: RawFd) -> bool {
        let entry = self.entries.get(fd);
        entry.is_some_and(|entry| entry.first != entry.last)
    }

    /// Whether a call with this link would overtake an operation in flight.
    #[inline]
    pub(crate) fn must_wait(&self, link: &Link) -> bool {
        match self.entries.get(link.fd) {
            Some(entry) if entry.first != 0 => {
                entry.closers > 0
                    || link.access.is_closing()
                    || link.ordered
                    || (link.access.0 & Access::READ != 0 && entry.readers > 0)
                    || (link.access.0 & Access::WRITE != 0 && entry.writers > 0)
                    || self.is_in_range(link.fd)
            }
            _ => self.is_in_range(link.fd),
        }
    }

    /// Adds a new `close_range`, for these descriptors. Returns whether it must wait.
    pub(crate) fn link_range(&mut self, slots: &Slots, slot: Slot, fds: (RawFd, RawFd)) -> bool {
        let busy = self.busy_in(fds.0, fds.1);
        let mut older: Vec<Slot> = busy.flat_map(|fd| self.operations(slots, fd)).collect();
        older.sort_unstable();
        older.dedup();
        let waits = !older.is_empty();
        self.range_closes.push(RangeClose {
            slot,
            fds: fds.0..=fds.1,
            older,
        });
        waits
    }

    /// The descriptors that may have operations which wait for this `close_range`; an empty list for other
    /// operations.
    pub(crate) fn closed_by(&self, slot: Slot) -> Vec<RawFd> {
        let mut closes = self.range_closes.iter();
        let Some(close) = closes.find(|close| close.slot == slot) else {
            return Vec::new();
        };
        let (first, last) = (*close.fds.start(), *close.fds.end());
        let tracked = self.entries.tracked(first, last);
        tracked.chain(self.untracked_in(first, last)).collect()
    }

    /// Adds a new operation at the end of the lists of its descriptors. Returns whether it must wait.
    pub(crate) fn link(&mut self, slots: &mut Slots, slot: Slot) -> bool {
        let mut waits = false;
        let links = slots[slot].links;
        for (which, new) in links.into_iter().enumerate() {
            if new.fd < 0 {
                continue;
            }
            let must_wait = self.must_wait(&new);
            let Some(entry) = self.entries.track(new.fd) else {
                slots[slot].links[which] = Link::UNUSED;
                continue;
            };
            waits |= must_wait;
            let reference = slot * 2 + which as u32 + 1;
            let last = std::mem::replace(&mut entry.last, reference);
            if last == 0 {
                entry.first = reference;
            } else {
                slots.link_mut(last).next = reference;
            }
            entry.count(&new, 1);
            let link = &mut slots[slot].links[which];
            link.previous = last;
            link.next = 0;
        }
        if waits {
            self.count_queued(slots, slot, 1);
        }
        waits
    }

    /// Removes an operation from the lists of its descriptors, and from those of a `close_range`.
    pub(crate) fn unlink(&mut self, slots: &mut Slots, slot: Slot) {
        self.range_closes.retain(|close| close.slot != slot);
        for close in &mut self.range_closes {
            close.older.retain(|&older| older != slot);
        }
        for which in 0..2 {
            let link = slots[slot].links[which];
            if link.fd < 0 {
                continue;
            }
            let entry = self.entry(link.fd);
            entry.count(&link, -1);
            match link.previous {
                0 => entry.first = link.next,
                previous => slots.link_mut(previous).next = link.next,
            }
            match link.next {
                0 => entry.last = link.previous,
                next => slots.link_mut(next).previous = link.previous,
            }
        }
    }

    /// Adjusts the number of waiting operations of the descriptors of `slot`.
    pub(crate) fn count_queued(&mut self, slots: &Slots, slot: Slot, by: i32) {
        for link in slots[slot].links {
            if link.fd >= 0 {
                let queued = &mut self.entry(link.fd).queued;
                *queued = queued.wrapping_add_signed(by);
            }
        }
    }

    /// Whether operations wait on the descriptor for earlier ones.
    pub(crate) fn has_queued(&self, fd: RawFd) -> bool {
        self.entries.get(fd).is_some_and(|entry| entry.queued > 0) || self.is_in_range(fd)
    }

    /// The operations in flight on a descriptor, oldest first; then each `close_range` that names it.
    pub(crate) fn operations(&self, slots: &Slots, fd: RawFd) -> Vec<Slot> {
        let mut linked = Vec::new();
        let mut reference = self.entries.get(fd).map_or(0, |entry| entry.first);
        while reference != 0 {
            linked.push((reference - 1) / 2);
            reference = slots.link(reference).next;
        }
        let closes = self.range_closes.iter();
        linked.extend(
            closes
                .filter(|close| close.fds.contains(&fd))
                .map(|close| close.slot),
        );
        linked
    }

    /// The operations on a descriptor before which no earlier one on it stands, oldest first; then each `close_range`
    /// that names it. Stops where all operations behind have to wait, so that a long queue costs no more than a short
    /// one.
    pub(crate) fn startable(&self, slots: &Slots, fd: RawFd) -> Vec<Slot> {
        let mut startable = Vec::new();
        let entry = self.entries.get(fd).copied().unwrap_or_default();
        let mut reference = entry.first;
        let (mut before, mut passed) = (Access::NONE, Entry::default());
        while reference != 0 {
            let link = slots.link(reference);
            let is_first = reference == entry.first;
            if is_first || !(link.ordered || link.access.waits_for(before)) {
                startable.push((reference - 1) / 2);
            }
            before = before.union(link.access);
            passed.count(link, 1);
            let reads = before.0 & Access::READ != 0 || passed.readers == entry.readers;
            let writes = before.0 & Access::WRITE != 0 || passed.writers == entry.writers;
            let others = passed.bystanders == entry.bystanders;
            if before.is_closing() || (reads && writes && others) {
                // Each operation behind waits for one of these.
                break;
            }
            reference = link.next;
        }
        let closes = self.range_closes.iter();
        let closes = closes.filter(|close| close.fds.contains(&fd));
        startable.extend(closes.map(|close| close.slot));
        startable
    }

    /// Whether an operation that waits still has an earlier one before it.
    pub(crate) fn still_waits(&self, slots: &Slots, slot: Slot) -> bool {
        let links = &slots[slot].links;
        let waits_for_range = self.range_closes.iter().any(|close| {
            if close.slot == slot {
                return !close.older.is_empty();
            }
            let mut names = links.iter();
            names.any(|link| close.fds.contains(&link.fd)) && !close.older.contains(&slot)
        });
        waits_for_range
            || links.iter().any(|link| {
                let Some(entry) = self.entries.get(link.fd) else {
                    return false;
                };
                let mut reference = entry.first;
                while reference != 0 && (reference - 1) / 2 != slot {
                    let earlier = slots.link(reference);
                    if link.waits_for(earlier) {
                        return true;
                    }
                    reference = earlier.next;
                }
                false
            })
    }

    /// The descriptors of a range on which operations are in flight.
    pub(crate) fn busy_in(&self, first: RawFd, last: RawFd) -> impl Iterator<Item = RawFd> + '_ {
        let tracked = self.entries.tracked(first, last);
        tracked
            .filter(|&fd| self.is_busy(fd))
            .chain(self.untracked_in(first, last))
    }

    /// The descriptors of a range that have no entry, and that a `close_range` in flight names: one for each
    /// such call, which stands for all, because no other operations are in flight on them.
    fn untracked_in(&self, first: RawFd, last: RawFd) -> impl Iterator<Item = RawFd> + '_ {
        let untracked = self.entries.tracked(first, last).end.max(first);
        self.range_closes.iter().filter_map(move |close| {
            let from = untracked.max(*close.fds.start());
            (from <= last.min(*close.fds.end())).then_some(from)
        })
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.entries.memory() + self.range_closes.capacity() * size_of::<RangeClose>()
    }

    /// The entry of a descriptor that an operation is linked to.
    fn entry(&mut self, fd: RawFd) -> &mut Entry {
        self.entries
            .get_mut(fd)
            .expect("linked descriptors are tracked")
    }
}

impl Entry {
    fn count(&mut self, link: &Link, by: i32) {
        let access = link.access;
        if access == Access::NONE && !link.ordered {
            self.bystanders = self.bystanders.wrapping_add_signed(by);
        }
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

/// The links of an operation for this call to its descriptors, with the access to each. `regular`:
/// reads and writes share the position of a file.
pub(crate) fn links(row: &Row, call: &Call, regular: bool, hints: &Hints) -> [Link; 2] {
    let mut links = [Link::UNUSED; 2];
    for (link, descriptor) in links.iter_mut().zip(row.descriptors.iter().flatten()) {
        let fd = call.descriptor(descriptor.arg);
        let access = match access(row, call, descriptor) {
            _ if row.attempt == Attempt::Close => Access::CLOSING,
            Access::NONE => Access::NONE,
            _ if regular => Access::BOTH,
            access => access,
        };
        *link = Link::new(fd, access).ordered(hints.is_ordered(fd));
    }
    if let Attempt::Duplicate(arg) = row.attempt
        && call.descriptor(arg) != call.descriptor(0)
    {
        links[1] = Link::new(call.descriptor(arg), Access::CLOSING);
    }
    // A descriptor that the call names twice gets one link: otherwise the operation would wait
    // for itself.
    let [first, second] = &mut links;
    if first.fd == second.fd {
        first.access = first.access.union(second.access);
        *second = Link::UNUSED;
    }
    links
}

fn access(row: &Row, call: &Call, descriptor: &Descriptor) -> Access {
    if let Some(pointer) = descriptor.offset_pointer
        && call.args[pointer as usize] != 0
    {
        return Access::NONE;
    }
    // preadv2 and pwritev2 use the file position when the offset is -1.
    if let Transfer::Vector {
        offset: Some(offset),
        flags: Some(_),
        ..
    } = row.transfer
        && call.args[offset as usize] == usize::MAX
    {
        return Access::BOTH;
    }
    match descriptor.usage {
        Use::Unordered | Use::Directory => Access::NONE,
        Use::Read => Access::READING,
        Use::Write => Access::WRITING,
        Use::Both => Access::BOTH,
    }
}
