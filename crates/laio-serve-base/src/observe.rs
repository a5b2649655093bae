//! Statistics of a server: counters, and the duration of each stage of a request.
//!
//! Every worker counts for itself, without locks, and publishes a copy each second and when it
//! ends; readers get the sum. Without an observer, a worker only checks a thread-local flag.

mod admin;
mod certificates;
pub mod gauges;
mod page;
mod prometheus;
pub mod quic;
mod stages;
mod steps;
pub mod upstreams;

pub use admin::Admin;
pub use certificates::SeenCertificate;
pub use gauges::{MemoryCounts, UsedQuota};
pub use stages::{Stage, Stages};
pub use steps::StepCounts;
pub use upstreams::{ProxyCacheCounts, UpstreamCounts};

use gauges::{ServerGauges, UpstreamGauge};
use laio::{Counts, ZeroCopyCounts};
use laio_http::Status;
use laio_rt::ContextId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often a worker publishes its counts.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

/// Collects the statistics of a server's workers. Clones share them; the default collects nothing
/// and costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Observer(Option<Arc<ObserverState>>);

#[derive(Debug)]
struct ObserverState {
    timing: bool,
    since: Instant,
    workers: Mutex<Vec<Weak<Mutex<Seen>>>>,
    /// The sum of workers that have ended.
    past: Mutex<Seen>,
    certificates: Mutex<BTreeMap<String, SeenCertificate>>,
    server: Mutex<Option<Arc<dyn ServerGauges>>>,
}

/// The statistics of a server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: u64,
    /// Idle connections that were closed so that others could be accepted.
    pub closed_for_room: u64,
    /// Requests of clients that a site does not let in (403).
    pub refused_by_network: u64,
    /// Requests beyond a limit on their rate (429).
    pub refused_by_rate: u64,
    /// What auth servers have answered.
    pub auth_requests: AuthCounts,
    /// Connections without a valid header of a trusted proxy, where one has to begin them.
    pub refused_proxy_headers: u64,
    /// What became of QUIC connections and packets.
    pub quic: quic::QuicCounts,
    /// Lines of the access log that were dropped.
    pub log_lines_lost: u64,
    /// Responses by the first digit of their status, from 1 to 5.
    pub responses: [u64; 5],
    /// Bytes of content sent.
    pub bytes: u64,
    /// Files stored.
    pub files_stored: u64,
    /// Bytes of the files stored.
    pub bytes_stored: u64,
    /// System calls by name: inline, background and fallback.
    pub calls: BTreeMap<&'static str, Counts>,
    /// Operations started in the background.
    pub operations: u64,
    /// Calls refused or delayed because of a limit.
    pub limited: u64,
    /// The outcome of zero-copy sends.
    pub zero_copy: ZeroCopyCounts,
    /// Durations of stages, if they are measured.
    pub stages: Stages,
    /// The counts of each upstream, by its name.
    pub upstreams: BTreeMap<String, UpstreamCounts>,
    /// The counts of the cache of responses from upstreams.
    pub proxy_cache: ProxyCacheCounts,
    /// Running workers.
    pub workers: usize,
    /// The certificates that the server gets by itself, by name.
    pub certificates: BTreeMap<String, SeenCertificate>,
    /// What is used of directories with a quota.
    pub used_quotas: Vec<UsedQuota>,
    /// The memory that is held for clients.
    pub memory: MemoryCounts,
}

/// What auth servers have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthCounts {
    /// Answers that let a request in.
    pub let_in: u64,
    /// Answers that went to the client.
    pub refused: u64,
    /// Requests that got 503, because there was no usable answer.
    pub failed: u64,
}

/// What an auth server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthResult {
    /// The request may go on.
    LetIn,
    /// The answer went to the client.
    Refused,
    /// There was no usable answer.
    Failed,
}

impl Observer {
    /// Creates an observer. Measures the stages of each request if `timing` is set.
    pub fn new(timing: bool) -> Observer {
        Observer(Some(Arc::new(ObserverState {
            timing,
            since: Instant::now(),
            workers: Mutex::default(),
            past: Mutex::default(),
            certificates: Mutex::default(),
            server: Mutex::default(),
        })))
    }

    /// Whether the observer collects anything.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the time since the observer was created.
    pub fn age(&self) -> Duration {
        let since = self.0.as_ref().map(|state| state.since.elapsed());
        since.unwrap_or_default()
    }

    /// Returns the sum over all workers, at most a second old.
    pub fn seen(&self) -> Seen {
        let Some(state) = &self.0 else {
            return Seen::default();
        };
        let mut workers = state.workers.lock().unwrap();
        workers.retain(|worker| worker.strong_count() > 0);
        let mut sum = state.past.lock().unwrap().clone();
        sum.certificates
            .clone_from(&state.certificates.lock().unwrap());
        if let Some(server) = &*state.server.lock().unwrap() {
            sum.used_quotas = server.used_quotas();
            sum.memory = server.memory();
        }
        for worker in workers.iter().filter_map(Weak::upgrade) {
            sum.add(&worker.lock().unwrap());
            sum.workers += 1;
        }
        sum
    }

    /// Lets readers see these numbers of a server.
    #[doc(hidden)]
    pub fn show(&self, gauges: impl ServerGauges + 'static) {
        if let Some(state) = &self.0 {
            *state.server.lock().unwrap() = Some(Arc::new(gauges));
        }
    }

    /// Observes the calling thread, whose calls `contexts` make, until the result is dropped.
    #[doc(hidden)]
    pub fn observe_thread(&self, contexts: Vec<ContextId>) -> Option<Observed> {
        let state = self.0.clone()?;
        let seen = Arc::<Mutex<Seen>>::default();
        state.workers.lock().unwrap().push(Arc::downgrade(&seen));
        let timing = state.timing;
        LOCAL.with_borrow_mut(|local| {
            *local = Some(Local {
                seen: Seen::default(),
                published: seen.clone(),
                at: Instant::now(),
                contexts,
                upstreams: Vec::new(),
            });
        });
        OBSERVATION.set(if timing {
            Observation::Timed
        } else {
            Observation::Counted
        });
        let publisher = laio_rt::spawn(async {
            loop {
                laio_rt::time::sleep(PUBLISH_INTERVAL).await;
                publish();
            }
        });
        Some(Observed {
            state,
            seen,
            publisher,
        })
    }
}

/// A worker being observed.
#[derive(Debug)]
pub struct Observed {
    state: Arc<ObserverState>,
    seen: Arc<Mutex<Seen>>,
    publisher: laio_rt::JoinHandle<()>,
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.publisher.abort();
        OBSERVATION.set(Observation::Off);
        let local = LOCAL.take();
        if let Some(mut local) = local {
            local.publish();
            // Under both locks, so that readers count it exactly once.
            let mut workers = self.state.workers.lock().unwrap();
            let mut past = self.state.past.lock().unwrap();
            let mut seen = self.seen.lock().unwrap();
            seen.end_upstreams();
            past.add(&seen);
            workers.retain(|worker| !std::ptr::eq(worker.as_ptr(), Arc::as_ptr(&self.seen)));
        }
    }
}

/// The counts of a worker, and the copy it publishes.
struct Local {
    seen: Seen,
    published: Arc<Mutex<Seen>>,
    at: Instant,
    contexts: Vec<ContextId>,
    upstreams: Vec<Arc<dyn UpstreamGauge>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Observation {
    Off,
    Counted,
    Timed,
}

thread_local! {
    static OBSERVATION: Cell<Observation> = const { Cell::new(Observation::Off) };
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

impl Local {
    fn publish(&mut self) {
        self.at = Instant::now();
        self.seen.take_stats(&self.contexts);
        self.seen.take_gauges(&self.upstreams);
        self.published.lock().unwrap().clone_from(&self.seen);
    }
}

impl Seen {
    /// Reads the counters of a worker's contexts.
    fn take_stats(&mut self, contexts: &[ContextId]) {
        self.calls.clear();
        (self.operations, self.limited) = (0, 0);
        self.zero_copy = ZeroCopyCounts::default();
        for &context in contexts {
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
        self.refused_by_network += other.refused_by_network;
        self.refused_by_rate += other.refused_by_rate;
        self.auth_requests.let_in += other.auth_requests.let_in;
        self.auth_requests.refused += other.auth_requests.refused;
        self.auth_requests.failed += other.auth_requests.failed;
        self.refused_proxy_headers += other.refused_proxy_headers;
        self.quic.add(other.quic);
        self.log_lines_lost += other.log_lines_lost;
        self.bytes += other.bytes;
        self.files_stored += other.files_stored;
        self.bytes_stored += other.bytes_stored;
        self.operations += other.operations;
        self.limited += other.limited;
        self.add_zero_copy(other.zero_copy);
        for (sum, count) in self.responses.iter_mut().zip(other.responses) {
            *sum += count;
        }
        for (name, counts) in &other.calls {
            self.add_calls(name, *counts);
        }
        self.stages.add(&other.stages);
        self.add_upstreams(other);
    }
}

/// Returns the current time, if stages are measured.
pub fn begin() -> Option<Instant> {
    is_timed().then(Instant::now)
}

/// Whether the durations of stages are recorded.
pub fn is_timed() -> bool {
    OBSERVATION.get() == Observation::Timed
}

/// Records a stage that began at `begun`.
pub fn end(stage: Stage, begun: Option<Instant>) {
    if let Some(begun) = begun {
        record(stage, begun.elapsed());
    }
}

/// Records a stage whose start is known in any case.
pub fn since(stage: Stage, begun: Instant) {
    if is_timed() {
        record(stage, begun.elapsed());
    }
}

/// Records a stage whose duration is known in any case, if it is not zero.
pub fn lasted(stage: Stage, micros: u64) {
    if micros > 0 && is_timed() {
        record(stage, Duration::from_micros(micros));
    }
}

fn record(stage: Stage, time: Duration) {
    LOCAL.with_borrow_mut(|local| {
        if let Some(local) = local {
            local.seen.stages.record(stage, time);
        }
    });
}

/// Publishes the counts of the calling worker.
pub fn publish() {
    LOCAL.with_borrow_mut(|local| local.iter_mut().for_each(Local::publish));
}

/// Counts an accepted connection.
pub fn connected() {
    count(|seen| seen.connections += 1);
}

/// Counts an evicted connection.
pub fn evicted() {
    count(|seen| seen.closed_for_room += 1);
}

/// Counts a request of a client that a site does not let in.
pub fn refused_by_network() {
    count(|seen| seen.refused_by_network += 1);
}

/// Counts a request of a client that has used up a limit.
pub fn refused_by_rate() {
    count(|seen| seen.refused_by_rate += 1);
}

/// Counts a question to an auth server.
pub fn asked_auth_server(result: AuthResult) {
    count(|seen| {
        let counts = &mut seen.auth_requests;
        *match result {
            AuthResult::LetIn => &mut counts.let_in,
            AuthResult::Refused => &mut counts.refused,
            AuthResult::Failed => &mut counts.failed,
        } += 1;
    });
}

/// Counts a connection that does not begin with the header of a trusted proxy.
pub fn refused_proxy_header() {
    count(|seen| seen.refused_proxy_headers += 1);
}

fn count(add: impl Fn(&mut Seen)) {
    if OBSERVATION.get() != Observation::Off {
        LOCAL.with_borrow_mut(|local| local.iter_mut().for_each(|it| add(&mut it.seen)));
    }
}

/// Counts dropped lines of the access log.
pub fn log_lines_lost(lines: u64) {
    if OBSERVATION.get() != Observation::Off {
        LOCAL.with_borrow_mut(|local| {
            local
                .iter_mut()
                .for_each(|it| it.seen.log_lines_lost += lines);
        });
    }
}

/// Counts an uploaded file.
pub fn stored(bytes: u64) {
    if OBSERVATION.get() != Observation::Off {
        LOCAL.with_borrow_mut(|local| {
            local.iter_mut().for_each(|it| {
                it.seen.files_stored += 1;
                it.seen.bytes_stored += bytes;
            });
        });
    }
}

/// Counts an answered request.
pub fn answered(status: Status, bytes: u64) {
    if OBSERVATION.get() == Observation::Off {
        return;
    }
    LOCAL.with_borrow_mut(|local| {
        let Some(local) = local else { return };
        let class = usize::from(status.code() / 100).clamp(1, 5);
        local.seen.responses[class - 1] += 1;
        local.seen.bytes += bytes;
        // With the back end sync, the task that publishes every second does not run.
        if local.at.elapsed() >= PUBLISH_INTERVAL {
            local.publish();
        }
    });
}
