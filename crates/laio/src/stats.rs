//! Counting how calls went, so that a lazy path which has silently stopped being lazy shows.

use crate::table::ROWS;

/// How often a call went which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Finished by the attempt, or by the plain call where that cannot block.
    pub inline: u64,
    /// The attempt said that the call would block: finished in the background.
    pub background: u64,
    /// No attempt was possible (the back end makes none, the class has none, the file system refused
    /// it): finished in the background.
    pub fallback: u64,
    /// The attempt was left out because the file system had refused it before.
    pub latched: u64,
}

impl Counts {
    /// All calls counted, however they went. Latched calls are among the fallbacks.
    pub fn total(&self) -> u64 {
        self.inline + self.background + self.fallback
    }
}

/// How requests of POSIX AIO and Linux AIO went, in the back ends that are named for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AioCounts {
    /// Requests made. An operation may take several.
    pub requests: u64,
    /// Steps of operations that Linux AIO has a request for, but that helpers did: it would have had the
    /// caller wait (buffered I/O, writes that make a file longer), or the place of a direct write is not
    /// aligned.
    pub declined: u64,
    /// Requests that were refused (also because the system has no more, `fs.aio-max-nr`) or came back undone,
    /// and that helpers did then.
    pub refused: u64,
    /// Requests through aligned memory of the engine's own.
    pub bounced: u64,
    /// Calls of `io_submit`, each carrying one or more requests.
    pub submissions: u64,
    /// Requests that `io_submit` waited for ([`crate::Options::aio_blocking`]).
    pub blocked: u64,
    /// Nanoseconds spent in calls of `io_submit` that carried such requests.
    pub blocked_ns: u64,
}

/// How sends went that were to be made without a copy ([`crate::ops::Send::zero_copy`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyCounts {
    /// Sends that the kernel took so, and is done with. An operation may take several.
    pub sends: u64,
    /// How many of these it has copied nevertheless, as it does on its way to the same machine. Only Linux 6.7 and
    /// later are asked.
    pub copied: u64,
    /// Operations, or what was left of them, that were ordinary sends: without a ring, of a socket that can do no
    /// other (a Unix socket), or because no more memory may be locked (`RLIMIT_MEMLOCK`).
    pub ordinary: u64,
}

/// What a context has counted since it was made.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(crate) calls: Box<[Counts]>,
    /// Operations started.
    pub operations: u64,
    /// Operations whose completion has been delivered.
    pub completions: u64,
    /// Operations cancelled on request.
    pub cancelled: u64,
    /// Operations cancelled because their time was up.
    pub timed_out: u64,
    /// Calls refused with `EAGAIN`, or made to wait, because a limit was reached.
    pub limited: u64,
    /// Inline results delivered through `poll` because the budget was used up.
    pub over_budget: u64,
    /// Times the context slept in `poll`.
    pub sleeps: u64,
    /// Submissions to the ring, each carrying one or more operations.
    pub submissions: u64,
    /// Operations in flight or not yet delivered at most.
    pub operations_max: u32,
    /// Requests of POSIX AIO or Linux AIO.
    pub aio: AioCounts,
    /// Sends without a copy.
    pub zero_copy: ZeroCopyCounts,
    /// Times another kernel thread took the program on because a call blocked (`activations`; of all contexts
    /// of the thread).
    pub handoffs: u64,
    /// Times one looked and the call had returned already, or was only preempted.
    pub false_wakeups: u64,
}

impl Stats {
    pub(crate) fn new() -> Stats {
        Stats {
            calls: vec![Counts::default(); ROWS.len() + 1].into_boxed_slice(),
            operations: 0,
            completions: 0,
            cancelled: 0,
            timed_out: 0,
            limited: 0,
            over_budget: 0,
            sleeps: 0,
            submissions: 0,
            operations_max: 0,
            aio: AioCounts::default(),
            zero_copy: ZeroCopyCounts::default(),
            handoffs: 0,
            false_wakeups: 0,
        }
    }

    /// The counts of one call number.
    pub fn call(&self, number: libc::c_long) -> Counts {
        self.calls[crate::table::find(number as usize).0]
    }

    /// Names and counts of all calls made at least once. Numbers without a row are `(unknown)`.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, Counts)> + '_ {
        let names = ROWS
            .iter()
            .map(|row| row.name)
            .chain([crate::table::UNKNOWN.name]);
        names
            .zip(self.calls.iter().copied())
            .filter(|(_, counts)| counts.total() > 0)
    }

    /// The sum over all calls.
    pub fn total(&self) -> Counts {
        self.calls
            .iter()
            .fold(Counts::default(), |mut sum, counts| {
                sum.inline += counts.inline;
                sum.background += counts.background;
                sum.fallback += counts.fallback;
                sum.latched += counts.latched;
                sum
            })
    }
}
