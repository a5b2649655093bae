//! A generation of workers: those started together with the same options.

use super::sandbox;
use crate::features::{self, BackgroundFeatures, Datagrams};
use crate::worker::{self, GenerationState, Served};
use laio::BackendKind;
use laio::thread::JoinHandle;
use laio_rt::Runtime;
use laio_serve_base::addresses::Addresses;
use laio_serve_base::clients::TrustedProxies;
use laio_serve_base::cpu_pool::CpuPool;
use laio_serve_base::messages::print;
use laio_serve_base::observe::gauges::ServerGauges;
use laio_serve_base::observe::{MemoryCounts, UsedQuota};
use laio_serve_base::options::Options;
use laio_serve_base::stop::Level;
use laio_serve_core::log::SharedLog;
use laio_serve_core::site::CompiledSites;
use laio_serve_core::site::quota::CountedDirectories;
use laio_serve_net::idle_eviction::ConnectionSlots;
use laio_serve_net::io_contexts::{ContextPlan, IoContexts};
use laio_serve_net::listen::Share;
use laio_serve_net::memory::ProcessMemory;
use laio_serve_net::tls::published::Published;
use laio_serve_net::tls::{Sessions, Tls};
use laio_serve_uploads::SharedChanges;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// Workers that serve, or that finish their connections.
pub(crate) struct Generation {
    pub(crate) number: u64,
    pub(crate) options: Arc<Options>,
    pub(crate) shared: GenerationState,
    pub(crate) workers: Vec<WorkerSlot>,
    /// A description of the back end.
    pub(crate) backend: String,
    kind: BackendKind,
    on_end: OnEnd,
}

/// State that each generation passes to the next.
#[derive(Clone)]
pub(crate) struct ServerState {
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) memory: Arc<ProcessMemory>,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) sessions: Sessions,
    pub(crate) datagrams: Option<Arc<dyn Datagrams>>,
    /// Certificates that the server gets by itself.
    published: Option<Arc<Published>>,
    pub(crate) background: BackgroundFeatures,
    pub(crate) changes: SharedChanges,
    pub(crate) counted: CountedDirectories,
}

impl ServerState {
    /// Creates the state of the first generation.
    ///
    /// # Errors
    /// Like [`Sessions::new`] and [`features::start`].
    pub(crate) fn new(options: &Options) -> io::Result<ServerState> {
        let counted = CountedDirectories::default();
        let memory = Arc::new(ProcessMemory::new(options.limits.memory));
        options.observer.show(Gauges {
            counted: counted.clone(),
            memory: memory.clone(),
        });
        let published = features::published(options);
        Ok(ServerState {
            counted,
            memory,
            addresses: Arc::default(),
            slots: Arc::default(),
            sessions: Sessions::new()?,
            datagrams: features::datagrams()?,
            background: features::start(options, published.as_ref())?,
            published,
            changes: SharedChanges::new(features::change_extension()),
        })
    }
}

/// What the statistics show of the state.
#[derive(Debug)]
struct Gauges {
    counted: CountedDirectories,
    memory: Arc<ProcessMemory>,
}

impl ServerGauges for Gauges {
    fn used_quotas(&self) -> Vec<UsedQuota> {
        self.counted.used()
    }

    fn memory(&self) -> MemoryCounts {
        self.memory.counts()
    }
}

/// The thread of a worker.
pub(crate) struct WorkerSlot {
    pub(crate) thread: Option<JoinHandle<()>>,
    pub(crate) started: Instant,
}

/// The report of a worker that has ended.
pub(crate) struct WorkerEnded {
    pub(crate) generation: u64,
    pub(crate) worker: usize,
    pub(crate) outcome: Result<Served, String>,
}

/// What a worker's thread calls at its end.
pub(crate) type OnEnd = Arc<dyn Fn(WorkerEnded) + Send + Sync>;

impl Generation {
    /// Starts a worker for each set of sockets. When this returns, all of them accept connections,
    /// or none runs.
    ///
    /// # Errors
    /// Says what was tried and on what: a root that is not a directory, a log that cannot be
    /// opened, a back end that is not available.
    pub(crate) fn start(
        number: u64,
        options: Options,
        kind: BackendKind,
        sockets: &[Vec<Share>],
        server_state: ServerState,
        on_end: OnEnd,
    ) -> io::Result<Generation> {
        // With sync each worker thread runs its own computations.
        let threads = match kind {
            BackendKind::Sync => 0,
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let tls = Tls::new(
            &options,
            options.http2(kind).is_some(),
            server_state.sessions,
            server_state.published,
        )?
        .map(Arc::new);
        let shared = GenerationState {
            sites: Arc::new(CompiledSites::new(&options, &server_state.counted)?.suit(kind)?),
            addresses: server_state.addresses,
            memory: server_state.memory,
            trusted_proxies: Arc::new(TrustedProxies::from_options(&options)?),
            slots: server_state.slots,
            cpu_pool: Arc::new(CpuPool::new(threads)),
            log: SharedLog::open(&options)?,
            changes: server_state.changes,
            stop: Arc::default(),
            datagrams: features::datagram_receiver(
                server_state.datagrams.as_ref(),
                &options,
                tls.as_deref(),
            )?,
            tls,
        };
        let mut generation = Generation {
            number,
            options: Arc::new(options),
            shared,
            workers: Vec::new(),
            backend: String::new(),
            kind,
            on_end,
        };
        for socket in sockets {
            match generation.start_worker(generation.workers.len(), socket) {
                Ok(slot) => generation.workers.push(slot),
                Err(error) => {
                    generation.shared.stop.raise(Level::Cut);
                    generation.join();
                    return Err(error);
                }
            }
        }
        Ok(generation)
    }

    /// Starts a worker in place of one that has ended.
    ///
    /// # Errors
    /// Like [`Generation::start`].
    pub(crate) fn restart(&mut self, worker: usize, sockets: &[Share]) -> io::Result<()> {
        self.workers[worker] = self.start_worker(worker, sockets)?;
        Ok(())
    }

    fn start_worker(&mut self, worker: usize, sockets: &[Share]) -> io::Result<WorkerSlot> {
        let clones = sockets.iter().map(Share::try_clone);
        let listeners = clones.collect::<io::Result<Vec<_>>>()?;
        let (report, reported) = channel();
        let (shared, options) = (self.shared.clone(), self.options.clone());
        let (on_end, generation, kind) = (self.on_end.clone(), self.number, self.kind);
        let (name, purpose) = (
            format!("laio-serve-{worker}"),
            format!("the thread of worker {worker}"),
        );
        let thread = laio::thread::start(&name, &purpose, move || {
            let served = catch_unwind(AssertUnwindSafe(|| {
                let (runtime, contexts) =
                    set_up(kind, &options, (worker, listeners.len()), &report)?;
                worker::run(runtime, contexts, &options, shared, listeners)
            }));
            let outcome = match served {
                Ok(served) => served.map_err(|error| error.to_string()),
                Err(panic) => Err(format!("the worker panicked: {}", message(&*panic))),
            };
            let ended = WorkerEnded {
                generation,
                worker,
                outcome,
            };
            on_end(ended);
        })?;
        match reported.recv() {
            Ok(Ok(backend)) => self.backend = backend,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::Error::other("a worker ended before it started serving")),
        }
        Ok(WorkerSlot {
            thread: Some(thread),
            started: Instant::now(),
        })
    }

    /// Returns the number of workers that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.workers
            .iter()
            .filter(|slot| slot.thread.is_some())
            .count()
    }

    /// Waits until all workers have ended.
    fn join(&mut self) {
        for slot in &mut self.workers {
            if let Some(thread) = slot.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Creates the runtime of a worker with this number and so many sockets, on its own thread, and reports the back end or
/// the error.
fn set_up(
    kind: BackendKind,
    options: &Options,
    (worker, sockets): (usize, usize),
    report: &Sender<io::Result<String>>,
) -> io::Result<(Runtime, IoContexts)> {
    let sandboxed = sandbox::apply(options, kind).inspect(|missing| {
        // Print warnings once: the other workers have the same ones.
        if worker == 0 {
            missing.iter().for_each(print);
        }
    });
    let plan = sandboxed.and_then(|_| ContextPlan::new(options, kind));
    let created = plan.and_then(|plan| {
        let created = plan.create(options)?;
        plan.start_helpers(&created, options, sockets)?;
        Ok(created)
    });
    match created {
        Ok((runtime, contexts)) => {
            let _ = report.send(Ok(runtime.with_context(describe)));
            Ok((runtime, contexts))
        }
        Err(error) => {
            let _ = report.send(Err(io::Error::new(error.kind(), error.to_string())));
            Err(error)
        }
    }
}

fn describe(context: &mut laio::Context) -> String {
    let info = context.info();
    let kind = info.backend();
    match (kind, info.has_ring()) {
        (BackendKind::Lazy, true) => "lazy, with io_uring".to_owned(),
        (BackendKind::Lazy, false) => "lazy, with epoll and helper threads".to_owned(),
        _ => kind.to_string(),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("without a message")
}
