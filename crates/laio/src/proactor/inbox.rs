//! Where a driver gets its messages.

use super::queue::Queue;
use super::task::{AnyTask, Duty};
use crate::Notifier;
use crate::attempt::{Blocked, Why};
use crate::pool::crew::Member;
use crate::transfer::Provisional;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

/// Where a driver gets its messages.
pub(super) struct Inbox {
    queue: Queue<Message>,
    notifier: OnceLock<Notifier>,
    /// Whether the driver takes no more messages.
    ended: AtomicBool,
    end: (Mutex<bool>, Condvar),
}

pub(super) enum Message {
    Start(Duty, Rest),
    Cancel(Arc<dyn AnyTask>),
    StartHelper(Member),
    Watch(Watch),
    /// End when nothing is in flight.
    Finish,
    /// Cancel what is in flight, and end.
    Stop,
}

/// What a driver looks at every [`Limits::LOOP_RING_TICK`](crate::Limits::LOOP_RING_TICK).
pub(super) trait Watched: Send + Sync {
    /// Returns whether the driver goes on to look.
    fn look(&self) -> bool;

    /// The driver ends, or has ended.
    fn stop(&self);
}

/// The order to look at something. If no driver accepts it, the thing is stopped.
pub(super) struct Watch(Option<Arc<dyn Watched>>);

impl Watch {
    pub(super) fn new(watched: Arc<dyn Watched>) -> Watch {
        Watch(Some(watched))
    }

    pub(super) fn accept(mut self) -> Arc<dyn Watched> {
        self.0.take().expect("it is accepted once")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watched) = self.0.take() {
            watched.stop();
        }
    }
}

/// What the attempt has left to the background.
pub(super) struct Rest {
    pub(super) done: usize,
    pub(super) why: Why,
    pub(super) provisional: Option<Provisional>,
}

impl From<Blocked> for Rest {
    fn from(blocked: Blocked) -> Rest {
        // `in_flight` is a call on a carrier, of which a proactor has none.
        let Blocked {
            done,
            why,
            provisional,
            ..
        } = blocked;
        Rest {
            done,
            why,
            provisional,
        }
    }
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            queue: Queue::new(),
            notifier: OnceLock::new(),
            ended: AtomicBool::new(false),
            end: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Lets messages wake the driver.
    pub(super) fn set_notifier(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// Takes all messages.
    pub(super) fn take_all(&self) -> Vec<Message> {
        self.queue.take_all()
    }

    /// Marks the driver as ended, and drops the messages that it has not taken.
    pub(super) fn end(&self) {
        self.ended.store(true, SeqCst);
        drop(self.queue.take_all());
        let (ended, condition) = &self.end;
        *ended.lock().unwrap_or_else(|error| error.into_inner()) = true;
        condition.notify_all();
    }

    /// Waits until the driver has ended. Returns false if `timeout` has passed before.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> bool {
        let (ended, condition) = &self.end;
        let ended = ended.lock().unwrap_or_else(|error| error.into_inner());
        let waited = condition.wait_timeout_while(ended, timeout, |ended| !*ended);
        *waited.unwrap_or_else(|error| error.into_inner()).0
    }

    /// Sends messages, which wakes the driver at most once.
    pub(super) fn push(&self, messages: impl IntoIterator<Item = Message>) {
        self.push_unchecked(messages);
        self.drop_if_ended();
    }

    /// As [`Inbox::push`], without code of the program; [`Inbox::drop_if_ended`] must follow.
    pub(super) fn push_unchecked(&self, messages: impl IntoIterator<Item = Message>) {
        if self.queue.push(messages)
            && let Some(notifier) = self.notifier.get()
        {
            notifier.notify();
        }
    }

    /// Drops messages that came after the driver had looked for the last time. Dropping an operation
    /// completes it with ECANCELED.
    pub(super) fn drop_if_ended(&self) {
        if self.ended.load(SeqCst) {
            drop(self.queue.take_all());
        }
    }
}
