//! One upstream, as configured.

use super::encryption::Encryption;
use super::error::UpstreamError;
use super::group::Healths;
use super::health::Health;
use super::link::Link;
use super::proxy_protocol;
use super::resolver::{Addresses, ResolvedAddress};
use crate::options::{
    HealthPath, Protocol, ProxyProtocol, Upstream, UpstreamAddress, UpstreamLimits,
};
use laio_http::Mount;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An upstream.
pub(crate) struct Target {
    pub(crate) mount: Mount,
    pub(crate) protocol: Protocol,
    address: ResolvedAddress,
    encryption: Option<Encryption>,
    /// Whether a connection carries several requests.
    pub(crate) keeps_connections: bool,
    /// The name in log messages.
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) health: Arc<Health>,
    /// The path and the host of checks, if there are any.
    pub(super) check: Option<(String, String)>,
    proxy_protocol: Option<ProxyProtocol>,
}

/// The settings of an upstream that are those of its prefix.
#[derive(Clone, Copy, Default)]
pub(super) struct PrefixSettings<'s> {
    pub(super) ca: Option<&'s Path>,
    pub(super) check: Option<&'s HealthPath>,
    pub(super) proxy_protocol: Option<ProxyProtocol>,
}

impl Target {
    /// Compiles an upstream.
    ///
    /// # Errors
    /// When its name cannot be looked up, or the trusted certificates cannot be read.
    pub(super) fn new(
        upstream: &Upstream,
        PrefixSettings {
            ca,
            check,
            proxy_protocol,
        }: PrefixSettings<'_>,
        healths: &mut Healths,
    ) -> io::Result<Target> {
        let there = match &upstream.protocol {
            Protocol::Http { path } | Protocol::Http2 { path } => path.as_deref(),
            Protocol::FastCgi => None,
        };
        let mount = Mount::new(&upstream.prefix, there)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let scheme = match (&upstream.protocol, &upstream.tls) {
            (Protocol::Http { .. }, None) => "http",
            (Protocol::Http { .. }, Some(_)) => "https",
            (Protocol::Http2 { .. }, None) => "h2c",
            (Protocol::Http2 { .. }, Some(_)) => "h2",
            (Protocol::FastCgi, _) => "fastcgi",
        };
        let name = format!("{scheme}://{}", upstream.address);
        let host = match &upstream.address {
            UpstreamAddress::Tcp(..) => upstream.address.to_string(),
            UpstreamAddress::Unix(_) => "localhost".to_owned(),
        };
        Ok(Target {
            health: healths.of(&name, check),
            check: check.map(|path| (path.0.clone(), host)),
            name,
            weight: upstream.weight,
            mount,
            protocol: upstream.protocol.clone(),
            address: ResolvedAddress::resolve(&upstream.address)?,
            encryption: Encryption::for_upstream(upstream, ca)?,
            keeps_connections: true,
            proxy_protocol,
        })
    }

    /// Returns the program that executes the scripts of a site.
    pub(super) fn of_php(address: &UpstreamAddress, healths: &mut Healths) -> io::Result<Target> {
        let upstream = Upstream {
            host: None,
            prefix: "/".to_owned(),
            protocol: Protocol::FastCgi,
            address: address.clone(),
            tls: None,
            weight: 1,
        };
        Ok(Target {
            // A process of php-fpm serves one connection at a time, so an idle one would occupy it.
            keeps_connections: false,
            ..Target::new(&upstream, PrefixSettings::default(), healths)?
        })
    }

    /// Returns the addresses that are looked up again while the server runs.
    pub(crate) fn addresses(&self) -> Option<Arc<Addresses>> {
        match &self.address {
            ResolvedAddress::Tcp(addresses) => Some(addresses.clone()),
            ResolvedAddress::Unix(_) => None,
        }
    }

    /// Whether connections use TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Returns the header of the PROXY protocol for a client with a connection between these addresses, the
    /// server's first; empty without it.
    pub(crate) fn proxy_header(&self, ends: impl FnOnce() -> [Option<SocketAddr>; 2]) -> Vec<u8> {
        let header = |version| proxy_protocol::header(version, ends());
        self.proxy_protocol.map(header).unwrap_or_default()
    }

    /// Returns the header of the PROXY protocol for a connection of this server itself.
    pub(super) fn own_proxy_header(&self) -> Vec<u8> {
        let header = self.proxy_protocol.map(proxy_protocol::of_the_server);
        header.unwrap_or_default()
    }

    /// Connects to the upstream.
    ///
    /// # Errors
    /// Returns the last error, if no address accepts.
    pub(crate) async fn connect(
        &self,
        proxy_header: Vec<u8>,
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Link, UpstreamError> {
        let encryption = self.encryption.as_ref();
        Link::connect(&self.address, encryption, proxy_header, time, limits).await
    }
}
