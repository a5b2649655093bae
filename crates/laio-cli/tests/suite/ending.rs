//! Stopping a server: when connections are refused, which clients are still served, and how long stopping takes.

use crate::common::server::{ServerProcess, TcpServer, send_request, send_signal, wait_until};
use rustix::process::Signal;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// More than the buffers of both ends of a connection hold.
const LARGE: usize = 32 << 20;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    fs::write(dir.path().join("large.bin"), vec![7; LARGE]).unwrap();
    dir
}

/// Returns an address that is free now. (Port 0 does not do: a successor that inherits sockets matches them by the
/// port in its arguments.)
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn start(site: &TempDir, listen: &str, flags: &[&str]) -> TcpServer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(["serve", "--listen", listen]).args(flags);
    if !flags.contains(&"--log") {
        command.args(["--log", "off"]);
    }
    command
        .arg(site.path())
        .env_remove("LAIO_BACKEND")
        .stdout(Stdio::piped());
    TcpServer::listening(ServerProcess::spawn(&mut command))
}

/// Returns a connection whose response is in flight until the client reads it, so that the server cannot end.
fn busy_client(server: &TcpServer) -> TcpStream {
    let mut stream = server.connect();
    request(&mut stream, "/large.bin");
    let mut first = [0; 100];
    stream.read_exact(&mut first).unwrap();
    stream
}

/// Waits until the address refuses connections: each worker closes its own copy of the socket.
fn wait_until_refused(server: &TcpServer) {
    wait_until("connections are refused", || {
        let connected = TcpStream::connect(server.address);
        connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    });
}

fn request(stream: &mut TcpStream, target: &str) {
    send_request(stream, "a", target).unwrap();
}

/// Reads to the end of the connection, and returns the number of bytes.
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
fn a_stopping_server_releases_its_address_at_once() {
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
        let first = start(&site, &free_address(), &flags);
        let mut busy = busy_client(&first);
        first.process.signal(Signal::TERM);
        first.process.wait_for_line("stopping");
        wait_until_refused(&first);
        let second = start(&site, &first.address.to_string(), &flags);
        assert_eq!(second.address, first.address, "{flags:?}");
        let mut client = second.connect();
        request(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        // The first server was running all the time, and serves its client to the end.
        assert!(rest(&mut busy) > LARGE - 100, "{flags:?}");
        first.process.wait_for_success();
    }
}

#[test]
fn connections_in_the_accept_queue_are_served() {
    let site = site();
    for backend in ["lazy", "hybrid", "threads"] {
        // The only worker serves one connection; the others wait in the accept queue.
        let server = start(
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
        let mut busy = busy_client(&server);
        let mut queued: Vec<_> = (0..20).map(|_| server.connect()).collect();
        queued.iter_mut().for_each(|stream| request(stream, "/"));
        server.process.signal(Signal::TERM);
        for (number, stream) in queued.iter_mut().enumerate() {
            assert!(is_home(stream), "client {number}, {backend}");
        }
        wait_until_refused(&server);
        assert!(rest(&mut busy) > LARGE - 100, "{backend}");
        server.process.wait_for_success();
    }
}

#[test]
fn after_a_hand_over_only_the_successor_listens() {
    let site = site();
    for flags in [&[][..], &["--processes", "2"]] {
        let first = start(&site, &free_address(), flags);
        let mut busy = busy_client(&first);
        first.process.signal(Signal::USR2);
        let said = first.process.wait_for_line("process ");
        let successor: u32 = said.split(' ').find_map(|word| word.parse().ok()).unwrap();
        let mut client = first.connect();
        request(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        send_signal(successor, Signal::TERM);
        // The first server still serves its client, and does not listen.
        wait_until_refused(&first);
        let third = start(&site, &first.address.to_string(), flags);
        let mut client = third.connect();
        request(&mut client, "/");
        assert!(is_home(&mut client), "{flags:?}");
        assert!(rest(&mut busy) > LARGE - 100, "{flags:?}");
        first.process.wait_for_success();
    }
}

#[test]
fn the_time_outs_of_stopping_do_not_add_up() {
    const DRAIN: Duration = Duration::from_secs(4);
    const FLUSH: Duration = Duration::from_secs(2);
    // On a busy machine one stop may be late. If the time-outs added up, each would be.
    let in_time = (0..5).any(|_| time_to_stop(DRAIN) < DRAIN + FLUSH);
    assert!(in_time, "the time-out of flushing the log came on top");
}

/// Returns how long a server takes to stop whose responses in flight and whose log do not end.
fn time_to_stop(drain: Duration) -> Duration {
    let site = site();
    let seconds = drain.as_secs().to_string();
    let flags = ["--drain-timeout", &seconds, "--log", "-", "--workers", "1"];
    let server = start(&site, "127.0.0.1:0", &flags);
    // The log is a pipe without a reader, which gets many more lines than it holds.
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
    // One client does not read its response.
    let _busy = busy_client(&server);
    let begun = Instant::now();
    server.process.signal(Signal::TERM);
    server.process.wait_for_success();
    let took = begun.elapsed();
    assert!(
        took >= drain,
        "{took:?}: responses in flight have the whole time-out"
    );
    took
}
