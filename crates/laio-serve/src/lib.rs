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
//! the response, and `net::stream` carries the bytes. A step is a function of the request and of the
//! services that it needs (`services`). `site` compiles the configuration of a site ([`Site`]) once,
//! `upstream` does so for the servers behind this one, to which `proxy` forwards requests. These modules
//! are in crates of their own, whose names begin with `laio-serve-`; this crate composes them. Each worker thread has an
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
//! All are off by default. Without one of the first five, a server does not start with options that need it.
//!
//! - `acme`: certificates of an authority ([`Acme`]).
//! - `http3`: HTTP/3 ([`Http3`]), which needs the crate quinn-proto.
//! - `response-cache`: storing responses of upstreams ([`UpstreamLimits::cache_bytes`]).
//! - `webdav`: mounting the files of a site ([`Uploads`]).
//! - `zip`: directories as zip files ([`Archives`]).
//! - `clap`: the structs of options are also arguments of the crate clap.
//! - `fuzzing`: functions for the fuzz targets of the repository. It is no part of the interface.

// Only a feature uses some of the parts.
#![cfg_attr(not(feature = "http3"), allow(dead_code))]

mod connection;
mod explain;
mod features;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod server;
mod worker;

pub use connection::request_stages;
pub use explain::{Answer, Explanation, Question, explain};
pub use laio_http::log::{LogField, LogFormat};
pub use laio_http::{Coding, Status};
pub use laio_serve_base::descriptors::raise_descriptor_limit;
pub use laio_serve_base::observe::quic::QuicCounts;
pub use laio_serve_base::observe::{
    Admin, AuthCounts, MemoryCounts, Observer, ProxyCacheCounts, Seen, SeenCertificate, Stage,
    Stages, StepCounts, UpstreamCounts, UsedQuota,
};
pub use laio_serve_base::options::{
    Access, Alias, Auth, Cache, Candidate, Certificate, ClassLimits, ClientAuth, Clients, Cors,
    ErrorPage, FieldRule, Host, Hsts, HstsAge, Http2, Http3, Io, IoStep, Limits, Listen,
    ListenAddress, LogOptions, LogTarget, Memory, MemoryUse, Network, Options, PRESETS, Policies,
    Preset, Redirect, RedirectPort, Rewrite, Site, Symlinks, Tls, TlsVersion, Transfer,
};
pub use laio_serve_base::options::{Acme, AcmeChallenge, DirectoryUrl, HttpsName};
pub use laio_serve_base::options::{Archives, EarlyData, EarlyHint, Zip};
pub use laio_serve_base::options::{AuthRequests, AuthRule, AuthServer, CopiedField};
pub use laio_serve_base::options::{Balance, ForPrefix, HashKey, HealthPath, ProxyProtocol};
pub use laio_serve_base::options::{
    FieldAction, FieldConditions, MessageFields, MessageRule, StatusPattern,
};
pub use laio_serve_base::options::{NetworkRule, RateKey, RateRule, SpeedRule};
pub use laio_serve_base::options::{
    Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits, Upstreams,
};
pub use laio_serve_base::options::{Safety, Sandbox, SyslogAddress};
pub use laio_serve_base::options::{UploadSync, Uploaders, Uploads};
pub use laio_serve_base::trace::Step;
pub use laio_serve_net::listen::Listening;
pub use server::control::Control;
pub use server::{Server, check};
pub use worker::Served;

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
