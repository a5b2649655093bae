//! Synchronization of tasks on one thread: `Notify` and `Semaphore`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A task in a queue of waiters.
#[derive(Default)]
struct Waiter {
    woken: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Waiter {
    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.woken.get() {
            return Poll::Ready(());
        }
        self.waker.set(Some(context.waker().clone()));
        Poll::Pending
    }

    fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// A FIFO queue of waiters.
#[derive(Default)]
struct WaitQueue(RefCell<VecDeque<Rc<Waiter>>>);

impl WaitQueue {
    fn join(&self) -> Rc<Waiter> {
        let waiter = Rc::new(Waiter::default());
        self.0.borrow_mut().push_back(waiter.clone());
        waiter
    }

    fn leave(&self, waiter: &Rc<Waiter>) {
        let mut queue = self.0.borrow_mut();
        queue.retain(|other| !Rc::ptr_eq(other, waiter));
    }

    /// Wakes the first waiter. Returns false if the queue is empty.
    fn wake_one(&self) -> bool {
        let first = self.0.borrow_mut().pop_front();
        first.map(|waiter| waiter.wake()).is_some()
    }

    fn wake_all(&self) {
        let all = std::mem::take(&mut *self.0.borrow_mut());
        all.iter().for_each(|waiter| waiter.wake());
    }
}

/// A waiter in a queue, which it leaves when its future is dropped.
struct QueuedWaiter<'a, F: Fn()> {
    queue: &'a WaitQueue,
    waiter: Rc<Waiter>,
    /// Passes a wakeup on if the future is dropped before it has seen the wakeup.
    pass_on: F,
    seen: bool,
}

impl<F: Fn()> Drop for QueuedWaiter<'_, F> {
    fn drop(&mut self) {
        if self.waiter.woken.get() {
            if !self.seen {
                (self.pass_on)();
            }
        } else {
            self.queue.leave(&self.waiter);
        }
    }
}

impl<'a, F: Fn()> QueuedWaiter<'a, F> {
    async fn wait(queue: &'a WaitQueue, pass_on: F) {
        let mut queued = QueuedWaiter {
            queue,
            waiter: queue.join(),
            pass_on,
            seen: false,
        };
        poll_fn(|context| queued.waiter.poll(context)).await;
        queued.seen = true;
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
    queue: WaitQueue,
    /// Whether a signal was given while no task waited.
    stored: Cell<bool>,
}

impl Notify {
    /// Returns a `Notify` without a stored signal.
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Signals the task that has waited longest. If none waits, the signal is stored for the next task that
    /// waits; at most one signal is stored.
    pub fn notify_one(&self) {
        if !self.queue.wake_one() {
            self.stored.set(true);
        }
    }

    /// Signals all tasks that wait now.
    pub fn notify_waiters(&self) {
        self.queue.wake_all();
    }

    /// Waits for a signal.
    pub async fn notified(&self) {
        if !self.stored.replace(false) {
            QueuedWaiter::wait(&self.queue, || self.notify_one()).await;
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify")
            .field("waiting", &self.queue.0.borrow().len())
            .field("stored", &self.stored.get())
            .finish()
    }
}

/// A number of permits, which bounds how many tasks do something at a time. Clones share the permits.
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
    queue: WaitQueue,
}

impl Semaphore {
    /// Returns a semaphore with this number of permits.
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(Rc::new(Permits {
            free: Cell::new(permits),
            queue: WaitQueue::default(),
        }))
    }

    /// Returns the number of free permits.
    pub fn available(&self) -> usize {
        self.0.free.get()
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.0.free.set(self.0.free.get().checked_sub(1)?);
        Some(Permit(self.0.clone()))
    }

    /// Waits for a permit. Tasks that already wait come first.
    pub async fn acquire(&self) -> Permit {
        if let Some(permit) = self.try_acquire() {
            return permit;
        }
        // `release` leaves the permit to the waiter that it wakes.
        QueuedWaiter::wait(&self.0.queue, || self.0.release()).await;
        Permit(self.0.clone())
    }

    /// Adds permits.
    pub fn add(&self, permits: usize) {
        (0..permits).for_each(|_| self.0.release());
    }
}

impl Permits {
    fn release(&self) {
        if !self.queue.wake_one() {
            self.free.set(self.free.get() + 1);
        }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("waiting", &self.0.queue.0.borrow().len())
            .finish()
    }
}

/// A permit of a [`Semaphore`], released when dropped.
#[must_use = "dropping the permit releases it immediately"]
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
