//! The memory that clients make the server hold: a budget for the process, from which connections borrow beyond their
//! reserves ([`connection`]).
//!
//! Nothing waits for the budget of the process, so that clients who use it up cannot stop others: what finds it used
//! up gets a smaller piece from the reserve of its connection, or is refused.

pub mod connection;

use laio_serve_base::observe::MemoryCounts;
use laio_serve_base::options::{Limits, Memory, MemoryUse};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The budget of the process.
#[derive(Debug)]
pub struct ProcessMemory {
    most: u64,
    held: AtomicU64,
    counts: [AtomicU64; 2],
}

impl Default for ProcessMemory {
    fn default() -> ProcessMemory {
        ProcessMemory::new(Memory::PROCESS)
    }
}

impl ProcessMemory {
    /// Returns a budget of so many bytes, of which nothing is held.
    pub fn new(most: u64) -> ProcessMemory {
        ProcessMemory {
            most,
            held: AtomicU64::new(0),
            counts: Default::default(),
        }
    }

    /// Borrows a piece for a connection of HTTP/1.1, which holds one at a time: `most` bytes, or fewer if the budget is
    /// used up, and never fewer than the reserve. `copies`: how often the bytes are in memory until they are sent.
    pub fn piece(self: &Arc<Self>, most: usize, copies: u64) -> Loan {
        let reserve = Memory::reserve(MemoryUse::Responses, 0) / copies;
        let beyond = (most as u64).saturating_sub(reserve) * copies;
        let borrowed = self.borrow_some(beyond);
        if borrowed < beyond {
            self.note_small_piece();
        }
        Loan {
            memory: self.clone(),
            borrowed,
            bytes: reserve.min(most as u64) + borrowed / copies,
        }
    }

    /// Borrows memory for a response that is made in memory; none if the budget is used up.
    pub fn page(self: &Arc<Self>, bytes: usize) -> Option<Loan> {
        let beyond = (bytes as u64).saturating_sub(Memory::reserve(MemoryUse::Pages, 0));
        if !self.borrow(beyond) {
            self.note_refusal();
            return None;
        }
        Some(Loan {
            memory: self.clone(),
            borrowed: beyond,
            bytes: bytes as u64,
        })
    }

    /// Returns what is held, and what became of requests that found the budget used up.
    pub fn counts(&self) -> MemoryCounts {
        let [small_pieces, refused] = [&self.counts[0], &self.counts[1]].map(count);
        MemoryCounts {
            held: count(&self.held),
            most: self.most,
            small_pieces,
            refused,
        }
    }

    pub(crate) fn note_small_piece(&self) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_refusal(&self) {
        self.counts[1].fetch_add(1, Ordering::Relaxed);
    }

    /// Borrows all of `bytes`. Returns false, and borrows nothing, if the budget has fewer.
    fn borrow(&self, bytes: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= self.most);
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Borrows `bytes`, or as many as the budget has. Returns their number.
    fn borrow_some(&self, bytes: u64) -> u64 {
        let borrowed = |held: u64| bytes.min(self.most.saturating_sub(held));
        let before = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                Some(held + borrowed(held))
            });
        before.map_or(0, borrowed)
    }

    fn give_back(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Memory that a connection of HTTP/1.1 has borrowed, given back on drop.
#[derive(Debug)]
pub struct Loan {
    memory: Arc<ProcessMemory>,
    borrowed: u64,
    bytes: u64,
}

impl Loan {
    /// Returns the bytes that may be held.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Borrows more for a page that grows. Returns false if the budget is used up.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = (bytes as u64).saturating_sub(self.bytes);
        // In steps, because a page grows by a few bytes at a time.
        let more = more.next_multiple_of(Memory::GRAIN);
        if !self.memory.borrow(more) {
            self.memory.note_refusal();
            return false;
        }
        (self.borrowed, self.bytes) = (self.borrowed + more, self.bytes + more);
        true
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.memory.give_back(self.borrowed);
    }
}

/// The copies of a piece of a response of HTTP/1.1: over TLS it is encrypted, at most [`Limits::TLS_BUFFER`] at a time.
pub fn copies(is_encrypted: bool) -> u64 {
    const { assert!(Limits::TLS_BUFFER <= Limits::CHUNK) };
    if is_encrypted { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_smaller_when_the_budget_is_used_up() {
        let reserve = Memory::reserve(MemoryUse::Responses, 0) as usize;
        let memory = Arc::new(ProcessMemory::new(100_000));
        let one = memory.piece(reserve + 60_000, 1);
        assert_eq!(
            (one.bytes(), memory.counts().held),
            (reserve + 60_000, 60_000)
        );
        let two = memory.piece(reserve + 60_000, 1);
        assert_eq!(
            (two.bytes(), memory.counts().held),
            (reserve + 40_000, 100_000)
        );
        let three = memory.piece(reserve + 60_000, 1);
        assert_eq!((three.bytes(), memory.piece(7, 1).bytes()), (reserve, 7));
        assert_eq!(memory.counts().small_pieces, 2);
        drop((one, two, three));
        let encrypted = memory.piece(reserve + 1, 2);
        assert_eq!(encrypted.bytes(), reserve + 1);
        assert_eq!(memory.counts().held, reserve as u64 + 2);
        drop(encrypted);
        assert_eq!(memory.counts().held, 0);
    }

    #[test]
    fn a_page_is_refused_when_the_budget_is_used_up() {
        let memory = Arc::new(ProcessMemory::new(3 * Memory::GRAIN));
        let mut one = memory.page(0).unwrap();
        assert!(one.grow_to(1) && one.grow_to(2) && one.grow_to(Memory::GRAIN as usize + 1));
        assert_eq!(memory.counts().held, 2 * Memory::GRAIN);
        assert!(!one.grow_to(1 << 20) && memory.page(1 << 20).is_none());
        assert_eq!(memory.counts().refused, 2);
        drop(one);
        assert_eq!(memory.counts().held, 0);
    }
}
