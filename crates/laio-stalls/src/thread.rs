//! One watched thread: its files in `/proc`, its waits, and what is known of the current one.

use crate::description::Description;
use crate::idle::EventLoop;
use crate::proc_files::{BlockedCall, Position, ThreadFiles, Times};
use crate::records::Records;
use crate::switch_rate::SwitchRate;
use crate::waits::{Change, Wait, Waits};
use std::io;

/// A thread of another process.
#[derive(Debug)]
pub(crate) struct WatchedThread {
    /// Its process.
    pub(crate) pid: u32,
    /// Its number.
    pub(crate) tid: u32,
    /// Its name.
    pub(crate) name: String,
    /// How it waits for events.
    pub(crate) events: EventLoop,
    /// What is known of the wait in which it is.
    pub(crate) description: Option<Description>,
    /// What perf records of it, where that is permitted.
    pub(crate) records: Option<Records>,
    /// Whether the records have ended because the thread switches too often.
    are_records_paused: bool,
    rate: SwitchRate,
    waits: Waits,
    files: ThreadFiles,
}

/// What a look at a thread has shown.
#[derive(Debug)]
pub(crate) struct Look {
    /// What has changed.
    pub(crate) changes: Vec<Change>,
    /// A wait has begun, and lasts.
    pub(crate) has_begun: bool,
    /// Records that the kernel has dropped.
    pub(crate) lost: u64,
    /// The records have ended for now.
    pub(crate) is_paused_now: bool,
}

impl WatchedThread {
    /// Opens the files of a thread.
    ///
    /// # Errors
    /// If the thread is gone, or this process may not examine it.
    pub(crate) fn open(pid: u32, tid: u32) -> io::Result<WatchedThread> {
        let files = ThreadFiles::open(pid, tid)?;
        Ok(WatchedThread {
            pid,
            tid,
            name: files.name.clone(),
            events: EventLoop::default(),
            description: None,
            records: None,
            are_records_paused: false,
            rate: SwitchRate::default(),
            waits: Waits::default(),
            files,
        })
    }

    /// Where the thread is, and what the scheduler had counted before.
    pub(crate) fn where_it_is(&self) -> Option<(Position, Times)> {
        let times = self.files.times()?;
        Some((self.files.position()?, times))
    }

    /// The wait that lasts, with its length, if it is not idle and longer than this.
    pub(crate) fn unfinished(&self, at: u64, over: u64) -> Option<(Wait, u64)> {
        let wait = self.waits.current()?;
        let length = wait.length(at);
        (length >= over && !self.events.is_idle(&wait.call)).then_some((*wait, length))
    }

    /// Looks where the thread is. `None` if it has ended.
    pub(crate) fn look(&mut self, at: u64) -> Option<Look> {
        let lost = self.records.as_mut().map_or(0, Records::update);
        let times = self.files.times()?;
        let position = match self.waits.current() {
            Some(wait) if self.waits.continues(times) => Position::Blocked(wait.call),
            _ => self.files.position()?,
        };
        let before = self.waits.current().map(|wait| wait.start);
        let off = self.records.as_ref().map_or(&[][..], Records::off);
        let changes = self.waits.look(at, times, position, off);
        let current = self.waits.current();
        let has_begun = current.is_some_and(|wait| Some(wait.start) != before);
        if has_begun && let Some(wait) = current {
            self.events.count(&wait.call);
        }
        let may_record = self.rate.update(at, times.turns);
        let is_paused_now = may_record == Some(false) && self.records.take().is_some();
        self.are_records_paused |= is_paused_now;
        if may_record == Some(true) && std::mem::take(&mut self.are_records_paused) {
            self.records = Records::open(self.tid).ok();
        }
        Some(Look {
            is_paused_now,
            changes,
            has_begun,
            lost,
        })
    }

    /// The call in which the thread is blocked and for which it does not idle, and for how long it is.
    pub(crate) fn busy_wait(&self, at: u64) -> Option<(BlockedCall, u64, u64)> {
        let wait = self.waits.current()?;
        let is_idle = self.events.is_idle(&wait.call);
        (!is_idle).then(|| (wait.call, wait.start, wait.length(at)))
    }

    /// Finds out about a call while the thread is blocked in it.
    pub(crate) fn describe(&self, call: &BlockedCall) -> Description {
        Description::of(self.pid, self.tid, &self.name, call)
    }

    /// Completes the description of a wait that has ended.
    pub(crate) fn complete(&self, description: Description) -> Description {
        description.complete(self.pid, self.records.as_ref().and_then(Records::fault))
    }
}
