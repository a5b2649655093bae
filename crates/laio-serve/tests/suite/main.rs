//! The server's tests, in one program: servers in this process, and clients that read exactly what they get.

mod access;
mod archives;
mod cache;
mod common;
mod correctness;
mod explained;
mod features;
mod guarded;
mod http2;
mod http3;
mod https;
mod listening;
mod logging;
mod observing;
mod policies;
mod protocol;
mod rewrites;
mod server;
mod spooled;
mod stall;
mod sync;
mod tls;
mod uploads;
mod upstreams;
mod webdav;
mod zero_copy;
