//! A server in this process and a client that reads exactly what it gets.

pub(crate) mod certs;
pub(crate) mod http2;
pub(crate) mod multiplexed;
pub(crate) mod program;
pub(crate) mod table;

use laio::BackendKind;
use laio_serve::{
    Control, Limits, Listen, LogTarget, Options, Served, Server, Site, UpstreamLimits,
};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// All back ends of a server that this machine has; the others are skips.
///
/// Only the tests of parity use it: how the server accepts, receives, sends, reads files, caches, encrypts,
/// uploads and talks to upstreams, where it makes different calls in each back end (`has_ring`,
/// `sends_by_readiness`, `sync`). What a request means does not depend on the back end, so all other tests
/// start their servers with [`Running::with`], which has `lazy`.
/// See `docs/decisions/114-tests-of-the-server-run-on-one-back-end.md`.
pub(crate) fn every_backend() -> Vec<BackendKind> {
    let mut all = asynchronous_backends();
    all.push(BackendKind::Sync);
    all
}

/// As [`every_backend`], without the one in which a connection has a thread.
pub(crate) fn asynchronous_backends() -> Vec<BackendKind> {
    let mut all = vec![
        BackendKind::Threads,
        BackendKind::Hybrid,
        BackendKind::Uring,
        BackendKind::Lazy,
        BackendKind::Activations,
    ];
    all.retain(|&backend| has(backend));
    all
}

/// Whether this machine has a back end: io_uring, for example, may be forbidden.
pub(crate) fn has(backend: BackendKind) -> bool {
    let Err(errno) = laio::Context::new(laio::Options::new().backend(backend)) else {
        return true;
    };
    let need = match backend {
        BackendKind::Activations => "activations",
        BackendKind::LinuxAio => "linux-aio",
        _ => "io_uring",
    };
    laio_testing::skip(need, format!("the back end {backend}: {errno}"));
    false
}

/// Far more time than any test here takes, even on a busy machine. A test of a time limit sets that
/// limit; the others do not interfere.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A free port.
pub(crate) fn anywhere() -> Vec<Listen> {
    vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()]
}

/// A running server, stopped and joined when dropped.
pub(crate) struct Running {
    server: Option<Server>,
    control: Control,
    places: Vec<Listen>,
}

impl Running {
    pub(crate) fn start(root: &Path) -> Running {
        Running::with(root, |_| {})
    }

    pub(crate) fn with(root: &Path, change: impl FnOnce(&mut Options)) -> Running {
        Running::on(BackendKind::Lazy, root, change)
    }

    pub(crate) fn try_with(
        root: &Path,
        change: impl FnOnce(&mut Options),
    ) -> std::io::Result<Running> {
        Running::try_on(BackendKind::Lazy, root, change)
    }

    pub(crate) fn on(
        backend: BackendKind,
        root: &Path,
        change: impl FnOnce(&mut Options),
    ) -> Running {
        let server = Running::try_on(backend, root, change);
        server.unwrap_or_else(|error| panic!("{backend}: {error}"))
    }

    pub(crate) fn try_on(
        backend: BackendKind,
        root: &Path,
        change: impl FnOnce(&mut Options),
    ) -> std::io::Result<Running> {
        laio_testing::watchdog::step(backend);
        let mut options = Options {
            site: Site {
                root: Some(root.to_owned()),
                ..Site::default()
            },
            listen: anywhere(),
            workers: Some(if backend == BackendKind::Sync { 8 } else { 2 }),
            backend: Some(backend),
            log: LogTarget::Off,
            limits: Limits {
                head_time: LONG,
                body_time: LONG,
                write_time: LONG,
                open_time: LONG,
                linger_time: LONG,
                drain_time: LONG,
                upstream: UpstreamLimits {
                    queue_time: LONG,
                    connect_time: LONG,
                    idle_time: LONG,
                    ..UpstreamLimits::default()
                },
                ..Limits::default()
            },
            ..Options::default()
        };
        change(&mut options);
        let server = Server::start(options)?;
        Ok(Running {
            control: server.control(),
            places: server.addresses().to_vec(),
            server: Some(server),
        })
    }

    pub(crate) fn connect(&self) -> Client {
        let address = self.places[0].inet().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Client(BufReader::new(stream))
    }

    /// Sends one request on a new connection.
    pub(crate) fn get(&self, target: &str) -> Response {
        self.connect().get(target)
    }

    pub(crate) fn control(&self) -> Control {
        self.server.as_ref().unwrap().control()
    }

    pub(crate) fn places(&self) -> &[Listen] {
        &self.places
    }

    pub(crate) fn stop(mut self) -> Served {
        self.control.stop();
        self.server.take().unwrap().wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(server) = self.server.take() {
            let _ = server.wait();
        }
    }
}

/// One connection.
pub(crate) struct Client(pub(crate) BufReader<TcpStream>);

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

impl Client {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, "")
    }

    pub(crate) fn request(&mut self, method: &str, target: &str, fields: &str) -> Response {
        self.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"
        ));
        self.answer(method == "HEAD")
    }

    /// Reads a body in chunks. Returns its content.
    pub(crate) fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            let start = body.len();
            body.resize(start + size + 2, 0);
            self.0.read_exact(&mut body[start..]).unwrap();
            assert!(body.ends_with(b"\r\n"));
            body.truncate(start + size);
            if size == 0 {
                return body;
            }
        }
    }

    /// Reads one answer; `bare` means that it has no body whatever its head says.
    pub(crate) fn answer(&mut self, bare: bool) -> Response {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).unwrap() > 0,
                "closed early, after {head:?}"
            );
            if line == "\r\n" {
                break;
            }
            head.push_str(line.trim_end());
            head.push('\n');
        }
        let status = head.split_whitespace().nth(1).unwrap().parse().unwrap();
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        let length = response
            .header("Content-Length")
            .map_or(0, |value| value.parse().unwrap());
        if !bare && status != 304 && status != 204 {
            response.body.resize(length, 0);
            self.0.read_exact(&mut response.body).unwrap();
        }
        response
    }

    /// Whether the server has closed the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Repeats until the condition holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that an access log has the same line, but for the times, for each of `times` requests, which all got 200.
pub(crate) fn assert_same_lines(log: &str, asked: &[(&str, &str)], version: &str, times: usize) {
    for (method, path) in asked {
        let start = format!("\"{method} {path} {version}\" 200 ");
        let ends = log
            .lines()
            .filter_map(|line| line.split_once(&start))
            .map(|(_, end)| end.split(' ').next());
        let ends: Vec<_> = ends.collect();
        assert_eq!(ends, vec![ends[0]; times], "{method} {path} in {log}");
    }
}
