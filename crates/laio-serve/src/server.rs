//! Starting and stopping the server.

pub(crate) mod control;
mod generation;
mod privileges;
mod sandbox;

use crate::features;
use crate::worker::Served;
use control::{Control, Service};
use laio::BackendKind;
use laio::thread::JoinHandle;
use laio_serve_base::clients::TrustedProxies;
use laio_serve_base::descriptors::raise_descriptor_limit;
use laio_serve_base::messages::{self, print};
use laio_serve_base::options::{Limits, Listen, Options, Site};
use laio_serve_core::log::SharedLog;
use laio_serve_core::site::CompiledSites;
use laio_serve_core::site::quota::CountedDirectories;
use laio_serve_net::io_contexts::ContextPlan;
use laio_serve_net::listen::{Listener, Listening, Share};
use laio_serve_net::tls::{Sessions, Tls};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A running server.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<Listen>,
    backend: String,
    workers: usize,
    descriptors: usize,
    control: Control,
    service: JoinHandle<Served>,
}

impl Server {
    /// Binds the addresses and starts all workers, which accept connections when this returns. Also
    /// raises the soft limit of the process's descriptors to the hard one, limits the arenas of its
    /// allocator ([`laio::memory::limit_arenas`]), and lets each keep some freed memory
    /// ([`laio::memory::keep_freed`]).
    ///
    /// # Errors
    /// Says what was tried and on what: a root that is not a directory, an address that cannot be
    /// bound, a back end that is not available.
    pub fn start(options: Options) -> io::Result<Server> {
        let kind = backend(&options)?;
        let descriptors = raise_descriptor_limit();
        features::check_compiled(&options)?;
        ContextPlan::new(&options, kind)?;
        features::check_options(&options, kind)?;
        let listeners = Listener::open_all(&options)?;
        let workers = workers(&options, kind, listeners.len());
        let arenas = workers * Limits::ARENAS_PER_WORKER + Limits::OTHER_ARENAS;
        laio::memory::limit_arenas(arenas);
        laio::memory::keep_freed(
            Limits::FREED_BYTES_PER_ARENA,
            Limits::LARGEST_KEPT_ALLOCATION,
        );
        let sockets = Listening::with(listeners, |listeners, number| {
            (number < workers).then(|| shares(listeners, kind, number, workers))
        })?;
        let addresses = sockets.addresses().to_vec();
        // Before other threads exist, and after privileged calls.
        features::prepare(&options, privileges::owner(&options.safety)?)?;
        privileges::drop_to(&options.safety)?;
        if privileges::is_root() && options.safety.user.is_none() {
            print(
                "the server runs as root, which it does not need; use --user NAME to run as another user",
            );
        }
        let uploaded = upload_roots(&options);
        let service = Service::start(options, kind, sockets)?;
        laio_serve_uploads::remove_stale(uploaded);
        let (backend, control) = (service.backend().to_owned(), service.control());
        Ok(Server {
            addresses,
            backend,
            workers,
            descriptors,
            control,
            service: laio::thread::start(
                "laio-control",
                "the thread that controls the workers",
                move || service.run(),
            )?,
        })
    }

    /// Returns the addresses, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Returns the first internet address, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.iter().find_map(Listen::inet)
    }

    /// Returns a description of the back end.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the descriptor limit of the process.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Returns a handle that stops or reconfigures the server.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// If the control thread has panicked.
    pub fn wait(self) -> io::Result<Served> {
        let died = |_| io::Error::other("the thread that controls the workers has panicked");
        self.service.join().map_err(died)
    }
}

/// Checks whether a server could start with these options. Opens what it would open, but does not
/// listen.
///
/// # Errors
/// Like [`Server::start`].
pub fn check(options: &Options) -> io::Result<()> {
    let kind = backend(options)?;
    features::check_compiled(options)?;
    ContextPlan::new(options, kind)?;
    features::check_options(options, kind)?;
    TrustedProxies::from_options(options)?;
    SharedLog::open(options)?;
    let tls = Tls::new(
        options,
        false,
        Sessions::new()?,
        features::published(options),
    )?;
    features::datagram_receiver(features::datagrams()?.as_ref(), options, tls.as_ref())?;
    let sites = CompiledSites::new(options, &CountedDirectories::default());
    // What it reports without an error comes before the result.
    messages::flush(None);
    sites?.suit(kind).map(drop)
}

/// Opens the roots in which files may be uploaded.
fn upload_roots(options: &Options) -> Vec<OwnedFd> {
    let hosts = options.hosts.iter().map(|host| &host.site);
    let sites = hosts.chain([&options.site]);
    let uploaded = sites.filter(|site| site.uploads.who.is_some());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let roots = uploaded.filter_map(Site::directory);
    let opened = roots.map(|root| rustix::fs::open(root, flags, Mode::empty()));
    opened.filter_map(Result::ok).collect()
}

/// Returns the configured back end: from the options, or else from the environment.
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
        "{name} does not name a back end; the back ends are {}",
        known.join(", ")
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Returns the number of workers. With the back end sync, each listener needs a worker, because a
/// blocked worker waits on one socket only.
fn workers(options: &Options, kind: BackendKind, listeners: usize) -> usize {
    let least = if kind == BackendKind::Sync {
        listeners
    } else {
        1
    };
    options.workers(kind).max(least)
}

/// Returns the sockets that a worker listens on.
fn shares(
    listeners: &[Listener],
    kind: BackendKind,
    number: usize,
    workers: usize,
) -> io::Result<Vec<Share>> {
    if kind == BackendKind::Sync {
        // A worker that serves one connection at a time must leave the others to idle workers.
        // Sockets with `SO_REUSEPORT` would get a fixed share each, so all workers share one
        // socket.
        return Ok(vec![
            listeners[number % listeners.len()].share(false, listeners)?,
        ]);
    }
    Listener::share_all(listeners, number, workers)
}
