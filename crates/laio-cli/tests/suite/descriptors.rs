//! A server with few descriptors and more clients than that.

use crate::common::server::{self, ServerProcess, TcpServer, wait_until};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The limit of descriptors of a server here.
const FEW: usize = 64;
/// The number of its clients.
const MANY: usize = 120;

/// A server with a limit of descriptors.
struct LimitedServer {
    server: TcpServer,
    admin: SocketAddr,
    /// The files that it serves.
    _site: TempDir,
}

impl LimitedServer {
    /// Starts a server through a shell, which sets the limit before it executes the server.
    fn start(site: TempDir, limit: &str, flags: &[&str]) -> LimitedServer {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{limit} && exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_laio"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--workers", "2", "--log", "off"])
            .args(flags)
            .arg(site.path())
            .env_remove("LAIO_BACKEND")
            .stdout(Stdio::null());
        let process = ServerProcess::spawn(&mut command);
        let admin = process.wait_for_line("--admin listens on ");
        let admin = admin.rsplit(' ').next().unwrap().trim_end_matches('/');
        LimitedServer {
            admin: admin.parse().unwrap(),
            server: TcpServer::listening(process),
            _site: site,
        }
    }

    fn connect(&self) -> std::net::TcpStream {
        self.server.connect()
    }

    /// Returns the body of a response on a new connection.
    fn get(&self, target: &str) -> String {
        let response = server::get(self.connect(), target);
        let response = response.unwrap_or_else(|error| panic!("{target}: no response: {error}"));
        let (head, body) = response.split_once("\r\n\r\n").expect("a whole head");
        assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
        body.to_owned()
    }

    /// Returns a value of `/metrics`.
    fn metric(&self, name: &str) -> u64 {
        let text = server::get(server::connect(self.admin), "/metrics").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        value.trim().parse().unwrap()
    }
}

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    fs::write(dir.path().join("large.bin"), vec![b'7'; 8_000_000]).unwrap();
    for number in 0..MANY {
        fs::write(dir.path().join(format!("{number}.txt")), number.to_string()).unwrap();
    }
    dir
}

fn few() -> String {
    format!("ulimit -n {FEW}")
}

#[test]
fn the_soft_limit_is_raised_and_the_banner_says_the_number() {
    let server = LimitedServer::start(site(), "ulimit -Sn 70 && ulimit -Hn 300", &[]);
    assert!(
        server.server.banner.contains(", 300 descriptors;"),
        "{}",
        server.server.banner
    );
    let limits =
        fs::read_to_string(format!("/proc/{}/limits", server.server.process.child.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<_> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["300", "300"]);
}

#[test]
fn silent_connections_do_not_block_new_clients() {
    for backend in ["lazy", "hybrid", "threads"] {
        silent(backend);
    }
}

fn silent(backend: &str) {
    let server = LimitedServer::start(site(), &few(), &["--backend", backend]);
    let mut silent = Vec::new();
    for first in [&b""[..], b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\nX:"] {
        for _ in 0..MANY {
            let mut stream = server.connect();
            // The server may have closed it already.
            let _ = stream.write_all(first);
            silent.push(stream);
        }
        for _ in 0..3 {
            assert_eq!(server.get("/"), "home", "{backend}");
        }
    }
    let closed = "laio_connections_closed_for_room_total";
    let least = (silent.len() - FEW) as u64;
    wait_until("the closed connections are counted", || {
        server.metric(closed) >= least
    });
    let hint = server
        .server
        .process
        .wait_for_line("closing the connections that have been idle longest");
    assert!(hint.contains("ulimit -n is too low"), "{hint}");
}

#[test]
fn idle_connections_do_not_block_new_clients() {
    let server = LimitedServer::start(site(), &few(), &[]);
    let mut idle = Vec::new();
    for number in 0..MANY {
        let mut stream = server.connect();
        let request = format!("GET /{number}.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert_eq!(status, "HTTP/1.1 200 OK\r\n", "client {number}");
        idle.push(reader);
    }
    for _ in 0..3 {
        assert_eq!(server.get("/"), "home");
    }
    // The connection that has been idle longest was closed after its response.
    let mut rest = String::new();
    idle[0].read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n\r\n0"), "{rest}");
}

#[test]
fn files_and_upstreams_get_descriptors_when_connections_have_used_their_share() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("/up=http://{}", upstream.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in upstream.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let _ = client.read(&mut head);
            let _ = client
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup");
        }
    });
    let server = LimitedServer::start(site(), &few(), &["--proxy", &proxy]);
    let silent: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    for number in 0..MANY {
        assert_eq!(server.get(&format!("/{number}.txt")), number.to_string());
        assert_eq!(server.get("/up/x"), "up");
    }
    drop(silent);
}

#[test]
fn a_connection_with_a_response_in_flight_is_not_evicted() {
    let server = LimitedServer::start(site(), &few(), &[]);
    let mut busy = Vec::new();
    for _ in 0..8 {
        let mut stream = server.connect();
        let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut first = [0; 100];
        stream.read_exact(&mut first).unwrap();
        busy.push(stream);
    }
    let silent: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    assert_eq!(server.get("/"), "home");
    for stream in &mut busy {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.len() > 8_000_000 - 100, "{}", rest.len());
    }
    drop(silent);
}

#[test]
fn an_evicted_http2_connection_gets_a_goaway() {
    let server = LimitedServer::start(site(), &few(), &[]);
    let clients = (0..MANY).map(|_| {
        let mut stream = server.connect();
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(hello).unwrap();
        // The settings frame of the server: the connection speaks HTTP/2.
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[3], 4);
        let mut payload = vec![0; usize::from(head[2])];
        stream.read_exact(&mut payload).unwrap();
        stream
    });
    let mut clients: Vec<_> = clients.collect();
    assert_eq!(server.get("/"), "home");
    let mut rest = Vec::new();
    clients[0].read_to_end(&mut rest).unwrap();
    // The frames are the acknowledgement of the settings, and a GOAWAY (type 7) without an error.
    let mut frames = &rest[..];
    let mut kinds = Vec::new();
    while let [_, _, length, kind, _, _, _, _, _, payload @ ..] = frames {
        let length = usize::from(*length);
        kinds.push((*kind, payload[..length].to_vec()));
        frames = &payload[length..];
    }
    let goaway = kinds.iter().find(|(kind, _)| *kind == 7);
    let (_, payload) = goaway.unwrap_or_else(|| panic!("no GOAWAY in {kinds:?}"));
    assert_eq!(payload[4..8], [0; 4]);
}
