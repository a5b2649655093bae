//! What TLS to an upstream needs: whom to trust, and the name that the certificate must be for.

use crate::options::{Trust, Upstream, UpstreamAddress};
use crate::tls::Session;
use laio_rt::Descriptor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How an upstream is spoken to in secret.
pub(super) struct Encryption {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Encryption {
    /// None where it is spoken to openly.
    ///
    /// # Errors
    /// When the certificates to trust cannot be read, or there are none.
    pub(super) fn of(upstream: &Upstream) -> io::Result<Option<Encryption>> {
        let (Some(trust), UpstreamAddress::Tcp(host, _)) = (&upstream.tls, &upstream.address)
        else {
            return Ok(None);
        };
        let name = ServerName::try_from(host.clone()).map_err(|error| {
            let text = format!("{host} is no name that a certificate could be for: {error}");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let provider = Arc::new(ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(trust)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        Ok(Some(Encryption { config, name }))
    }

    pub(super) fn session(&self, socket: Descriptor) -> io::Result<Session> {
        Session::to_server(socket, self.config.clone(), self.name.clone())
    }
}

fn roots(trust: &Trust) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (certificates, place) = match trust {
        Trust::System => {
            // What is wrong with single ones is no reason to trust none.
            let found = rustls_native_certs::load_native_certs();
            (found.certs, "this system".to_owned())
        }
        Trust::File(path) => (read(path)?, path.display().to_string()),
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let text = format!(
            "{place} has no certificates to know upstreams by: name a file that has with --upstream-ca"
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
