//! The memory of a connection that carries several requests at the same time.
//!
//! All its requests share a budget for each [`MemoryUse`]. A piece of a response is taken only once flow control allows
//! it, so that it is on its way to the client and no request holds a piece while it waits for another one.

use super::ProcessMemory;
use crate::options::{Limits, Memory, MemoryUse};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The budgets of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    process: Arc<ProcessMemory>,
    uses: [Budget; MemoryUse::ALL.len()],
    /// Bytes borrowed from the process.
    borrowed: AtomicU64,
    /// Requests that wait for memory for a piece, by their number.
    waiting: Mutex<VecDeque<(u64, Waker)>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Budget {
    held: AtomicU64,
    reserve: u64,
    most: u64,
}

impl Budget {
    fn beyond_reserve(&self) -> u64 {
        self.held().saturating_sub(self.reserve)
    }

    fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

impl ConnectionMemory {
    /// Returns the budgets of a connection whose heads have at most `head_bytes`, and that may hold `responses` bytes of
    /// its responses.
    pub(crate) fn new(
        process: &Arc<ProcessMemory>,
        head_bytes: usize,
        responses: u64,
    ) -> Arc<ConnectionMemory> {
        Arc::new(ConnectionMemory {
            process: process.clone(),
            uses: MemoryUse::ALL.map(|of| Budget {
                held: AtomicU64::new(0),
                reserve: Memory::reserve(of, head_bytes),
                most: match of {
                    MemoryUse::Responses => responses,
                    _ => Memory::most(of),
                },
            }),
            borrowed: AtomicU64::new(0),
            waiting: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Takes memory, or none if a budget is used up.
    pub(crate) fn take(self: &Arc<Self>, of: MemoryUse, bytes: u64) -> Option<Held> {
        let held = self.take_some(of, bytes, bytes);
        if held.is_none() {
            self.process.note_refusal();
        }
        held
    }

    /// Takes `most` bytes, or as many as the budgets have. Returns `None` if they have fewer than `least`.
    pub(crate) fn take_some(
        self: &Arc<Self>,
        of: MemoryUse,
        least: u64,
        most: u64,
    ) -> Option<Held> {
        let budget = &self.uses[of as usize];
        let bytes = most.min(budget.most.saturating_sub(budget.held()));
        if bytes < least {
            return None;
        }
        let free = budget.reserve.saturating_sub(budget.held());
        let bytes = bytes.min(free + self.borrow(bytes.saturating_sub(free)));
        if bytes < least {
            self.settle();
            return None;
        }
        budget.held.fetch_add(bytes, Ordering::Relaxed);
        Some(Held {
            memory: self.clone(),
            of,
            bytes,
        })
    }

    /// Returns how much of `bytes` beyond the reserves is borrowed, after borrowing more if necessary.
    fn borrow(&self, bytes: u64) -> u64 {
        let borrowed = self.borrowed.load(Ordering::Relaxed);
        let missing = (self.beyond_reserves() + bytes).saturating_sub(borrowed);
        if missing == 0 {
            return bytes;
        }
        let more = self
            .process
            .borrow_some(missing.next_multiple_of(Memory::GRAIN));
        self.borrowed.fetch_add(more, Ordering::Relaxed);
        bytes - missing.saturating_sub(more)
    }

    fn beyond_reserves(&self) -> u64 {
        self.uses.iter().map(Budget::beyond_reserve).sum()
    }

    /// Gives back what is borrowed and not needed: all of it if the connection needs nothing, else what exceeds two grains,
    /// so that a busy connection does not borrow for each request.
    fn settle(&self) {
        let needed = self.beyond_reserves();
        let kept = match needed {
            0 => 0,
            needed => needed + 2 * Memory::GRAIN,
        };
        let borrowed = self.borrowed.load(Ordering::Relaxed);
        if borrowed > kept {
            self.borrowed.store(kept, Ordering::Relaxed);
            self.process.give_back(borrowed - kept);
        }
    }

    /// Returns a place for [`Place::poll_take`].
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        Place {
            memory: self.clone(),
            number: None,
        }
    }

    /// Takes the memory of a request; none if a budget is used up.
    pub(crate) fn admit(self: &Arc<Self>, head_bytes: usize) -> Option<RequestMemory> {
        let bytes = Memory::REQUEST + head_bytes as u64;
        Some(RequestMemory {
            request: Arc::new(self.take(MemoryUse::Requests, bytes)?),
            connection: self.clone(),
        })
    }

    /// Wakes the request that has waited longest.
    fn wake_first(&self) {
        let waiting = self.waiting.lock().unwrap();
        if let Some((_, waker)) = waiting.front() {
            waker.wake_by_ref();
        }
    }
}

/// Memory that a request holds, given back on drop.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Arc<ConnectionMemory>,
    of: MemoryUse,
    bytes: u64,
}

impl Held {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let memory = &self.memory;
        memory.uses[self.of as usize]
            .held
            .fetch_sub(self.bytes, Ordering::Relaxed);
        memory.settle();
        if self.of == MemoryUse::Responses {
            memory.wake_first();
        }
    }
}

/// The memory of a request of HTTP/2 or HTTP/3.
#[derive(Clone)]
pub(crate) struct RequestMemory {
    pub(crate) connection: Arc<ConnectionMemory>,
    request: Arc<Held>,
}

impl RequestMemory {
    /// Returns a few bytes that count for the request, which holds its memory until they are sent.
    pub(crate) fn bytes(&self, mut bytes: Vec<u8>) -> Bytes {
        if bytes.capacity() > 2 * bytes.len().max(Limits::STREAM_OUTPUT_BYTES) {
            // A pooled buffer, which would be held as a whole.
            bytes.shrink_to_fit();
        }
        Bytes::from_owner(Counted {
            bytes,
            held: self.request.clone(),
        })
    }

    /// Takes memory for the whole of a body, or none if that would have to wait.
    pub(crate) fn take_now(&self, bytes: usize) -> Option<Held> {
        if !self.connection.waiting.lock().unwrap().is_empty() {
            return None;
        }
        let bytes = bytes as u64;
        self.connection
            .take_some(MemoryUse::Responses, bytes, bytes)
    }

    /// Takes memory for a response that is made in memory.
    pub(crate) fn page(&self, bytes: usize) -> Option<Held> {
        self.connection.take(MemoryUse::Pages, bytes as u64)
    }
}

/// A request's place among those that wait for memory for a piece.
pub(crate) struct Place {
    memory: Arc<ConnectionMemory>,
    number: Option<u64>,
}

impl Place {
    /// Waits for memory for a piece of `most` bytes, or fewer if the budgets do not have as many. Requests get it in the
    /// order in which they have asked.
    pub(crate) fn poll_take(&mut self, context: &mut Context<'_>, most: usize) -> Poll<Held> {
        let memory = self.memory.clone();
        let first = {
            let waiting = memory.waiting.lock().unwrap();
            let first = waiting.front().map(|(number, _)| *number);
            first.is_none() || first == self.number
        };
        let (least, most) = (most.min(Memory::PIECE_MIN) as u64, most as u64);
        let held = if first {
            memory.take_some(MemoryUse::Responses, least, most)
        } else {
            None
        };
        let Some(held) = held else {
            self.wait(context.waker());
            return Poll::Pending;
        };
        if held.bytes < most {
            memory.process.note_small_piece();
        }
        self.leave();
        Poll::Ready(held)
    }

    fn wait(&mut self, waker: &Waker) {
        let mut waiting = self.memory.waiting.lock().unwrap();
        let own = self.number;
        match waiting.iter_mut().find(|(number, _)| Some(*number) == own) {
            Some((_, kept)) => kept.clone_from(waker),
            None => {
                let number = self.memory.next.fetch_add(1, Ordering::Relaxed);
                self.number = Some(number);
                waiting.push_back((number, waker.clone()));
            }
        }
    }

    /// Leaves the queue, so that the next one can take what is left.
    fn leave(&mut self) {
        if let Some(own) = self.number.take() {
            let mut waiting = self.memory.waiting.lock().unwrap();
            waiting.retain(|(number, _)| *number != own);
            drop(waiting);
            self.memory.wake_first();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Bytes, and the memory that they are in, which is held until the last part of them is dropped.
struct Counted<M> {
    bytes: Vec<u8>,
    #[expect(dead_code, reason = "it is dropped with the bytes")]
    held: M,
}

/// Returns the bytes of a piece of a response, which hold its memory.
pub(crate) fn piece(bytes: Vec<u8>, held: Held) -> Bytes {
    Bytes::from_owner(Counted { bytes, held })
}

impl<M> AsRef<[u8]> for Counted<M> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    const HEAD: usize = 16 << 10;

    fn connection(process: &Arc<ProcessMemory>) -> Arc<ConnectionMemory> {
        ConnectionMemory::new(process, HEAD, Memory::most(MemoryUse::Responses))
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_use_has_its_reserve_even_if_the_process_has_nothing() {
        let process = Arc::new(ProcessMemory::new(0));
        let memory = connection(&process);
        for of in MemoryUse::ALL {
            let reserve = Memory::reserve(of, HEAD);
            assert!(memory.take(of, reserve + 1).is_none());
            let held = memory.take(of, reserve).unwrap();
            assert!(memory.take(of, 1).is_none(), "{of:?}");
            assert_eq!(held.bytes() as u64, reserve);
            std::mem::forget(held);
        }
        assert_eq!(process.counts().held, 0);
    }

    #[test]
    fn what_is_borrowed_is_given_back() {
        let process = Arc::new(ProcessMemory::new(10 * Memory::GRAIN));
        let (one, other) = (connection(&process), connection(&process));
        let reserve = Memory::reserve(MemoryUse::Responses, HEAD);
        let first = one.take_some(MemoryUse::Responses, 1, reserve + 1).unwrap();
        assert_eq!(process.counts().held, Memory::GRAIN);
        let second = other.take_some(MemoryUse::Responses, 1, 1 << 20).unwrap();
        assert_eq!(second.bytes, reserve + 9 * Memory::GRAIN);
        assert_eq!(process.counts().held, 10 * Memory::GRAIN);
        // What the first connection has borrowed and not used is its own.
        let third = one.take_some(MemoryUse::Responses, 1, 1 << 20).unwrap();
        assert_eq!(third.bytes, Memory::GRAIN - 1);
        drop(second);
        assert_eq!(process.counts().held, Memory::GRAIN);
        drop((first, third));
        assert_eq!(process.counts().held, 0);
    }

    #[test]
    fn a_connection_has_its_own_limit() {
        let process = Arc::new(ProcessMemory::default());
        let memory = connection(&process);
        for of in MemoryUse::ALL {
            let most = Memory::most(of);
            assert_eq!(memory.take_some(of, 1, u64::MAX).unwrap().bytes, most);
            assert!(memory.take(of, most + 1).is_none());
        }
        assert_eq!(process.counts().held, 0);
    }

    #[test]
    fn pieces_are_given_in_order_and_no_wakeup_is_lost() {
        let process = Arc::new(ProcessMemory::new(0));
        let memory = connection(&process);
        let wakes: [Arc<Wakes>; 3] = Default::default();
        let wakers = wakes.clone().map(Waker::from);
        let mut contexts = wakers.each_ref().map(Context::from_waker);
        let mut places = [memory.place(), memory.place(), memory.place()];
        let reserve = Memory::reserve(MemoryUse::Responses, HEAD) as usize;
        let all = match places[0].poll_take(&mut contexts[0], 1 << 20) {
            Poll::Ready(held) => held,
            Poll::Pending => panic!("the reserve is free"),
        };
        assert_eq!((all.bytes(), process.counts().small_pieces), (reserve, 1));
        for number in [1, 2] {
            assert!(
                places[number]
                    .poll_take(&mut contexts[number], 9)
                    .is_pending()
            );
        }
        drop(all);
        let woken = || {
            wakes
                .each_ref()
                .map(|wakes| wakes.0.load(Ordering::Relaxed))
        };
        assert_eq!(woken(), [0, 1, 0]);
        // The others come later than those that wait.
        assert!(places[0].poll_take(&mut contexts[0], 9).is_pending());
        let [zero, one, mut two] = places;
        // The one that was woken takes nothing, as when its request is reset: the next one is woken.
        drop(one);
        assert_eq!(woken(), [0, 1, 1]);
        let held = two.poll_take(&mut contexts[2], 9);
        assert!(matches!(held, Poll::Ready(held) if held.bytes() == 9));
        assert!(woken()[0] >= 1, "there is room for the next one too");
        drop(zero);
        assert!(memory.waiting.lock().unwrap().is_empty());
    }
}
