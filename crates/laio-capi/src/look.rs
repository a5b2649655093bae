//! Queries: statistics, properties of a context, names and versions.

use crate::options::backend_name;
use crate::report::report;
use crate::ret::{IntoC, failed};
use crate::sized::{self, Sized32};
use crate::thread::{laio_context, with};
use laio::{AioCounts, BackendKind, Counts, Detector, Errno};
use libc::{c_char, c_int, c_long};
use std::ffi::CStr;

/// How calls were made.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct laio_counts {
    /// Done at once.
    pub inline_done: u64,
    /// Would have blocked.
    pub background: u64,
    /// Not attempted, or the attempt was refused.
    pub fallback: u64,
    /// Of those, not attempted because the file system had refused the attempt before.
    pub latched: u64,
}

/// `struct laio_aio_counts`.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct laio_aio_counts {
    /// Requests made.
    pub requests: u64,
    /// Steps left to helpers, because they would have blocked the caller.
    pub declined: u64,
    /// Requests refused or undone; helpers made the calls.
    pub refused: u64,
    /// Requests through a bounce buffer.
    pub bounced: u64,
    /// Calls of `io_submit`.
    pub submissions: u64,
    /// Requests that blocked in `io_submit`.
    pub blocked: u64,
    /// Nanoseconds in calls of `io_submit` with such requests.
    pub blocked_ns: u64,
}

/// The statistics of a context.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct laio_stats {
    /// The size of the struct.
    pub size: u32,
    /// The highest number of operations at once.
    pub operations_max: u32,
    /// All calls.
    pub calls: laio_counts,
    /// Calls that went to the background.
    pub operations: u64,
    /// Completions delivered.
    pub completions: u64,
    /// Operations cancelled on request.
    pub cancelled: u64,
    /// Operations cancelled by their time-outs.
    pub timed_out: u64,
    /// Calls that reached a limit.
    pub limited: u64,
    /// Inline results delivered through `laio_poll`.
    pub over_budget: u64,
    /// Waits in `laio_poll`.
    pub sleeps: u64,
    /// Submissions to io_uring.
    pub submissions: u64,
    /// Of the back ends `posix-aio` and `linux-aio`.
    pub aio: laio_aio_counts,
    /// Times another kernel thread continued the program.
    pub handoffs: u64,
    /// Times a spare was woken without a blocked call.
    pub false_wakeups: u64,
    /// Waits that ended before they became a sleep.
    pub spins: u64,
    /// Starts and wakeups of helpers.
    pub helper_wakeups: u64,
    /// Calls on remote file systems that helpers make or that wait for one.
    pub unanswered: u64,
    /// Remote file systems that hang.
    pub hung_mounts: u64,
}

/// The properties of a context.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_info {
    /// The size of the struct.
    pub size: u32,
    /// `LAIO_INFO_RING`, …
    pub flags: u32,
    /// The back end's name.
    pub backend: *const c_char,
    /// Limit of operations, as below.
    pub operations: u32,
    /// Limit of helpers.
    pub helpers: u32,
    /// Entries of the ring's submission queue.
    pub ring_entries: u32,
    /// Calls done inline between two polls.
    pub inline_budget: u32,
    /// Operations in flight or not yet delivered.
    pub pending: u32,
    /// The number of live helper threads.
    pub helper_threads: u32,
    /// Bytes held for operations and descriptors.
    pub memory: u64,
    /// Limit of kernel threads of `activations`.
    pub carriers: u32,
    /// The number of live ones.
    pub carrier_threads: u32,
    /// Limit of further helpers, for calls that may wait.
    pub waiting_helpers: u32,
    /// Microseconds of looking for a result or for work before a sleep.
    pub spin_us: u32,
}

const _: () = assert!(size_of::<laio_counts>() == 32);
const _: () = assert!(size_of::<laio_stats>() == 208 && align_of::<laio_stats>() == 8);
const _: () = assert!(size_of::<laio_info>() == 64 && align_of::<laio_info>() == 8);

// SAFETY: begins with its size; numbers only.
unsafe impl Sized32 for laio_stats {
    const FIRST: usize = 104;
}

// SAFETY: begins with its size; numbers and a pointer that is only written.
unsafe impl Sized32 for laio_info {
    const FIRST: usize = 48;
}

const INFO_RING: u32 = 0x1;
const INFO_NOWAIT: u32 = 0x2;
const INFO_RESOLVE_CACHED: u32 = 0x4;
const INFO_PERF: u32 = 0x8;
const INFO_IDLE: u32 = 0x10;

impl From<AioCounts> for laio_aio_counts {
    fn from(counts: AioCounts) -> laio_aio_counts {
        laio_aio_counts {
            requests: counts.requests,
            declined: counts.declined,
            refused: counts.refused,
            bounced: counts.bounced,
            submissions: counts.submissions,
            blocked: counts.blocked,
            blocked_ns: counts.blocked_ns,
        }
    }
}

impl From<Counts> for laio_counts {
    fn from(counts: Counts) -> laio_counts {
        laio_counts {
            inline_done: counts.inline,
            background: counts.background,
            fallback: counts.fallback,
            latched: counts.latched,
        }
    }
}

/// Operations in flight or not yet delivered: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_pending(context: *mut laio_context) -> c_int {
    with(context, |context| Ok(pending(context) as c_int)).into_c()
}

/// The engine counts each operation of a request.
fn pending(context: &mut laio_context) -> usize {
    let surplus = context.requests.surplus();
    context.engine.pending().saturating_add_signed(-surplus)
}

/// Returns the statistics: see `laio.h`.
///
/// # Safety
/// `stats` is null or points to a struct of the size it says, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_stats(context: *mut laio_context, stats: *mut laio_stats) -> c_int {
    with(context, |context| {
        let counted = context.engine.stats();
        let filled = laio_stats {
            size: 0,
            operations_max: counted.operations_max,
            calls: counted.total().into(),
            operations: counted.operations,
            completions: counted.completions,
            cancelled: counted.cancelled,
            timed_out: counted.timed_out,
            limited: counted.limited,
            over_budget: counted.over_budget,
            sleeps: counted.sleeps,
            submissions: counted.submissions,
            aio: counted.aio.into(),
            handoffs: counted.handoffs,
            false_wakeups: counted.false_wakeups,
            spins: counted.spins,
            helper_wakeups: counted.helper_wakeups,
            unanswered: counted.unanswered,
            hung_mounts: counted.hung_mounts,
        };
        // SAFETY: by the caller.
        unsafe { sized::write(stats, &filled) }
    })
    .into_c()
}

/// The counts of one system call: see `laio.h`.
///
/// # Safety
/// `counts` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_call_stats(
    context: *mut laio_context,
    number: c_long,
    counts: *mut laio_counts,
) -> c_int {
    if counts.is_null() {
        return failed(Errno::FAULT);
    }
    with(context, |context| {
        let counted = context.engine.stats().call(number);
        // SAFETY: by the caller.
        unsafe { counts.write(counted.into()) };
        Ok(())
    })
    .into_c()
}

/// Returns the properties of a context: see `laio.h`.
///
/// # Safety
/// `info` is null or points to a struct of the size it says, which may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laio_info(context: *mut laio_context, info: *mut laio_info) -> c_int {
    with(context, |context| {
        let pending = pending(context);
        let about = context.engine.info();
        let limits = about.limits();
        let flag = |on, flag| if on { flag } else { 0 };
        let filled = laio_info {
            size: 0,
            flags: flag(about.has_ring(), INFO_RING)
                | flag(about.can_try_reads(), INFO_NOWAIT)
                | flag(about.can_try_opens(), INFO_RESOLVE_CACHED)
                | flag(about.detector() == Some(Detector::Perf), INFO_PERF)
                | flag(about.detector() == Some(Detector::Idle), INFO_IDLE),
            backend: backend_name(about.backend()).as_ptr(),
            operations: limits.operations,
            helpers: limits.helpers,
            ring_entries: limits.ring_entries,
            inline_budget: match limits.inline_budget {
                0 => u32::MAX,
                budget => budget,
            },
            pending: pending as u32,
            helper_threads: about.helper_threads() as u32,
            memory: about.memory() as u64,
            carriers: limits.carriers,
            carrier_threads: about.carriers() as u32,
            waiting_helpers: limits.waiting_helpers,
            spin_us: match limits.spin_us {
                0 => u32::MAX,
                spin_us => spin_us,
            },
        };
        // SAFETY: by the caller.
        unsafe { sized::write(info, &filled) }
    })
    .into_c()
}

/// Writes a readable report: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_report(context: *mut laio_context, fd: c_int) -> c_int {
    with(context, |context| {
        let page = report(&context.engine);
        let mut rest = page.as_bytes();
        while !rest.is_empty() {
            // Not `write`, which is a cancellation point of the C library.
            // SAFETY: the bytes live through the call.
            let written = unsafe { libc::syscall(libc::SYS_write, fd, rest.as_ptr(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = &rest[written..],
                Err(_) => match Errno::from(std::io::Error::last_os_error()) {
                    Errno::INTR => {}
                    errno => return Err(errno),
                },
            }
        }
        Ok(())
    })
    .into_c()
}

/// The name of a back end: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_strbackend(index: c_int) -> *const c_char {
    let kind = usize::try_from(index)
        .ok()
        .and_then(|index| BackendKind::ALL.get(index));
    kind.map_or(std::ptr::null(), |&kind| backend_name(kind).as_ptr())
}

/// The version of the library: see `laio.h`.
#[unsafe(no_mangle)]
pub extern "C" fn laio_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => unreachable!(),
        };
    VERSION.as_ptr()
}
