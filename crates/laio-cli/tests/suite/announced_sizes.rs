//! The server allocates no memory for announced sizes: of bodies, chunks, ranges and frames of clients, or of
//! responses and records of upstreams.

use crate::common::server::ServerProcess;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// The size that each peer announces; all of them together announce a hundred times as much.
const ANNOUNCED: u64 = 1 << 30;
/// The number of peers that announce this size at the same time.
const PEERS: usize = 16;
/// A time limit far above the duration of any step.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

struct Server {
    process: ServerProcess,
    dir: TempDir,
}

impl Server {
    fn start() -> Server {
        laio_testing::watchdog::enter();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("site")).unwrap();
        fs::write(dir.path().join("site/index.html"), "home").unwrap();
        let sparse = fs::File::create(dir.path().join("site/sparse.bin")).unwrap();
        sparse.set_len(ANNOUNCED).unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command
            .args(["serve", "site", "--listen", "unix:socket", "--log", "off"])
            .args(["--workers", "1", "--max-body-bytes", "8589934592"])
            .args(["--max-upstream-body-bytes", "8589934592"])
            .args(["--proxy", &format!("/server=http+unix:{}", at("server"))])
            .args(["--fastcgi", &format!("/program=unix:{}", at("program"))])
            .current_dir(dir.path())
            // The address space that the C library reserves for each thread would count.
            .env("MALLOC_ARENA_MAX", "1")
            .stdout(Stdio::null());
        let process = ServerProcess::spawn(&mut command);
        process.wait_for_line("Ctrl-C stops");
        Server { process, dir }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.path().join("socket")).unwrap();
        stream.set_read_timeout(LONG).unwrap();
        stream
    }

    /// Sends these bytes, and reads the head of the response.
    fn announce(&self, bytes: impl AsRef<[u8]>) -> (String, UnixStream) {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        (head(&mut stream), stream)
    }

    /// Returns the peak of the process's address space.
    fn peak(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmPeak:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }
}

fn head(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(
            stream.read(&mut byte).unwrap(),
            1,
            "{}",
            head.escape_ascii()
        );
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Responds to each connection with the same bytes when a request has arrived, and notifies the receiver.
fn false_peer(path: &Path, bytes: Vec<u8>) -> Receiver<()> {
    let listener = UnixListener::bind(path).unwrap();
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(&bytes).unwrap();
            held.push(stream);
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    requests
}

/// Returns an HTTP/2 frame that announces this length.
fn frame(length: u32, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn http2(last: &[u8]) -> Vec<u8> {
    // The table size, the window and the frame size, at their maxima.
    let settings = [
        &[0, 1, 0xff, 0xff, 0xff, 0xff][..],
        &[0, 4, 0x7f, 0xff, 0xff, 0xff],
        &[0, 5, 0, 0xff, 0xff, 0xff],
    ];
    let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    all.extend(frame(18, 4, 0, 0, &settings.concat()));
    all.extend(last);
    all
}

#[test]
fn announced_sizes_allocate_nothing() {
    let server = Server::start();
    let at = |name: &str| server.dir.path().join(name);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANNOUNCED}\r\n\r\nhello");
    let _server = false_peer(&at("server"), answer.into_bytes());
    // The header of an output record, without the record.
    let program = false_peer(&at("program"), vec![1, 6, 0, 1, 0xff, 0xff, 0xff, 0]);
    let begin = |target: &str| format!("POST {target} HTTP/1.1\r\nHost: a\r\n");
    let length = format!("Content-Length: {ANNOUNCED}\r\n\r\n");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{ANNOUNCED:x}\r\nx");
    let range = "GET /sparse.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=";
    let ranges = (0..16).map(|number| format!("{}-{},", number << 26, (number << 26) + (1 << 25)));
    let ranges = ranges.collect::<String>();
    let announcements = [
        (405, begin("/") + &length),
        (405, begin("/") + &chunked),
        (200, begin("/server") + &length),
        (200, begin("/server") + &chunked),
        (200, "GET /server HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (206, format!("{range}0-{}\r\n\r\n", ANNOUNCED - 1)),
        (
            206,
            format!("{range}{}\r\n\r\n", ranges.trim_end_matches(',')),
        ),
    ];
    // The peak after ordinary requests.
    let (ordinary, _) = server.announce("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(ordinary.starts_with("HTTP/1.1 200"));
    let before = server.peak();
    let mut held = Vec::new();
    for (status, announcement) in &announcements {
        for _ in 0..PEERS {
            let (head, stream) = server.announce(announcement);
            assert_eq!(
                head.split(' ').nth(1),
                Some(&*status.to_string()),
                "{announcement}\n{head}"
            );
            held.push(stream);
        }
    }
    for _ in 0..PEERS {
        let mut stream = server.connect();
        stream
            .write_all(b"GET /program HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        program.recv_timeout(LONG.unwrap()).unwrap();
        held.push(stream);
    }
    // A frame of 16 MiB, and a header name of 256 MiB, without their contents.
    let name = [0x00, 0x7f, 0x81, 0xff, 0xff, 0x7f];
    for last in [frame(0xff_ffff, 1, 4, 1, &[]), frame(6, 1, 4, 1, &name)] {
        for _ in 0..PEERS {
            let mut stream = server.connect();
            stream.write_all(&http2(&last)).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            let says_goodbye = |bytes: &[u8]| bytes == [7, 0, 0, 0, 0, 0];
            assert!(
                answer.windows(6).any(says_goodbye),
                "{}",
                answer.escape_ascii()
            );
        }
    }
    let (ordinary, _) = server.announce("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(ordinary.starts_with("HTTP/1.1 200"));
    let more = server.peak() - before;
    println!(
        "{} announcements, {} KiB more",
        held.len() + 2 * PEERS,
        more / 1024
    );
    assert!(more < ANNOUNCED / 4, "{more} bytes more");
}
