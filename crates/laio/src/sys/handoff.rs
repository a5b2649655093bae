//! Handing the application from one kernel thread to another: the assembly of it, and what the assembly
//! shares with the rest.
//!
//! Only one architecture has it so far; on others everything here compiles and [`AVAILABLE`] is false.

#[cfg_attr(all(not(miri), target_arch = "x86_64"), path = "handoff/x86_64.rs")]
#[cfg_attr(any(miri, not(target_arch = "x86_64")), path = "handoff/elsewhere.rs")]
mod arch;

#[cfg(all(laio_sanitized, not(miri), target_arch = "x86_64"))]
mod sanitized;

#[cfg(not(all(laio_sanitized, not(miri), target_arch = "x86_64")))]
pub(crate) use arch::spawn;
#[cfg(all(laio_sanitized, not(miri), target_arch = "x86_64"))]
pub(crate) use sanitized::{lend, spawn};

pub(crate) use arch::{AVAILABLE, call, interrupt, park, resume, set_thread_pointer};
pub(crate) use arch::{blocked_at, processor_known_by, stack_pointer, thread_pointer};

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// What the assembly knows of a carrier. The fields' places are given to it as constants.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    /// The state word; see [`crate::background::activations`].
    pub(crate) state: AtomicU64,
    /// The application's stack pointer since it entered a call or parked itself here.
    pub(crate) saved: AtomicUsize,
    /// The upper end of the stack on which this carrier makes calls and waits.
    pub(crate) stack: usize,
    /// `data_head` and behind it `data_tail` of the ring of switch records, or two words that nobody reads.
    pub(crate) ring: *const [AtomicU64; 2],
    /// The present call is to be given up.
    pub(crate) interrupted: AtomicU32,
    /// Not 0 if [`Control::wake`] must be asked when a detector sleeps; see [`detected`].
    pub(crate) detected: u32,
    /// The processor on which the call was begun; only where `detected`.
    pub(crate) processor: AtomicU32,
    /// How many [`SleepWord`]s there are.
    pub(crate) sleep_words: u32,
    /// One for each processor, and before the first that of the backstop.
    pub(crate) sleep_word: *const SleepWord,
    pub(crate) wake: unsafe extern "C" fn(*mut Control),
    /// A call has returned after the application was taken away.
    pub(crate) on_return: unsafe extern "C" fn(*mut Control, usize) -> !,
    /// The application has parked itself here.
    pub(crate) on_park: unsafe extern "C" fn(*mut Control) -> !,
}

/// Parts of [`Control::detected`].
pub(crate) mod detected {
    pub(crate) const YES: u32 = 1;
    /// There is an instruction that tells the processor.
    pub(crate) const BY_RDPID: u32 = 2;
    /// The program itself orders what it says of its call before what it sees of detectors.
    pub(crate) const BY_FENCE: u32 = 4;
}

/// Where a detector sleeps.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct SleepWord {
    /// Not 0 while it sleeps, or is about to.
    pub(crate) asleep: AtomicU32,
}

/// How a call through [`call`] came back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Returned {
    /// The word in the result register, unless the call went on elsewhere.
    pub(crate) word: usize,
    /// Not 0: another carrier has taken the application on, and the call goes on.
    pub(crate) taken: usize,
}

/// What a new carrier is made of.
#[derive(Debug)]
pub(crate) struct Birth {
    pub(crate) entry: unsafe extern "C" fn(*mut Control) -> !,
    pub(crate) control: *mut Control,
    #[cfg_attr(laio_sanitized, expect(dead_code, reason = "the thread has its own"))]
    pub(crate) thread_pointer: usize,
    /// Set to the thread's number, and to 0, with a futex wake, when it has ended.
    pub(crate) number: *const AtomicU32,
}
