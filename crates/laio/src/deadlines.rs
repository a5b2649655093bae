//! Time-outs of single operations: an operation is cancelled when its time-out has passed.

use crate::context::{Context, Waiter};
use crate::operation::{Operations, State};
use crate::sys::high_fd::HighFd;
use crate::{Errno, Handle};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, AsRawFd};
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

impl Context {
    /// Cancels an operation when `timeout` has passed from now; `None` removes the time-out. The
    /// operation then completes as if cancelled, but with `ETIME` instead of `ECANCELED`; network
    /// errors use `ETIMEDOUT`.
    ///
    /// # Errors
    /// `ENOENT` if the handle is not live, `EALREADY` if the operation has finished; `EMFILE`, `ENFILE`,
    /// `ENOMEM` if the pollable descriptor is in use and has no timer yet.
    pub fn set_timeout(&mut self, handle: Handle, timeout: Option<Duration>) -> Result<(), Errno> {
        self.notice_fork();
        let slot = self.in_flight(handle)?;
        // A time-out too long to represent never expires.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.operations[slot].deadline = deadline;
        if let Some(deadline) = deadline {
            self.deadlines.add(deadline, handle, &self.operations);
            if self.exposed {
                self.prepare_timer()?;
                self.arm_descriptor();
            }
        }
        Ok(())
    }

    /// Adds a timer to the pollable descriptor if any operation has a deadline.
    pub(crate) fn prepare_timer(&mut self) -> Result<(), Errno> {
        if self.deadlines.timer.is_some() || self.deadlines.queue.is_empty() {
            return Ok(());
        }
        let timer = Timer::new()?;
        match &mut self.waiter {
            Waiter::Ring(ring) => ring.set_timer(timer.descriptor.as_raw_fd()),
            Waiter::Reactor(reactor) => reactor.set_timer(timer.descriptor.as_fd())?,
        }
        self.deadlines.timer = Some(timer);
        Ok(())
    }

    /// The shorter of a wait and the time to the next deadline.
    pub(crate) fn until_next_deadline(&self, wait: Option<Duration>) -> Option<Duration> {
        let Some(next) = self.deadlines.next() else {
            return wait;
        };
        let left = next.saturating_duration_since(Instant::now());
        Some(wait.map_or(left, |wait| wait.min(left)))
    }

    /// Cancels the operations whose time has passed.
    pub(crate) fn expire(&mut self) {
        if self.deadlines.queue.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((deadline, handle)) = self.deadlines.pop_before(now) {
            let Ok(slot) = self.in_flight(handle) else {
                continue;
            };
            let operation = &mut self.operations[slot];
            if operation.deadline == Some(deadline) && !operation.cancelled {
                operation.deadline = None;
                operation.timed_out = true;
                self.stats.timed_out += 1;
                self.cancel_slot(slot);
            }
        }
        self.unblock_queued();
    }

    /// The slot of an operation that has not finished.
    pub(crate) fn in_flight(&self, handle: Handle) -> Result<u32, Errno> {
        let slot = self.operations.find(handle).ok_or(Errno::NOENT)?;
        match self.operations[slot].state {
            State::Finished => Err(Errno::ALREADY),
            State::Delivered => Err(Errno::NOENT),
            _ => Ok(slot),
        }
    }
}

impl Deadlines {
    /// The number of stale entries, in addition to as many as there are valid ones, that the queue
    /// keeps before it removes them.
    const STALE_MIN: usize = 64;

    fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|&Reverse((deadline, _))| deadline)
    }

    fn add(&mut self, deadline: Instant, handle: Handle, operations: &Operations) {
        // Most operations finish long before their deadline: without this the queue would grow with
        // each.
        if self.queue.len() >= Deadlines::STALE_MIN + 2 * operations.live() as usize {
            self.queue.retain(|&Reverse((deadline, handle))| {
                let slot = operations.find(handle);
                slot.is_some_and(|slot| operations[slot].deadline == Some(deadline))
            });
        }
        self.queue.push(Reverse((deadline, handle)));
    }

    fn pop_before(&mut self, now: Instant) -> Option<(Instant, Handle)> {
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
