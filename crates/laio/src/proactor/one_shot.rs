//! Threads that make a single call each, for calling threads whose rights no driver is known to have.

use super::driver::Rest;
use super::function::Function;
use super::generation::Generation;
use super::task::{Duty, guarded};
use crate::background::job::{Job, run};
use crate::background::lane;
use crate::operation::Operation;
use crate::step::total;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Call, Errno, Options, table, transfer};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// The one-shot threads of a proactor.
pub(super) struct OneShots {
    reserved: AtomicUsize,
    running: Mutex<Vec<Arc<OneShot>>>,
    limit: usize,
    signal: Option<i32>,
    /// The futures that wait until a thread may be started.
    waiting: Mutex<Vec<Waker>>,
    started: AtomicU64,
}

/// A call that a one-shot thread makes.
pub(super) struct OneShot {
    interruptible: Interruptible,
    /// `None` if no signal is free: then the call ends by itself.
    signal: Option<Signal>,
    /// Whether the thread is about to end: it must not be interrupted any more.
    over: Mutex<bool>,
}

impl OneShots {
    pub(super) fn new(options: &Options) -> OneShots {
        OneShots {
            reserved: AtomicUsize::new(0),
            running: Mutex::default(),
            limit: (options.limits.waiting_helpers as usize).max(1),
            signal: options.cancel_signal,
            waiting: Mutex::default(),
            started: AtomicU64::new(0),
        }
    }

    /// Reserves a thread. At the limit it returns false, and wakes the waker when a thread has ended.
    pub(super) fn reserve(&self, waker: &Waker) -> bool {
        if self.try_reserve() {
            return true;
        }
        let mut waiting = self
            .waiting
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        // One may have ended before the waker was listed.
        if self.try_reserve() {
            return true;
        }
        waiting.push(waker.clone());
        false
    }

    fn try_reserve(&self) -> bool {
        let one_more = |running| (running < self.limit).then_some(running + 1);
        self.reserved.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    /// Interrupts the calls of all threads.
    pub(super) fn cancel_all(&self) {
        self.lock_running().iter().for_each(|one| one.cancel());
    }

    /// The number of threads started so far.
    pub(super) fn started(&self) -> u64 {
        self.started.load(SeqCst)
    }

    fn forget(&self, one: &Arc<OneShot>) {
        self.lock_running().retain(|other| !Arc::ptr_eq(other, one));
    }

    fn lock_running(&self) -> MutexGuard<'_, Vec<Arc<OneShot>>> {
        self.running
            .lock()
            .unwrap_or_else(|error| error.into_inner())
    }

    /// Gives a reserved thread back.
    pub(super) fn release(&self) {
        self.reserved.fetch_sub(1, SeqCst);
        let mut waiting = self
            .waiting
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        let waiting = std::mem::take(&mut *waiting);
        for waker in waiting {
            guarded(|| waker.wake());
        }
    }
}

/// Starts a thread for a call, with the rights of the calling thread. The thread was reserved, and is
/// given back when the call is over. A call for which no thread can be started fails with the errno of
/// that.
pub(super) fn start(
    generation: &Arc<Generation>,
    mut duty: Duty,
    rest: Rest,
) -> Option<Arc<OneShot>> {
    let call = duty.call();
    let duty = Arc::new(Mutex::new(Some(duty)));
    let take = |duty: &Mutex<Option<Duty>>| {
        let mut duty = duty.lock().unwrap_or_else(|error| error.into_inner());
        duty.take().expect("it is completed once")
    };
    let listed = generation;
    let wanted = generation.one_shots.signal;
    let lane = lane::of(
        table::row(call.number),
        &call,
        false,
        rest.provisional.is_some(),
    );
    let started = lane::check_interruptible(lane, wanted).and_then(|()| {
        let one = Arc::new(OneShot {
            interruptible: Interruptible::default(),
            signal: Signal::install(wanted).ok(),
            over: Mutex::new(false),
        });
        generation.one_shots.lock_running().push(one.clone());
        let (own, generation, duty) = (one.clone(), generation.clone(), duty.clone());
        Thread::start_with_program_code(c"laio-one-shot", move || {
            own.interruptible.adopt_thread(own.signal);
            let result = make(&own, &call, &rest);
            *own.over.lock().unwrap_or_else(|error| error.into_inner()) = true;
            own.interruptible.release_thread();
            generation.one_shots.forget(&own);
            generation.one_shots.release();
            take(&duty).complete(total(rest.done, result));
        })
        .inspect_err(|_| listed.one_shots.forget(&one))?;
        Ok(one)
    });
    match started {
        Ok(one) => {
            generation.one_shots.started.fetch_add(1, SeqCst);
            Some(one)
        }
        Err(errno) => {
            generation.one_shots.release();
            take(&duty).complete(Err(errno));
            None
        }
    }
}

/// Starts a thread for a function, with the rights of the calling thread. The thread was reserved.
pub(super) fn start_function(generation: &Arc<Generation>, function: Arc<dyn Function>) {
    let (own, on_thread) = (generation.clone(), function.clone());
    let started = Thread::start_with_program_code(c"laio-one-shot", move || {
        guarded(|| on_thread.run());
        own.one_shots.release();
        drop(on_thread);
    });
    match started {
        Ok(_) => drop(generation.one_shots.started.fetch_add(1, SeqCst)),
        Err(errno) => {
            generation.one_shots.release();
            function.fail(errno);
        }
    }
}

fn make(own: &OneShot, call: &Call, rest: &Rest) -> Result<usize, Errno> {
    let row = table::row(call.number);
    let mut scratch = None;
    // SAFETY: the task keeps what the call points to alive; the kernel has accepted the pointers if
    // bytes were moved.
    let step = unsafe { transfer::remaining(row, call, rest.done, &mut scratch) };
    run(&Job::new(row, step), &own.interruptible)
}

impl OneShot {
    /// Interrupts the call.
    pub(super) fn cancel(&self) {
        let over = self.over.lock().unwrap_or_else(|error| error.into_inner());
        if let Some(signal) = self.signal.filter(|_| !*over) {
            // Refused only for a real-time signal of the program's choice, at the limit of signals.
            let _ = self.interruptible.interrupt(signal);
        }
    }
}
