#![forbid(unsafe_code)]
//! A static web server, none of whose system calls can stall it.
//!
//! A request is one straight line through these steps, each a file:
//!
//! 1. [`mod@accept`]: take a connection
//! 2. [`mod@receive`]: read the head of a request
//! 3. [`mod@resolve`]: from the target to a file's name
//! 4. [`mod@open`]: open it below the root, and look at it
//! 5. [`mod@reply`]: decide status, head and range
//! 6. [`mod@body`]: send it
//! 7. [`mod@log`]: write the line of the access log
//!
//! [`mod@connection`] is the line itself. Each worker thread has a context, an executor and a listening
//! socket of its own ([`mod@worker`]); [`Server`] starts and stops them.
//!
//! ```no_run
//! let server = laio_serve::Server::start(laio_serve::Options::default())?;
//! println!("http://{}/", server.address());
//! server.wait()?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod accept;
mod body;
mod connection;
mod log;
mod open;
mod options;
mod receive;
mod reply;
mod resolve;
mod server;
mod stop;
mod worker;

pub use laio_http::log::LogFormat;
pub use options::{Limits, LogTarget, Options};
pub use server::{Served, Server, Stopper};

/// The name in the `Server` field.
const SERVER_NAME: &str = concat!("laio/", env!("CARGO_PKG_VERSION"));
