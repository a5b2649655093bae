//! Time-outs of single operations: an operation is cancelled when its time-out has passed.

use super::Slots;
use crate::sys::high_fd::HighFd;
use crate::{Errno, Handle};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// The deadlines of the operations of one context.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Earliest first. An entry is valid only while its operation is live and has this very
    /// deadline.
    queue: BinaryHeap<Reverse<(Instant, Handle)>>,
    timer: Option<Timer>,
}

/// The timerfd that makes the pollable descriptor readable at the next deadline, when the context
/// does not sleep in `poll`.
#[derive(Debug)]
struct Timer {
    descriptor: HighFd,
    set_for: Option<Instant>,
}

impl Deadlines {
    /// The number of stale entries, in addition to as many as there are valid ones, that the queue
    /// keeps before it removes them.
    const STALE_MIN: usize = 64;

    /// Makes the timer, if any operation has a deadline and there is none yet.
    pub(crate) fn new_timer(&mut self) -> Result<Option<&HighFd>, Errno> {
        if self.timer.is_some() || self.queue.is_empty() {
            return Ok(None);
        }
        let timer = self.timer.insert(Timer::new()?);
        Ok(Some(&timer.descriptor))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets the timer, which could not be added to the pollable descriptor.
    pub(crate) fn drop_timer(&mut self) {
        self.timer = None;
    }

    /// The shorter of a wait and the time to the next deadline.
    pub(crate) fn limit(&self, wait: Option<Duration>) -> Option<Duration> {
        let Some(next) = self.next() else {
            return wait;
        };
        let left = next.saturating_duration_since(Instant::now());
        Some(wait.map_or(left, |wait| wait.min(left)))
    }

    fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|&Reverse((deadline, _))| deadline)
    }

    pub(super) fn add(&mut self, deadline: Instant, handle: Handle, slots: &Slots) {
        // Most operations finish long before their deadline: without this the queue would grow with
        // each.
        if self.queue.len() >= Deadlines::STALE_MIN + 2 * slots.live() as usize {
            self.queue.retain(|&Reverse((deadline, handle))| {
                let slot = slots.find(handle);
                slot.is_some_and(|slot| slots[slot].deadline == Some(deadline))
            });
        }
        self.queue.push(Reverse((deadline, handle)));
    }

    pub(super) fn pop_before(&mut self, now: Instant) -> Option<(Instant, Handle)> {
        if self.next()? > now {
            return None;
        }
        self.queue.pop().map(|Reverse(entry)| entry)
    }

    /// Sets the timer, if there is one, to the next deadline.
    pub(crate) fn set_timer(&mut self) {
        let next = self.next();
        if let Some(timer) = &mut self.timer
            && timer.set_for != next
        {
            timer.set(next);
        }
    }

    /// Records that the timer has expired.
    pub(crate) fn silence_timer(&mut self) {
        if let Some(timer) = &mut self.timer {
            let _ = rustix::io::read(&timer.descriptor, &mut [0u8; 8]);
            timer.set_for = None;
        }
    }
}

impl Timer {
    fn new() -> Result<Timer, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Timer {
            descriptor: HighFd::from(rustix::time::timerfd_create(
                TimerfdClockId::Monotonic,
                flags,
            )?),
            set_for: None,
        })
    }

    fn set(&mut self, deadline: Option<Instant>) {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let left = deadline.map_or(zero, |deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs().min(i64::MAX as u64) as i64,
                // Zero would stop the timer.
                tv_nsec: i64::from(left.subsec_nanos()).max(i64::from(left.as_secs() == 0)),
            }
        });
        let value = Itimerspec {
            it_interval: zero,
            it_value: left,
        };
        let flags = TimerfdTimerFlags::empty();
        if rustix::time::timerfd_settime(&self.descriptor, flags, &value).is_ok() {
            self.set_for = deadline;
        }
    }
}
