//! Starting and stopping the workers.

use crate::control::{Control, Service};
use crate::descriptors::raise_descriptor_limit;
use crate::lanes::Plan;
use crate::listen::{Listener, Listening, Share};
use crate::log::LogFile;
use crate::messages::say;
use crate::options::{Listen, Options};
use crate::privileges;
use crate::site::Prepared;
use crate::tls::{Sessions, Tls};
use laio::BackendKind;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// A server that is running.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<Listen>,
    backend: String,
    workers: usize,
    descriptors: usize,
    control: Control,
    service: JoinHandle<Served>,
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
    /// Lines of the access log that could not be written.
    pub log_lines_lost: u64,
}

impl Server {
    /// Binds and starts all workers. When it returns, connections are accepted. The soft limit of the process's
    /// descriptors is the hard one from then on.
    ///
    /// # Errors
    /// Says what was tried and on what: a root that is no directory, an address that cannot be bound, a
    /// back end that is not to be had.
    pub fn start(options: Options) -> io::Result<Server> {
        let kind = backend(&options)?;
        let descriptors = raise_descriptor_limit();
        Plan::new(&options, kind)?;
        let listeners = Listener::open_all(&options.listen)?;
        let workers = workers(&options, kind, listeners.len());
        let sockets = Listening::with(listeners, |listeners, number| {
            (number < workers).then(|| shares(listeners, kind, number, workers))
        })?;
        let addresses = sockets.addresses().to_vec();
        // Before there are other threads, and after what takes rights.
        privileges::drop_to(&options.safety)?;
        if privileges::is_root() && options.safety.user.is_none() {
            say("it serves as root, which it need not: --user NAME makes it somebody else");
        }
        let service = Service::start(options, kind, sockets)?;
        let (backend, control) = (service.backend().to_owned(), service.control());
        let thread = std::thread::Builder::new().name("laio-control".to_owned());
        Ok(Server {
            addresses,
            backend,
            workers,
            descriptors,
            control,
            service: thread.spawn(move || service.run())?,
        })
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
        self.workers
    }

    /// The descriptors that the process may have since the start.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// A handle that stops it, or asks it for something else.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// If the thread that controls them has died.
    pub fn wait(self) -> io::Result<Served> {
        let died = |_| io::Error::other("the thread that controls the workers has died");
        self.service.join().map_err(died)
    }
}

/// Whether a server could start with these options: opens what it would open, and listens nowhere.
///
/// # Errors
/// As [`Server::start`].
pub fn check(options: &Options) -> io::Result<()> {
    Plan::new(options, backend(options)?)?;
    LogFile::open(&options.log)?;
    Tls::new(options, false, Sessions::new()?)?;
    Prepared::new(options).map(drop)
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

fn bad_environment() -> io::Error {
    let name = laio::Options::ENV_BACKEND;
    let known: Vec<_> = BackendKind::ALL.iter().map(|kind| kind.name()).collect();
    let text = format!(
        "{name} names no back end; the back ends are {}",
        known.join(", ")
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
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
fn shares(
    listeners: &[Listener],
    kind: BackendKind,
    number: usize,
    workers: usize,
) -> io::Result<Vec<Share>> {
    if kind == BackendKind::Sync {
        // A worker that serves one connection at a time must leave the others to those that are free: the
        // kernel would hand each its share of a port, busy or not.
        return Ok(vec![listeners[number % listeners.len()].share(false)?]);
    }
    Listener::share_all(listeners, number, workers)
}
