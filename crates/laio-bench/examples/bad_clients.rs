//! Clients that take a server's connections and give nothing for it, to measure what others get meanwhile.
//!
//!     bad_clients ADDRESS:PORT PATH SECONDS [KIND=COUNT...]
//!
//! Kinds: `idle` asks once, and then waits; `slow-head` sends a request head that never ends, `slow-body` a body, a byte
//! a second; `slow-read` asks for PATH, which should be a large file, and takes a byte a second. The client does not
//! repeat a connection that the server ends. Every hundred connections have an address of their own: 127.0.1.1, 127.0.1.2, …
//!
//! Says `ready` when all connections stand and, after so many seconds, for each kind how many the server has ended,
//! after how long, and with which answer.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const USAGE: &str =
    "bad_clients ADDRESS:PORT PATH SECONDS [idle|slow-head|slow-body|slow-read=COUNT...]";
/// Connections from one address.
const TOGETHER: usize = 100;
/// Connections that are begun before their answers are looked at: below the backlog of every server.
const AT_ONCE: usize = 50;
const STEP: Duration = Duration::from_secs(1);
/// What a client that reads slowly has room for.
const RECEIVE_BUFFER: usize = 4096;
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Idle,
    SlowHead,
    SlowBody,
    SlowRead,
}

const KINDS: [Kind; 4] = [Kind::Idle, Kind::SlowHead, Kind::SlowBody, Kind::SlowRead];

struct Client {
    kind: Kind,
    stream: TcpStream,
    began: Instant,
    /// The first bytes of what came.
    answer: Vec<u8>,
}

/// How a connection was ended: the status of the answer before, or none.
type End = Option<String>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, path, seconds, kinds @ ..] = arguments.as_slice() else {
        return Err(USAGE.into());
    };
    let server: SocketAddr = server.parse()?;
    let time = Duration::from_secs_f64(seconds.parse()?);
    let mut clients = Vec::new();
    for kind in kinds {
        let (kind, count) = kind.split_once('=').ok_or(USAGE)?;
        let kind = Kind::named(kind).ok_or(USAGE)?;
        for _ in 0..count.parse()? {
            let from = Ipv4Addr::from(0x7f00_0101 + (clients.len() / TOGETHER) as u32);
            clients.push(Client::begin(kind, server, from, path)?);
            if clients.len() % AT_ONCE == 0 {
                let start = clients.len() - AT_ONCE;
                settle(&mut clients[start..])?;
            }
        }
    }
    let start = clients.len() - clients.len() % AT_ONCE;
    settle(&mut clients[start..])?;
    println!("ready");
    let ends = hold(&mut clients, Instant::now() + time);
    print(&clients, &ends);
    Ok(())
}

impl Kind {
    fn named(name: &str) -> Option<Kind> {
        KINDS.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Idle => "idle",
            Kind::SlowHead => "slow-head",
            Kind::SlowBody => "slow-body",
            Kind::SlowRead => "slow-read",
        }
    }

    fn first_words(self, path: &str) -> String {
        match self {
            Kind::Idle | Kind::SlowRead => format!("GET {path} HTTP/1.1\r\nHost: bad\r\n\r\n"),
            Kind::SlowHead => format!("GET {path} HTTP/1.1\r\nHost: bad\r\nX-Slow: "),
            Kind::SlowBody => {
                format!("POST {path} HTTP/1.1\r\nHost: bad\r\nContent-Length: 1000\r\n\r\n")
            }
        }
    }
}

impl Client {
    fn begin(kind: Kind, server: SocketAddr, from: Ipv4Addr, path: &str) -> io::Result<Client> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )?;
        if kind == Kind::SlowRead {
            sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
        }
        if server.ip().is_loopback() && server.is_ipv4() {
            bind(&socket, &SocketAddr::from((from, 0)))?;
        }
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        wait(&stream, PollFlags::OUT)?;
        let mut client = Client {
            kind,
            stream,
            began: Instant::now(),
            answer: Vec::new(),
        };
        client.stream.write_all(kind.first_words(path).as_bytes())?;
        Ok(client)
    }

    /// What the kind does once a second. The end of the connection, if it is over.
    fn step(&mut self) -> Option<End> {
        let sent = match self.kind {
            Kind::SlowHead | Kind::SlowBody => self.stream.write(b"x").map(drop),
            Kind::Idle | Kind::SlowRead => Ok(()),
        };
        let mut piece = [0; 1024];
        let count_max = if self.kind == Kind::SlowRead {
            1
        } else {
            piece.len()
        };
        let count = match self.stream.read(&mut piece[..count_max]) {
            Ok(0) => return Some(self.status()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return Some(self.status()),
        };
        if self.answer.len() < piece.len() {
            self.answer.extend(&piece[..count]);
        }
        let over = match sent {
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(()) => false,
        };
        over.then(|| self.status())
    }

    fn status(&self) -> End {
        let text = String::from_utf8_lossy(&self.answer);
        text.split(' ').nth(1).map(str::to_owned)
    }
}

fn wait(stream: &TcpStream, what: PollFlags) -> io::Result<()> {
    let time = TIMEOUT.try_into().map_err(io::Error::other)?;
    let ready = poll(&mut [PollFd::new(stream, what)], Some(&time))?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None if ready == 0 => Err(io::Error::new(
            ErrorKind::TimedOut,
            "the server does not answer",
        )),
        None => Ok(()),
    }
}

/// Waits for the answers of those that go on when they have one.
fn settle(clients: &mut [Client]) -> io::Result<()> {
    for client in clients
        .iter_mut()
        .filter(|client| client.kind == Kind::Idle)
    {
        wait(&client.stream, PollFlags::IN)?;
        client.step();
    }
    Ok(())
}

/// Lets all take their steps. For each client, whether it was ended, when and how.
fn hold(clients: &mut [Client], until: Instant) -> Vec<Option<(Duration, End)>> {
    let mut ends: Vec<_> = clients.iter().map(|_| None).collect();
    let mut next = Instant::now();
    while Instant::now() < until {
        for (client, end) in clients.iter_mut().zip(&mut ends) {
            if end.is_none() {
                *end = client.step().map(|how| (client.began.elapsed(), how));
            }
        }
        next += STEP;
        std::thread::sleep(next.min(until).saturating_duration_since(Instant::now()));
    }
    ends
}

fn print(clients: &[Client], ends: &[Option<(Duration, End)>]) {
    for kind in KINDS {
        let of_kind = || {
            clients
                .iter()
                .zip(ends)
                .filter(|(client, _)| client.kind == kind)
        };
        let count = of_kind().count();
        if count == 0 {
            continue;
        }
        let mut answers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut times = Vec::new();
        for (time, answer) in of_kind().filter_map(|(_, end)| end.as_ref()) {
            *answers
                .entry(answer.as_deref().unwrap_or("none"))
                .or_default() += 1;
            times.push(time.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        print!("{}: {} of {count} ended", kind.name(), times.len());
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            print!(" after {first:.0} to {last:.0} s");
        }
        for (answer, count) in answers {
            print!(", {count} after answer {answer}");
        }
        println!();
    }
}
