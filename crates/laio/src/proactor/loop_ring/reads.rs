//! The reads of a [`LoopRing`](super::LoopRing) that are in flight, and its two queues.

use crate::Errno;
use crate::background::ring::read_entry;
use crate::proactor::helper_pool::HelperPool;
use crate::proactor::inbox::Rest;
use crate::proactor::task::Duty;
use crate::{table, transfer};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The user data of a cancel request. A read has its index.
const CANCEL: u64 = u64::MAX;

/// The reads in flight.
pub(super) struct Reads {
    ring: ManuallyDrop<IoUring>,
    in_flight: Vec<Option<Reading>>,
    free_indexes: Vec<usize>,
    /// The user data of the SQEs that were added since the last `io_uring_enter`.
    unsubmitted: Vec<u64>,
    /// Whether the kernel has refused entries, which stay in the submission queue: nothing may enter the
    /// kernel for this ring again.
    is_broken: bool,
    /// Whether reads are refused, because the event loop or the proactor has ended.
    pub(super) is_closed: bool,
    /// Whether a driver looks at the ring.
    pub(super) is_watched: bool,
    /// The number of calls of [`Reads::take`], and what it was at the last look.
    takes: u64,
    takes_at_last_look: u64,
}

/// A read in flight. The kernel uses the memory of its operation, which the duty keeps.
pub(super) struct Reading {
    pub(super) duty: Duty,
    pub(super) rest: Rest,
    /// They keep the order on the descriptor, and make the read if the ring does not.
    pub(super) helpers: Arc<HelperPool>,
    pub(super) is_cancelled: bool,
}

/// Reads that have left the ring.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) over: Vec<Reading>,
    /// Reads that the ring has failed.
    pub(super) refused: Vec<Reading>,
}

impl Reads {
    pub(super) fn new(ring: IoUring) -> Reads {
        Reads {
            ring: ManuallyDrop::new(ring),
            in_flight: Vec::new(),
            free_indexes: Vec::new(),
            unsubmitted: Vec::new(),
            is_broken: false,
            is_watched: false,
            takes: 0,
            takes_at_last_look: 0,
            is_closed: false,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len() - self.free_indexes.len()
    }

    /// Adds a read to the submission queue.
    ///
    /// # Errors
    /// The read, if its call has no SQE or the queue is full.
    pub(super) fn add(&mut self, reading: Reading) -> Result<(), Reading> {
        let Some(entry) = reading.entry() else {
            return Err(reading);
        };
        let index = self.free_indexes.pop().unwrap_or(self.in_flight.len());
        if !self.push(entry, index as u64) {
            // An index at the end was not used yet.
            if index < self.in_flight.len() {
                self.free_indexes.push(index);
            }
            return Err(reading);
        }
        match self.in_flight.get_mut(index) {
            Some(place) => *place = Some(reading),
            None => self.in_flight.push(Some(reading)),
        }
        Ok(())
    }

    /// Adds an SQE. Returns false if the submission queue does not take it.
    fn push(&mut self, entry: squeue::Entry, data: u64) -> bool {
        let entry = entry.user_data(data);
        // SAFETY: the read's duty keeps the memory until its CQE was taken; a cancel request has none.
        let pushed = !self.is_broken && unsafe { self.ring.submission().push(&entry) }.is_ok();
        if pushed {
            self.unsubmitted.push(data);
        }
        pushed
    }

    /// Asks the kernel to cancel reads, one after the other. Returns how many, and what [`Reads::submit`]
    /// does.
    pub(super) fn cancel(&mut self, wanted: impl Fn(&Reading) -> bool) -> (usize, Vec<Reading>) {
        let (mut found, mut refused) = (0, self.submit());
        for index in 0..self.in_flight.len() {
            if let Some(reading) = &mut self.in_flight[index]
                && wanted(reading)
            {
                reading.is_cancelled = true;
                found += 1;
                self.push(opcode::AsyncCancel::new(index as u64).build(), CANCEL);
                refused.extend(self.submit());
            }
        }
        (found, refused)
    }

    /// Submits what was added. Returns the reads that the kernel refuses to take; then the ring takes no
    /// more.
    pub(super) fn submit(&mut self) -> Vec<Reading> {
        if self.unsubmitted.is_empty() {
            return Vec::new();
        }
        loop {
            match self.ring.submit().map_err(Errno::from) {
                Ok(1..) if !self.ring.submission().is_empty() => {}
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        let left = self.ring.submission().len();
        self.is_broken = left > 0;
        let refused = self.unsubmitted.split_off(self.unsubmitted.len() - left);
        self.unsubmitted.clear();
        let reads = refused.into_iter().filter(|data| *data != CANCEL);
        reads.map(|index| self.remove(index as usize)).collect()
    }

    /// Whether [`Reads::submit`] must make room in the submission queue.
    pub(super) fn is_queue_full(&mut self) -> bool {
        self.ring.submission().is_full()
    }

    /// Whether another read may be added.
    pub(super) fn has_room(&self) -> bool {
        // The completion queue has a place for each read.
        !self.is_closed
            && !self.is_broken
            && self.in_flight() < self.ring.params().cq_entries() as usize
    }

    /// Takes the CQEs. The rest of a short read is submitted again: only a read of 0 bytes is the end of
    /// the file.
    pub(super) fn take(&mut self) -> Taken {
        let mut taken = Taken::default();
        self.takes += 1;
        loop {
            let cqes: Vec<_> = self.ring.completion().collect();
            if cqes.is_empty() && !self.flush_overflow() {
                return taken;
            }
            for cqe in cqes.iter().filter(|cqe| cqe.user_data() != CANCEL) {
                self.note_result(cqe.user_data() as usize, cqe.result(), &mut taken);
            }
            taken.refused.extend(self.submit());
        }
    }

    /// Makes the kernel move CQEs for which the queue had no place to the queue. Returns whether there were
    /// any.
    fn flush_overflow(&mut self) -> bool {
        let overflows = self.ring.submission().cq_overflow();
        overflows && {
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: nothing is submitted, and there are no arguments.
            let entered = unsafe {
                self.ring
                    .submitter()
                    .enter::<libc::sigset_t>(0, 0, flags, None)
            };
            entered.is_ok()
        }
    }

    fn note_result(&mut self, index: usize, result: i32, taken: &mut Taken) {
        let reading = self.in_flight[index]
            .as_mut()
            .expect("one CQE for each read");
        let moved = usize::try_from(result);
        reading.rest.done += moved.unwrap_or(0);
        if reading.is_cancelled || moved == Ok(0) || !reading.wants_more() {
            let over = self.remove(index);
            return taken.over.push(over);
        }
        // After an error the plain call tells whether it is the file's, or one of the ring, as after the
        // end of the thread that has submitted the read.
        let again = reading.entry().filter(|_| moved.is_ok());
        if !again.is_some_and(|entry| self.push(entry, index as u64)) {
            let refused = self.remove(index);
            taken.refused.push(refused);
        }
    }

    fn remove(&mut self, index: usize) -> Reading {
        self.free_indexes.push(index);
        self.in_flight[index].take().expect("it is in flight")
    }

    /// Whether there are CQEs, and [`Reads::take`] was not called since the last look.
    pub(super) fn were_left(&mut self) -> bool {
        let before = std::mem::replace(&mut self.takes_at_last_look, self.takes);
        let has_cqes = !self.ring.completion().is_empty() || self.ring.submission().cq_overflow();
        has_cqes && before == self.takes
    }

    /// Closes the ring, into which nothing must be in flight.
    pub(super) fn close_ring(&mut self) {
        debug_assert_eq!(self.in_flight(), 0, "the kernel uses the memory of a read");
        // SAFETY: it is not used again, because its owner ends.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }

    /// Leaks what is in flight, whose memory the kernel uses.
    pub(super) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.in_flight));
    }
}

impl Reading {
    /// Ends the operation with the bytes that were read.
    pub(super) fn end(self) {
        self.helpers.end_in_ring(&self.duty);
        let result = match self.rest.done {
            0 if self.is_cancelled => Err(Errno::CANCELED),
            done => Ok(done),
        };
        self.duty.complete(result);
    }

    pub(super) fn go_to_helper(self) {
        self.helpers.go_on_from_ring(self.duty, self.rest);
    }

    /// The SQE for what is left of the read.
    fn entry(&self) -> Option<squeue::Entry> {
        let call = &self.duty.core().call;
        let row = table::row(call.number);
        let mut scratch = None;
        // SAFETY: the kernel has accepted the pointers if bytes were moved.
        let step = unsafe { transfer::remaining(row, call, self.rest.done, &mut scratch) };
        read_entry(row, &step)
    }

    fn wants_more(&self) -> bool {
        let call = &self.duty.core().call;
        // SAFETY: the kernel has accepted the pointers.
        let wanted = unsafe { transfer::wanted(table::row(call.number), call) };
        wanted.is_some_and(|wanted| self.rest.done < wanted)
    }
}
