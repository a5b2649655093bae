//! Upstreams over TLS.

use super::*;
use crate::common::certs::{Made, make};
use laio_serve::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::BufRead;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// How an encrypted connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Answers one request after the other.
    Kept,
    /// Sends a close notification after an answer without a length.
    Announced,
    /// Closes in the middle of such an answer without a notification.
    BrokenOff,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    names: Mutex<Vec<Option<String>>>,
    bodies: Mutex<Vec<String>>,
}

/// Starts a TLS server that lives as long as the process.
fn backend(made: &Made, end: End) -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let key = PrivateKeyDer::from_pem_file(&made.files.key).unwrap();
    let chain = vec![CertificateDer::from_pem_file(&made.files.chain).unwrap()];
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let (config, seen) = (Arc::new(config), Arc::<Seen>::default());
    let counted = seen.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            seen.connections.fetch_add(1, Ordering::SeqCst);
            let connection = ServerConnection::new(config.clone()).unwrap();
            let stream = StreamOwned::new(connection, socket.unwrap());
            let seen = seen.clone();
            std::thread::spawn(move || answer(stream, end, &seen));
        }
    });
    (address, counted)
}

fn answer(stream: StreamOwned<ServerConnection, TcpStream>, end: End, seen: &Seen) -> Option<()> {
    let mut stream = std::io::BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let count = stream
                .read_line(&mut head)
                .ok()
                .filter(|&count| count > 0)?;
            let line = head[head.len() - count..].to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        seen.bodies
            .lock()
            .unwrap()
            .push(String::from_utf8(body).unwrap());
        let to = stream.get_mut();
        let name = to.conn.server_name().map(str::to_owned);
        seen.names.lock().unwrap().push(name);
        let path = head.split(' ').nth(1)?.to_owned();
        let large = large();
        let content = if path == "/a/large" {
            &large[..]
        } else {
            "hello"
        };
        let fields = match end {
            End::Kept => format!("Content-Length: {}\r\n", content.len()),
            _ => String::new(),
        };
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{content}");
        to.write_all(head.as_bytes()).ok()?;
        match end {
            End::Kept => {}
            End::Announced => {
                to.conn.send_close_notify();
                return to.flush().ok();
            }
            End::BrokenOff => return to.flush().ok(),
        }
    }
}

fn large() -> String {
    (0..200_000).map(|number| format!("{number} ")).collect()
}

/// Returns an upstream that is trusted if it shows this certificate, or one signed by it.
fn https(host: &str, address: SocketAddr, trusted: &Path) -> Upstream {
    let text = format!("/a=https://{host}:{}", address.port());
    let mut upstream = Upstream::http(&text).unwrap();
    assert_eq!(upstream.tls, Some(Trust::System));
    upstream.tls = Some(Trust::File(trusted.to_owned()));
    upstream
}

#[test]
fn requests_go_over_one_connection_and_ask_for_the_name() {
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    for kind in [
        BackendKind::Lazy,
        BackendKind::Hybrid,
        BackendKind::Threads,
        BackendKind::Sync,
    ] {
        println!("{kind}");
        let (address, seen) = backend(&made, End::Kept);
        let upstream = https("localhost", address, &made.files.chain);
        let (server, _root) = serve_with(kind, vec![upstream], |options| options.workers = Some(1));
        for _ in 0..3 {
            let answer = exchange(&server, get("/a/x"));
            assert_eq!((status(&answer), body(&answer)), ("200", "hello"));
        }
        let answer = exchange(&server, get("/a/large"));
        assert!(body(&answer) == large());
        let post =
            "POST /a/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n";
        let answer = exchange(&server, post.to_owned() + &"p".repeat(300_000));
        assert_eq!(body(&answer), "hello");
        assert_eq!(seen.bodies.lock().unwrap()[4], "p".repeat(300_000));
        assert_kept(kind, seen.connections.load(Ordering::SeqCst), 5);
        let names = seen.names.lock().unwrap();
        assert!(
            names
                .iter()
                .all(|name| name.as_deref() == Some("localhost")),
            "{names:?}"
        );
    }
}

#[test]
fn answers_without_a_length_must_have_an_announced_end() {
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    for (end, whole) in [(End::Announced, true), (End::BrokenOff, false)] {
        let (address, _) = backend(&made, end);
        let upstream = https("localhost", address, &made.files.chain);
        let (server, _root) = serve(vec![upstream], |_| {});
        let answer = exchange(&server, get("/a/x"));
        assert_eq!(status(&answer), "200");
        assert!(answer.contains("hello"), "{answer}");
        // The last chunk shows that the body is complete.
        assert_eq!(answer.ends_with("0\r\n\r\n"), whole, "{answer}");
    }
}

#[test]
fn untrusted_certificates_and_those_for_other_names_are_502() {
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    let other = make(keys.path(), "other.example");
    let (address, seen) = backend(&made, End::Kept);
    for (host, trusted) in [("localhost", &other), ("127.0.0.1", &made)] {
        let upstream = https(host, address, &trusted.files.chain);
        let (server, _root) = serve(vec![upstream], |_| {});
        let answer = exchange(&server, get("/a/x"));
        assert_eq!(status(&answer), "502", "{answer}");
        assert!(
            !answer.contains("hello") && !answer.contains("certificate"),
            "{answer}"
        );
    }
    assert!(
        seen.bodies.lock().unwrap().is_empty(),
        "no request was sent"
    );
}

#[test]
fn upstreams_without_tls_and_silent_ones_are_distinguished() {
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    let plain = Backend::start(|peer| peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"));
    let silent = Backend::start(|peer| while !peer.is_closed() {});
    let soon = Duration::from_millis(200);
    for (backend, expected, time) in [(&plain, "502", crate::common::LONG), (&silent, "504", soon)]
    {
        let upstream = https("localhost", backend.address(), &made.files.chain);
        let (server, _root) = serve(vec![upstream], |options| {
            options.limits.upstream.connect_time = time;
        });
        let answer = exchange(&server, get("/a/x"));
        assert_eq!(status(&answer), expected, "{answer}");
    }
}

#[test]
fn files_without_certificates_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("empty.pem");
    std::fs::write(&file, "nothing").unwrap();
    for (path, expected) in [
        (file, "--upstream-ca"),
        (dir.path().join("absent"), "cannot read"),
    ] {
        let mut options = Options {
            listen: crate::common::anywhere(),
            ..Options::default()
        };
        options.site.root = Some(dir.path().to_owned());
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        options.site.upstreams = vec![https("localhost", address, &path)].into();
        let error = laio_serve::Server::start(options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
