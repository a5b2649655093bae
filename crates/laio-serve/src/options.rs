//! What a server is told when it starts. Each feature has one place here.

mod cache;
mod http2;
mod limits;
mod listen;
mod policy;
mod preset;
mod safety;
mod site;
mod tls;
mod upstream;

pub use cache::Cache;
pub use http2::Http2;
pub use limits::Limits;
pub(crate) use listen::abstract_name;
pub use listen::{Listen, ListenAddress};
pub use policy::{ClassLimits, Io, Policies, Step, Transfer};
pub use preset::{PRESETS, Preset};
pub use safety::{Safety, Sandbox};
pub use site::{Auth, Cors, Dotfiles, ErrorPage, FieldRule, Host, Redirect, Site, Symlinks};
pub use tls::Certificate;
pub use upstream::{Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits};

use laio::BackendKind;
use laio_http::log::LogFormat;
use std::path::PathBuf;

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is served, unless a host says otherwise.
    pub site: Site,
    /// Sites that are served under their own names.
    pub hosts: Vec<Host>,
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// What the server shows to clients that connect with TLS: the first that is for the name they ask for, or
    /// else the first.
    pub certificates: Vec<Certificate>,
    /// Limits of HTTP/2; `None` turns it off. With the back end `sync`, which does one thing at a time, it is off.
    pub http2: Option<Http2>,
    /// Threads, each with a context, an executor and a listening socket of its own; `None` is one for
    /// each processor, and [`Limits::WORKERS_SYNC`] with the back end `sync`, where each serves one
    /// connection at a time.
    pub workers: Option<usize>,
    /// How system calls go to the background; `None` leaves it to the environment and the machine.
    pub backend: Option<BackendKind>,
    /// Which steps go another way than that, and how bodies travel. A [`Preset`] sets both.
    pub io: Io,
    /// Where the access log goes.
    pub log: LogTarget,
    /// What a line of it looks like.
    pub log_format: LogFormat,
    /// What is kept of files that are asked for often.
    pub cache: Cache,
    /// Who sees what it does.
    pub observer: crate::Observer,
    /// The limits in force.
    pub limits: Limits,
    /// What it gives up before it serves.
    pub safety: Safety,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// The end of a file, which is made if it is not there.
    File(PathBuf),
}

impl Options {
    /// Takes over what cannot change while a server runs, and says what would have changed.
    pub(crate) fn keep_what_stays(&mut self, present: &Options) -> Vec<&'static str> {
        let mut kept = Vec::new();
        let mut keep = |differs: bool, what| {
            if differs {
                kept.push(what);
            }
        };
        keep(self.listen != present.listen, "listen");
        keep(self.workers != present.workers, "workers");
        keep(self.backend != present.backend, "backend");
        let (asked, present_safety) = (&self.safety, &present.safety);
        keep(
            (&asked.user, &asked.group) != (&present_safety.user, &present_safety.group),
            "user and group",
        );
        self.safety.user.clone_from(&present_safety.user);
        self.safety.group.clone_from(&present_safety.group);
        self.listen.clone_from(&present.listen);
        self.workers = present.workers;
        self.backend = present.backend;
        kept
    }

    /// Connections of one worker with a back end: with `threads` each of them needs a thread.
    pub(crate) fn connections(&self, kind: BackendKind) -> usize {
        let most = match kind {
            BackendKind::Threads => Limits::CONNECTIONS_THREADS,
            _ => usize::MAX,
        };
        self.limits.connections.clamp(1, most)
    }

    /// The limits of HTTP/2, if it is spoken with a back end.
    pub(crate) fn http2(&self, kind: BackendKind) -> Option<Http2> {
        self.http2.clone().filter(|_| kind != BackendKind::Sync)
    }

    /// The number of workers with a back end.
    pub(crate) fn workers(&self, kind: BackendKind) -> usize {
        let default = || match kind {
            BackendKind::Sync => Limits::WORKERS_SYNC,
            _ => std::thread::available_parallelism().map_or(1, usize::from),
        };
        self.workers.unwrap_or_else(default).max(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            site: Site::default(),
            hosts: Vec::new(),
            listen: Listen::usual(),
            certificates: Vec::new(),
            http2: Some(Http2::default()),
            workers: None,
            backend: None,
            io: Io::default(),
            log: LogTarget::Stdout,
            log_format: LogFormat::Combined,
            cache: Cache::default(),
            observer: crate::Observer::default(),
            limits: Limits::default(),
            safety: Safety::default(),
        }
    }
}
