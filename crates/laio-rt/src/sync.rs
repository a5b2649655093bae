//! Waiting for another task of the same thread: a signal, a share of something limited.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// One task that waits in a line.
#[derive(Default)]
struct Waiter {
    called: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Waiter {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.called.get() {
            return Poll::Ready(());
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    fn call(&self) {
        self.called.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Waiters, first come first served.
#[derive(Default)]
struct Line(RefCell<VecDeque<Rc<Waiter>>>);

impl Line {
    fn join(&self) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter::default());
        self.0.borrow_mut().push_back(waiter.clone());
        waiter
    }

    fn leave(&self, waiter: &Rc<Waiter>) {
        let mut line = self.0.borrow_mut();
        line.retain(|other| !Rc::ptr_eq(other, waiter));
    }

    /// Calls the first. False if nobody waits.
    fn call_one(&self) -> bool {
        let first = self.0.borrow_mut().pop_front();
        first.map(|waiter| waiter.call()).is_some()
    }

    fn call_all(&self) {
        let all = std::mem::take(&mut *self.0.borrow_mut());
        all.iter().for_each(|waiter| waiter.call());
    }
}

/// A waiter that leaves the line when its future is dropped.
struct Place<'a, F: Fn()> {
    line: &'a Line,
    waiter: Rc<Waiter>,
    /// What becomes of a call that came too late to be heard.
    unheard: F,
    heard: bool,
}

impl<F: Fn()> Drop for Place<'_, F> {
    fn drop(&mut self) {
        if self.waiter.called.get() {
            if !self.heard {
                (self.unheard)();
            }
        } else {
            self.line.leave(&self.waiter);
        }
    }
}

impl<'a, F: Fn()> Place<'a, F> {
    async fn wait(line: &'a Line, unheard: F) {
        let mut place = Place {
            line,
            waiter: line.join(),
            unheard,
            heard: false,
        };
        poll_fn(|context| place.waiter.poll(context)).await;
        place.heard = true;
    }
}

/// A signal between tasks.
///
/// ```
/// use laio_rt::sync::Notify;
/// use std::rc::Rc;
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let stop = Rc::new(Notify::new());
///     let task = laio_rt::spawn({
///         let stop = stop.clone();
///         async move { stop.notified().await }
///     });
///     stop.notify_one();
///     task.await.unwrap();
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct Notify {
    line: Line,
    /// A signal that nobody has waited for yet.
    kept: Cell<bool>,
}

impl Notify {
    /// With no signal given.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Signals the task that has waited longest. If none waits, the next that does goes on at once;
    /// such signals are merged into one.
    pub fn notify_one(&self) {
        if !self.line.call_one() {
            self.kept.set(true);
        }
    }

    /// Signals all tasks that wait now.
    pub fn notify_waiters(&self) {
        self.line.call_all();
    }

    /// Waits for a signal.
    pub async fn notified(&self) {
        if !self.kept.replace(false) {
            Place::wait(&self.line, || self.notify_one()).await;
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify")
            .field("waiting", &self.line.0.borrow().len())
            .field("kept", &self.kept.get())
            .finish()
    }
}

/// A number of permits, to bound how many tasks do something at a time. Clones share the permits.
///
/// ```
/// use laio_rt::sync::Semaphore;
/// let connections = Semaphore::new(1);
/// let permit = connections.try_acquire().unwrap();
/// assert!(connections.try_acquire().is_none());
/// drop(permit);
/// assert_eq!(connections.available(), 1);
/// ```
#[derive(Clone)]
pub struct Semaphore(Rc<Permits>);

struct Permits {
    free: Cell<usize>,
    line: Line,
}

impl Semaphore {
    /// With so many permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(Rc::new(Permits {
            free: Cell::new(permits),
            line: Line::default(),
        }))
    }

    /// Permits that nobody has.
    pub fn available(&self) -> usize {
        self.0.free.get()
    }

    /// Takes a permit if there is one.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.0.free.set(self.0.free.get().checked_sub(1)?);
        Some(Permit(self.0.clone()))
    }

    /// Waits for a permit, behind all that wait already.
    pub async fn acquire(&self) -> Permit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        // Whoever calls passes a permit on.
        Place::wait(&self.0.line, || self.0.release()).await;
        Permit(self.0.clone())
    }

    /// Adds permits.
    pub fn add(&self, permits: usize) {
        (0..permits).for_each(|_| self.0.release());
    }
}

impl Permits {
    fn release(&self) {
        if !self.line.call_one() {
            self.free.set(self.free.get() + 1);
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("waiting", &self.0.line.0.borrow().len())
            .finish()
    }
}

/// A permit of a [`Semaphore`], given back when dropped.
#[must_use = "the permit is given back at once if it is not kept"]
pub struct Permit(Rc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permit")
    }
}
