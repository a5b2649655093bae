//! Telling all workers to stop, from any thread.

use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

/// A flag that tasks of several executors can wait for.
#[derive(Debug, Default)]
pub(crate) struct Stop(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    asked: bool,
    waiting: Vec<Waker>,
}

impl Stop {
    /// Raises the flag.
    pub(crate) fn ask(&self) {
        let waiting = {
            let mut state = self.0.lock().unwrap();
            state.asked = true;
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
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
}
