//! Certificates of clients.

use crate::common::Running;
use crate::common::certs::{Made, make};
use laio::BackendKind::{Lazy, Sync};
use laio_serve::{ClientAuth, Options, Server};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned,
    SupportedProtocolVersion,
};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// An authority that signs certificates of clients.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

/// A client's certificate and its key.
type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

impl Authority {
    fn new(dir: &TempDir, name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let file = dir.path().join(format!("{name}.pem"));
        fs::write(&file, certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Authority { issuer, file }
    }

    fn sign(&self, serial: u64) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from(serial));
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (certificate.der().clone(), key.into())
    }

    fn revoke(&self, serials: &[u64], until: i32) -> String {
        let revoked = serials.iter().map(|&serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

const VERSIONS: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS12, &rustls::version::TLS13];

/// Asks with a certificate, and returns how the handshake was made.
fn ask(config: &Arc<ClientConfig>, server: &Running) -> io::Result<HandshakeKind> {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(config.clone(), name).unwrap();
    let socket = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    Ok(stream.conn.handshake_kind().unwrap())
}

fn client(
    made: &Made,
    version: &'static SupportedProtocolVersion,
    identity: Option<&Identity>,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(made.der.clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match identity {
        Some((certificate, key)) => {
            let chain = vec![certificate.clone()];
            builder
                .with_client_auth_cert(chain, key.clone_key())
                .unwrap()
        }
        None => builder.with_no_client_auth(),
    })
}

fn site() -> (TempDir, Made) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    let made = make(dir.path(), "localhost");
    (dir, made)
}

fn set(options: &mut Options, made: &Made, authority: &Authority) {
    options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
    options.certificates = vec![made.files.clone()];
    options.tls.client_ca = Some(authority.file.clone());
}

#[test]
fn only_clients_of_the_authority() {
    let (dir, made) = site();
    let [own, other] = ["own", "other"].map(|name| Authority::new(&dir, name));
    let [known, foreign] = [own.sign(1), other.sign(1)];
    for kind in [Lazy, Sync] {
        for auth in [ClientAuth::Required, ClientAuth::Optional] {
            let server = Running::on(kind, dir.path(), |options| {
                set(options, &made, &own);
                options.tls.client_auth = auth;
            });
            for version in VERSIONS {
                let known = client(&made, version, Some(&known));
                // The second connection does not resume the first one.
                for _ in 0..2 {
                    assert_eq!(ask(&known, &server).unwrap(), HandshakeKind::Full);
                }
                ask(&client(&made, version, Some(&foreign)), &server).unwrap_err();
                let without = ask(&client(&made, version, None), &server);
                assert_eq!(without.is_ok(), auth == ClientAuth::Optional, "{without:?}");
            }
        }
    }
}

#[test]
fn a_ticket_from_before_a_reload_does_not_replace_a_certificate() {
    let (dir, made) = site();
    let own = Authority::new(&dir, "own");
    let mut options = Options::default();
    let server = Running::with(dir.path(), |own_options| {
        set(own_options, &made, &own);
        options = own_options.clone();
        own_options.tls.client_ca = None;
    });
    for version in VERSIONS {
        let config = client(&made, version, None);
        ask(&config, &server).unwrap();
        assert_eq!(ask(&config, &server).unwrap(), HandshakeKind::Resumed);
        let mut before = options.clone();
        before.tls.client_ca = None;
        server.control().reload(options.clone()).unwrap();
        // The workers of before still accept what the kernel has given them.
        crate::common::until("the new options hold", || ask(&config, &server).is_err());
        server.control().reload(before).unwrap();
        crate::common::until("the old options hold", || ask(&config, &server).is_ok());
    }
}

#[test]
fn revoked_certificates_are_refused() {
    let (dir, made) = site();
    let own = Authority::new(&dir, "own");
    let [one, two] = [own.sign(1), own.sign(2)];
    let list = dir.path().join("revoked.pem");
    fs::write(&list, own.revoke(&[2], 2100)).unwrap();
    let server = Running::with(dir.path(), |options| {
        set(options, &made, &own);
        options.tls.client_crl = vec![list.clone()];
    });
    let [one, two] = [one, two].map(|it| client(&made, &rustls::version::TLS13, Some(&it)));
    ask(&one, &server).unwrap();
    ask(&two, &server).unwrap_err();
    fs::write(&list, own.revoke(&[1], 2100)).unwrap();
    server.control().reload_certificates().unwrap();
    ask(&one, &server).unwrap_err();
    ask(&two, &server).unwrap();
    // A broken list does not replace the old one.
    fs::write(&list, "garbage").unwrap();
    let error = server.control().reload_certificates().unwrap_err();
    assert!(error.to_string().contains("revoked.pem"), "{error}");
    ask(&one, &server).unwrap_err();
    ask(&two, &server).unwrap();
    // A list that has expired says nothing about certificates.
    fs::write(&list, own.revoke(&[], 2025)).unwrap();
    server.control().reload_certificates().unwrap();
    ask(&two, &server).unwrap_err();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (dir, made) = site();
    let own = Authority::new(&dir, "own");
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::default();
        set(&mut options, &made, &own);
        options.site.root = Some(dir.path().to_owned());
        change(&mut options);
        Server::start(options).unwrap_err().to_string()
    };
    let text = refused(&|options| options.tls.client_ca = Some("/nonexistent".into()));
    assert!(text.contains("/nonexistent"), "{text}");
    let key = made.files.key.clone();
    let text = refused(&|options| options.tls.client_ca = Some(key.clone()));
    assert!(text.contains("BEGIN CERTIFICATE"), "{text}");
    let text = refused(&|options| options.tls.client_crl = vec![key.clone()]);
    assert!(text.contains("BEGIN X509 CRL"), "{text}");
    let text = refused(&|options| {
        options.tls.client_ca = None;
        options.tls.client_crl = vec![key.clone()];
    });
    assert!(text.contains("--client-ca"), "{text}");
}
