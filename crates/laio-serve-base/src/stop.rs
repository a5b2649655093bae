//! The stop signal for all workers of a generation, sent from any thread.

use rustix::net::Shutdown;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// How far a generation of workers has stopped. The level only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The generation serves.
    #[default]
    Serving,
    /// Other workers accept the connections; this generation finishes its own without a deadline.
    HandingOver,
    /// The generation finishes its connections within [`crate::options::Limits::drain_time`].
    Stopping,
    /// The generation closes its connections at once.
    Cut,
}

/// A level that tasks of several executors can await.
#[derive(Debug, Default)]
pub struct Stop(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    level: Level,
    wakers: Vec<Waker>,
    /// Sockets with blocking calls, which no waker can end.
    sockets: HashMap<u64, OwnedFd>,
    next: u64,
}

/// A socket whose blocking calls end when the workers stop. Unregistered on drop.
#[derive(Debug)]
pub struct Interruptible {
    stop: Arc<Stop>,
    number: u64,
}

impl Stop {
    /// Raises the level.
    pub fn raise(&self, level: Level) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            if state.level >= level {
                return;
            }
            state.level = level;
            for socket in state.sockets.values() {
                interrupt(socket);
            }
            std::mem::take(&mut state.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Returns what workers should do now.
    pub fn level(&self) -> Level {
        self.0.lock().unwrap().level
    }

    /// Whether workers should stop.
    pub fn is_raised(&self) -> bool {
        self.level() > Level::Serving
    }

    /// Waits for a level, or a later one.
    pub async fn reached(&self, level: Level) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.level >= level {
                return Poll::Ready(());
            }
            state
                .wakers
                .retain(|waker| !waker.will_wake(context.waker()));
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Registers a socket whose blocking calls end when the workers stop. Takes its own descriptor
    /// of the socket.
    pub fn register(self: &Arc<Self>, socket: OwnedFd) -> Interruptible {
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

/// Ends blocking receives and `accept` (with `EINVAL`). Responses can still be sent.
fn interrupt(socket: &OwnedFd) {
    let _ = rustix::net::shutdown(socket, Shutdown::Read);
}
