//! Listen addresses: several ones, Unix sockets, IPv4 and IPv6.

use crate::common::Running;
use laio::BackendKind::{self, Lazy, Sync};
use laio_serve::{Listen, Options, Server};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    dir
}

fn start(site: &TempDir, backend: BackendKind, places: &[&str]) -> Running {
    Running::on(backend, site.path(), |options| {
        options.listen = places.iter().map(|text| text.parse().unwrap()).collect();
        options.workers = Some(2);
    })
}

fn refused(site: &TempDir, place: &str) -> String {
    let mut options = Options {
        listen: vec![place.parse().unwrap()],
        ..Options::default()
    };
    options.site.root = Some(site.path().to_owned());
    Server::start(options).unwrap_err().to_string()
}

/// Whether the site answers on the stream.
fn answers(mut stream: impl Read + Write) -> bool {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("home")
}

fn port(places: &[Listen], number: usize) -> SocketAddr {
    places[number].inet().unwrap()
}

#[test]
fn several_places_at_once() {
    let site = site();
    let path = site.path().join("socket");
    let unix = format!("unix:{}", path.display());
    for backend in [Lazy, Sync] {
        let server = start(&site, backend, &["127.0.0.1:0", &unix, "[::1]:0"]);
        let places = server.places().to_vec();
        for _ in 0..4 {
            assert!(answers(TcpStream::connect(port(&places, 0)).unwrap()));
            assert!(answers(UnixStream::connect(&path).unwrap()));
            assert!(answers(TcpStream::connect(port(&places, 2)).unwrap()));
        }
        assert_eq!(server.stop().requests, 12);
        assert!(!path.exists(), "the name of the socket goes with it");
    }
}

#[test]
fn both_kinds_of_addresses_share_a_port() {
    let site = site();
    let both = start(&site, Lazy, &["[::]:0"]);
    let address = port(both.places(), 0);
    assert!(answers(
        TcpStream::connect(("127.0.0.1", address.port())).unwrap()
    ));
    assert!(answers(
        TcpStream::connect(("::1", address.port())).unwrap()
    ));
    drop(both);
    // Another process may have taken the port meanwhile: then choose another one.
    let (each, port) = (0..100)
        .find_map(|_| on_one_port(&site))
        .expect("a port that is free for both");
    assert!(answers(TcpStream::connect(("127.0.0.1", port)).unwrap()));
    assert!(answers(TcpStream::connect(("::1", port)).unwrap()));
    drop(each);
}

/// Starts a server with an IPv4 and an IPv6 socket on one port, or returns none if the free port
/// was taken meanwhile.
fn on_one_port(site: &TempDir) -> Option<(Running, u16)> {
    let free = TcpListener::bind("[::]:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let started = Running::try_with(site.path(), |options| {
        let places = [format!("0.0.0.0:{port}"), format!("[::]:{port}")];
        options.listen = places.iter().map(|text| text.parse().unwrap()).collect();
    });
    match started {
        Ok(server) => Some((server, port)),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
            None
        }
    }
}

#[test]
fn a_unix_socket_has_its_mode_and_abstract_ones_have_no_file() {
    let site = site();
    let path = site.path().join("socket");
    let server = start(&site, Lazy, &[&format!("unix:{},mode=640", path.display())]);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    drop(server);
    let name = format!("laio-test-{}", std::process::id());
    let server = start(&site, Lazy, &[&format!("unix:@{name}")]);
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    assert!(answers(UnixStream::connect_addr(&address).unwrap()));
    drop(server);
}

#[test]
fn only_a_socket_without_a_listener_is_replaced() {
    let site = site();
    let path = site.path().join("socket");
    let place = format!("unix:{}", path.display());
    drop(UnixListener::bind(&path).unwrap());
    assert!(UnixStream::connect(&path).is_err(), "it is stale");
    let server = start(&site, Lazy, &[&place]);
    assert!(answers(UnixStream::connect(&path).unwrap()));
    let text = refused(&site, &place);
    assert!(text.contains("another server listens"), "{text}");
    assert!(answers(UnixStream::connect(&path).unwrap()));
    // The socket belongs to another server by then, so it stays.
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
    let file = site.path().join("index.html");
    let text = refused(&site, &format!("unix:{}", file.display()));
    assert!(text.contains("no socket"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), b"home");
    let text = refused(&site, "unix:/nonexistent/socket");
    assert!(text.contains("/nonexistent/socket"), "{text}");
    let text = refused(&site, "systemd:web");
    assert!(
        text.contains("web") && text.contains("LISTEN_FDS"),
        "{text}"
    );
    assert!(Path::new(&file).exists());
}
