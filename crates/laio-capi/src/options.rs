//! `struct laio_options`.

use crate::sized::{self, Sized32};
use laio::testing::Inject;
use laio::{BackPressure, BackendKind, Detector, Errno, Limits, Options, Rights};
use libc::c_char;
use std::ffi::CStr;

/// The options of a context.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_options {
    /// The size of the struct.
    pub size: u32,
    /// `LAIO_WAIT_AT_LIMIT`, …
    pub flags: u32,
    /// A back end's name, or null.
    pub backend: *const c_char,
    /// Limit of operations, 0 for the default, as below.
    pub operations: u32,
    /// Limit of helpers.
    pub helpers: u32,
    /// Entries of the ring's submission queue.
    pub ring_entries: u32,
    /// Calls done inline between two polls.
    pub inline_budget: u32,
    /// The signal that interrupts helpers.
    pub cancel_signal: i32,
    /// Injected bound of one step of a transfer.
    pub short_transfer: u32,
    /// Limit of kernel threads of `activations`.
    pub carriers: u32,
    /// `LAIO_DETECTOR_PERF`, …
    pub detector: u32,
    /// Limit of further helpers, for calls that may wait.
    pub waiting_helpers: u32,
    /// Microseconds of looking for a result or for work before a sleep.
    pub spin_us: u32,
}

const _: () = assert!(size_of::<laio_options>() == 56 && align_of::<laio_options>() == 8);

// SAFETY: begins with its size; numbers and a pointer that is checked before use.
unsafe impl Sized32 for laio_options {
    const FIRST: usize = 40;
}

const WAIT_AT_LIMIT: u32 = 0x1;
const WITHOUT_RING: u32 = 0x2;
const TRUST_NAMES: u32 = 0x4;
const PURE: u32 = 0x8;
const TRUST_WRITES: u32 = 0x80;
const AIO_BLOCKING: u32 = 0x20;
const SETTLED_RIGHTS: u32 = 0x40;
const PROCESS_RIGHTS: u32 = 0x10;
const DETECTOR_PERF: u32 = 0x1;
const DETECTOR_IDLE: u32 = 0x2;
const INJECT_INLINE: u32 = 0x100;
const INJECT_BACKGROUND: u32 = 0x200;
const INJECT_FALSE_EOF: u32 = 0x400;
const INJECT_ATTEMPTS_FAIL: u32 = 0x800;
const FLAGS: u32 = WAIT_AT_LIMIT
    | WITHOUT_RING
    | TRUST_NAMES
    | TRUST_WRITES
    | PURE
    | AIO_BLOCKING
    | SETTLED_RIGHTS
    | PROCESS_RIGHTS
    | INJECT_INLINE
    | INJECT_BACKGROUND
    | INJECT_FALSE_EOF
    | INJECT_ATTEMPTS_FAIL;

/// Converts to the engine's options; null means the defaults.
///
/// # Errors
/// Those of [`sized::read`] and `EINVAL`, but not `EFAULT`.
///
/// # Safety
/// `options` is null or points to options of the size they say, with a string or null as their back end.
pub(crate) unsafe fn read(options: *const laio_options) -> Result<Options, Errno> {
    if options.is_null() {
        return Ok(Options::new());
    }
    // SAFETY: by the caller.
    let given = unsafe { sized::read(options)? };
    let has = |flag| given.flags & flag != 0;
    if given.flags & !FLAGS != 0 || given.ring_entries > Limits::RING_ENTRIES_MAX {
        return Err(Errno::INVAL);
    }
    let limits = Limits::default();
    let or = |value, default| if value == 0 { default } else { value };
    let mut wanted = Options::new()
        .limits(Limits {
            operations: or(given.operations, limits.operations),
            helpers: or(given.helpers, limits.helpers),
            waiting_helpers: or(given.waiting_helpers, limits.waiting_helpers),
            carriers: or(given.carriers, limits.carriers),
            ring_entries: or(given.ring_entries, limits.ring_entries),
            // The engine's 0 is "no bound".
            inline_budget: match given.inline_budget {
                u32::MAX => 0,
                budget => or(budget, limits.inline_budget),
            },
            spin_us: match given.spin_us {
                u32::MAX => 0,
                spin_us => or(spin_us, limits.spin_us),
            },
        })
        .back_pressure(if has(WAIT_AT_LIMIT) {
            BackPressure::Wait
        } else {
            BackPressure::Fail
        })
        .ring(!has(WITHOUT_RING))
        .trust_names(has(TRUST_NAMES))
        .trust_writes(has(TRUST_WRITES))
        .carry_streams(has(PURE))
        .allow_blocking_aio(has(AIO_BLOCKING))
        .rights(match (has(SETTLED_RIGHTS), has(PROCESS_RIGHTS)) {
            (true, _) => Rights::Settled,
            (false, true) => Rights::Process,
            (false, false) => Rights::Thread,
        })
        .inject(Inject {
            force_inline: has(INJECT_INLINE),
            force_block: has(INJECT_BACKGROUND),
            false_eof: has(INJECT_FALSE_EOF),
            attempts_fail: has(INJECT_ATTEMPTS_FAIL),
            short_transfer: given.short_transfer as usize,
            // Rust programs only.
            failing_entry: None,
        });
    if !given.backend.is_null() {
        // SAFETY: by the caller.
        let name = unsafe { CStr::from_ptr(given.backend) };
        let kind = name.to_str().ok().and_then(|name| name.parse().ok());
        wanted = wanted.backend(kind.ok_or(Errno::INVAL)?);
    }
    wanted = match given.detector {
        0 => wanted,
        DETECTOR_PERF => wanted.detector(Detector::Perf),
        DETECTOR_IDLE => wanted.detector(Detector::Idle),
        _ => return Err(Errno::INVAL),
    };
    match given.cancel_signal {
        0 => {}
        // SIGKILL and SIGSTOP cannot be handled.
        signal @ 1.. if signal <= libc::SIGRTMAX() => match signal {
            libc::SIGKILL | libc::SIGSTOP => return Err(Errno::INVAL),
            signal => wanted = wanted.cancel_signal(signal),
        },
        _ => return Err(Errno::INVAL),
    }
    Ok(wanted)
}

/// Returns the name of a back end as a C string.
pub(crate) fn backend_name(kind: BackendKind) -> &'static CStr {
    match kind {
        BackendKind::Sync => c"sync",
        BackendKind::Threads => c"threads",
        BackendKind::Hybrid => c"hybrid",
        BackendKind::PosixAio => c"posix-aio",
        BackendKind::LinuxAio => c"linux-aio",
        BackendKind::Uring => c"uring",
        BackendKind::Lazy => c"lazy",
        BackendKind::Activations => c"activations",
        _ => unreachable!("a back end without a name in C"),
    }
}
