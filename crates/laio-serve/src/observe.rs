//! What a server tells of itself: counts, and how long each stage of a request takes.
//!
//! Every worker counts for itself, without locks, and hands a copy over each second and when it ends; whoever asks gets
//! the sum. A worker that is not observed pays a look at a thread-local flag.

mod admin;
mod page;
mod prometheus;
mod stages;
mod steps;

pub use admin::Admin;
pub use stages::{Stage, Stages};
pub use steps::StepCounts;

use crate::lanes;
use laio::{Counts, ZeroCopyCounts};
use laio_http::Status;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often a worker hands over what it has counted.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Sees what the workers of a server do. Clones see the same; the default sees nothing and costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Observer(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    timing: bool,
    since: Instant,
    workers: Mutex<Vec<Weak<Mutex<Seen>>>>,
    /// Of workers that have ended.
    past: Mutex<Seen>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that waited for their clients and were closed to make room for others.
    pub closed_for_room: u64,
    /// Answers by the first digit of their status, from 1 to 5.
    pub answers: [u64; 5],
    /// Bytes of content sent.
    pub bytes: u64,
    /// Calls by name, and which way they went.
    pub calls: BTreeMap<&'static str, Counts>,
    /// Operations started in the background.
    pub operations: u64,
    /// Calls refused or made to wait because a limit was reached.
    pub limited: u64,
    /// How sends went that were to be made without a copy.
    pub zero_copy: ZeroCopyCounts,
    /// How long stages took, if that was asked for.
    pub stages: Stages,
    /// Workers that are running.
    pub workers: usize,
}

impl Observer {
    /// One that counts, and measures the stages of each request if `timing`.
    pub fn new(timing: bool) -> Observer {
        Observer(Some(Arc::new(Shared {
            timing,
            since: Instant::now(),
            workers: Mutex::default(),
            past: Mutex::default(),
        })))
    }

    /// Whether it sees anything.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Since when it sees.
    pub fn age(&self) -> Duration {
        let since = self.0.as_ref().map(|shared| shared.since.elapsed());
        since.unwrap_or_default()
    }

    /// The sum of what all workers have counted, at most a second old.
    pub fn seen(&self) -> Seen {
        let Some(shared) = &self.0 else {
            return Seen::default();
        };
        let mut workers = shared.workers.lock().unwrap();
        workers.retain(|worker| worker.strong_count() > 0);
        let mut sum = shared.past.lock().unwrap().clone();
        for worker in workers.iter().filter_map(Weak::upgrade) {
            sum.add(&worker.lock().unwrap());
            sum.workers += 1;
        }
        sum
    }

    /// Observes the calling thread, as long as what it gives is there.
    pub(crate) fn join(&self) -> Option<Observed> {
        let shared = self.0.clone()?;
        let seen = Arc::<Mutex<Seen>>::default();
        shared.workers.lock().unwrap().push(Arc::downgrade(&seen));
        let timing = shared.timing;
        LOCAL.with_borrow_mut(|local| {
            *local = Some(Local {
                seen: Seen::default(),
                given: seen.clone(),
                at: Instant::now(),
            });
        });
        WATCHED.set(if timing {
            Watched::Timed
        } else {
            Watched::Counted
        });
        let handing = laio_rt::spawn(async {
            loop {
                laio_rt::time::sleep(HAND_OVER).await;
                tell();
            }
        });
        Some(Observed {
            shared,
            seen,
            handing,
        })
    }
}

/// A worker that is observed.
pub(crate) struct Observed {
    shared: Arc<Shared>,
    seen: Arc<Mutex<Seen>>,
    handing: laio_rt::JoinHandle<()>,
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.handing.abort();
        WATCHED.set(Watched::Not);
        let local = LOCAL.take();
        if let Some(mut local) = local {
            local.hand_over();
            // Under both locks, so that nobody sees it twice or not at all.
            let mut workers = self.shared.workers.lock().unwrap();
            let mut past = self.shared.past.lock().unwrap();
            past.add(&self.seen.lock().unwrap());
            workers.retain(|worker| !std::ptr::eq(worker.as_ptr(), Arc::as_ptr(&self.seen)));
        }
    }
}

/// What a worker has counted, and where it hands that over.
struct Local {
    seen: Seen,
    given: Arc<Mutex<Seen>>,
    at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watched {
    Not,
    Counted,
    Timed,
}

thread_local! {
    static WATCHED: Cell<Watched> = const { Cell::new(Watched::Not) };
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl Local {
    fn hand_over(&mut self) {
        self.at = Instant::now();
        self.seen.take_stats();
        self.given.lock().unwrap().clone_from(&self.seen);
    }
}

impl Seen {
    /// Takes over what the contexts of the calling worker have counted until now.
    fn take_stats(&mut self) {
        self.calls.clear();
        (self.operations, self.limited) = (0, 0);
        self.zero_copy = ZeroCopyCounts::default();
        for context in lanes::contexts() {
            let stats = laio_rt::with_context_of(context, |context| context.stats());
            self.operations += stats.operations;
            self.limited += stats.limited;
            self.add_zero_copy(stats.zero_copy);
            stats
                .calls()
                .for_each(|(name, counts)| self.add_calls(name, counts));
        }
    }

    fn add_zero_copy(&mut self, counts: ZeroCopyCounts) {
        let sum = &mut self.zero_copy;
        sum.sends += counts.sends;
        sum.copied += counts.copied;
        sum.ordinary += counts.ordinary;
    }

    fn add_calls(&mut self, name: &'static str, counts: Counts) {
        let sum = self.calls.entry(name).or_default();
        sum.inline += counts.inline;
        sum.background += counts.background;
        sum.fallback += counts.fallback;
        sum.latched += counts.latched;
    }

    fn add(&mut self, other: &Seen) {
        self.connections += other.connections;
        self.closed_for_room += other.closed_for_room;
        self.bytes += other.bytes;
        self.operations += other.operations;
        self.limited += other.limited;
        self.add_zero_copy(other.zero_copy);
        for (sum, count) in self.answers.iter_mut().zip(other.answers) {
            *sum += count;
        }
        for (name, counts) in &other.calls {
            self.add_calls(name, *counts);
        }
        self.stages.add(&other.stages);
    }
}

/// When a stage began, if stages are measured.
pub(crate) fn begin() -> Option<Instant> {
    (WATCHED.get() == Watched::Timed).then(Instant::now)
}

/// A stage that began then has ended.
pub(crate) fn end(stage: Stage, begun: Option<Instant>) {
    if let Some(begun) = begun {
        note(stage, begun.elapsed());
    }
}

/// As [`end`], of a stage whose beginning is known anyway.
pub(crate) fn since(stage: Stage, begun: Instant) {
    if WATCHED.get() == Watched::Timed {
        note(stage, begun.elapsed());
    }
}

/// As [`end`], of a stage whose length is known anyway, if it has one.
pub(crate) fn lasted(stage: Stage, micros: u64) {
    if micros > 0 && WATCHED.get() == Watched::Timed {
        note(stage, Duration::from_micros(micros));
    }
}

fn note(stage: Stage, time: Duration) {
    LOCAL.with_borrow_mut(|local| {
        if let Some(local) = local {
            local.seen.stages.note(stage, time);
        }
    });
}

/// Hands over what the calling worker has counted.
pub(crate) fn tell() {
    LOCAL.with_borrow_mut(|local| local.iter_mut().for_each(Local::hand_over));
}

/// A connection was accepted.
pub(crate) fn connected() {
    if WATCHED.get() != Watched::Not {
        LOCAL.with_borrow_mut(|local| local.iter_mut().for_each(|it| it.seen.connections += 1));
    }
}

/// A connection was closed to make room for others.
pub(crate) fn made_room() {
    if WATCHED.get() != Watched::Not {
        LOCAL.with_borrow_mut(|local| {
            local.iter_mut().for_each(|it| it.seen.closed_for_room += 1);
        });
    }
}

/// A request was answered.
pub(crate) fn answered(status: Status, bytes: u64) {
    if WATCHED.get() == Watched::Not {
        return;
    }
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else { return };
        let class = usize::from(status.code() / 100).clamp(1, 5);
        local.seen.answers[class - 1] += 1;
        local.seen.bytes += bytes;
        // Where calls wait in the kernel, the task that does it each second has no turn.
        if local.at.elapsed() >= HAND_OVER {
            local.hand_over();
        }
    });
}
