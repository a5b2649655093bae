//! Threads that make a single call each, for calling threads whose rights no driver is known to have.

use super::any_function::AnyFunction;
use super::inbox::Rest;
use super::task::{Duty, guarded};
use crate::background::after_open::AfterOpenAddress;
use crate::background::job::{Job, run};
use crate::background::lane::{self, Lane};
use crate::background::unanswered::Unanswered;
use crate::operation::Operation;
use crate::step::total;
use crate::sys::interrupt::{Interruptible, Signal};
use crate::sys::thread::Thread;
use crate::{Call, Errno, Options, table, transfer};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

/// The one-shot threads of a proactor.
pub(super) struct OneShots {
    reserved: Mutex<Reserved>,
    running: Mutex<Vec<Arc<OneShot>>>,
    /// The number of threads for calls that ask no remote file system.
    limit: usize,
    /// The number of threads for calls that ask the same one.
    remote_limit: usize,
    signal: Option<i32>,
    /// The futures that wait until a thread may be started.
    waiting: Mutex<Vec<Waker>>,
    started: AtomicU64,
}

/// How many threads are reserved.
#[derive(Default)]
struct Reserved {
    local: usize,
    remote: Vec<Remote>,
}

/// The threads whose calls ask one remote file system.
struct Remote {
    device: u64,
    threads: usize,
    /// When it has last answered, or when the first of them was reserved.
    unanswered_since: Instant,
}

/// A reserved thread: the device number of the remote file system that its call asks, if it asks one.
#[derive(Clone, Copy)]
pub(super) struct Reservation(Option<u64>);

/// A call that a one-shot thread makes.
pub(super) struct OneShot {
    interruptible: Interruptible,
    /// `None` if no signal is free: then the call ends by itself.
    signal: Option<Signal>,
    /// Whether the thread is about to end: it must not be interrupted any more.
    over: Mutex<bool>,
}

impl Reserved {
    fn reserve(&mut self, lane: Lane, limits: &OneShots) -> Option<Reservation> {
        let Some(device) = lane.among(self.devices()).device() else {
            let has_room = self.local < limits.limit;
            self.local += usize::from(has_room);
            return has_room.then_some(Reservation(None));
        };
        match self.remote.iter_mut().find(|one| one.device == device) {
            Some(one) if one.threads >= limits.remote_limit => return None,
            Some(one) => one.threads += 1,
            None => self.remote.push(Remote {
                device,
                threads: 1,
                unanswered_since: Instant::now(),
            }),
        }
        Some(Reservation(Some(device)))
    }

    fn release(&mut self, Reservation(device): Reservation) {
        let Some(device) = device else {
            self.local -= 1;
            return;
        };
        if let Some(one) = self.remote.iter_mut().find(|one| one.device == device) {
            one.threads -= 1;
            one.unanswered_since = Instant::now();
        }
        self.remote.retain(|one| one.threads > 0);
    }

    fn devices(&self) -> impl Iterator<Item = u64> + Clone {
        self.remote.iter().map(|one| one.device)
    }
}

impl OneShots {
    pub(super) fn new(options: &Options) -> OneShots {
        OneShots {
            reserved: Mutex::default(),
            running: Mutex::default(),
            limit: (options.limits.waiting_helpers as usize).max(1),
            remote_limit: (options.limits.helpers as usize).max(1),
            signal: options.cancel_signal,
            waiting: Mutex::default(),
            started: AtomicU64::new(0),
        }
    }

    /// Reserves a thread for a call, which asks the remote file system with this device number. At the
    /// limit it returns `None`, and wakes the waker when a thread has ended.
    pub(super) fn reserve(&self, remote: Option<u64>, waker: &Waker) -> Option<Reservation> {
        let reserve = || {
            self.lock_reserved()
                .reserve(remote.map_or(Lane::Bounded, Lane::Remote), self)
        };
        if let Some(reserved) = reserve() {
            return Some(reserved);
        }
        let mut waiting = self
            .waiting
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        // One may have ended before the waker was listed.
        if let Some(reserved) = reserve() {
            return Some(reserved);
        }
        waiting.push(waker.clone());
        None
    }

    /// What remote file systems have not answered.
    pub(super) fn unanswered(&self) -> Unanswered {
        let reserved = self.lock_reserved();
        let remote = reserved.remote.iter();
        Unanswered::from_mounts(
            remote.map(|one| (one.device, one.threads, Some(one.unanswered_since))),
        )
    }

    fn lock_reserved(&self) -> MutexGuard<'_, Reserved> {
        self.reserved
            .lock()
            .unwrap_or_else(|error| error.into_inner())
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
    pub(super) fn release(&self, reservation: Reservation) {
        self.lock_reserved().release(reservation);
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
    one_shots: &Arc<OneShots>,
    reserved: Reservation,
    mut duty: Duty,
    rest: Rest,
) -> Option<Arc<OneShot>> {
    let (call, after_open) = (duty.call(), duty.after_open());
    let duty = Arc::new(Mutex::new(Some(duty)));
    let take = |duty: &Mutex<Option<Duty>>| {
        let mut duty = duty.lock().unwrap_or_else(|error| error.into_inner());
        duty.take().expect("it is completed once")
    };
    let wanted = one_shots.signal;
    let lane = lane::of(
        table::row(call.number),
        &call,
        false,
        rest.provisional.is_some(),
        // A call on a remote file system counts as one that ends by itself, as everywhere.
        None,
    );
    let started = lane::check_interruptible(lane, wanted).and_then(|()| {
        let one = Arc::new(OneShot {
            interruptible: Interruptible::default(),
            signal: Signal::install(wanted).ok(),
            over: Mutex::new(false),
        });
        one_shots.lock_running().push(one.clone());
        let (own, all, duty) = (one.clone(), one_shots.clone(), duty.clone());
        Thread::start_with_program_code(c"laio-one-shot", move || {
            own.interruptible.adopt_thread(own.signal);
            let result = make(&own, &call, &rest, after_open);
            *own.over.lock().unwrap_or_else(|error| error.into_inner()) = true;
            own.interruptible.release_thread();
            all.forget(&own);
            all.release(reserved);
            take(&duty).complete(total(rest.done, result));
        })
        .inspect_err(|_| one_shots.forget(&one))?;
        Ok(one)
    });
    match started {
        Ok(one) => {
            one_shots.started.fetch_add(1, SeqCst);
            Some(one)
        }
        Err(errno) => {
            one_shots.release(reserved);
            take(&duty).complete(Err(errno));
            None
        }
    }
}

/// Starts a thread for a function, with the rights of the calling thread. The thread was reserved.
pub(super) fn start_function(
    one_shots: &Arc<OneShots>,
    reserved: Reservation,
    function: Arc<dyn AnyFunction>,
) {
    let (all, on_thread) = (one_shots.clone(), function.clone());
    let started = Thread::start_with_program_code(c"laio-one-shot", move || {
        guarded(|| on_thread.run());
        all.release(reserved);
        drop(on_thread);
    });
    match started {
        Ok(_) => drop(one_shots.started.fetch_add(1, SeqCst)),
        Err(errno) => {
            one_shots.release(reserved);
            function.fail(errno);
        }
    }
}

fn make(
    own: &OneShot,
    call: &Call,
    rest: &Rest,
    after_open: Option<AfterOpenAddress>,
) -> Result<usize, Errno> {
    let row = table::row(call.number);
    let mut scratch = None;
    // SAFETY: the task keeps what the call points to alive; the kernel has accepted the pointers if
    // bytes were moved.
    let step = unsafe { transfer::remaining(row, call, rest.done, &mut scratch) };
    let job = Job {
        after_open,
        ..Job::new(row, step)
    };
    run(&job, &own.interruptible)
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
