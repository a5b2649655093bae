//! Telling all workers to stop, from any thread.

use rustix::net::Shutdown;
use std::collections::HashMap;
use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// A flag that tasks of several executors can wait for.
#[derive(Debug, Default)]
pub(crate) struct Stop(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    asked: bool,
    waiting: Vec<Waker>,
    /// Sockets whose readers wait in the kernel, where no waker reaches them.
    sockets: HashMap<u64, OwnedFd>,
    next: u64,
}

/// A socket whose reader reads the end when the flag is raised, until dropped.
#[derive(Debug)]
pub(crate) struct Interruptible {
    stop: Arc<Stop>,
    number: u64,
}

impl Stop {
    /// Raises the flag.
    pub(crate) fn ask(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.asked = true;
            for socket in state.sockets.values() {
                interrupt(socket);
            }
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }

    /// Whether the flag is raised.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.lock().unwrap().asked
    }

    /// Waits until the flag is raised.
    pub(crate) async fn asked(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.asked {
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

    /// Has the readers of a socket, or who accepts from it, be interrupted by the flag. Takes another
    /// descriptor of it.
    pub(crate) fn interrupts(self: &Arc<Self>, socket: OwnedFd) -> Interruptible {
        let mut state = self.0.lock().unwrap();
        if state.asked {
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
