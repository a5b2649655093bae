#![forbid(unsafe_code)]
//! A static web server whose system calls never stall a worker.
//!
//! A request passes through these steps, one module each:
//!
//! 1. `accept`: accept a connection (`addresses` limits the connections of each client address)
//! 2. `receive`: receive the head of a request
//! 3. `resolve`: turn the target into a file name
//! 4. `open`: open the file below the root and read its metadata
//! 5. `reply`: choose status, header fields and range
//! 6. `body`: send the answer
//! 7. `log`: write a line of the access log
//!
//! `connection` runs the steps in order, `answer` decides the answer, and `stream` carries the
//! bytes. Only some requests need the other modules: `auth`, `cors`, `redirect`, `fields`,
//! `variant` and `compress`, `listing`, `pages`. `site` compiles the configuration of a site
//! ([`Site`]) once. Each worker thread has an engine context, an executor and a listening socket of
//! its own (`worker`); `cpu_pool` runs long computations on other threads. Workers started together
//! form a `generation`; `control` starts, replaces, restarts and stops generations for [`Server`].
//!
//! ```no_run
//! let server = laio_serve::Server::start(laio_serve::Options::default())?;
//! println!("{}", server.addresses()[0]);
//! server.wait()?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod accept;
mod addresses;
mod answer;
mod auth;
mod body;
mod buffers;
mod cache;
mod cached_answer;
mod compress;
mod connection;
mod contents;
mod control;
mod cors;
mod cpu_pool;
mod descriptors;
mod fields;
mod generation;
mod http2;
mod idle_eviction;
mod inherited;
mod io_contexts;
mod listen;
mod listing;
mod log;
mod messages;
mod observe;
mod open;
mod options;
mod pages;
mod privileges;
mod receive;
mod redirect;
mod reply;
mod resident;
mod resolve;
mod resource_exhaustion;
mod sandbox;
mod server;
mod site;
mod stop;
mod stream;
mod tls;
mod transfer;
mod upstream;
mod variant;
mod worker;

pub use control::Control;
pub use descriptors::raise_descriptor_limit;
pub use laio_http::log::LogFormat;
pub use laio_http::{Coding, Limits as HeadLimits, Status};
pub use listen::Listening;
pub use observe::{Admin, Observer, Seen, Stage, Stages, StepCounts};
pub use options::{
    Auth, Cache, Certificate, ClassLimits, Cors, Dotfiles, ErrorPage, FieldRule, Host, Http2, Io,
    IoStep, Limits, Listen, ListenAddress, LogTarget, Options, PRESETS, Policies, Preset, Redirect,
    Site, Symlinks, Transfer,
};
pub use options::{Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits};
pub use options::{Safety, Sandbox};
pub use server::{Served, Server, check};

/// The value of the `Server` field.
const SERVER_NAME: &str = concat!("laio/", env!("CARGO_PKG_VERSION"));
