//! The hand-off of the application from one kernel thread to another: the assembly, and the structs
//! that it shares with Rust code.
//!
//! Only x86-64 has it so far; on other architectures everything here compiles and [`AVAILABLE`] is
//! false.

#[cfg_attr(all(not(miri), target_arch = "x86_64"), path = "handoff/x86_64.rs")]
#[cfg_attr(any(miri, not(target_arch = "x86_64")), path = "handoff/elsewhere.rs")]
mod arch;

#[cfg(all(laio_sanitized, not(miri), target_arch = "x86_64"))]
mod sanitized;

#[cfg(not(all(laio_sanitized, not(miri), target_arch = "x86_64")))]
pub(crate) use arch::spawn;
#[cfg(all(laio_sanitized, not(miri), target_arch = "x86_64"))]
pub(crate) use sanitized::{lend, spawn};

pub(crate) use arch::{AVAILABLE, call, check, interrupt, park, resume, set_thread_pointer};
pub(crate) use arch::{blocked_at, processor_known_by, stack_pointer, thread_pointer};

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// The part of a carrier that the assembly uses. It gets the field offsets as constants.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    /// The state word; see [`crate::background::activations`].
    pub(crate) state: AtomicU64,
    /// The application's stack pointer since it entered a call or parked itself here.
    pub(crate) saved: AtomicUsize,
    /// The upper end of the stack on which this carrier makes calls and waits.
    pub(crate) stack: usize,
    /// `data_head` and `data_tail` of the ring of switch records, or two unused words.
    pub(crate) ring: *const [AtomicU64; 2],
    /// Not 0 if the current call must be given up.
    pub(crate) interrupted: AtomicU32,
    /// Not 0 if [`Control::wake`] must be called when a detector sleeps; see [`detected`].
    pub(crate) detected: u32,
    /// The processor on which the call was begun; only where `detected`.
    pub(crate) processor: AtomicU32,
    /// How many [`SleepWord`]s there are.
    pub(crate) sleep_words: u32,
    /// The sleep words: first the backstop's, then one for each processor.
    pub(crate) sleep_word: *const SleepWord,
    pub(crate) wake: unsafe extern "C" fn(*mut Control),
    /// Called when a call has returned after the application was taken over.
    pub(crate) on_return: unsafe extern "C" fn(*mut Control, usize) -> !,
    /// Called when the application has parked itself here.
    pub(crate) on_park: unsafe extern "C" fn(*mut Control) -> !,
}

/// Bits of [`Control::detected`].
pub(crate) mod detected {
    pub(crate) const YES: u32 = 1;
    /// The RDPID instruction reports the processor.
    #[cfg_attr(
        any(miri, not(target_arch = "x86_64")),
        expect(dead_code, reason = "read by the assembly")
    )]
    pub(crate) const BY_RDPID: u32 = 2;
    /// The program itself orders the store of its state before the check for sleeping detectors.
    pub(crate) const BY_FENCE: u32 = 4;
}

/// The futex word that a detector sleeps on.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct SleepWord {
    /// Not 0 while it sleeps, or is about to.
    pub(crate) asleep: AtomicU32,
}

/// The outcome of a call through [`call`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// The word in the result register, unless the call is still in flight.
    pub(crate) word: usize,
    /// Not 0 if another carrier continues the application, and the call is still in flight.
    pub(crate) taken: usize,
}

/// The parameters of a new kernel thread.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) entry: unsafe extern "C" fn(*mut Control) -> !,
    pub(crate) control: *mut Control,
    #[cfg_attr(laio_sanitized, expect(dead_code, reason = "the thread has its own"))]
    pub(crate) thread_pointer: usize,
    /// Set to the thread's TID, and when it has ended to 0, with a futex wake.
    pub(crate) number: *const AtomicU32,
}
