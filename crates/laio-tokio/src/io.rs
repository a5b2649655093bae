//! Pipes, terminals and the standard streams, without a thread that waits for them.
//!
//! `tokio::io::stdin` reads on a thread of tokio's pool, which cannot be cancelled: a runtime that shuts down
//! waits for the next line. Pipes in `tokio::net::unix::pipe` and `tokio::process` are made non-blocking, which
//! all processes that share them notice. A [`Stream`] leaves the mode as it is and works on anything that a
//! standard stream may be: a pipe, a terminal, a socket, a redirected file.

mod standard;
mod stream;

pub use standard::{Stderr, Stdin, Stdout, stderr, stdin, stdout};
pub use stream::Stream;
