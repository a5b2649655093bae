#![forbid(unsafe_code)]
//! A static web server, none of whose system calls can stall it.
//!
//! A request is one straight line through these steps, each a file:
//!
//! 1. `accept`: take a connection (`addresses` counts those of each client)
//! 2. `receive`: read the head of a request
//! 3. `resolve`: from the target to a file's name
//! 4. `open`: open it below the root, and look at it
//! 5. `reply`: decide status, head and range
//! 6. `body`: send it
//! 7. `log`: write the line of the access log
//!
//! `connection` is the line itself, `answer` the part of it that decides, `stream` what carries its bytes. Beside the line lie the rooms
//! that not every request enters: `auth`, `cors`, `redirect`, `fields`, `variant` and `compress`, `listing`,
//! `pages`. What a site is told ([`Site`]) is made ready once (`site`). Each worker thread has a context, an
//! executor and a listening socket of its own (`worker`); what computes for long is done `aside`. Those that were
//! started together are a `generation`; `control` starts, replaces, restarts and stops them, for [`Server`].
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
mod aside;
mod at_once;
mod auth;
mod body;
mod buffers;
mod cache;
mod compress;
mod connection;
mod contents;
mod control;
mod cors;
mod descriptors;
mod fence;
mod fields;
mod generation;
mod http2;
mod inherited;
mod lanes;
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
mod room;
mod server;
mod shortage;
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
    Limits, Listen, ListenAddress, LogTarget, Options, PRESETS, Policies, Preset, Redirect, Site,
    Step, Symlinks, Transfer,
};
pub use options::{Protocol, Trust, Upstream, UpstreamAddress, UpstreamLimits};
pub use options::{Safety, Sandbox};
pub use server::{Served, Server, check};

/// The name in the `Server` field.
const SERVER_NAME: &str = concat!("laio/", env!("CARGO_PKG_VERSION"));
