//! Certificates for tests, and clients that trust them.

use laio_serve::Certificate;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A certificate for a name, as files and as clients need it.
pub(crate) struct Made {
    pub(crate) files: Certificate,
    pub(crate) der: CertificateDer<'static>,
}

/// Creates a certificate, replacing the one with that name in the directory.
pub(crate) fn make(dir: &Path, name: &str) -> Made {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let files = Certificate {
        chain: dir.join(format!("{name}.pem")),
        key: dir.join(format!("{name}.key")),
    };
    fs::write(&files.chain, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    Made {
        files,
        der: made.cert.der().clone(),
    }
}

/// Returns the configuration of a client that trusts these certificates.
pub(crate) fn trusting(certificates: &[&Made], protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for made in certificates {
        roots.add(made.der.clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    config
}

pub(crate) type Encrypted = StreamOwned<ClientConnection, TcpStream>;

/// Connects, requesting a name.
pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Encrypted {
    let socket = TcpStream::connect(address).unwrap();
    let time = Some(Duration::from_secs(60));
    socket.set_read_timeout(time).unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(config.clone(), name).unwrap();
    StreamOwned::new(connection, socket)
}
