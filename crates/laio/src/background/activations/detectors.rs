//! How it is noticed that the application has blocked, in two ways.
//!
//! With `perf`, each carrier's switches are recorded, and the record of a switch during a call wakes a spare. With
//! `idle`, a thread for each processor runs only when nothing else does, and then looks: this is quicker, but
//! starves where another program keeps the processor busy; hence the backstop, which looks every millisecond while
//! the application makes calls.

use super::carrier::{Carrier, Owned, readiness};
use super::shared::CarrierShared;
use super::spare;
use super::state::{self, CALL};
use crate::sys::handoff::{Control, SleepWord};
use crate::sys::{self};
use crate::{Errno, Options};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{Ordering::*, fence};

/// A way of noticing that a call blocks (`activations`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detector {
    /// Records of context switches (`perf_event_open`).
    Perf,
    /// A thread for each processor that runs only when nothing else does (`SCHED_IDLE`).
    Idle,
}

/// Processors with a thread at most; on others only the backstop looks.
const PROCESSORS_MAX: usize = 16;
/// How often the backstop looks.
const BACKSTOP_NS: i64 = 1_000_000;
/// Looks without news after which the backstop sleeps until the next call.
const LOOKS: u32 = 16;
const SCHED_IDLE: usize = 5;

impl Detector {
    /// Its name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Detector::Perf => "perf",
            Detector::Idle => "idle",
        }
    }

    /// What it is, in words.
    pub const fn means(self) -> &'static str {
        match self {
            Detector::Perf => "perf (records of context switches)",
            Detector::Idle => "idle (a thread for each processor that runs when nothing else does)",
        }
    }

    /// Those to try, the best first.
    pub(super) fn in_order(wanted: Option<Detector>) -> Result<Vec<Detector>, Errno> {
        let wanted = match wanted {
            Some(detector) => Some(detector),
            None => from_environment()?,
        };
        Ok(match wanted {
            Some(detector) => vec![detector],
            // With one processor there is one thread, and nowhere else for the application to be.
            None if processors().len() == 1 => vec![Detector::Idle, Detector::Perf],
            None => vec![Detector::Perf, Detector::Idle],
        })
    }
}

impl fmt::Display for Detector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Detector {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "perf" => Ok(Detector::Perf),
            "idle" => Ok(Detector::Idle),
            _ => Err(format!(
                "there is no detector `{name}`; the detectors are perf, idle"
            )),
        }
    }
}

fn from_environment() -> Result<Option<Detector>, Errno> {
    match std::env::var(Options::ENV_DETECTOR) {
        Err(_) => Ok(None),
        Ok(_) if sys::has_rights_of_others() => Ok(None),
        Ok(name) if name.is_empty() => Ok(None),
        Ok(name) => name.parse().map(Some).map_err(|_| Errno::INVAL),
    }
}

/// Those on which the calling thread may run.
fn processors() -> Vec<usize> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|&processor| set.is_set(processor))
        .collect()
}

/// Beds for the backstop and the processors.
pub(super) fn sleep_words(detector: Detector) -> usize {
    match detector {
        Detector::Perf => 0,
        Detector::Idle => {
            let watched = processors().into_iter().take(PROCESSORS_MAX);
            watched.max().map_or(1, |last| last + 2)
        }
    }
}

/// Starts the threads that look, if any are needed.
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

/// The application begins a call while a detector sleeps.
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

/// Wakes all detectors, to see that it is over.
pub(super) fn wake_all(shared: &CarrierShared) {
    for sleep_word in shared.sleep_words() {
        wake_detector(Some(sleep_word));
    }
}

/// Who keeps the order of what one side says and then sees of the other, when a detector goes to sleep while the
/// application begins a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// Who goes to sleep, for both: `membarrier`. That is seldom, and calls are many.
    Sleepers,
    /// Each for itself, where that is forbidden.
    Program,
}

impl Barrier {
    const REGISTER: usize = 1 << 4;
    const PRIVATE_EXPEDITED: usize = 1 << 3;

    /// What this process may do.
    pub(super) fn of(detector: Detector) -> Barrier {
        // SAFETY: no pointers.
        let registered = detector == Detector::Idle
            && unsafe { sys::raw(libc::SYS_membarrier, [Barrier::REGISTER, 0, 0]) }.is_ok();
        match registered {
            true => Barrier::Sleepers,
            false => Barrier::Program,
        }
    }

    /// Between what is said and what is looked at.
    fn pass(self) {
        fence(SeqCst);
        if self == Barrier::Sleepers {
            // SAFETY: no pointers. It cannot fail once it is registered.
            let _ = unsafe { sys::raw(libc::SYS_membarrier, [Barrier::PRIVATE_EXPEDITED, 0, 0]) };
        }
    }
}

/// Sleeps until the next call, unless there is something to see already.
fn sleep(sleep_word: &SleepWord, is_news: impl Fn() -> bool, shared: &CarrierShared) {
    sleep_word.asleep.store(1, SeqCst);
    shared.barrier.pass();
    // The application first says that it is in a call, and then looks who sleeps.
    if is_news() || shared.closing.load(SeqCst) {
        sleep_word.asleep.store(0, SeqCst);
        return;
    }
    sys::futex_wait(&sleep_word.asleep, 1, true);
}

/// The call that the application is in, if it was begun on this processor.
fn call_on(shared: &CarrierShared, processor: Option<u32>) -> Option<u64> {
    // SAFETY: carriers live as long as what they share.
    let carrier = unsafe { shared.current.load(SeqCst).as_ref()? };
    let word = carrier.control.state.load(SeqCst);
    let here = processor.is_none_or(|here| carrier.control.processor.load(Relaxed) == here);
    // Generations are each carrier's own.
    (state::state(word) == CALL && here)
        .then_some(word ^ (std::ptr::from_ref(carrier) as u64) << 16)
}

/// The life of a processor's detector. That it runs at all says that nothing else can.
///
/// # Safety
/// The entry of a thread made for this.
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
        let news = || {
            let now = call_on(shared, Some(processor));
            now.is_some() && now != reported
        };
        sleep(sleep_word, news, shared);
    }
    spare::end(me)
}

/// The life of the backstop: it looks now and then, for a while after each call.
///
/// # Safety
/// The entry of a thread made for this.
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
            // For a millisecond.
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
