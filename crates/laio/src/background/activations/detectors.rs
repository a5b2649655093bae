//! Detectors, which notice that the application has blocked, in two ways.
//!
//! With `perf`, the context switches of each carrier are recorded, and a record during a call wakes
//! a spare. With `idle`, a thread on each processor with `SCHED_IDLE` runs only when nothing else
//! does, and then checks for a call: this is faster, but starves while another program keeps the
//! processor busy; so a backstop thread checks every millisecond while the application makes calls.

use super::carrier::{Carrier, Owned, readiness};
use super::shared::CarrierShared;
use super::spare;
use super::state::{self, CALL};
use crate::sys::handoff::{Control, SleepWord};
use crate::sys::{self};
use crate::{Detector, Errno, Options};
use std::sync::atomic::{Ordering::*, fence};

/// The maximum number of processors with a detector; on others only the backstop checks.
const PROCESSORS_MAX: usize = 16;
/// The interval of the backstop's checks.
const BACKSTOP_NS: i64 = 1_000_000;
/// Checks without a new call after which the backstop sleeps until the next call.
const LOOKS: u32 = 16;
const SCHED_IDLE: usize = 5;

/// Returns the detectors to try, the best first.
pub(super) fn in_order(wanted: Option<Detector>) -> Result<Vec<Detector>, Errno> {
    let wanted = match wanted {
        Some(detector) => Some(detector),
        None => from_environment()?,
    };
    Ok(match wanted {
        Some(detector) => vec![detector],
        // With one processor there is one detector thread, on the application's own processor.
        None if processors().len() == 1 => vec![Detector::Idle, Detector::Perf],
        None => vec![Detector::Perf, Detector::Idle],
    })
}

fn from_environment() -> Result<Option<Detector>, Errno> {
    match std::env::var(Options::ENV_DETECTOR) {
        Err(_) => Ok(None),
        Ok(_) if sys::has_rights_of_others() => Ok(None),
        Ok(name) if name.is_empty() => Ok(None),
        Ok(name) => name.parse().map(Some).map_err(|_| Errno::INVAL),
    }
}

/// Returns the processors on which the calling thread may run.
fn processors() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&processor| set.is_set(processor))
        .collect()
}

/// The number of sleep words, for the backstop and the processors.
pub(super) fn sleep_words(detector: Detector) -> usize {
    match detector {
        Detector::Perf => 0,
        Detector::Idle => {
            let watched = processors().into_iter().take(PROCESSORS_MAX);
            watched.max().map_or(1, |last| last + 2)
        }
    }
}

/// Starts the detector threads, if any are needed.
pub(super) fn start(shared: &CarrierShared) -> Result<Vec<Owned>, Errno> {
    let mut threads = Vec::new();
    if shared.sleep_words().is_empty() {
        return Ok(threads);
    }
    let backstop = Owned::detector(shared, backstop);
    let watchers = processors()
        .into_iter()
        .take(PROCESSORS_MAX)
        .map(|processor| {
            let thread = Owned::detector(shared, watch)?;
            let place = &thread.get().control.processor;
            place.store(processor as u32, SeqCst);
            Ok(thread)
        });
    let mut refused = None;
    for thread in std::iter::once(backstop).chain(watchers) {
        match thread {
            Ok(thread) => threads.push(thread),
            Err(errno) => refused = Some(errno),
        }
    }
    for thread in &threads {
        thread.start_or_end(refused.map_or(readiness::SERVE, |_| readiness::END));
    }
    match refused {
        None => Ok(threads),
        Some(errno) => {
            threads.iter().for_each(Owned::wait_for_end);
            Err(errno)
        }
    }
}

/// Wakes sleeping detectors when the application begins a call.
///
/// # Safety
/// From the assembly: on the carrier's own stack, with the application's thread pointer.
pub(super) unsafe extern "C" fn wake(control: *mut Control) {
    #[cfg(laio_sanitized)]
    let application = crate::sys::handoff::thread_pointer();
    #[cfg(laio_sanitized)]
    // SAFETY: by the caller.
    unsafe {
        spare::restore_thread_pointer(control);
    }
    // SAFETY: the carrier that runs the application.
    let carrier = unsafe { Carrier::at(control) };
    let sleep_words = carrier.shared().sleep_words();
    let processor = carrier.control.processor.load(Relaxed) as usize;
    wake_detector(sleep_words.first());
    wake_detector(sleep_words.get(processor + 1));
    #[cfg(laio_sanitized)]
    // SAFETY: as it was.
    unsafe {
        crate::sys::handoff::set_thread_pointer(application);
    }
}

fn wake_detector(sleep_word: Option<&SleepWord>) {
    if let Some(sleep_word) = sleep_word
        && sleep_word.asleep.swap(0, SeqCst) != 0
    {
        sys::futex_wake(&sleep_word.asleep, 1);
    }
}

/// Wakes all detectors, so that they notice the shutdown.
pub(super) fn wake_all(shared: &CarrierShared) {
    for sleep_word in shared.sleep_words() {
        wake_detector(Some(sleep_word));
    }
}

/// Which side orders its store before its load, when a detector goes to sleep while the application
/// begins a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// The detector, for both sides, with `membarrier`: it goes to sleep rarely, and calls are
    /// frequent.
    Sleepers,
    /// Each side with its own fence, where `membarrier` is forbidden.
    Program,
}

impl Barrier {
    const REGISTER: usize = 1 << 4;
    const PRIVATE_EXPEDITED: usize = 1 << 3;

    /// Returns the barrier that this process may use.
    pub(super) fn for_detector(detector: Detector) -> Barrier {
        // SAFETY: no pointers.
        let registered = detector == Detector::Idle
            && unsafe { sys::raw(libc::SYS_membarrier, [Barrier::REGISTER, 0, 0]) }.is_ok();
        if registered {
            Barrier::Sleepers
        } else {
            Barrier::Program
        }
    }

    /// Orders earlier stores before later loads.
    fn pass(self) {
        fence(SeqCst);
        if self == Barrier::Sleepers {
            // SAFETY: no pointers. It cannot fail once it is registered.
            let _ = unsafe { sys::raw(libc::SYS_membarrier, [Barrier::PRIVATE_EXPEDITED, 0, 0]) };
        }
    }
}

/// Sleeps until the next call, unless there is a new call already.
fn sleep(sleep_word: &SleepWord, is_new_call: impl Fn() -> bool, shared: &CarrierShared) {
    sleep_word.asleep.store(1, SeqCst);
    shared.barrier.pass();
    // The application first stores that it is in a call, and then checks for sleeping detectors.
    if is_new_call() || shared.closing.load(SeqCst) {
        sleep_word.asleep.store(0, SeqCst);
        return;
    }
    sys::futex_wait(&sleep_word.asleep, 1, true);
}

/// The call that the application is in, if it was begun on this processor; `None` for any
/// processor.
fn call_on(shared: &CarrierShared, processor: Option<u32>) -> Option<u64> {
    // SAFETY: carriers live as long as what they share.
    let carrier = unsafe { shared.current.load(SeqCst).as_ref()? };
    let word = carrier.control.state.load(SeqCst);
    let here = processor.is_none_or(|here| carrier.control.processor.load(Relaxed) == here);
    // Each carrier has its own generations, so the carrier is part of the value.
    (state::state(word) == CALL && here)
        .then_some(word ^ (std::ptr::from_ref(carrier) as u64) << 16)
}

/// The main loop of a processor's detector. That it runs shows that nothing else can.
///
/// # Safety
/// Only as the entry function of a new thread.
unsafe extern "C" fn watch(control: *mut Control) -> ! {
    // SAFETY: by the caller.
    let me = unsafe { Carrier::at(control) };
    spare::wait_for_start(me);
    let shared = me.shared();
    let processor = me.control.processor.load(SeqCst);
    pin_idle(processor as usize);
    let Some(sleep_word) = shared.sleep_words().get(processor as usize + 1) else {
        spare::end(me);
    };
    let mut reported = None;
    while !shared.closing.load(SeqCst) {
        let call = call_on(shared, Some(processor));
        if call.is_some() && call != reported {
            reported = call;
            shared.wake_one();
        }
        let new_call = || {
            let now = call_on(shared, Some(processor));
            now.is_some() && now != reported
        };
        sleep(sleep_word, new_call, shared);
    }
    spare::end(me)
}

/// The main loop of the backstop: it checks periodically, for a while after each call.
///
/// # Safety
/// Only as the entry function of a new thread.
unsafe extern "C" fn backstop(control: *mut Control) -> ! {
    // SAFETY: by the caller.
    let me = unsafe { Carrier::at(control) };
    spare::wait_for_start(me);
    let shared = me.shared();
    let Some(sleep_word) = shared.sleep_words().first() else {
        spare::end(me);
    };
    let (mut last, mut reported, mut quiet) = (None, None, 0);
    while !shared.closing.load(SeqCst) {
        let call = call_on(shared, None);
        if call.is_some() && call == last && call != reported {
            // The same call for a millisecond.
            reported = call;
            shared.wake_one();
        }
        quiet = if call == last { quiet + 1 } else { 0 };
        last = call;
        if quiet < LOOKS {
            pause();
            continue;
        }
        sleep(sleep_word, || call_on(shared, None) != last, shared);
        quiet = 0;
    }
    spare::end(me)
}

fn pause() {
    let time = [0, BACKSTOP_NS];
    // SAFETY: the time lives through the call.
    let _ = unsafe { sys::raw(libc::SYS_nanosleep, [(&raw const time) as usize, 0]) };
}

fn pin_idle(processor: usize) {
    let mut set = [0u64; 16];
    if let Some(word) = set.get_mut(processor / 64) {
        *word = 1 << (processor % 64);
    }
    let priority = 0i32;
    let set_at = (&raw const set) as usize;
    let priority_at = (&raw const priority) as usize;
    // SAFETY: both live through the calls. If it may not stay there, it looks from elsewhere, and is of less use.
    unsafe {
        let _ = sys::raw(libc::SYS_sched_setaffinity, [0, size_of_val(&set), set_at]);
        let _ = sys::raw(libc::SYS_sched_setscheduler, [0, SCHED_IDLE, priority_at]);
    }
}
