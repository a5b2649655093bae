//! The TLS configuration for an upstream: trusted certificates, and the expected name.

use crate::net::tls::session::Session;
use crate::options::{Protocol, Trust, Upstream, UpstreamAddress};
use laio_rt::Descriptor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The TLS configuration for an upstream.
pub(super) struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Encryption {
    /// Returns the configuration, or none for an unencrypted upstream. `ca` is trusted in place of the
    /// system's certificates.
    ///
    /// # Errors
    /// When the trusted certificates cannot be read, or there are none.
    pub(super) fn for_upstream(
        upstream: &Upstream,
        ca: Option<&Path>,
    ) -> io::Result<Option<Encryption>> {
        let (Some(trust), UpstreamAddress::Tcp(host, _)) = (&upstream.tls, &upstream.address)
        else {
            return Ok(None);
        };
        let name = ServerName::try_from(host.clone()).map_err(|error| {
            let text = format!("{host} is not a name that a certificate can contain: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(trust, ca)?)
            .with_no_client_auth();
        config.alpn_protocols = match upstream.protocol {
            Protocol::Http2 { .. } => vec![b"h2".to_vec()],
            Protocol::Http { .. } | Protocol::FastCgi => vec![b"http/1.1".to_vec()],
        };
        let config = Arc::new(config);
        Ok(Some(Encryption { config, name }))
    }

    pub(super) fn session(&self, socket: Descriptor) -> io::Result<Session> {
        Session::to_server(socket, self.config.clone(), self.name.clone())
    }
}

fn roots(trust: &Trust, ca: Option<&Path>) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let file = match trust {
        Trust::System => ca,
        Trust::File(path) => Some(&**path),
    };
    let (certificates, source) = match file {
        None => {
            // A malformed certificate is no reason to trust none of the others.
            let found = rustls_native_certs::load_native_certs();
            (found.certs, "this system".to_owned())
        }
        Some(path) => (read(path)?, path.display().to_string()),
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let text = format!(
            "{source} contains no certificates to verify upstreams with: name a file of certificates with --upstream-ca"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(roots)
}

fn read(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| {
        let text = format!("cannot read certificates from {}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}
