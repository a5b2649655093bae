//! Eviction of idle connections: when descriptors run short, the connections that have been idle
//! longest are closed so that new ones can be accepted.
//!
//! Each connection has a slot, which records since when the connection waits for its client: for a
//! first byte, for the rest of a head, or for the next request. Admitting a connection beyond the
//! capacity evicts the one that has been idle longest on any worker: its task is woken and closes
//! it.

use laio_serve_base::descriptors;
use laio_serve_base::options::Limits;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The slots of the connections of all workers.
#[derive(Debug)]
pub struct ConnectionSlots {
    /// The maximum number of slots.
    capacity: AtomicUsize,
    /// A new descriptor with this number or a higher one shows that the process has more
    /// descriptors open than `measure_capacity` counted.
    high_descriptor: AtomicUsize,
    /// More slots are taken than the capacity allows, and no connection was idle.
    overcommitted: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    slots: HashMap<u64, Arc<IdleState>>,
    /// Evicted connections that have not ended yet.
    evicting: usize,
    /// Tasks that wait for capacity.
    wakers: Vec<Waker>,
}

/// Idle state of a connection, shared by all workers.
#[derive(Debug)]
struct IdleState {
    /// The time (nanoseconds) since when the connection is idle, or [`BUSY`] or [`EVICTED`].
    since: AtomicU64,
    task: Mutex<Option<Waker>>,
}

/// The connection has a request.
const BUSY: u64 = 0;
/// The connection was evicted.
const EVICTED: u64 = u64::MAX;

/// The slot of a connection, released on drop.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    number: u64,
    idle_state: Arc<IdleState>,
    /// The connection was chosen for eviction just as its request arrived: it is evicted when it is
    /// idle again.
    evict_when_idle: Cell<bool>,
}

impl Default for ConnectionSlots {
    fn default() -> ConnectionSlots {
        ConnectionSlots {
            capacity: AtomicUsize::new(usize::MAX),
            high_descriptor: AtomicUsize::new(usize::MAX),
            overcommitted: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }
}

impl ConnectionSlots {
    /// Computes the capacity from the descriptor limit. Called when all other descriptors are open.
    pub fn measure_capacity(&self) {
        let limit = descriptors::limit();
        let state = self.state.lock().unwrap();
        let connections = state.slots.len() + state.evicting;
        let open = descriptors::count_open().unwrap_or(Limits::DESCRIPTOR_RESERVE);
        let others = open.saturating_sub(connections);
        let capacity = descriptors::for_connections(limit, others);
        let high_descriptor = limit - descriptors::reserve(limit, others) / 2;
        self.capacity.store(capacity, Ordering::Relaxed);
        self.high_descriptor
            .store(high_descriptor, Ordering::Relaxed);
    }

    /// Gives a slot to a new connection, and evicts the longest idle one if the capacity is
    /// exceeded. `descriptor` is the number of its socket.
    pub fn admit(self: &Arc<Self>, descriptor: i32) -> ConnectionSlot {
        let idle_state = Arc::new(IdleState {
            since: AtomicU64::new(now()),
            task: Mutex::default(),
        });
        let mut state = self.state.lock().unwrap();
        if descriptor as usize >= self.high_descriptor.load(Ordering::Relaxed) {
            evict_longest_idle(&mut state);
        }
        let number = state.next;
        state.next += 1;
        // Evict before inserting, so that the new connection is not chosen.
        self.evict_to_fit(&mut state, 1);
        state.slots.insert(number, idle_state.clone());
        ConnectionSlot {
            slots: self.clone(),
            number,
            idle_state,
            evict_when_idle: Cell::new(false),
        }
    }

    /// Evicts the connection that has been idle longest, to free a descriptor. Returns false if
    /// none is idle.
    pub fn evict_longest_idle(&self) -> bool {
        evict_longest_idle(&mut self.state.lock().unwrap())
    }

    /// Like [`Self::evict_longest_idle`], among the given slots, which may be of several servers.
    pub fn evict_longest_idle_of<'s>(among: impl Iterator<Item = &'s ConnectionSlot>) -> bool {
        let waiting = among.map(|slot| (slot.idle_state.since.load(Ordering::Relaxed), slot));
        let waiting = waiting.filter(|&(since, _)| since != BUSY);
        let first = waiting.min_by_key(|&(since, slot)| (since, slot.number));
        first.is_some_and(|(since, slot)| {
            evict(&mut slot.slots.state.lock().unwrap(), since, slot.number)
        })
    }

    /// Evicts an idle connection if `error` is EMFILE. Returns false if the caller should not try
    /// again. With the back end sync no connection has a slot, so none is evicted.
    pub async fn evict_for_descriptor(&self, error: &io::Error) -> bool {
        let short = error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error());
        if !short || !self.evict_longest_idle() {
            return false;
        }
        laio_rt::time::sleep(Limits::EVICTION_PAUSE).await;
        true
    }

    /// Waits until another connection can be accepted.
    pub async fn wait_for_capacity(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if self.has_capacity(&state) {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether evicted connections are about to end, so that waiting one executor turn frees
    /// descriptors.
    pub fn is_evicting(&self) -> bool {
        self.state.lock().unwrap().evicting > 0
    }

    fn has_capacity(&self, state: &State) -> bool {
        let few_evicting = state.evicting <= Limits::EVICTIONS_PENDING;
        few_evicting && state.slots.len() <= self.capacity.load(Ordering::Relaxed)
    }

    /// Evicts connections until `more` slots are free.
    fn evict_to_fit(&self, state: &mut State, more: usize) {
        let capacity = self.capacity.load(Ordering::Relaxed);
        while state.slots.len() + more > capacity {
            if !evict_longest_idle(state) {
                self.overcommitted.store(true, Ordering::Relaxed);
                return;
            }
        }
        self.overcommitted.store(false, Ordering::Relaxed);
    }
}

/// Evicts the connection that has been idle longest. It ends when its task runs.
fn evict_longest_idle(state: &mut State) -> bool {
    let all = state.slots.iter();
    let waiting =
        all.map(|(&number, idle_state)| (idle_state.since.load(Ordering::Relaxed), number));
    match waiting.filter(|&(since, _)| since != BUSY).min() {
        // If its request arrived just now, try the next one.
        Some((since, number)) => evict(state, since, number) || evict_longest_idle(state),
        None => false,
    }
}

/// Evicts a connection that has been idle since `since`. Returns false if it is no longer idle.
fn evict(state: &mut State, since: u64, number: u64) -> bool {
    let Some(idle_state) = state.slots.get(&number) else {
        return false;
    };
    let (order, fail) = (Ordering::AcqRel, Ordering::Relaxed);
    let evicted = idle_state
        .since
        .compare_exchange(since, EVICTED, order, fail);
    if evicted.is_err() {
        return false;
    }
    let task = idle_state.task.lock().unwrap().take();
    state.slots.remove(&number);
    state.evicting += 1;
    if let Some(task) = task {
        task.wake();
    }
    true
}

impl ConnectionSlot {
    /// Marks the connection as waiting for its client, if it is not already.
    pub fn mark_evictable(&self) {
        let since = &self.idle_state.since;
        if self.evict_when_idle.get() {
            return since.store(EVICTED, Ordering::Release);
        }
        let (order, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let begins = since.compare_exchange(BUSY, now(), order, fail).is_ok();
        if begins && self.slots.overcommitted.load(Ordering::Relaxed) {
            // An earlier eviction found no idle connection.
            let mut state = self.slots.state.lock().unwrap();
            self.slots.evict_to_fit(&mut state, 0);
        }
    }

    /// Marks the connection as not evictable. If it was just evicted, it ends after this request
    /// instead.
    pub fn mark_not_evictable(&self) {
        let before = self.idle_state.since.swap(BUSY, Ordering::AcqRel);
        if before == EVICTED {
            self.evict_when_idle.set(true);
        }
    }

    /// Whether the connection was evicted.
    pub fn is_evicted(&self) -> bool {
        self.idle_state.since.load(Ordering::Acquire) == EVICTED
    }

    /// Whether the connection has been idle for `time`.
    pub fn has_idled(&self, time: Duration) -> bool {
        let since = self.idle_state.since.load(Ordering::Relaxed);
        since != BUSY && u128::from(now().saturating_sub(since)) >= time.as_nanos()
    }

    /// Sets the waker to call on eviction.
    pub fn set_waker(&self, task: &Waker) {
        *self.idle_state.task.lock().unwrap() = Some(task.clone());
    }

    /// Whether the connection may stay open after its request.
    pub fn may_keep_alive(&self) -> bool {
        !self.evict_when_idle.get() && !self.slots.overcommitted.load(Ordering::Relaxed)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock().unwrap();
        if state.slots.remove(&self.number).is_none() {
            state.evicting -= 1;
        }
        self.slots.evict_to_fit(&mut state, 0);
        let waiting = std::mem::take(&mut state.wakers);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Returns the time of a coarse, cheap clock, never [`BUSY`] or [`EVICTED`].
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    nanos.clamp(BUSY + 1, EVICTED - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(capacity: usize) -> Arc<ConnectionSlots> {
        let slots = ConnectionSlots::default();
        slots.capacity.store(capacity, Ordering::Relaxed);
        Arc::new(slots)
    }

    #[test]
    fn the_longest_idle_connection_is_evicted_first() {
        let slots = slots(3);
        let connections: Vec<_> = (0..3).map(|_| slots.admit(5)).collect();
        // The first is busy; the second was busy and is idle since later than the third.
        connections[0].mark_not_evictable();
        connections[1].mark_not_evictable();
        std::thread::sleep(Duration::from_millis(20));
        connections[1].mark_evictable();
        let fourth = slots.admit(6);
        let left = |connections: &[ConnectionSlot]| {
            connections
                .iter()
                .map(ConnectionSlot::is_evicted)
                .collect::<Vec<_>>()
        };
        assert_eq!(left(&connections), [false, false, true]);
        let fifth = slots.admit(7);
        assert_eq!(left(&connections), [false, true, true]);
        assert!(!fourth.is_evicted() && !fifth.is_evicted() && fifth.may_keep_alive());
        assert_eq!(slots.state.lock().unwrap().evicting, 2);
        drop(connections);
        assert_eq!(slots.state.lock().unwrap().evicting, 0);
    }

    #[test]
    fn without_idle_connections_the_next_idle_one_is_evicted() {
        let slots = slots(2);
        let connections: Vec<_> = (0..2).map(|_| slots.admit(5)).collect();
        connections
            .iter()
            .for_each(ConnectionSlot::mark_not_evictable);
        let third = slots.admit(6);
        third.mark_not_evictable();
        assert!(!third.may_keep_alive() && !slots.has_capacity(&slots.state.lock().unwrap()));
        assert!(!slots.evict_longest_idle());
        connections[1].mark_evictable();
        assert!(
            connections[1].is_evicted() && !connections[0].is_evicted() && third.may_keep_alive()
        );
        drop(connections);
        assert!(slots.has_capacity(&slots.state.lock().unwrap()));
    }

    #[test]
    fn a_request_that_arrives_during_the_eviction_is_answered() {
        let slots = slots(1);
        let first = slots.admit(5);
        let second = slots.admit(6);
        assert!(first.is_evicted() && !second.is_evicted());
        first.mark_not_evictable();
        assert!(!first.is_evicted() && !first.may_keep_alive());
        first.mark_evictable();
        assert!(first.is_evicted());
        drop(first);
        assert_eq!(slots.state.lock().unwrap().evicting, 0);
    }

    #[test]
    fn a_high_descriptor_number_evicts() {
        let slots = slots(100);
        slots.high_descriptor.store(50, Ordering::Relaxed);
        let first = slots.admit(49);
        let second = slots.admit(50);
        assert!(first.is_evicted() && !second.is_evicted());
    }
}
