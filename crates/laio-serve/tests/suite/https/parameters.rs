//! Versions of TLS, cipher suites, and OCSP responses.

use crate::common::Running;
use crate::common::certs::{Made, make};
use laio_serve::{Options, Server, TlsVersion};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, SupportedProtocolVersion,
};
use std::fs;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn start(dir: &TempDir, made: &Made, change: impl FnOnce(&mut Options)) -> Running {
    Running::with(dir.path(), |options| {
        options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
        change(options);
    })
}

/// Performs a handshake. Returns the suite, and the OCSP response that came with the certificate.
fn handshake(
    server: &Running,
    made: &Made,
    versions: &[&'static SupportedProtocolVersion],
) -> io::Result<(CipherSuite, Vec<u8>)> {
    let mut roots = RootCertStore::empty();
    roots.add(made.der.clone()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = Arc::new(Recording {
        usual: usual.build().unwrap(),
        staple: Mutex::default(),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket)?;
    }
    let suite = connection.negotiated_cipher_suite().unwrap().suite();
    let staple = verifier.staple.lock().unwrap().clone();
    Ok((suite, staple))
}

/// Verifies as usual, and keeps the OCSP response.
#[derive(Debug)]
struct Recording {
    usual: Arc<WebPkiServerVerifier>,
    staple: Mutex<Vec<u8>>,
}

impl ServerCertVerifier for Recording {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.staple.lock().unwrap() = staple.to_vec();
        self.usual
            .verify_server_cert(end_entity, intermediates, name, &[], now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

const OLD: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const NEW: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

#[test]
fn a_client_with_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let made = make(dir.path(), "localhost");
    for (version, good, bad) in [(TlsVersion::Tls12, OLD, NEW), (TlsVersion::Tls13, NEW, OLD)] {
        let server = start(&dir, &made, |options| options.tls.versions = vec![version]);
        handshake(&server, &made, good).unwrap();
        let error = handshake(&server, &made, bad).unwrap_err().to_string();
        assert!(error.contains("ProtocolVersion"), "{error}");
    }
}

#[test]
fn the_server_prefers_its_cipher_suites_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let made = make(dir.path(), "localhost");
    let names = [
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ];
    let server = start(&dir, &made, |options| {
        options.tls.ciphers = names.map(str::to_owned).to_vec();
    });
    let (suite, _) = handshake(&server, &made, OLD).unwrap();
    assert_eq!(suite, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
    let (suite, _) = handshake(&server, &made, NEW).unwrap();
    assert_eq!(suite, CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    let mut options = Options {
        listen: vec!["tls:127.0.0.1:0".parse().unwrap()],
        certificates: vec![made.files.clone()],
        ..Options::default()
    };
    options.tls.ciphers = vec!["TLS_NULL_WITH_NULL_NULL".to_owned()];
    let text = Server::start(options).unwrap_err().to_string();
    assert!(text.contains("TLS_AES_256_GCM_SHA384"), "{text}");
}

#[test]
fn an_ocsp_response_beside_the_certificate_is_stapled() {
    let dir = tempfile::tempdir().unwrap();
    let made = make(dir.path(), "localhost");
    let server = start(&dir, &made, |_| {});
    assert_eq!(handshake(&server, &made, NEW).unwrap().1, b"");
    let file = dir.path().join("localhost.ocsp");
    let response = [0x30, 5, 0x0a, 1, 0, 5, 0];
    fs::write(&file, response).unwrap();
    server.control().reload_certificates().unwrap();
    for versions in [OLD, NEW] {
        assert_eq!(handshake(&server, &made, versions).unwrap().1, response);
    }
    // A response that says "try later", and one that is none, do not replace the old one.
    for broken in [&[0x30, 3, 0x0a, 1, 3][..], b"<html>", &[0; 70_000]] {
        fs::write(&file, broken).unwrap();
        let error = server.control().reload_certificates().unwrap_err();
        assert!(error.to_string().contains("localhost.ocsp"), "{error}");
        assert_eq!(handshake(&server, &made, NEW).unwrap().1, response);
    }
    fs::remove_file(&file).unwrap();
    server.control().reload_certificates().unwrap();
    assert_eq!(handshake(&server, &made, NEW).unwrap().1, b"");
}
