#![forbid(unsafe_code)]
//! A web server whose system calls never stall a worker, except with the back end `sync`.
//!
//! A request passes through these steps:
//!
//! 1. `worker::accept`: accept a connection (`addresses` limits how many an address has)
//! 2. `request::receive`: receive the head of a request
//! 3. `request::early_answer`: answer what needs no file (limits, redirects, refusals)
//! 4. one of these:
//!    - `proxy`: ask the upstream or program of the path
//!    - `uploads`: store or change files
//!    - `files::resolve`: turn the target into a file name; `request::open`: open the file below the root and
//!      read its metadata; `request::file_response`: choose status, header fields and range
//! 5. `request::send_response`: send the response
//! 6. `log`: write a line of the access log
//!
//! `connection` runs the steps in order, `request::answer_from_cache` or `request::answer` decides
//! the response, and `net::stream` carries the bytes. A step is a function of the request and of the services that it
//! needs (`services`). `site` compiles the configuration of a site ([`Site`]) once, `upstream` that
//! of the servers behind this one, to which `proxy` forwards requests. Each worker thread has an
//! engine context, an executor and a listening socket of its own (`worker`); `cpu_pool` runs long
//! computations on other threads. Workers started together form a `server::generation`;
//! `server::control` starts, replaces, restarts and stops generations for [`Server`].
//!
//! ```no_run
//! let server = laio_serve::Server::start(laio_serve::Options::default())?;
//! println!("{}", server.addresses()[0]);
//! server.wait()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Features
//!
//! `clap`, off by default: the structs of options are also arguments of the crate clap.
//!
//! `fuzzing`, off by default: functions for the fuzz targets of the repository. It is no part of the interface.

mod acme;
mod addresses;
mod buffers;
mod clients;
mod connection;
mod cpu_pool;
mod descriptors;
mod explain;
mod field_names;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod idle_eviction;
mod inherited;
mod io_contexts;
mod log;
mod memory;
mod messages;
mod net;
mod observe;
mod options;
mod proxy;
mod request;
mod resource_exhaustion;
mod server;
mod server_name;
mod services;
mod site;
mod stop;
mod trace;
mod transfer_pools;
mod uploads;
mod upstream;
mod worker;

pub use connection::request_stages;
pub use descriptors::raise_descriptor_limit;
pub use explain::{Answer, Explanation, Question, explain};
pub use laio_http::log::{LogField, LogFormat};
pub use laio_http::{Coding, Status};
pub use net::listen::Listening;
pub use observe::{
    Admin, AuthCounts, MemoryCounts, Observer, ProxyCacheCounts, QuicCounts, Seen, SeenCertificate,
    Stage, Stages, StepCounts, UpstreamCounts, UsedQuota,
};
pub use options::{
    Access, Alias, Auth, Cache, Candidate, Certificate, ClassLimits, ClientAuth, Clients, Cors,
    ErrorPage, FieldRule, Host, Hsts, HstsAge, Http2, Http3, Io, IoStep, Limits, Listen,
    ListenAddress, LogOptions, LogTarget, Memory, MemoryUse, Network, Options, PRESETS, Policies,
    Preset, Redirect, RedirectPort, Rewrite, Site, Symlinks, Tls, TlsVersion, Transfer,
};
pub use options::{Acme, AcmeChallenge, DirectoryUrl, HttpsName};
pub use options::{Archives, EarlyData, EarlyHint, Zip};
pub use options::{AuthRequests, AuthRule, AuthServer, CopiedField};
pub use options::{Balance, ForPrefix, HashKey, HealthPath, ProxyProtocol};
pub use options::{FieldAction, FieldConditions, MessageFields, MessageRule, StatusPattern};
pub use options::{NetworkRule, RateKey, RateRule, SpeedRule};
pub use options::{Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits, Upstreams};
pub use options::{Safety, Sandbox, SyslogAddress};
pub use options::{UploadSync, Uploaders, Uploads};
pub use server::control::Control;
pub use server::{Server, check};
pub use trace::Step;
pub use worker::Served;

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
