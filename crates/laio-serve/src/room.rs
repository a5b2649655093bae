//! Eviction of idle connections: when descriptors run short, the connections that have been idle
//! longest are closed so that new ones can be accepted.
//!
//! Each connection has a slot, which records since when the connection waits for its client: for a
//! first byte, for the rest of a head, or for the next request. Admitting a connection beyond the
//! capacity evicts the one that has been idle longest on any worker: its task is woken and closes
//! it.

use crate::descriptors;
use crate::options::Limits;
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The slots of the connections of all workers.
#[derive(Debug)]
pub(crate) struct Room {
    /// The maximum number of slots.
    capacity: AtomicUsize,
    /// A new descriptor with this number or a higher one shows that the process has more
    /// descriptors open than `measure_capacity` counted.
    high: AtomicUsize,
    /// More slots are taken than the capacity allows, and no connection was idle.
    short: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    seats: HashMap<u64, Arc<Place>>,
    /// Evicted connections that have not ended yet.
    leaving: usize,
    /// Tasks that wait for capacity.
    waiting: Vec<Waker>,
}

/// Idle state of a connection, shared by all workers.
#[derive(Debug)]
struct Place {
    /// The time (nanoseconds) since when the connection is idle, or [`BUSY`] or [`EVICTED`].
    since: AtomicU64,
    task: Mutex<Option<Waker>>,
}

/// The connection has a request.
const AT_WORK: u64 = 0;
/// The connection was evicted.
const LEAVES: u64 = u64::MAX;

/// The slot of a connection, released on drop.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    number: u64,
    place: Arc<Place>,
    /// The connection was chosen for eviction just as its request arrived: it is evicted when it is
    /// idle again.
    late: Cell<bool>,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            capacity: AtomicUsize::new(usize::MAX),
            high: AtomicUsize::new(usize::MAX),
            short: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }
}

impl Room {
    /// Computes the capacity from the descriptor limit. Called when all other descriptors are open.
    pub(crate) fn settle(&self) {
        let limit = descriptors::limit();
        let state = self.state.lock().unwrap();
        let connections = state.seats.len() + state.leaving;
        let open = descriptors::count_open().unwrap_or(Limits::DESCRIPTORS_KEPT);
        let others = open.saturating_sub(connections);
        let capacity = descriptors::for_connections(limit, others);
        let high = limit - descriptors::reserve(limit, others) / 2;
        self.capacity.store(capacity, Ordering::Relaxed);
        self.high.store(high, Ordering::Relaxed);
    }

    /// Gives a slot to a new connection, and evicts the longest idle one if the capacity is
    /// exceeded. `descriptor` is the number of its socket.
    pub(crate) fn enter(self: &Arc<Self>, descriptor: i32) -> Seat {
        let place = Arc::new(Place {
            since: AtomicU64::new(now()),
            task: Mutex::default(),
        });
        let mut state = self.state.lock().unwrap();
        if descriptor as usize >= self.high.load(Ordering::Relaxed) {
            end_longest(&mut state);
        }
        let number = state.next;
        state.next += 1;
        // Evict before inserting, so that the new connection is not chosen.
        self.fit(&mut state, 1);
        state.seats.insert(number, place.clone());
        Seat {
            room: self.clone(),
            number,
            place,
            late: Cell::new(false),
        }
    }

    /// Evicts the connection that has been idle longest, to free a descriptor. Returns false if
    /// none is idle.
    pub(crate) fn end_longest(&self) -> bool {
        end_longest(&mut self.state.lock().unwrap())
    }

    /// Like [`Self::end_longest`], among the given slots.
    pub(crate) fn end_longest_of<'s>(&self, seats: impl Iterator<Item = &'s Seat>) -> bool {
        let waiting = seats.map(|seat| (seat.place.since.load(Ordering::Relaxed), seat.number));
        let first = waiting.filter(|&(since, _)| since != AT_WORK).min();
        first.is_some_and(|(since, number)| pick(&mut self.state.lock().unwrap(), since, number))
    }

    /// Waits until another connection can be accepted.
    pub(crate) async fn free(&self) {
        poll_fn(|context| {
            let mut state = self.state.lock().unwrap();
            if self.is_free(&state) {
                return Poll::Ready(());
            }
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether evicted connections are about to end, so that waiting one executor turn frees
    /// descriptors.
    pub(crate) fn is_emptying(&self) -> bool {
        self.state.lock().unwrap().leaving > 0
    }

    fn is_free(&self, state: &State) -> bool {
        let few_leave = state.leaving <= Limits::CONNECTIONS_LEAVING;
        few_leave && state.seats.len() <= self.capacity.load(Ordering::Relaxed)
    }

    /// Evicts connections until `more` slots are free.
    fn fit(&self, state: &mut State, more: usize) {
        let capacity = self.capacity.load(Ordering::Relaxed);
        while state.seats.len() + more > capacity {
            if !end_longest(state) {
                self.short.store(true, Ordering::Relaxed);
                return;
            }
        }
        self.short.store(false, Ordering::Relaxed);
    }
}

/// Evicts the connection that has been idle longest. It ends when its task runs.
fn end_longest(state: &mut State) -> bool {
    let seats = state.seats.iter();
    let waiting = seats.map(|(&number, place)| (place.since.load(Ordering::Relaxed), number));
    match waiting.filter(|&(since, _)| since != AT_WORK).min() {
        // If its request arrived just now, try the next one.
        Some((since, number)) => pick(state, since, number) || end_longest(state),
        None => false,
    }
}

/// Evicts a connection that has been idle since `since`. Returns false if it is no longer idle.
fn pick(state: &mut State, since: u64, number: u64) -> bool {
    let Some(place) = state.seats.get(&number) else {
        return false;
    };
    let (order, fail) = (Ordering::AcqRel, Ordering::Relaxed);
    let picked = place.since.compare_exchange(since, LEAVES, order, fail);
    if picked.is_err() {
        return false;
    }
    let task = place.task.lock().unwrap().take();
    state.seats.remove(&number);
    state.leaving += 1;
    if let Some(task) = task {
        task.wake();
    }
    true
}

impl Seat {
    /// Marks the connection as idle, if it is not already.
    pub(crate) fn waits(&self) {
        let since = &self.place.since;
        if self.late.get() {
            return since.store(LEAVES, Ordering::Release);
        }
        let (order, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let begins = since.compare_exchange(AT_WORK, now(), order, fail).is_ok();
        if begins && self.room.short.load(Ordering::Relaxed) {
            // An earlier eviction found no idle connection.
            let mut state = self.room.state.lock().unwrap();
            self.room.fit(&mut state, 0);
        }
    }

    /// Marks the connection as busy. If it was just evicted, it ends after this request instead.
    pub(crate) fn works(&self) {
        let before = self.place.since.swap(AT_WORK, Ordering::AcqRel);
        if before == LEAVES {
            self.late.set(true);
        }
    }

    /// Whether the connection was evicted.
    pub(crate) fn leaves(&self) -> bool {
        self.place.since.load(Ordering::Acquire) == LEAVES
    }

    /// Whether the connection has been idle for `time`.
    pub(crate) fn has_waited(&self, time: Duration) -> bool {
        let since = self.place.since.load(Ordering::Relaxed);
        since != AT_WORK && u128::from(now().saturating_sub(since)) >= time.as_nanos()
    }

    /// Sets the waker to call on eviction.
    pub(crate) fn wakes(&self, task: &Waker) {
        *self.place.task.lock().unwrap() = Some(task.clone());
    }

    /// Whether the connection may stay open after its request.
    pub(crate) fn stays(&self) -> bool {
        !self.late.get() && !self.room.short.load(Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.room.state.lock().unwrap();
        if state.seats.remove(&self.number).is_none() {
            state.leaving -= 1;
        }
        self.room.fit(&mut state, 0);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Returns the time of a coarse, cheap clock, never [`BUSY`] or [`EVICTED`].
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    nanos.clamp(AT_WORK + 1, LEAVES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(capacity: usize) -> Arc<Room> {
        let room = Room::default();
        room.capacity.store(capacity, Ordering::Relaxed);
        Arc::new(room)
    }

    #[test]
    fn who_waits_longest_leaves_first() {
        let room = room(3);
        let seats: Vec<_> = (0..3).map(|_| room.enter(5)).collect();
        // The first is busy; the second was busy and is idle since later than the third.
        seats[0].works();
        seats[1].works();
        std::thread::sleep(Duration::from_millis(20));
        seats[1].waits();
        let fourth = room.enter(6);
        let left = |seats: &[Seat]| seats.iter().map(Seat::leaves).collect::<Vec<_>>();
        assert_eq!(left(&seats), [false, false, true]);
        let fifth = room.enter(7);
        assert_eq!(left(&seats), [false, true, true]);
        assert!(!fourth.leaves() && !fifth.leaves() && fifth.stays());
        assert_eq!(room.state.lock().unwrap().leaving, 2);
        drop(seats);
        assert_eq!(room.state.lock().unwrap().leaving, 0);
    }

    #[test]
    fn without_anyone_who_waits_the_next_to_wait_leaves() {
        let room = room(2);
        let seats: Vec<_> = (0..2).map(|_| room.enter(5)).collect();
        seats.iter().for_each(Seat::works);
        let third = room.enter(6);
        third.works();
        assert!(!third.stays() && !room.is_free(&room.state.lock().unwrap()));
        assert!(!room.end_longest());
        seats[1].waits();
        assert!(seats[1].leaves() && !seats[0].leaves() && third.stays());
        drop(seats);
        assert!(room.is_free(&room.state.lock().unwrap()));
    }

    #[test]
    fn a_request_that_comes_at_the_last_moment_is_answered() {
        let room = room(1);
        let first = room.enter(5);
        let second = room.enter(6);
        assert!(first.leaves() && !second.leaves());
        first.works();
        assert!(!first.leaves() && !first.stays());
        first.waits();
        assert!(first.leaves());
        drop(first);
        assert_eq!(room.state.lock().unwrap().leaving, 0);
    }

    #[test]
    fn a_high_number_shows_that_descriptors_are_short() {
        let room = room(100);
        room.high.store(50, Ordering::Relaxed);
        let first = room.enter(49);
        let second = room.enter(50);
        assert!(first.leaves() && !second.leaves());
    }
}
