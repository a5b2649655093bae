//! Starting and stopping the workers.

use crate::addresses::Addresses;
use crate::aside::Aside;
use crate::listen::Listener;
use crate::options::{Io, Limits, Listen, Options};
use crate::site::Prepared;
use crate::stop::Stop;
use crate::worker;
use laio::BackendKind;
use laio_rt::Runtime;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A server that is running.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<Listen>,
    /// Kept as long as the workers run, for the files of Unix sockets.
    listeners: Vec<Listener>,
    backend: String,
    workers: Vec<JoinHandle<io::Result<Served>>>,
    stop: Arc<Stop>,
}

/// What all workers of a server have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) sites: Arc<Prepared>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) aside: Arc<Aside>,
    pub(crate) stop: Arc<Stop>,
}

/// Asks a server to stop, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    /// Asks it to take no more connections, to finish the answers it has begun, and to end.
    pub fn stop(&self) {
        self.0.ask();
    }
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Files for them that were kept from earlier ones.
    pub kept: u64,
}

impl Server {
    /// Binds and starts all workers. When it returns, connections are accepted.
    ///
    /// # Errors
    /// Says what was tried and on what: a root that is no directory, an address that cannot be bound, a
    /// back end that is not to be had.
    pub fn start(options: Options) -> io::Result<Server> {
        let kind = backend(&options)?;
        if options.io != Io::default() {
            let text = "policies, transfers other than `buffer`, chunks and limits of classes are not there yet";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let stop = Arc::<Stop>::default();
        // With sync the caller's own thread computes: there are enough of them.
        let threads = match kind {
            BackendKind::Sync => 0,
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let shared = Shared {
            sites: Arc::new(Prepared::new(&options)?),
            addresses: Arc::default(),
            aside: Arc::new(Aside::new(threads)),
            stop: stop.clone(),
        };
        let listeners = Listener::open_all(&options.listen)?;
        let mut server = Server {
            addresses: listeners.iter().map(|it| it.place().clone()).collect(),
            listeners: Vec::new(),
            backend: String::new(),
            workers: Vec::new(),
            stop,
        };
        for number in 0..workers(&options, kind, listeners.len()) {
            let started = shares(&listeners, kind, number).and_then(|listeners| {
                server.start_worker(number, kind, listeners, &shared, &options)
            });
            if let Err(error) = started {
                server.stop.ask();
                let _ = server.wait();
                return Err(error);
            }
        }
        server.listeners = listeners;
        Ok(server)
    }

    fn start_worker(
        &mut self,
        number: usize,
        kind: BackendKind,
        listeners: Vec<OwnedFd>,
        shared: &Shared,
        options: &Options,
    ) -> io::Result<()> {
        let (report, reported) = channel();
        let (shared, options) = (shared.clone(), options.clone());
        let thread = std::thread::Builder::new().name(format!("laio-serve-{number}"));
        let worker = thread.spawn(move || {
            let runtime = set_up(kind, &options, &report)?;
            worker::run(runtime, &options, shared, listeners)
        })?;
        self.workers.push(worker);
        match reported.recv() {
            Ok(Ok(backend)) => self.backend = backend,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::Error::other("a worker ended before it began")),
        }
        Ok(())
    }

    /// Where it listens, with the ports that were found free.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// The first of its addresses of the internet, if it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.iter().find_map(Listen::inet)
    }

    /// The back end, in words.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// A handle that stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// The first error of a worker.
    pub fn wait(self) -> io::Result<Served> {
        let mut sum = Served::default();
        let mut failure = None;
        for worker in self.workers {
            match worker.join() {
                Ok(Ok(served)) => {
                    sum.connections += served.connections;
                    sum.requests += served.requests;
                    sum.kept += served.kept;
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        failure.map_or(Ok(sum), Err)
    }
}

/// Makes a worker's runtime on its own thread, and reports the back end or what went wrong.
fn set_up(
    kind: BackendKind,
    options: &Options,
    report: &Sender<io::Result<String>>,
) -> io::Result<Runtime> {
    match make_runtime(kind, options) {
        Ok(runtime) => {
            let _ = report.send(Ok(runtime.with_context(describe)));
            Ok(runtime)
        }
        Err(error) => {
            let _ = report.send(Err(io::Error::new(error.kind(), error.to_string())));
            Err(error)
        }
    }
}

/// The back end asked for: by the options, or else by the environment.
fn backend(options: &Options) -> io::Result<BackendKind> {
    match options.backend {
        Some(kind) => Ok(kind),
        None => Ok(BackendKind::from_environment()
            .map_err(|_| bad_environment())?
            .unwrap_or(BackendKind::Lazy)),
    }
}

fn make_runtime(kind: BackendKind, options: &Options) -> io::Result<Runtime> {
    let mut engine = laio::Options::new().backend(kind);
    if kind == BackendKind::Threads {
        // Here each connection that waits for its client keeps a helper.
        engine = engine.helpers((options.connections(kind) + Limits::HELPERS_SPARE) as u32);
    }
    Runtime::new(engine).map_err(|error| {
        let hint = match kind {
            BackendKind::Uring => "; io_uring may be absent or forbidden here: `laio info` tells",
            _ => "",
        };
        let text = format!("cannot set up the back end {kind}: {error}{hint}");
        io::Error::new(error.kind(), text)
    })
}

fn bad_environment() -> io::Error {
    let name = laio::Options::ENV_BACKEND;
    let known: Vec<_> = BackendKind::ALL.iter().map(|kind| kind.name()).collect();
    let text = format!(
        "{name} names no back end; the back ends are {}",
        known.join(", ")
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn describe(context: &mut laio::Context) -> String {
    let kind = context.backend();
    match (kind, context.has_ring()) {
        (BackendKind::Lazy, true) => "lazy, with io_uring".to_owned(),
        (BackendKind::Lazy, false) => "lazy, with epoll and helper threads".to_owned(),
        _ => kind.to_string(),
    }
}

/// The number of workers. One that waits in the kernel for a connection looks at one socket only.
fn workers(options: &Options, kind: BackendKind, listeners: usize) -> usize {
    let least = if kind == BackendKind::Sync {
        listeners
    } else {
        1
    };
    options.workers(kind).max(least)
}

/// What a worker listens on.
fn shares(listeners: &[Listener], kind: BackendKind, number: usize) -> io::Result<Vec<OwnedFd>> {
    if kind == BackendKind::Sync {
        // A worker that serves one connection at a time must leave the others to those that are free: the
        // kernel would hand each its share of a port, busy or not.
        return Ok(vec![listeners[number % listeners.len()].share(false)?]);
    }
    let share = |listener: &Listener| listener.share(number > 0);
    listeners.iter().map(share).collect()
}
