//! Room for connections: while descriptors are short, those that have waited longest for their clients end, so that
//! another can come.
//!
//! Each connection has a seat, and notes in it since when it waits: for a first byte, for the rest of a head, for the
//! next request. Who takes a seat beyond what there is room for picks the one that has waited longest, on whichever
//! worker it is; the task that serves that connection is woken, and ends it.

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

/// The seats of all connections, over all workers.
#[derive(Debug)]
pub(crate) struct Room {
    /// Seats that there may be.
    capacity: AtomicUsize,
    /// A new descriptor with this number or a higher one shows that more are open than was counted.
    high: AtomicUsize,
    /// More seats are taken than there may be, and none waited that could have left.
    short: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    seats: HashMap<u64, Arc<Place>>,
    /// Connections that were picked, and have not ended yet.
    leaving: usize,
    /// Tasks that wait for room.
    waiting: Vec<Waker>,
}

/// What is known of a connection on all workers.
#[derive(Debug)]
struct Place {
    /// Nanoseconds of the clock since when it waits; or one of the two values below.
    since: AtomicU64,
    task: Mutex<Option<Waker>>,
}

/// It has a request.
const AT_WORK: u64 = 0;
/// It was picked.
const LEAVES: u64 = u64::MAX;

/// The seat of a connection, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<Room>,
    number: u64,
    place: Arc<Place>,
    /// It was picked while its request came, and leaves when it waits again.
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
    /// Sees how many descriptors are left for connections, once everything else is open.
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

    /// Gives a seat to a connection that has just come, and has the one that has waited longest leave if it is one too
    /// many. `descriptor` is the number of its socket.
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
        // Only the others can be picked to make room for it.
        self.fit(&mut state, 1);
        state.seats.insert(number, place.clone());
        Seat {
            room: self.clone(),
            number,
            place,
            late: Cell::new(false),
        }
    }

    /// Has the connection that has waited longest leave, because something else needs a descriptor. False if none
    /// waits.
    pub(crate) fn end_longest(&self) -> bool {
        end_longest(&mut self.state.lock().unwrap())
    }

    /// The same among some of the connections.
    pub(crate) fn end_longest_of<'s>(&self, seats: impl Iterator<Item = &'s Seat>) -> bool {
        let waiting = seats.map(|seat| (seat.place.since.load(Ordering::Relaxed), seat.number));
        let first = waiting.filter(|&(since, _)| since != AT_WORK).min();
        first.is_some_and(|(since, number)| pick(&mut self.state.lock().unwrap(), since, number))
    }

    /// Waits until another connection can be taken.
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

    /// Whether connections are on their way out, for whose descriptors it is worth to wait a turn.
    pub(crate) fn is_emptying(&self) -> bool {
        self.state.lock().unwrap().leaving > 0
    }

    fn is_free(&self, state: &State) -> bool {
        let few_leave = state.leaving <= Limits::CONNECTIONS_LEAVING;
        few_leave && state.seats.len() <= self.capacity.load(Ordering::Relaxed)
    }

    /// Has connections leave until there is room for the others, and for some more.
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

/// Picks the connection that has waited longest. It ends when its task has its turn.
fn end_longest(state: &mut State) -> bool {
    let seats = state.seats.iter();
    let waiting = seats.map(|(&number, place)| (place.since.load(Ordering::Relaxed), number));
    match waiting.filter(|&(since, _)| since != AT_WORK).min() {
        // If a request comes at this moment, another one may wait.
        Some((since, number)) => pick(state, since, number) || end_longest(state),
        None => false,
    }
}

/// Has a connection leave that waits since then. False if it does no longer.
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
    /// The connection waits for its client from now on, if it did not already.
    pub(crate) fn waits(&self) {
        let since = &self.place.since;
        if self.late.get() {
            return since.store(LEAVES, Ordering::Release);
        }
        let (order, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let begins = since.compare_exchange(AT_WORK, now(), order, fail).is_ok();
        if begins && self.room.short.load(Ordering::Relaxed) {
            // Others have looked for one that waits, and found none.
            let mut state = self.room.state.lock().unwrap();
            self.room.fit(&mut state, 0);
        }
    }

    /// The connection has a request. If it was just picked, it leaves after that.
    pub(crate) fn works(&self) {
        let before = self.place.since.swap(AT_WORK, Ordering::AcqRel);
        if before == LEAVES {
            self.late.set(true);
        }
    }

    /// Whether the connection was picked to leave.
    pub(crate) fn leaves(&self) -> bool {
        self.place.since.load(Ordering::Acquire) == LEAVES
    }

    /// Whether it has waited for such a time.
    pub(crate) fn has_waited(&self, time: Duration) -> bool {
        let since = self.place.since.load(Ordering::Relaxed);
        since != AT_WORK && u128::from(now().saturating_sub(since)) >= time.as_nanos()
    }

    /// Has the task that calls it be woken when the connection was picked.
    pub(crate) fn wakes(&self, task: &Waker) {
        *self.place.task.lock().unwrap() = Some(task.clone());
    }

    /// Whether there is room for it after its request, too.
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

/// A clock that is quick to read, and coarse; never one of the special values.
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
        // The first has a request; the second has had one, and waits again since later than the third.
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
