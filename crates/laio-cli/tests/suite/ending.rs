//! The end of a server: from when on connections are refused, who is still served, and how long it takes.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far more than anything here takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);
/// More than the buffers of both ends of a connection hold.
const LARGE: usize = 32 << 20;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    fs::write(dir.path().join("large.bin"), vec![7; LARGE]).unwrap();
    dir
}

/// An address that was free a moment ago: processes that are given sockets look for the very port in their arguments.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

struct Running {
    child: Child,
    said: Receiver<String>,
    address: SocketAddr,
}

impl Running {
    fn start(site: &TempDir, listen: &str, flags: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command.args(["serve", "--listen", listen]).args(flags);
        if !flags.contains(&"--log") {
            command.args(["--log", "off"]);
        }
        let mut child = command
            .arg(site.path())
            .env_remove("LAIO_BACKEND")
            .stdout(Stdio::piped())
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
        let address = line(&said, "  http://");
        line(&said, "Ctrl-C stops");
        let address = address.trim().trim_start_matches("http://");
        Running {
            address: address.trim_end_matches('/').parse().unwrap(),
            child,
            said,
        }
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// A client that keeps the server from its end, until it reads.
    fn busy(&self) -> TcpStream {
        let mut stream = self.connect();
        ask(&mut stream, "/large.bin");
        let mut first = [0; 100];
        stream.read_exact(&mut first).unwrap();
        stream
    }

    fn ends(mut self) {
        until("the process ends", || {
            self.child.try_wait().unwrap().is_some()
        });
        assert!(self.child.wait().unwrap().success());
    }

    /// Waits until the address refuses connections: each worker closes its own copy of the socket.
    fn refuses(&self) {
        until("connections are refused", || {
            let connected = TcpStream::connect(self.address);
            connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

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

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ask(stream: &mut TcpStream, target: &str) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// The length of what still comes.
fn rest(stream: &mut TcpStream) -> usize {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    rest.len()
}

fn is_home(stream: &mut TcpStream) -> bool {
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    read.is_ok() && answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nhome")
}

#[test]
fn a_server_that_ends_leaves_its_address_at_once() {
    let site = site();
    for flags in [
        &["--backend", "lazy"][..],
        &["--backend", "hybrid"],
        &["--backend", "threads"],
        &["--backend", "sync"],
        &["--workers", "3"],
        &["--processes", "2"],
    ] {
        let flags = [flags, &["--drain-timeout", "60"]].concat();
        let first = Running::start(&site, &free(), &flags);
        let mut busy = first.busy();
        first.signal(Signal::TERM);
        line(&first.said, "stopping");
        first.refuses();
        let second = Running::start(&site, &first.address.to_string(), &flags);
        assert_eq!(second.address, first.address, "{flags:?}");
        let mut client = second.connect();
        ask(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        // All the time the first one was there, and served its client.
        assert!(rest(&mut busy) > LARGE - 100, "{flags:?}");
        first.ends();
    }
}

#[test]
fn connections_that_the_kernel_has_completed_are_served() {
    let site = site();
    for backend in ["lazy", "hybrid", "threads"] {
        // One worker takes one connection, and others wait in its queue.
        let server = Running::start(
            &site,
            "127.0.0.1:0",
            &[
                "--backend",
                backend,
                "--workers",
                "1",
                "--max-connections",
                "1",
            ],
        );
        let mut busy = server.busy();
        let mut queued: Vec<_> = (0..20).map(|_| server.connect()).collect();
        queued.iter_mut().for_each(|stream| ask(stream, "/"));
        server.signal(Signal::TERM);
        for (number, stream) in queued.iter_mut().enumerate() {
            assert!(is_home(stream), "client {number}, {backend}");
        }
        server.refuses();
        assert!(rest(&mut busy) > LARGE - 100, "{backend}");
        server.ends();
    }
}

#[test]
fn after_a_hand_over_only_the_successor_listens() {
    let site = site();
    for flags in [&[][..], &["--processes", "2"]] {
        let first = Running::start(&site, &free(), flags);
        let mut busy = first.busy();
        first.signal(Signal::USR2);
        let said = line(&first.said, "process ");
        let successor: u32 = said.split(' ').find_map(|word| word.parse().ok()).unwrap();
        let mut client = first.connect();
        ask(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        send(successor, Signal::TERM);
        // The first one is still there for its client, and does not listen.
        first.refuses();
        let third = Running::start(&site, &first.address.to_string(), flags);
        let mut client = third.connect();
        ask(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        assert!(rest(&mut busy) > LARGE - 100, "{flags:?}");
        first.ends();
    }
}

#[test]
fn the_parts_of_the_end_do_not_add_up() {
    let site = site();
    let time = Duration::from_secs(4);
    let flags = ["--drain-timeout", "4", "--log", "-", "--workers", "1"];
    let server = Running::start(&site, "127.0.0.1:0", &flags);
    // The log is a pipe that has no reader: many more lines than it holds.
    let mut client = server.connect();
    let requests = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    for _ in 0..100 {
        client.write_all(requests.as_bytes()).unwrap();
        let mut answers = BufReader::new(&client);
        let mut ends = 0;
        while ends < 100 {
            let mut line = String::new();
            assert!(
                answers.read_line(&mut line).unwrap() > 0,
                "all are answered"
            );
            ends += usize::from(line == "\r\n");
        }
    }
    // Somebody does not read an answer.
    let _busy = server.busy();
    let begun = Instant::now();
    server.signal(Signal::TERM);
    server.ends();
    let took = begun.elapsed();
    assert!(took >= time, "{took:?}: answers in flight have their time");
    // The log would have two seconds more for itself.
    assert!(took < time + Duration::from_millis(1900), "{took:?}");
}
