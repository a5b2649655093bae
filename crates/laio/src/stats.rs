//! Statistics of how calls were made, which show when a call no longer finishes inline.

use crate::table::ROWS;

/// How often calls finished inline, and how often in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls finished by the attempt, or by the plain call where that cannot block.
    pub inline: u64,
    /// Calls whose attempt would have blocked; finished in the background.
    pub background: u64,
    /// Calls without an attempt (the back end makes none, the class has none, the file system
    /// refused it); finished in the background.
    pub fallback: u64,
    /// Calls not attempted because the file system had refused the attempt before. Also counted in
    /// `fallback`.
    pub latched: u64,
}

impl Counts {
    /// The number of all calls. Latched calls are counted among the fallbacks.
    pub fn total(&self) -> u64 {
        self.inline + self.background + self.fallback
    }
}

/// Statistics of POSIX AIO and Linux AIO requests, in the back ends of these names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AioCounts {
    /// Requests made. An operation may take several.
    pub requests: u64,
    /// Steps of operations that helpers made although Linux AIO has a request for them: the request
    /// would have blocked the caller (buffered I/O, writes that extend a file), or the offset of a
    /// direct write is not aligned.
    pub declined: u64,
    /// Requests that were refused (also because the system has no more, `fs.aio-max-nr`) or came
    /// back undone, so that helpers made the calls.
    pub refused: u64,
    /// Requests through an aligned bounce buffer.
    pub bounced: u64,
    /// Calls of `io_submit`, each carrying one or more requests.
    pub submissions: u64,
    /// Requests that blocked in `io_submit` ([`crate::Options::allow_blocking_aio`]).
    pub blocked: u64,
    /// Nanoseconds spent in calls of `io_submit` that carried such requests.
    pub blocked_ns: u64,
}

/// Statistics of zero-copy sends ([`crate::ops::Send::zero_copy`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyCounts {
    /// Zero-copy sends that the kernel has finished, notification included. An operation may take
    /// several.
    pub sends: u64,
    /// How many of these the kernel has copied nevertheless, as it does for local peers. Only Linux
    /// 6.7 and later report it.
    pub copied: u64,
    /// Operations, or rests of them, that became ordinary sends: without a ring, on a socket that
    /// has no zero-copy sends (a Unix socket), or because no more memory may be locked
    /// (`RLIMIT_MEMLOCK`).
    pub ordinary: u64,
}

/// The statistics of a context since it was made.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(crate) calls: Box<[Counts]>,
    /// Operations started.
    pub operations: u64,
    /// Operations whose completion has been delivered.
    pub completions: u64,
    /// Operations cancelled on request.
    pub cancelled: u64,
    /// Operations cancelled because their time-out had passed.
    pub timed_out: u64,
    /// Calls refused with `EAGAIN`, or made to wait, because a limit was reached.
    pub limited: u64,
    /// Inline results delivered through `poll` because the budget was used up.
    pub over_budget: u64,
    /// Times the context slept in `poll`.
    pub sleeps: u64,
    /// Times a result arrived while the context looked for it before it slept
    /// ([`crate::Limits::spin_us`]).
    pub spins: u64,
    /// Times a helper was started or woken for a call.
    pub helper_wakeups: u64,
    /// Calls that the context's own thread made, because no helper could be started
    /// ([`crate::Options::call_without_threads`]).
    pub made_by_caller: u64,
    /// Submissions to the ring, each carrying one or more operations.
    pub submissions: u64,
    /// The highest number of operations in flight or not yet delivered.
    pub operations_max: u32,
    /// Requests of POSIX AIO or Linux AIO.
    pub aio: AioCounts,
    /// Sends without a copy.
    pub zero_copy: ZeroCopyCounts,
    /// How often another thread continued the program because a call blocked (`activations`;
    /// of all contexts of the thread).
    pub handoffs: u64,
    /// How often a spare was woken although the call had returned already, or was only preempted.
    pub false_wakeups: u64,
    /// Calls on remote file systems (FUSE, network) that helpers make, or that wait for one, now.
    pub unanswered: u64,
    /// Remote file systems that hang now: they have answered none of the calls that helpers make for
    /// [`Limits::HUNG_AFTER`](crate::Limits::HUNG_AFTER). [`Info::hung_mounts`](crate::Info::hung_mounts)
    /// says which.
    pub hung_mounts: u64,
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
            spins: 0,
            helper_wakeups: 0,
            made_by_caller: 0,
            submissions: 0,
            operations_max: 0,
            aio: AioCounts::default(),
            zero_copy: ZeroCopyCounts::default(),
            handoffs: 0,
            false_wakeups: 0,
            unanswered: 0,
            hung_mounts: 0,
        }
    }

    /// The counts of one call number.
    pub fn call(&self, number: libc::c_long) -> Counts {
        self.calls[crate::table::index(number as usize)]
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
