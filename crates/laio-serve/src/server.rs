//! Starting and stopping the workers.

use crate::options::{Limits, Options};
use crate::stop::Stop;
use crate::worker;
use laio::BackendKind;
use laio_rt::Runtime;
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// A server that is running.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    backend: String,
    workers: Vec<JoinHandle<io::Result<Served>>>,
    stop: Arc<Stop>,
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
}

impl Server {
    /// Binds and starts all workers. When it returns, connections are accepted.
    ///
    /// # Errors
    /// Says what was tried and on what: a root that is no directory, an address that cannot be bound, a
    /// back end that is not to be had.
    pub fn start(options: Options) -> io::Result<Server> {
        let root = open_root(&options)?;
        refuse_taken(options.listen)?;
        let stop = Arc::new(Stop::default());
        let mut server = Server {
            address: options.listen,
            backend: String::new(),
            workers: Vec::new(),
            stop,
        };
        for number in 0..options.workers.max(1) {
            if let Err(error) = server.start_worker(number, &root, &options) {
                server.stop.ask();
                let _ = server.wait();
                return Err(error);
            }
        }
        Ok(server)
    }

    fn start_worker(&mut self, number: usize, root: &OwnedFd, options: &Options) -> io::Result<()> {
        let listener = listen(self.address)
            .map_err(|error| explain(&error, format_args!("cannot listen on {}", self.address)))?;
        // Port 0 was replaced by a free one, which the other workers share.
        self.address = local_address(&listener)?;
        let (report, reported) = channel();
        let (root, stop) = (root.try_clone()?, self.stop.clone());
        let options = options.clone();
        let thread = std::thread::Builder::new().name(format!("laio-serve-{number}"));
        let worker = thread.spawn(move || {
            let runtime = set_up(&options, &report)?;
            worker::run(runtime, &options, root, listener, stop)
        })?;
        self.workers.push(worker);
        match reported.recv() {
            Ok(Ok(backend)) => self.backend = backend,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::Error::other("a worker ended before it began")),
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
                }
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        failure.map_or(Ok(sum), Err)
    }
}

/// Makes a worker's runtime on its own thread, and reports the back end or what went wrong.
fn set_up(options: &Options, report: &Sender<io::Result<String>>) -> io::Result<Runtime> {
    match make_runtime(options) {
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

fn make_runtime(options: &Options) -> io::Result<Runtime> {
    let kind = match options.backend {
        Some(kind) => kind,
        None => BackendKind::from_environment()
            .map_err(|_| bad_environment())?
            .unwrap_or(BackendKind::Lazy),
    };
    if kind == BackendKind::Sync {
        // The first wait for a client would keep all others, and the request to stop, waiting.
        let text = "the back end sync makes every call wait, which a server of many clients cannot do: \
                    take lazy, uring, hybrid or threads";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
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

fn open_root(options: &Options) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(&options.root, flags, Mode::empty()).map_err(|errno| {
        explain(
            &errno.into(),
            format_args!("cannot serve {}", options.root.display()),
        )
    })
}

/// The workers' sockets share their port, and would share it with those of another server too: then each
/// would get half of the connections. A socket that does not share tells.
fn refuse_taken(address: SocketAddr) -> io::Result<()> {
    let probe = std::net::TcpListener::bind(address);
    probe
        .map(drop)
        .map_err(|error| explain(&error, format_args!("cannot listen on {address}")))
}

/// A listening socket; each worker has one on the same address, and the kernel spreads connections.
fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, Limits::BACKLOG)?;
    Ok(socket)
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(address).map_err(io::Error::from)
}

fn explain(error: &io::Error, what: std::fmt::Arguments<'_>) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
