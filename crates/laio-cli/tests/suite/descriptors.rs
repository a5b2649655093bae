//! A server that may have few descriptors, and has more clients than that.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far more than anything here takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);
/// The descriptors that a server here may have, and the clients that it gets.
const FEW: usize = 64;
const MANY: usize = 120;

struct Running {
    child: Child,
    said: Receiver<String>,
    address: SocketAddr,
    admin: SocketAddr,
    banner: String,
    /// What it serves.
    _site: TempDir,
}

impl Running {
    /// A server whose limit of descriptors a shell sets before it becomes the server.
    fn start(site: TempDir, limit: &str, flags: &[&str]) -> Running {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{limit} && exec \"$0\" \"$@\"")])
            .arg(env!("CARGO_BIN_EXE_laio"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--workers", "2", "--log", "off"])
            .args(flags)
            .arg(site.path())
            .env_remove("LAIO_BACKEND")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let admin = line(&said, "--admin listens on ");
        let address = line(&said, "  http://");
        let banner = line(&said, "Ctrl-C stops");
        let number = |text: &str| text.trim_end_matches('/').parse().unwrap();
        Running {
            admin: number(admin.rsplit(' ').next().unwrap()),
            address: number(address.trim_start().trim_start_matches("http://")),
            child,
            said,
            banner,
            _site: site,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream
    }

    /// The body of an answer on a connection of its own.
    fn get(&self, target: &str) -> String {
        let answer = get(self.connect(), target);
        let answer = answer.unwrap_or_else(|error| panic!("{target}: no answer: {error}"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        assert!(head.starts_with("HTTP/1.1 200"), "{target}: {head}");
        body.to_owned()
    }

    /// A number of `/metrics`.
    fn metric(&self, name: &str) -> u64 {
        let stream = TcpStream::connect(self.admin).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let text = get(stream, "/metrics").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        value.trim().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a line of the server.
fn line(said: &Receiver<String>, what: &str) -> String {
    let end = Instant::now() + LONG;
    let mut others = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match said.recv_timeout(left) {
            Ok(line) if line.contains(what) => return line,
            Ok(line) => others.push(line),
            Err(error) => panic!("waited for {what:?} ({error}), and got {others:#?}"),
        }
    }
}

fn get(mut stream: TcpStream, target: &str) -> std::io::Result<String> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
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
    let server = Running::start(site(), "ulimit -Sn 70 && ulimit -Hn 300", &[]);
    assert!(
        server.banner.contains(", 300 descriptors;"),
        "{}",
        server.banner
    );
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<_> = line.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["300", "300"]);
}

#[test]
fn silent_connections_keep_no_new_client_waiting() {
    for backend in ["lazy", "hybrid", "threads"] {
        silent(backend);
    }
}

fn silent(backend: &str) {
    let server = Running::start(site(), &few(), &["--backend", backend]);
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
    until("what was closed for room is counted", || {
        server.metric(closed) >= least
    });
    let hint = line(
        &server.said,
        "closing the connections that have been idle longest",
    );
    assert!(hint.contains("ulimit -n is too low"), "{hint}");
}

#[test]
fn idle_connections_keep_no_new_client_waiting() {
    let server = Running::start(site(), &few(), &[]);
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
    // The one that has waited longest is at its end, behind the answer.
    let mut rest = String::new();
    idle[0].read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n\r\n0"), "{rest}");
}

#[test]
fn files_and_upstreams_are_reached_while_connections_take_what_they_may() {
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
    let server = Running::start(site(), &few(), &["--proxy", &proxy]);
    let silent: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    for number in 0..MANY {
        assert_eq!(server.get(&format!("/{number}.txt")), number.to_string());
        assert_eq!(server.get("/up/x"), "up");
    }
    drop(silent);
}

#[test]
fn a_client_that_is_served_is_not_closed_for_others() {
    let server = Running::start(site(), &few(), &[]);
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
fn an_idle_connection_of_http2_is_ended_with_a_goaway() {
    let server = Running::start(site(), &few(), &[]);
    let clients = (0..MANY).map(|_| {
        let mut stream = server.connect();
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(hello).unwrap();
        // The settings of the server: it has begun to speak HTTP/2.
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
    // Frames: the acknowledgement of settings, and a farewell (type 7) without an error.
    let mut frames = &rest[..];
    let mut kinds = Vec::new();
    while let [_, _, length, kind, _, _, _, _, _, payload @ ..] = frames {
        let length = usize::from(*length);
        kinds.push((*kind, payload[..length].to_vec()));
        frames = &payload[length..];
    }
    let farewell = kinds.iter().find(|(kind, _)| *kind == 7);
    let (_, payload) = farewell.unwrap_or_else(|| panic!("no GOAWAY in {kinds:?}"));
    assert_eq!(payload[4..8], [0; 4]);
}
