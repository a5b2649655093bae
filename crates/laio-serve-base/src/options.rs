//! The options of a server.

mod access;
mod acme;
mod archive;
mod auth_request;
mod balance;
mod cache;
mod candidate;
mod clients;
mod declare;
mod hsts;
mod http2;
mod http3;
mod limits;
mod listen;
mod log;
mod memory;
mod message_fields;
pub mod network;
mod policy;
mod preset;
mod safety;
mod site;
mod tls;
mod upload;
mod upstream;

pub use access::{Access, NetworkRule, RateKey, RateRule, SpeedRule};
pub use acme::{Acme, AcmeChallenge, DirectoryUrl, HttpsName};
pub use archive::{Archives, Zip};
pub use auth_request::{AuthRequests, AuthRule, AuthServer, CopiedField};
pub use balance::{Balance, ForPrefix, HashKey, HealthPath, ProxyProtocol};
pub use cache::Cache;
pub use candidate::Candidate;
pub use clients::Clients;
pub use hsts::{Hsts, HstsAge};
pub use http2::Http2;
pub use http3::{EarlyData, Http3};
pub use limits::Limits;
pub use listen::abstract_name;
pub use listen::{Listen, ListenAddress};
pub use log::{LogOptions, LogTarget, SyslogAddress};
pub use memory::{Memory, MemoryUse};
pub use message_fields::is_of_all_responses;
pub use message_fields::{FieldAction, FieldConditions, MessageFields, MessageRule, StatusPattern};
pub use network::Network;
pub use policy::{ClassLimits, Io, IoStep, Policies, Transfer};
pub use preset::{PRESETS, Preset};
pub use safety::{Safety, Sandbox};
pub use site::{
    Alias, Auth, Cors, EarlyHint, ErrorPage, FieldRule, Host, Redirect, Rewrite, Site, Symlinks,
};
pub use tls::{Certificate, ClientAuth, RedirectPort, Tls, TlsVersion};
pub use upload::{UploadSync, Uploaders, Uploads};
pub use upstream::{Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits, Upstreams};

use crate::observe::Observer;
use laio::BackendKind;
use laio_http::log::LogFormat;

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The site for all host names without a site of their own.
    pub site: Site,
    /// Sites with host names of their own.
    pub hosts: Vec<Host>,
    /// The addresses to listen on.
    pub listen: Vec<Listen>,
    /// The certificates for TLS. The first one that matches the client's server name is used, or
    /// else the first.
    pub certificates: Vec<Certificate>,
    /// Certificates that the server gets by itself, for names without one of [`Options::certificates`].
    pub acme: Acme,
    /// What else TLS does, for all addresses.
    pub tls: Tls,
    /// The limits of HTTP/2; `None` turns it off. It is always off with the back end `sync`, which
    /// does one thing at a time.
    pub http2: Option<Http2>,
    /// The limits of HTTP/3; `None` turns it off. It needs an address with TLS, and a back end other
    /// than `sync`.
    pub http3: Option<Http3>,
    /// Worker threads, each with an engine context, an executor and listening sockets of its own.
    /// `None` is one for each processor, or [`Limits::WORKERS_SYNC`] with the back end `sync`,
    /// where each worker serves one connection at a time.
    pub workers: Option<usize>,
    /// The back end; `None` takes it from the environment, or chooses `lazy`.
    pub backend: Option<BackendKind>,
    /// Back ends of single steps, and the transfer of files. A [`Preset`] sets these and the back
    /// end.
    pub io: Io,
    /// The destination of the access log.
    pub log: LogTarget,
    /// The format of an access log line.
    pub log_format: LogFormat,
    /// What the access log says, and of which requests.
    pub log_options: LogOptions,
    /// The file cache of each worker.
    pub cache: Cache,
    /// Collects the statistics of the server.
    pub observer: Observer,
    /// The limits in force.
    pub limits: Limits,
    /// Proxies in front of the server.
    pub clients: Clients,
    /// Privileges to drop, and the sandbox.
    pub safety: Safety,
}

impl Options {
    /// Keeps the present value of options that cannot change while a server runs. Returns the names
    /// of those that differ.
    #[doc(hidden)]
    pub fn keep_fixed_options(&mut self, present: &Options) -> Vec<&'static str> {
        let mut kept = Vec::new();
        let mut keep = |differs: bool, what| {
            if differs {
                kept.push(what);
            }
        };
        keep(self.listen != present.listen, "listen");
        keep(self.workers != present.workers, "workers");
        keep(self.backend != present.backend, "backend");
        keep(self.http3.is_some() != present.http3.is_some(), "http3");
        keep(self.acme != present.acme, "https and acme-*");
        let (asked, present_safety) = (&self.safety, &present.safety);
        keep(
            (&asked.user, &asked.group) != (&present_safety.user, &present_safety.group),
            "user and group",
        );
        self.safety.user.clone_from(&present_safety.user);
        self.safety.group.clone_from(&present_safety.group);
        self.listen.clone_from(&present.listen);
        self.workers = present.workers;
        self.acme.clone_from(&present.acme);
        self.backend = present.backend;
        if self.http3.is_some() != present.http3.is_some() {
            self.http3.clone_from(&present.http3);
        }
        kept
    }

    /// Returns the limit on connections of a worker. With `threads` each connection needs a helper
    /// thread.
    #[doc(hidden)]
    pub fn connections(&self, kind: BackendKind) -> usize {
        let most = match kind {
            BackendKind::Threads => Limits::CONNECTIONS_THREADS,
            _ => usize::MAX,
        };
        self.limits.connections.clamp(1, most)
    }

    /// Returns the limits of HTTP/2, or none if it is off with this back end.
    #[doc(hidden)]
    pub fn http2(&self, kind: BackendKind) -> Option<Http2> {
        self.http2.clone().filter(|_| kind != BackendKind::Sync)
    }

    /// Returns whether and to which port requests without TLS are redirected: with `--https` they are, unless that is
    /// turned off.
    #[doc(hidden)]
    pub fn redirect_http(&self) -> Option<RedirectPort> {
        let usual = self.acme.is_on().then_some(RedirectPort::OfListener);
        let port = self.tls.redirect_http.or(usual);
        port.filter(|&port| port != RedirectPort::Off)
    }

    /// Returns the number of workers with a back end.
    #[doc(hidden)]
    pub fn workers(&self, kind: BackendKind) -> usize {
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
            acme: Acme::default(),
            tls: Tls::default(),
            http2: Some(Http2::default()),
            http3: None,
            workers: None,
            backend: None,
            io: Io::default(),
            log: LogTarget::Stdout,
            log_format: LogFormat::Combined,
            log_options: LogOptions::default(),
            cache: Cache::default(),
            observer: Observer::default(),
            limits: Limits::default(),
            clients: Clients::default(),
            safety: Safety::default(),
        }
    }
}
