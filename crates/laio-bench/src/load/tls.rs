//! TLS for the client: trust, and a session over a stream. rustls encrypts, the engine moves the bytes.

use crate::error::{Error, While};
use laio_rt::net::TcpStream;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind};
use rustls::{RootCertStore, SignatureScheme};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// How connections are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// The trusted certificates.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Certificates that are signed by the system's roots.
    System,
    /// Certificates that are signed by one in this file (PEM).
    Roots(PathBuf),
    /// Any certificate: the server is not authenticated.
    Anybody,
}

impl Tls {
    /// Returns TLS for a server with this name or address. With `resume`, connections resume earlier
    /// sessions; without, each makes a full handshake.
    ///
    /// # Errors
    /// If the name is invalid, or the certificates cannot be read.
    pub fn new(host: &str, trust: &Trust, resume: bool) -> Result<Tls, Error> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name
            .map_err(io::Error::other)
            .doing(format!("{host} cannot be in a certificate"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)
            .doing("cannot speak TLS")?;
        let builder = match trust {
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Credulous(provider))),
            Trust::System => builder.with_root_certificates(system()?),
            Trust::Roots(file) => {
                let doing = || format!("cannot read certificates from {}", file.display());
                builder.with_root_certificates(roots(file).doing(doing())?)
            }
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if !resume {
            config.resumption = Resumption::disabled();
        }
        Ok(Tls {
            config: Arc::new(config),
            name,
        })
    }
}

fn roots(file: &std::path::Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(io::Error::other)? {
        let certificate = certificate.map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        Err(io::Error::other("there is no certificate in it"))
    } else {
        Ok(roots)
    }
}

fn system() -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // Some of the system's certificates may be malformed or expired; the others remain usable.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        Err(io::Error::from(io::ErrorKind::NotFound))
            .doing("the system has no root certificates (give --ca FILE, or --insecure)")
    } else {
        Ok(roots)
    }
}

/// Accepts any certificate; still checks that the peer has its private key.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The number of bytes of records received at a time.
const RECORDS: usize = 32 << 10;

/// An encrypted connection.
pub(super) struct Session {
    connection: ClientConnection,
    stream: TcpStream,
    /// Received bytes, of which those before `used` are processed.
    records: Vec<u8>,
    used: usize,
}

impl Session {
    /// Makes the handshake.
    pub(super) async fn begin(tls: &Tls, stream: TcpStream) -> io::Result<Session> {
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
        let mut session = Session {
            connection: connection.map_err(io::Error::other)?,
            stream,
            records: Vec::with_capacity(RECORDS),
            used: 0,
        };
        while session.connection.is_handshaking() {
            session.flush().await?;
            if session.connection.is_handshaking() && session.receive().await? == 0 {
                return Err(io::Error::other("the server ended it"));
            }
        }
        session.flush().await?;
        Ok(session)
    }

    /// Whether it resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.writer().write_all(bytes)?;
        self.flush().await
    }

    /// Appends the next decrypted bytes, as many as fit; returns 0 at a close_notify of the server.
    pub(super) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            match self.connection.reader().fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len().min(buffer.capacity() - buffer.len());
                    buffer.extend_from_slice(&bytes[..count]);
                    self.connection.reader().consume(count);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.receive().await?;
            self.flush().await?;
        }
    }

    /// Passes received bytes to rustls.
    async fn receive(&mut self) -> io::Result<usize> {
        if self.used == self.records.len() {
            let mut records = std::mem::take(&mut self.records);
            records.clear();
            let (received, records) = self.stream.read(records).await;
            (self.records, self.used) = (records, 0);
            received?;
        }
        let mut left = &self.records[self.used..];
        let count = self.connection.read_tls(&mut left)?;
        self.used = self.records.len() - left.len();
        if let Err(error) = self.connection.process_new_packets() {
            // The alert tells the server the reason.
            let _ = self.flush().await;
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(count)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut records = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut records)?;
        }
        if records.is_empty() {
            Ok(())
        } else {
            self.stream.write_all(records).await.0
        }
    }
}
