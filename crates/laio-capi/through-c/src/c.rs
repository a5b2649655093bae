//! `laio.h` as a binding: the declarations of a program in another language.
//!
//! The functions are linked from `laio-capi`. Its Rust types are not used, so that tests detect a
//! struct or a number which differs from the header.

use libc::{c_char, c_int, c_long, c_void, timespec};

// For the linker only.
use laio_capi as _;

pub(crate) const LAIO_WAIT_AT_LIMIT: u32 = 0x1;
pub(crate) const LAIO_WITHOUT_RING: u32 = 0x2;
pub(crate) const LAIO_INJECT_INLINE: u32 = 0x100;
pub(crate) const LAIO_INJECT_BACKGROUND: u32 = 0x200;
pub(crate) const LAIO_INJECT_FALSE_EOF: u32 = 0x400;
pub(crate) const LAIO_INJECT_ATTEMPTS_FAIL: u32 = 0x800;

pub(crate) const LAIO_INFO_RING: u32 = 0x1;

/// Opaque.
#[repr(C)]
pub(crate) struct laio_context {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct laio_completion {
    pub(crate) laio_handle: *mut c_void,
    pub(crate) laio_return_value: c_long,
    pub(crate) laio_errno: c_int,
    pub(crate) laio_reserved: c_int,
    pub(crate) laio_user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct laio_options {
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) backend: *const c_char,
    pub(crate) operations: u32,
    pub(crate) helpers: u32,
    pub(crate) ring_entries: u32,
    pub(crate) inline_budget: u32,
    pub(crate) cancel_signal: i32,
    pub(crate) short_transfer: u32,
    pub(crate) carriers: u32,
    pub(crate) detector: u32,
    pub(crate) waiting_helpers: u32,
    pub(crate) spin_us: u32,
}

#[repr(C)]
pub(crate) struct laio_call {
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) number: c_long,
    pub(crate) args: [usize; 6],
    pub(crate) user: *mut c_void,
    pub(crate) timeout: *const timespec,
    /// A `struct laio_status`; these tests use none.
    pub(crate) status: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct laio_counts {
    pub(crate) inline_done: u64,
    pub(crate) background: u64,
    pub(crate) fallback: u64,
    pub(crate) latched: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct laio_aio_counts {
    pub(crate) requests: u64,
    pub(crate) declined: u64,
    pub(crate) refused: u64,
    pub(crate) bounced: u64,
    pub(crate) submissions: u64,
    pub(crate) blocked: u64,
    pub(crate) blocked_ns: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct laio_stats {
    pub(crate) size: u32,
    pub(crate) operations_max: u32,
    pub(crate) calls: laio_counts,
    pub(crate) operations: u64,
    pub(crate) completions: u64,
    pub(crate) cancelled: u64,
    pub(crate) timed_out: u64,
    pub(crate) limited: u64,
    pub(crate) over_budget: u64,
    pub(crate) sleeps: u64,
    pub(crate) submissions: u64,
    pub(crate) aio: laio_aio_counts,
    pub(crate) handoffs: u64,
    pub(crate) false_wakeups: u64,
    pub(crate) spins: u64,
    pub(crate) helper_wakeups: u64,
    pub(crate) unanswered: u64,
    pub(crate) hung_mounts: u64,
}

#[repr(C)]
pub(crate) struct laio_info {
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) backend: *const c_char,
    pub(crate) operations: u32,
    pub(crate) helpers: u32,
    pub(crate) ring_entries: u32,
    pub(crate) inline_budget: u32,
    pub(crate) pending: u32,
    pub(crate) helper_threads: u32,
    pub(crate) memory: u64,
    pub(crate) carriers: u32,
    pub(crate) carrier_threads: u32,
    pub(crate) waiting_helpers: u32,
    pub(crate) spin_us: u32,
}

unsafe extern "C" {
    pub(crate) fn laio_syscall(number: c_long, ...) -> c_long;
    pub(crate) fn laio_poll(
        completions: *mut laio_completion,
        ncompletions: c_int,
        timeout: *const timespec,
    ) -> c_int;

    pub(crate) fn laio_context_new(options: *const laio_options) -> *mut laio_context;

    pub(crate) fn laio_submit(
        context: *mut laio_context,
        call: *const laio_call,
        handle: *mut *mut c_void,
    ) -> c_long;
    pub(crate) fn laio_context_poll(
        context: *mut laio_context,
        completions: *mut laio_completion,
        ncompletions: c_int,
        timeout: *const timespec,
    ) -> c_int;

    pub(crate) fn laio_stats(context: *mut laio_context, stats: *mut laio_stats) -> c_int;
    pub(crate) fn laio_call_stats(
        context: *mut laio_context,
        number: c_long,
        counts: *mut laio_counts,
    ) -> c_int;
    pub(crate) fn laio_info(context: *mut laio_context, info: *mut laio_info) -> c_int;

    // The context must live.
    pub(crate) fn laio_wake(context: *mut laio_context) -> c_int;

    // Safe, because handles and contexts may be any pointers: a foreign one is an error.
    pub(crate) safe fn laio_gethandle() -> *mut c_void;
    pub(crate) safe fn laio_context_free(context: *mut laio_context) -> c_int;
    pub(crate) safe fn laio_context_use(context: *mut laio_context) -> c_int;
    pub(crate) safe fn laio_cancel(context: *mut laio_context, handle: *mut c_void) -> c_int;
    pub(crate) fn laio_set_timeout(
        context: *mut laio_context,
        handle: *mut c_void,
        timeout: *const timespec,
    ) -> c_int;
    pub(crate) safe fn laio_set_ordered(context: *mut laio_context, fd: c_int, on: c_int) -> c_int;
    pub(crate) safe fn laio_pending(context: *mut laio_context) -> c_int;
    pub(crate) safe fn laio_fd(context: *mut laio_context) -> c_int;
    pub(crate) safe fn laio_flush(context: *mut laio_context) -> c_int;
    pub(crate) safe fn laio_report(context: *mut laio_context, fd: c_int) -> c_int;
    pub(crate) safe fn laio_strbackend(index: c_int) -> *const c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrong bit of an injected fault would change no result, so no other test would notice it.
    #[test]
    fn the_flags_are_those_of_the_header() {
        let header = include_str!("../../include/laio.h");
        for (name, value) in [
            ("WAIT_AT_LIMIT", LAIO_WAIT_AT_LIMIT),
            ("WITHOUT_RING", LAIO_WITHOUT_RING),
            ("INJECT_INLINE", LAIO_INJECT_INLINE),
            ("INJECT_BACKGROUND", LAIO_INJECT_BACKGROUND),
            ("INJECT_FALSE_EOF", LAIO_INJECT_FALSE_EOF),
            ("INJECT_ATTEMPTS_FAIL", LAIO_INJECT_ATTEMPTS_FAIL),
            ("INFO_RING", LAIO_INFO_RING),
        ] {
            let line = format!("#define LAIO_{name} {value:#x}u");
            assert!(header.contains(&line), "{line}");
        }
    }
}
