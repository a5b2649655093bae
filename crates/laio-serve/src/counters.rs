//! How often the calls of each operation went which way, of all workers, for whoever asks.

use crate::lanes;
use crate::options::Step;
use laio::{Counts, Stats};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

/// How the calls of one operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCounts {
    /// The operation.
    pub step: Step,
    /// Done at once.
    pub inline: u64,
    /// Tried, and done in the background, because they would have blocked.
    pub background: u64,
    /// Done in the background without a try: the back end makes none, or the call or the file system has none.
    pub fallback: u64,
}

/// The system calls of a step. Those of the two ends of a pipe are not told apart.
fn calls(step: Step) -> &'static [&'static str] {
    match step {
        Step::Accept => &["accept4"],
        Step::Read => &["recvfrom"],
        Step::Open => &["openat2", "openat", "getdents64"],
        Step::Stat => &["fstat", "statx", "newfstatat"],
        Step::FileRead => &["pread64"],
        Step::Write => &["sendto"],
        Step::Sendfile => &["sendfile", "splice"],
    }
}

type Table = [Counts; Step::ALL.len()];

/// What all workers have counted, also those that have ended.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Questions so far.
    asked: u64,
    workers: HashMap<u64, Reported>,
    next: u64,
    ended: Table,
    waiting: Vec<Waker>,
}

#[derive(Debug, Default)]
struct Reported {
    /// The last question it has answered. Workers that wait in the kernel answer none, and tell now and then.
    answered: Option<u64>,
    counts: Table,
}

/// A worker's place among the counters, until dropped.
pub(crate) struct Place {
    counters: Arc<Counters>,
    number: u64,
}

impl Counters {
    /// How long to wait for workers that are stopped by a call.
    const PATIENCE: Duration = Duration::from_millis(500);

    /// The counts of each operation. Workers that do not answer are counted as they last were.
    pub(crate) fn read(&self) -> Vec<StepCounts> {
        let mut state = self.lock();
        state.asked += 1;
        let asked = state.asked;
        state.waiting.drain(..).for_each(Waker::wake);
        let slow = |state: &mut State| {
            let mut workers = state.workers.values();
            workers.any(|worker| worker.answered.is_some_and(|answered| answered < asked))
        };
        let waited = self.told.wait_timeout_while(state, Self::PATIENCE, slow);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.sum()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn sum(&self) -> Vec<StepCounts> {
        let mut sum = self.ended;
        for worker in self.workers.values() {
            add(&mut sum, &worker.counts);
        }
        let of = |(step, counts): (Step, Counts)| StepCounts {
            step,
            inline: counts.inline,
            background: counts.background,
            fallback: counts.fallback,
        };
        Step::ALL.into_iter().zip(sum).map(of).collect()
    }
}

impl Place {
    pub(crate) fn new(counters: Arc<Counters>, answers: bool) -> Place {
        let mut state = counters.lock();
        let number = state.next;
        state.next += 1;
        let reported = Reported {
            answered: answers.then_some(state.asked),
            ..Reported::default()
        };
        state.workers.insert(number, reported);
        drop(state);
        Place { counters, number }
    }

    /// Tells what the contexts of the calling worker have counted.
    pub(crate) fn tell(&self) {
        let mut counts = Table::default();
        for context in lanes::contexts() {
            let stats = laio_rt::with_context_of(context, |context| context.stats());
            add(&mut counts, &table(&stats));
        }
        let mut state = self.counters.lock();
        let asked = state.asked;
        if let Some(reported) = state.workers.get_mut(&self.number) {
            reported.counts = counts;
            if let Some(answered) = &mut reported.answered {
                *answered = asked;
            }
        }
        self.counters.told.notify_all();
    }

    /// Answers whoever asks.
    pub(crate) async fn answer(&self) {
        loop {
            poll_fn(|context| {
                let mut state = self.counters.lock();
                let asked = state.asked;
                let reported = state.workers.get(&self.number);
                if reported.and_then(|worker| worker.answered) != Some(asked) {
                    return Poll::Ready(());
                }
                state.waiting.push(context.waker().clone());
                Poll::Pending
            })
            .await;
            self.tell();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.counters.lock();
        if let Some(reported) = state.workers.remove(&self.number) {
            add(&mut state.ended, &reported.counts);
        }
        self.counters.told.notify_all();
    }
}

fn table(stats: &Stats) -> Table {
    let mut table = Table::default();
    for (name, counts) in stats.calls() {
        let step = Step::ALL
            .into_iter()
            .find(|&step| calls(step).contains(&name));
        if let Some(step) = step {
            let mut one = Table::default();
            one[step as usize] = counts;
            add(&mut table, &one);
        }
    }
    table
}

fn add(sum: &mut Table, other: &Table) {
    for (sum, other) in sum.iter_mut().zip(other) {
        sum.inline += other.inline;
        sum.background += other.background;
        sum.fallback += other.fallback;
    }
}
