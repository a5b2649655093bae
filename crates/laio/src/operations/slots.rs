//! Slots: calls in the background, in a table of slots with stable addresses.

use super::{Access, Direction, Link};
use crate::background::after_open::{AfterOpen, AfterOpenAddress};
use crate::status_word::StatusTarget;
use crate::table::Row;
use crate::transfer::{Scratch, remaining, shortened};
use crate::{Call, Completion, Errno, Handle};
use std::ops::{Index, IndexMut};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// Index of an operation.
pub(crate) type Slot = u32;

/// The state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot is free.
    Free,
    /// Not started: new, or queued behind an earlier operation on its descriptor.
    Queued,
    /// A part of the background has it.
    With(Part),
    /// Has its result, but the kernel still uses the memory of a zero-copy send.
    AwaitingNotif,
    /// Finished; its completion is not delivered yet.
    Finished,
    /// Delivered; the value of a typed operation has not been taken.
    Delivered,
}

/// A part of the background, which may have an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// io_uring makes the call.
    Ring,
    /// A worker thread of io_uring makes the call (`IOSQE_ASYNC`).
    RingWorker,
    /// A poll entry on the ring, or an interest in the epoll set, reports that the descriptor is
    /// ready; then the operation is attempted again.
    Readiness,
    /// POSIX AIO or Linux AIO has the step, or it is queued until a request is free.
    Aio,
    /// A helper thread makes the call.
    Helper,
    /// The call blocked in the thread that was left behind when a spare thread took over the
    /// program.
    Carrier,
}

impl State {
    /// Whether the operation is still queued or running.
    pub(crate) fn is_in_flight(self) -> bool {
        !matches!(self, State::Free | State::Finished | State::Delivered)
    }
}

/// An operation in flight: one call in the background.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) call: Call,
    pub(crate) row: &'static Row,
    /// Bytes already moved.
    pub(crate) done: usize,
    /// The result, once finished.
    pub(crate) result: Result<usize, Errno>,
    pub(crate) user_data: u64,
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// Whether its cancellation was requested. It may still finish with a result of its own.
    pub(crate) cancelled: bool,
    /// Whether its own time-out has cancelled it.
    pub(crate) timed_out: bool,
    /// Readiness events in a row after which the attempt still returned `EAGAIN`.
    pub(crate) spurious_wakeups: u8,
    /// Whether the completion is dropped rather than delivered.
    pub(crate) abandoned: bool,
    /// Whether the call is positioned or its descriptor is a regular file. Then a short read may be
    /// the end of the file, rather than all that there is for now, and the transfer is continued.
    pub(crate) regular: bool,
    /// Whether this is a zero-copy send (`IORING_OP_SEND_ZC`).
    pub(crate) zero_copy: bool,
    /// Whether it reads a terminal that was hung up before the read started, and no attempt was made.
    pub(crate) began_hung_up: bool,
    /// Outstanding zero-copy notifications (`IORING_CQE_F_NOTIF`). Negative while a notification
    /// has arrived before its result.
    pub(crate) awaiting_notif: i16,
    /// The version of the rights (see [`crate::background::rights`]) with which the operation was first
    /// handed over, if its permissions depend on them.
    pub(crate) rights: Option<u32>,
    pub(crate) links: [Link; 2],
    /// The device number of the remote file system that it asks, if it was found to ask one.
    pub(crate) remote: Option<u64>,
    /// When the ring got it; see [`crate::background::ring`].
    pub(crate) ring_epoch: u32,
    /// When its time-out cancels it.
    pub(crate) deadline: Option<Instant>,
    /// The status word that receives the result as soon as it is known.
    pub(crate) status: Option<StatusTarget>,
    /// Memory that the kernel reads while the operation runs, where the caller's own does not fit.
    pub(crate) scratch: Option<Box<Scratch>>,
}

impl InFlight {
    /// Returns the call for the bytes that are left.
    pub(crate) fn rest(&mut self) -> Call {
        // SAFETY: if `done > 0`, the kernel has already accepted the pointers.
        unsafe { remaining(self.row, &self.call, self.done, &mut self.scratch) }
    }

    /// Returns the call for the next step: the rest, or its first `bound` bytes if the test hook
    /// `Inject::short_transfer` limits a step.
    pub(crate) fn step(&mut self, bound: usize) -> Call {
        let rest = self.rest();
        match bound {
            0 => rest,
            // SAFETY: as for the system call.
            _ => unsafe { shortened(self.row, &rest, bound, &mut self.scratch) },
        }
    }

    /// The descriptor and direction whose readiness the operation waits for.
    pub(crate) fn awaited(&self) -> (RawFd, Direction) {
        self.polled()
            .unwrap_or((self.call.descriptor(0), Direction::for_row(self.row)))
    }

    /// The descriptor and direction of a poll that waits by readiness; see
    /// [`crate::placement::link_of_poll`].
    pub(crate) fn polled(&self) -> Option<(RawFd, Direction)> {
        let link = self.links[0];
        let direction = match link.access {
            _ if !self.row.polls => return None,
            Access::READING => Direction::Read,
            Access::WRITING => Direction::Write,
            _ => return None,
        };
        Some((link.fd, direction))
    }

    /// What the thread that opens the file does with it.
    pub(crate) fn after_open(&mut self) -> Option<AfterOpenAddress> {
        let after_open = &mut self.scratch.as_mut()?.after_open;
        after_open.as_mut().map(AfterOpen::address)
    }

    /// Whether the thread that opens the file does more than that.
    pub(crate) fn goes_on_after_open(&self) -> bool {
        let scratch = self.scratch.as_ref();
        scratch.is_some_and(|scratch| scratch.after_open.is_some())
    }

    /// Whether an attempt has opened a FIFO or device, whose open may wait.
    pub(crate) fn is_provisional(&self) -> bool {
        let scratch = self.scratch.as_ref();
        scratch.is_some_and(|scratch| scratch.provisional.is_some())
    }
}

const CHUNK: usize = 64;

/// The number of tables made so far.
static CONTEXTS: AtomicU32 = AtomicU32::new(1);

/// The table of slots. Slots never move, so the kernel may point into their scratch memory.
#[derive(Debug)]
pub(crate) struct Slots {
    chunks: Vec<Box<[InFlight; CHUNK]>>,
    free: Vec<Slot>,
    live: u32,
    limit: u32,
    /// How many slots beyond the limit are allowed: one for each finished operation that a waiting
    /// call could not deliver.
    extra: u32,
    /// Delivered typed operations whose value has not been taken.
    untaken: u32,
    /// The first generation of new slots. It differs between contexts, so that a handle of another
    /// context is not found here.
    first_generation: u32,
}

impl Slots {
    pub(crate) fn new(limit: u32) -> Slots {
        Slots {
            chunks: Vec::new(),
            free: Vec::new(),
            live: 0,
            limit,
            extra: 0,
            untaken: 0,
            first_generation: CONTEXTS.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B1),
        }
    }

    /// The number of slots in use: operations in flight, not yet delivered, or delivered with a value
    /// that has not been taken.
    #[inline]
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.live >= self.limit + self.extra
    }

    /// Allows one slot beyond the limit for each finished, undelivered operation: it holds no
    /// resource but its slot.
    pub(crate) fn set_extra_slots(&mut self, finished: u32) {
        self.extra = finished.min(self.limit);
    }

    /// Allows fewer slots beyond the limit after completions have been delivered.
    pub(crate) fn shrink_extra_slots(&mut self, finished: u32) {
        self.extra = self.extra.min(finished);
    }

    /// Takes a free slot for a call.
    pub(crate) fn insert(&mut self, row: &'static Row, call: &Call, user_data: u64) -> Slot {
        assert!(!self.is_full(), "the caller checks the limit");
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.grow(),
        };
        self.live += 1;
        let operation = &mut self[slot];
        debug_assert_eq!(operation.state, State::Free);
        operation.call = *call;
        operation.row = row;
        operation.done = 0;
        operation.user_data = user_data;
        operation.state = State::Queued;
        operation.cancelled = false;
        operation.timed_out = false;
        operation.spurious_wakeups = 0;
        operation.abandoned = false;
        operation.regular = false;
        operation.zero_copy = false;
        operation.began_hung_up = false;
        operation.awaiting_notif = 0;
        operation.rights = None;
        operation.links = [Link::UNUSED; 2];
        operation.deadline = None;
        operation.status = None;
        slot
    }

    /// The number of delivered operations whose value has not been taken.
    pub(crate) fn untaken(&self) -> u32 {
        self.untaken
    }

    /// Marks a typed operation as delivered; its value can be taken.
    pub(crate) fn deliver(&mut self, slot: Slot) {
        self[slot].state = State::Delivered;
        self.untaken += 1;
    }

    /// Frees a slot. Its handle becomes stale.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let operation = &mut self[slot];
        debug_assert!(matches!(
            operation.state,
            State::Finished | State::Delivered
        ));
        let delivered = operation.state == State::Delivered;
        operation.state = State::Free;
        operation.generation = operation.generation.wrapping_add(1);
        operation.scratch = None;
        self.live -= 1;
        self.untaken -= u32::from(delivered);
        self.extra = self.extra.min(self.live);
        self.free.push(slot);
    }

    /// The handle of a live slot.
    #[inline]
    pub(crate) fn handle(&self, slot: Slot) -> Handle {
        Handle::new(slot, self[slot].generation)
    }

    /// The slot of a handle, unless it is stale or foreign.
    pub(crate) fn find(&self, handle: Handle) -> Option<Slot> {
        let slot = handle.slot();
        let operation = self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?;
        let live = operation.state != State::Free && operation.generation == handle.generation();
        live.then_some(slot as Slot)
    }

    /// The slot of an operation that a part of the background has.
    pub(crate) fn live_slot(&self, handle: Handle) -> Slot {
        self.find(handle).expect("an operation of a part is live")
    }

    /// The completion of a finished operation.
    pub(crate) fn completion(&self, slot: Slot) -> Completion {
        let operation = &self[slot];
        Completion {
            handle: self.handle(slot),
            result: operation.result,
            user_data: operation.user_data,
        }
    }

    /// All live slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let all = 0..(self.chunks.len() * CHUNK) as Slot;
        all.filter(|&slot| self[slot].state != State::Free)
    }

    /// The link that a reference names; see [`super::order`].
    pub(crate) fn link(&self, reference: u32) -> &Link {
        &self[(reference - 1) / 2].links[((reference - 1) % 2) as usize]
    }

    pub(crate) fn link_mut(&mut self, reference: u32) -> &mut Link {
        &mut self[(reference - 1) / 2].links[((reference - 1) % 2) as usize]
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.chunks.len() * size_of::<[InFlight; CHUNK]>()
            + self.chunks.capacity() * size_of::<usize>()
            + self.free.capacity() * size_of::<Slot>()
    }

    fn grow(&mut self) -> Slot {
        let first = (self.chunks.len() * CHUNK) as Slot;
        self.chunks.push(Box::new(std::array::from_fn(|_| InFlight {
            call: Call {
                number: 0,
                args: [0; 6],
            },
            row: &crate::table::UNKNOWN,
            done: 0,
            result: Ok(0),
            user_data: 0,
            generation: self.first_generation,
            state: State::Free,
            cancelled: false,
            timed_out: false,
            spurious_wakeups: 0,
            abandoned: false,
            regular: false,
            zero_copy: false,
            began_hung_up: false,
            awaiting_notif: 0,
            rights: None,
            links: [Link::UNUSED; 2],
            remote: None,
            ring_epoch: 0,
            deadline: None,
            status: None,
            scratch: None,
        })));
        self.free.extend((first + 1..first + CHUNK as Slot).rev());
        first
    }
}

impl Index<Slot> for Slots {
    type Output = InFlight;

    #[inline]
    fn index(&self, slot: Slot) -> &InFlight {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

impl IndexMut<Slot> for Slots {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut InFlight {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::{Access, Order};
    use crate::table;

    fn insert(operations: &mut Slots, fd: i32, access: Access) -> Slot {
        let slot = operations.insert(
            &table::UNKNOWN,
            &Call {
                number: 0,
                args: [0; 6],
            },
            0,
        );
        operations[slot].links[0] = Link::new(fd, access);
        slot
    }

    #[test]
    fn handles_go_stale_and_slots_are_reused() {
        let mut operations = Slots::new(200);
        let slots: Vec<_> = (0..200)
            .map(|i| {
                operations.insert(
                    &table::UNKNOWN,
                    &Call {
                        number: i,
                        args: [0; 6],
                    },
                    0,
                )
            })
            .collect();
        assert!(operations.is_full());
        let handle = operations.handle(slots[77]);
        assert_eq!(operations.find(handle), Some(slots[77]));
        operations[slots[77]].state = State::Finished;
        operations.remove(slots[77]);
        assert_eq!(operations.find(handle), None);
        let again = operations.insert(
            &table::UNKNOWN,
            &Call {
                number: 0,
                args: [0; 6],
            },
            0,
        );
        assert_eq!(again, slots[77]);
        assert_ne!(operations.handle(again), handle);
        assert_eq!(operations.find(handle), None);
        assert_eq!(operations.find(Handle::new(100_000, 0)), None);
    }

    #[test]
    fn a_later_read_waits_and_a_write_does_not() {
        let mut operations = Slots::new(16);
        let mut descriptors = Order::default();
        let first = insert(&mut operations, 0, Access::READING);
        assert!(!descriptors.link(&mut operations, first));
        let second = insert(&mut operations, 0, Access::READING);
        assert!(descriptors.link(&mut operations, second));
        let write = insert(&mut operations, 0, Access::WRITING);
        assert!(!descriptors.link(&mut operations, write));
        let close = insert(&mut operations, 0, Access::CLOSING);
        assert!(descriptors.link(&mut operations, close));
        let late = insert(&mut operations, 0, Access::NONE);
        assert!(
            descriptors.link(&mut operations, late),
            "nothing overtakes a close"
        );

        assert!(descriptors.still_waits(&operations, second));
        descriptors.unlink(&mut operations, first);
        assert!(!descriptors.still_waits(&operations, second));
        assert!(descriptors.still_waits(&operations, close));
        assert_eq!(
            descriptors.operations(&operations, 0),
            [second, write, close, late]
        );
        descriptors.unlink(&mut operations, second);
        descriptors.unlink(&mut operations, write);
        assert!(!descriptors.still_waits(&operations, close));
        descriptors.unlink(&mut operations, close);
        descriptors.unlink(&mut operations, late);
        assert!(!descriptors.is_busy(0));
    }

    #[test]
    fn what_may_start_is_found_without_passing_the_whole_queue() {
        let mut operations = Slots::new(16);
        let mut descriptors = Order::default();
        let mut link = |access| {
            let slot = insert(&mut operations, 0, access);
            descriptors.link(&mut operations, slot);
            slot
        };
        let [first, second, third] = [Access::READING; 3].map(&mut link);
        let [write, next_write] = [Access::WRITING; 2].map(&mut link);
        let bystander = link(Access::NONE);
        assert_eq!(
            descriptors.startable(&operations, 0),
            [first, write, bystander]
        );
        descriptors.unlink(&mut operations, bystander);
        descriptors.unlink(&mut operations, first);
        assert_eq!(descriptors.startable(&operations, 0), [second, write]);
        descriptors.unlink(&mut operations, write);
        assert_eq!(descriptors.startable(&operations, 0), [second, next_write]);
        let close = insert(&mut operations, 0, Access::CLOSING);
        descriptors.link(&mut operations, close);
        let late = insert(&mut operations, 0, Access::NONE);
        descriptors.link(&mut operations, late);
        for slot in [second, third, next_write] {
            assert!(!descriptors.startable(&operations, 0).contains(&close));
            descriptors.unlink(&mut operations, slot);
        }
        assert_eq!(descriptors.startable(&operations, 0), [close]);
        descriptors.unlink(&mut operations, close);
        assert_eq!(descriptors.startable(&operations, 0), [late]);
        assert!(descriptors.startable(&operations, 1).is_empty());
    }

    #[test]
    fn wild_descriptors_are_not_tracked() {
        let mut operations = Slots::new(4);
        let mut descriptors = Order::default();
        let slot = insert(&mut operations, i32::MAX, Access::READING);
        assert!(!descriptors.link(&mut operations, slot));
        assert!(descriptors.memory() < 1 << 20);
    }
}
