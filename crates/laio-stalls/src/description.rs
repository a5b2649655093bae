//! What is known of a wait: its call, its file, and what laio would do.

use crate::mappings::{self, Mapping};
use crate::proc_files::{self, BlockedCall};
use crate::report::{Cause, Key};
use crate::stack::Frame;
use crate::{calls, describe};

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

impl Description {
    /// Finds out about a call while a thread is blocked in it.
    pub(crate) fn of(pid: u32, tid: u32, thread: &str, call: &BlockedCall) -> Description {
        let state = proc_files::stat(pid, tid).map_or('S', |stat| stat.state);
        let cause = match (state, call.number) {
            ('T' | 't', _) => Cause::Stopped,
            (_, None) => Cause::PageFault,
            _ if calls::is_futex(call) => Cause::Futex,
            _ => Cause::Call,
        };
        let (name, subject) = match cause {
            Cause::Stopped => ("stopped by a signal", String::new()),
            Cause::PageFault => ("page fault", String::new()),
            _ => (calls::name(call), describe::subject(pid, call)),
        };
        let before = match cause {
            Cause::PageFault => mappings::read_resident(pid),
            _ => Vec::new(),
        };
        Description {
            key: Key {
                cause,
                call: name,
                subject,
                thread: thread.to_owned(),
            },
            stack: Vec::new(),
            before,
        }
    }

    /// Completes the description of a page fault, of which the address may be known.
    pub(crate) fn complete(self, pid: u32, address: Option<u64>) -> Description {
        if self.key.cause != Cause::PageFault {
            return self;
        }
        let after = mappings::read_resident(pid);
        let readings = self.before.iter().chain(&after);
        let at_address = address.and_then(|address| {
            let mut readings = readings.filter(|mapping| mapping.is_file());
            readings.find(|mapping| mapping.contains(address))
        });
        let subject = match at_address {
            Some(mapping) => mapping.name.clone(),
            None => mappings::faulted(&self.before, &after).unwrap_or_default(),
        };
        let key = Key {
            subject,
            ..self.key
        };
        Description { key, ..self }
    }

    /// What laio would do.
    pub(crate) fn remedy(&self, call: &BlockedCall) -> &'static str {
        match self.key.cause {
            Cause::Call => calls::row(call).map_or("", |row| calls::remedy(row, &self.key.subject)),
            cause => calls::other_remedy(cause, &self.key.subject),
        }
    }
}
