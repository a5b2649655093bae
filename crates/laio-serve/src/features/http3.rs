//! HTTP/3.

#[cfg(feature = "http3")]
mod connection;
#[cfg(feature = "http3")]
mod generations;
#[cfg(feature = "http3")]
mod receive;

use super::feature::Feature;
use laio::BackendKind;
use laio_serve_base::options::{ListenAddress, Options};
use std::io;

pub(super) const FEATURE: Feature = Feature {
    name: "http3",
    is_compiled: cfg!(feature = "http3"),
    option: "--http3",
    is_used: |options| options.http3.is_some(),
    check,
    #[cfg(feature = "http3")]
    datagrams: generations::datagrams,
    ..Feature::WITHOUT_PARTS
};

/// Checks whether HTTP/3 is possible, if it is on.
fn check(options: &Options, kind: BackendKind) -> io::Result<()> {
    if options.http3.is_none() {
        return Ok(());
    }
    let text = if kind == BackendKind::Sync {
        "--http3 cannot be combined with the back end sync, which serves one connection at a time in \
         each worker; choose another back end, such as lazy"
    } else if !options.listen.iter().any(|listen| {
        let is_unix = matches!(listen.address, ListenAddress::Unix { .. });
        listen.tls && !listen.proxy_header && !is_unix
    }) {
        "--http3 needs an internet address with TLS and without proxy:, which QUIC does not have: add a \
         certificate, and write tls: before an address"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
