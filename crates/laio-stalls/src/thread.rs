//! One watched thread: its files in `/proc`, its waits, and what is known of the current one.

use crate::idle::EventLoop;
use crate::mappings::{self, Mapping};
use crate::proc_files::{self, BlockedCall, Position, Times};
use crate::records::Records;
use crate::report::{Cause, Key};
use crate::stack::Frame;
use crate::waits::{Change, Wait, Waits};
use crate::{calls, describe};
use std::fs::File;
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
    waits: Waits,
    position: File,
    times: File,
}

/// What was found out about a wait while it lasted.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Its entry in the report. A page fault gets its subject at the end.
    pub(crate) key: Key,
    /// The program's return addresses, the innermost first.
    pub(crate) stack: Vec<Frame>,
    /// The mappings when a page fault was in progress.
    before: Vec<Mapping>,
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
}

impl WatchedThread {
    /// Opens the files of a thread.
    ///
    /// # Errors
    /// If the thread is gone, or this process may not examine it.
    pub(crate) fn open(pid: u32, tid: u32) -> io::Result<WatchedThread> {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"))?;
        Ok(WatchedThread {
            pid,
            tid,
            name: name.trim_end().to_owned(),
            events: EventLoop::default(),
            description: None,
            records: None,
            waits: Waits::default(),
            position: open("syscall")?,
            times: open("schedstat")?,
        })
    }

    /// Where the thread is, and what the scheduler had counted before.
    pub(crate) fn where_it_is(&self) -> Option<(Position, Times)> {
        let times = proc_files::times(&self.times)?;
        Some((proc_files::position(&self.position)?, times))
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
        let times = proc_files::times(&self.times)?;
        let position = match self.waits.current() {
            Some(wait) if self.waits.continues(times) => Position::Blocked(wait.call),
            _ => proc_files::position(&self.position)?,
        };
        let before = self.waits.current().map(|wait| wait.start);
        let off = self.records.as_ref().map_or(&[][..], Records::off);
        let changes = self.waits.look(at, times, position, off);
        let current = self.waits.current();
        let has_begun = current.is_some_and(|wait| Some(wait.start) != before);
        if has_begun && let Some(wait) = current {
            self.events.count(&wait.call);
        }
        Some(Look {
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
        let state = proc_files::stat(self.pid, self.tid).map_or('S', |stat| stat.state);
        let cause = match (state, call.number) {
            ('T' | 't', _) => Cause::Stopped,
            (_, None) => Cause::PageFault,
            _ if calls::is_futex(call) => Cause::Futex,
            _ => Cause::Call,
        };
        let (name, subject) = match cause {
            Cause::Stopped => ("stopped by a signal", String::new()),
            Cause::PageFault => ("page fault", String::new()),
            _ => (calls::name(call), describe::subject(self.pid, call)),
        };
        let before = match cause {
            Cause::PageFault => mappings::read_resident(self.pid),
            _ => Vec::new(),
        };
        Description {
            key: Key {
                cause,
                call: name,
                subject,
                thread: self.name.clone(),
            },
            stack: Vec::new(),
            before,
        }
    }

    /// Completes the description of a wait that has ended.
    pub(crate) fn complete(&self, description: Description) -> Description {
        if description.key.cause != Cause::PageFault {
            return description;
        }
        let address = self.records.as_ref().and_then(Records::fault);
        let after = mappings::read_resident(self.pid);
        let readings = description.before.iter().chain(&after);
        let at_address = address.and_then(|address| {
            let mut readings = readings.filter(|mapping| mapping.is_file());
            readings.find(|mapping| mapping.contains(address))
        });
        let subject = match at_address {
            Some(mapping) => mapping.name.clone(),
            None => mappings::faulted(&description.before, &after).unwrap_or_default(),
        };
        Description {
            key: Key {
                subject,
                ..description.key
            },
            ..description
        }
    }
}
