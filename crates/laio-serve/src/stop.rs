//! Telling all workers of a generation to stop, from any thread.

use rustix::net::Shutdown;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// How far a generation of workers has come on its way to the end. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// It serves.
    #[default]
    Serving,
    /// Others take its connections from now on; what it has begun it finishes, however long that takes.
    HandingOver,
    /// It has [`crate::Limits::drain_time`] left.
    Stopping,
    /// It has no time left.
    Cut,
}

/// A level that tasks of several executors can wait for.
#[derive(Debug, Default)]
pub(crate) struct Stop(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    level: Level,
    waiting: Vec<Waker>,
    /// Sockets whose readers wait in the kernel, where no waker reaches them.
    sockets: HashMap<u64, OwnedFd>,
    next: u64,
}

/// A socket whose reader reads the end when the workers stop, until dropped.
#[derive(Debug)]
pub(crate) struct Interruptible {
    stop: Arc<Stop>,
    number: u64,
}

impl Stop {
    /// Goes on to a level.
    pub(crate) fn ask(&self, level: Level) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            if state.level >= level {
                return;
            }
            state.level = level;
            for socket in state.sockets.values() {
                interrupt(socket);
            }
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    pub(crate) fn level(&self) -> Level {
        self.0.lock().unwrap().level
    }

    /// Whether workers should come to an end.
    pub(crate) fn is_asked(&self) -> bool {
        self.level() > Level::Serving
    }

    /// Waits for a level, or a later one.
    pub(crate) async fn reached(&self, level: Level) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.level >= level {
                return Poll::Ready(());
            }
            state
                .waiting
                .retain(|waker| !waker.will_wake(context.waker()));
            state.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Has the readers of a socket, or who accepts from it, be interrupted when the workers stop. Takes another
    /// descriptor of it.
    pub(crate) fn interrupts(self: &Arc<Self>, socket: OwnedFd) -> Interruptible {
        let mut state = self.0.lock().unwrap();
        if state.level > Level::Serving {
            interrupt(&socket);
        }
        let number = state.next;
        state.next += 1;
        state.sockets.insert(number, socket);
        Interruptible {
            stop: self.clone(),
            number,
        }
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        self.stop.0.lock().unwrap().sockets.remove(&self.number);
    }
}

/// Answers can still be written. Of a listening socket, this ends `accept` with `EINVAL`.
fn interrupt(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}
