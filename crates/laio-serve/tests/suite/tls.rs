//! TLS connections, with a client of another library.

use crate::common::certs::{Encrypted, Made, connect, make, trusting};
use crate::common::{LONG, Running, every_backend};
use laio::BackendKind::{self, Lazy};
use laio_serve::{Listen, Options, Server};
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    fs::write(dir.path().join("large.bin"), large()).unwrap();
    dir
}

fn large() -> Vec<u8> {
    let words = (0..500_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes());
    words.collect()
}

fn encrypted() -> Vec<Listen> {
    vec!["tls:127.0.0.1:0".parse().unwrap()]
}

fn start(site: &TempDir, backend: BackendKind, certificates: &[&Made]) -> Running {
    Running::on(backend, site.path(), |options| {
        options.listen = encrypted();
        options.certificates = certificates.iter().map(|made| made.files.clone()).collect();
    })
}

fn address(server: &Running) -> SocketAddr {
    server.places()[0].inet().unwrap()
}

/// Sends requests, the last of which closes, and reads up to the close notification.
fn ask(stream: &mut Encrypted, requests: &str) -> io::Result<Vec<u8>> {
    stream.write_all(requests.as_bytes())?;
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers)?;
    Ok(answers)
}

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn home(server: &Running, config: &Arc<ClientConfig>, name: &str) -> io::Result<Encrypted> {
    let mut stream = connect(address(server), config, name);
    let answer = ask(&mut stream, CLOSE)?;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.ends_with(b"\r\n\r\nhome"));
    Ok(stream)
}

#[test]
fn files_arrive_as_they_are_and_the_end_is_announced() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let config = Arc::new(trusting(&[&made], &["http/1.1"]));
    for backend in every_backend() {
        println!("{backend}");
        let server = start(&site, backend, &[&made]);
        let mut stream = connect(address(&server), &config, "localhost");
        let first = "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
        let answers = ask(&mut stream, &(first + CLOSE)).unwrap();
        let large = large();
        let found = answers
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap()
            + 4;
        assert!(answers[found..][..large.len()] == large, "it is changed");
        let second = &answers[found + large.len()..];
        let found = second
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap()
            + 4;
        assert!(second[found..][..large.len()] == large, "it is changed");
        assert!(second.ends_with(b"\r\n\r\nhome"));
        assert_eq!(server.stop().requests, 3);
    }
}

fn of_version(made: &Made, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

#[test]
fn both_versions_of_the_protocol() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let server = start(&site, Lazy, &[&made]);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = of_version(&made, version);
        let stream = home(&server, &config, "localhost").unwrap();
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn a_client_that_comes_back_shows_its_ticket() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let server = start(&site, Lazy, &[&made]);
    let config = Arc::new(trusting(&[&made], &[]));
    let kinds: Vec<_> = (0..4)
        .map(|_| {
            home(&server, &config, "localhost")
                .unwrap()
                .conn
                .handshake_kind()
        })
        .collect();
    assert_eq!(kinds[0], Some(HandshakeKind::Full));
    assert_eq!(kinds[1..], [Some(HandshakeKind::Resumed); 3]);
}

#[test]
fn tickets_hold_over_a_reload_in_both_versions() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let mut options = Options::default();
    let server = Running::with(site.path(), |own| {
        own.listen = encrypted();
        own.certificates = vec![made.files.clone()];
        options = own.clone();
    });
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = of_version(&made, version);
        let kind = || {
            let stream = home(&server, &config, "localhost").unwrap();
            stream.conn.handshake_kind().unwrap()
        };
        assert_eq!(kind(), HandshakeKind::Full);
        server.control().reload(options.clone()).unwrap();
        assert_eq!(kind(), HandshakeKind::Resumed, "{version:?}");
        // Another certificate for the same name does not invalidate the session.
        server.control().reload_certificates().unwrap();
        assert_eq!(kind(), HandshakeKind::Resumed, "{version:?}");
    }
}

#[test]
fn the_name_asked_for_chooses_the_certificate() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let [a, b] = ["a.example", "*.b.example"].map(|name| make(keys.path(), name));
    let server = start(&site, Lazy, &[&a, &b]);
    for (made, name) in [(&a, "a.example"), (&b, "www.b.example")] {
        home(&server, &Arc::new(trusting(&[made], &[])), name).unwrap();
    }
    let shown = |name: &str| {
        let mut stream = connect(address(&server), &Arc::new(trusting(&[&a, &b], &[])), name);
        ask(&mut stream, CLOSE).unwrap_err().to_string()
    };
    // The client gets the first certificate, which is not for that name.
    assert!(
        shown("c.example").contains("a.example"),
        "{}",
        shown("c.example")
    );
}

#[test]
fn certificates_are_replaced_while_serving_unless_the_new_ones_are_broken() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let old = make(keys.path(), "localhost");
    let trusts = |made: &Made| Arc::new(trusting(&[made], &[]));
    let server = start(&site, Lazy, &[&old]);
    home(&server, &trusts(&old), "localhost").unwrap();
    let new = make(keys.path(), "localhost");
    server.control().reload_certificates().unwrap();
    home(&server, &trusts(&new), "localhost").unwrap();
    home(&server, &trusts(&old), "localhost").unwrap_err();
    let key = fs::read(&new.files.key).unwrap();
    for (broken, words) in [
        (&b"garbage"[..], "localhost.key"),
        (
            make(keys.path(), "other")
                .files
                .key
                .as_os_str()
                .as_encoded_bytes(),
            "localhost.key",
        ),
    ] {
        fs::write(&new.files.key, broken).unwrap();
        let text = server
            .control()
            .reload_certificates()
            .unwrap_err()
            .to_string();
        assert!(text.contains(words), "{text}");
        home(&server, &trusts(&new), "localhost").unwrap();
    }
    // A valid key that does not match this certificate.
    let other = make(keys.path(), "other");
    fs::copy(&other.files.key, &new.files.key).unwrap();
    let text = server
        .control()
        .reload_certificates()
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("localhost.pem") && text.contains("localhost.key"),
        "{text}"
    );
    home(&server, &trusts(&new), "localhost").unwrap();
    fs::write(&new.files.key, key).unwrap();
    server.control().reload_certificates().unwrap();
}

#[test]
fn a_client_without_tls_is_refused() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let server = Running::with(site.path(), |options| {
        options.listen = encrypted();
        options.certificates = vec![made.files.clone()];
        options.limits.head_time = Duration::from_millis(300);
    });
    for start in [
        &b"\0GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        &[0x16, 3, 1, 0, 9],
        b"",
    ] {
        let mut stream = TcpStream::connect(address(&server)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // On a busy machine the time may be over before.
        let _ = stream.write_all(start);
        let mut answer = Vec::new();
        let end = stream.read_to_end(&mut answer);
        assert!(
            end.is_ok() || end.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
        );
        assert!(answer.len() < 20, "an alert at most");
    }
}

#[test]
fn a_client_without_tls_does_not_delay_others() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let server = start(&site, Lazy, &[&made]);
    let starts = [
        &b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        &[0x16, 3, 1, 0, 9],
        b"",
    ];
    let held = starts.map(|start| {
        let mut stream = TcpStream::connect(address(&server)).unwrap();
        stream.write_all(start).unwrap();
        stream
    });
    home(&server, &Arc::new(trusting(&[&made], &[])), "localhost").unwrap();
    drop(held);
}

#[test]
fn configuration_errors_are_reported_at_the_start() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options {
            listen: encrypted(),
            certificates: vec![made.files.clone()],
            ..Options::default()
        };
        options.site.root = Some(site.path().to_owned());
        change(&mut options);
        Server::start(options).unwrap_err().to_string()
    };
    let text = refused(&|options| options.certificates.clear());
    assert!(
        text.contains("tls:127.0.0.1:0 needs a certificate"),
        "{text}"
    );
    let text = refused(&|options| options.listen = crate::common::anywhere());
    assert!(text.contains("tls:"), "{text}");
    let text = refused(&|options| options.certificates[0].chain = "/nonexistent".into());
    assert!(text.contains("/nonexistent"), "{text}");
    let text = refused(&|options| options.certificates[0].key = site.path().join("index.html"));
    assert!(
        text.contains("private key") && text.contains("index.html"),
        "{text}"
    );
    let other = make(keys.path(), "other");
    let text = refused(&|options| options.certificates[0].key = other.files.key.clone());
    for part in ["localhost.pem", "it is the key of another certificate"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let text = refused(&|options| options.certificates[0].chain = made.files.key.clone());
    assert!(text.contains("BEGIN CERTIFICATE"), "{text}");
}
