//! The future of a function that may block.

use super::any_function::AnyFunction;
use super::rights::{Maker, maker_of_function};
use super::shared::Shared;
use super::{local, one_shot};
use crate::Errno;
use crate::sys::fork::Life;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The future of a function; see [`Proactor::blocking`](crate::Proactor::blocking).
#[must_use = "the function runs when the future is polled"]
pub struct Blocking<T: Send + 'static> {
    shared: Arc<Shared>,
    state: State<T>,
}

/// Shows a function whether its future was dropped; see [`Proactor::blocking`](crate::Proactor::blocking).
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether the future was dropped, so that the result is not needed.
    pub fn is_requested(&self) -> bool {
        self.0.load(Relaxed)
    }
}

type Body<T> = Box<dyn FnOnce(&Stop) -> T + Send>;

enum State<T: Send + 'static> {
    /// Not begun, or waiting until a thread may be started for it. Only a future that is borrowed mutably
    /// uses it: the lock makes futures `Sync`, although the function is not.
    New(Mutex<Body<T>>),
    Running(Arc<Running<T>>),
    Over,
}

/// A function that was handed over.
struct Running<T> {
    progress: Mutex<Progress<T>>,
    stop: Stop,
    /// The process that has the thread.
    life: Life,
}

enum Progress<T> {
    Queued(Body<T>, Option<Waker>),
    Begun(Option<Waker>),
    Over(Outcome<T>),
    /// The future was dropped before the function was over.
    Abandoned,
    Taken,
}

enum Outcome<T> {
    Returned(T),
    Panicked(Box<dyn Any + Send>),
    /// It was not begun.
    Failed(Errno),
}

impl<T: Send + 'static> Blocking<T> {
    pub(super) fn new(shared: Arc<Shared>, body: Body<T>) -> Blocking<T> {
        let state = State::New(Mutex::new(body));
        Blocking { shared, state }
    }
}

impl<T: Send + 'static> Future for Blocking<T> {
    type Output = Result<T, Errno>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Errno>> {
        let Blocking { shared, state } = self.get_mut();
        let running = match std::mem::replace(state, State::Over) {
            State::New(body) => match hand_over(shared, unlocked(body), context.waker()) {
                Ok(running) => running,
                Err(NotYet::Later(body)) => {
                    *state = State::New(Mutex::new(body));
                    return Poll::Pending;
                }
                Err(NotYet::Failed(errno)) => return Poll::Ready(Err(errno)),
            },
            State::Running(running) => running,
            State::Over => panic!("a Blocking was polled after it had completed"),
        };
        match running.take(context.waker()) {
            None => *state = State::Running(running),
            Some(Outcome::Returned(output)) => return Poll::Ready(Ok(output)),
            Some(Outcome::Failed(errno)) => return Poll::Ready(Err(errno)),
            Some(Outcome::Panicked(payload)) => resume_unwind(payload),
        }
        Poll::Pending
    }
}

fn unlocked<T>(mutex: Mutex<T>) -> T {
    mutex
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

enum NotYet<T> {
    /// As many threads are running as there may be; the waker is woken when one has ended.
    Later(Body<T>),
    Failed(Errno),
}

fn hand_over<T: Send + 'static>(
    shared: &Arc<Shared>,
    body: Body<T>,
    waker: &Waker,
) -> Result<Arc<Running<T>>, NotYet<T>> {
    let generation = shared.generation_arc();
    if generation.is_closed() {
        return Err(NotYet::Failed(Errno::CANCELED));
    }
    let decide = |local: &mut local::Local| maker_of_function(&generation, &shared.options, local);
    // While the thread ends, only a thread that it starts has its rights for certain.
    let maker = local::with(shared, decide).unwrap_or(Ok(Maker::OneShot));
    let maker = maker.map_err(NotYet::Failed)?;
    // A function may ask any file system.
    let reserved = match maker {
        Maker::Driver(_) => None,
        Maker::OneShot => match generation.one_shots.reserve(None, waker) {
            None => return Err(NotYet::Later(body)),
            reserved => reserved,
        },
    };
    generation.handed_over.fetch_add(1, Relaxed);
    let running = Arc::new(Running {
        progress: Mutex::new(Progress::Queued(body, Some(waker.clone()))),
        stop: Stop::default(),
        life: Life::current(),
    });
    match (maker, reserved) {
        (Maker::Driver(driver), _) => driver.helpers.run(running.clone()),
        (Maker::OneShot, Some(reserved)) => {
            one_shot::start_function(&generation.one_shots, reserved, running.clone());
        }
        (Maker::OneShot, None) => unreachable!("reserved above"),
    }
    Ok(running)
}

impl<T> Running<T> {
    /// Returns the outcome if the function is over; otherwise keeps the waker for its end.
    fn take(&self, waker: &Waker) -> Option<Outcome<T>> {
        assert!(
            self.life.is_current(),
            "laio: a function that was in flight at a fork is polled in the child"
        );
        // Cloned and dropped without the lock: both run the program's code.
        let mut kept = Some(waker.clone());
        let mut progress = self.lock();
        match &mut *progress {
            Progress::Queued(_, place) | Progress::Begun(place) => {
                std::mem::swap(place, &mut kept);
                drop(progress);
                drop(kept);
                None
            }
            Progress::Over(_) => {
                let over = std::mem::replace(&mut *progress, Progress::Taken);
                drop(progress);
                match over {
                    Progress::Over(outcome) => Some(outcome),
                    _ => unreachable!("it was found to be over"),
                }
            }
            Progress::Abandoned | Progress::Taken => panic!("a future was polled after its end"),
        }
    }

    fn end(&self, outcome: Outcome<T>) {
        let mut progress = self.lock();
        let before = match &*progress {
            Progress::Queued(..) | Progress::Begun(_) => {
                std::mem::replace(&mut *progress, Progress::Over(outcome))
            }
            _ => {
                drop(progress);
                return;
            }
        };
        drop(progress);
        match before {
            Progress::Queued(body, waker) => {
                drop(body);
                waker.into_iter().for_each(Waker::wake);
            }
            Progress::Begun(waker) => waker.into_iter().for_each(Waker::wake),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.progress
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T: Send> AnyFunction for Running<T> {
    fn run(&self) {
        let mut progress = self.lock();
        let body = match std::mem::replace(&mut *progress, Progress::Begun(None)) {
            Progress::Queued(body, waker) => {
                *progress = Progress::Begun(waker);
                body
            }
            before => {
                *progress = before;
                return;
            }
        };
        drop(progress);
        self.end(match catch_unwind(AssertUnwindSafe(|| body(&self.stop))) {
            Ok(output) => Outcome::Returned(output),
            Err(payload) => Outcome::Panicked(payload),
        });
    }

    fn fail(&self, errno: Errno) {
        self.end(Outcome::Failed(errno));
    }
}

impl<T: Send + 'static> Drop for Blocking<T> {
    fn drop(&mut self) {
        let State::Running(running) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        if !running.life.is_current() {
            // A forked child: the thread of the parent may have held the lock.
            std::mem::forget(running);
            return;
        }
        running.stop.0.store(true, Relaxed);
        let mut progress = running.lock();
        let before = std::mem::replace(&mut *progress, Progress::Abandoned);
        drop(progress);
        drop(before);
    }
}

impl<T: Send + 'static> fmt::Debug for Blocking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::New(_) => "Blocking(not started)",
            State::Running(_) => "Blocking(in flight)",
            State::Over => "Blocking(over)",
        })
    }
}
