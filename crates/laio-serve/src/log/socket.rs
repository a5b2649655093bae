//! The access log on a socket: that of syslog or of systemd's journal. Workers add records to one bounded queue, and
//! a thread of its own sends them, which may block. Records that do not fit into the queue are dropped.

use super::syslog;
use crate::messages::print;
use crate::options::{Limits, SyslogAddress};
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A log on a socket. The thread ends after it was dropped.
#[derive(Debug)]
pub(super) struct LogSocket {
    shared: Arc<Shared>,
    /// Who sends messages, as their headers have it.
    sender: String,
}

/// Who gets the records.
#[derive(Clone, Debug)]
pub(super) enum Peer {
    Syslog(SyslogAddress),
    Journald(PathBuf),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Syslog(address) => address.fmt(f),
            Peer::Journald(path) => write!(f, "journald:{}", path.display()),
        }
    }
}

#[derive(Debug)]
struct Shared {
    peer: Peer,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Records that the thread could not send, and that no worker has counted yet.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Records,
    /// Records that the thread has taken, and neither sent nor dropped.
    taken: usize,
    /// Connect again before the next record.
    reconnect: bool,
    /// No more records follow.
    closed: bool,
}

/// Records, one after the other.
#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
    /// The end of each record.
    ends: Vec<usize>,
}

impl Records {
    fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl LogSocket {
    /// Starts the thread that sends. It connects now to a Unix socket, which must exist; what cannot be reached by
    /// the network is tried again.
    ///
    /// # Errors
    /// Names the socket that cannot be opened.
    pub(super) fn open(peer: Peer) -> io::Result<LogSocket> {
        let connection = match (Connection::open(&peer), &peer) {
            (Ok(connection), _) => Some(connection),
            (Err(_), Peer::Syslog(SyslogAddress::Udp(..) | SyslogAddress::Tcp(..))) => None,
            (Err(error), _) => {
                let text = format!("cannot open the log {peer}: {error}");
                return Err(io::Error::new(error.kind(), text));
            }
        };
        let shared = Arc::new(Shared {
            peer,
            queue: Mutex::default(),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
        });
        let thread_state = Sender {
            shared: shared.clone(),
            connection,
            warned: None,
            lost: 0,
        };
        let purpose = "the thread that sends the access log";
        laio::thread::start("laio-log", purpose, move || thread_state.run())?;
        let sender = syslog::sender();
        Ok(LogSocket { shared, sender })
    }

    /// Returns who sends messages, as their headers have it.
    pub(super) fn sender(&self) -> &str {
        &self.sender
    }

    /// Adds a record. Returns false if the queue is full.
    pub(super) fn push(&self, record: &[u8]) -> bool {
        let mut queue = self.shared.lock();
        if queue.waiting.bytes.len() + record.len() > Limits::LOG_SOCKET_BYTES {
            return false;
        }
        queue.waiting.push(record);
        drop(queue);
        self.shared.changed.notify_one();
        true
    }

    /// Returns the number of records that could not be sent since the last call.
    pub(super) fn take_lost(&self) -> u64 {
        // Only read in the usual case, so that workers do not share a written cache line.
        match self.shared.lost.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.shared.lost.swap(0, Ordering::Relaxed),
        }
    }

    /// Lets the thread connect again.
    pub(super) fn reconnect(&self) {
        self.shared.lock().reconnect = true;
    }

    /// Waits until all records are sent, within a time limit and before the deadline; drops the rest.
    pub(super) async fn finish(&self, deadline: Option<Instant>) {
        let end = Instant::now() + Limits::final_time(deadline, Limits::LOG_FLUSH_TIME);
        loop {
            {
                let mut queue = self.shared.lock();
                let left = queue.waiting.ends.len() + queue.taken;
                if left == 0 {
                    return;
                }
                if Instant::now() >= end {
                    // The lines that the thread is sending may still arrive; the process ends before it knows.
                    queue.waiting.clear();
                    queue.taken = 0;
                    self.shared.lost.fetch_add(left as u64, Ordering::Relaxed);
                    return;
                }
            }
            laio_rt::time::sleep(FINISH_INTERVAL).await;
        }
    }
}

/// How often a worker that ends looks whether all records are sent.
const FINISH_INTERVAL: Duration = Duration::from_millis(5);

impl Drop for LogSocket {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        // No code panics while it holds the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges empty records for those that wait, as soon as there are any. Returns false at the end; and whether
    /// to connect again.
    fn take(&self, records: &mut Records) -> (bool, bool) {
        let mut queue = self.lock();
        while queue.waiting.ends.is_empty() && !queue.closed {
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(records, &mut queue.waiting);
        queue.taken = records.ends.len();
        (
            !records.ends.is_empty(),
            std::mem::take(&mut queue.reconnect),
        )
    }

    /// Waits, but not after the end. Returns false at the end.
    fn pause(&self, time: Duration) -> bool {
        let (queue, end) = (self.lock(), Instant::now() + time);
        let mut queue = queue;
        while !queue.closed {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }
}

/// The thread that sends.
struct Sender {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    /// When a warning was last printed.
    warned: Option<Instant>,
    /// Records lost since then.
    lost: u64,
}

impl Sender {
    fn run(mut self) {
        let mut records = Records::default();
        loop {
            let (more, reconnect) = self.shared.take(&mut records);
            if !more {
                return;
            }
            if reconnect {
                self.connection = None;
            }
            self.send(&records);
            records.clear();
            self.shared.lock().taken = 0;
        }
    }

    /// Sends records, however long that takes, or drops them at the end.
    fn send(&mut self, records: &Records) {
        let mut done = 0;
        while done < records.ends.len() {
            let sent = self.send_from(records, &mut done);
            self.shared.lock().taken = records.ends.len() - done;
            let Err(error) = sent else { continue };
            self.warn(&error);
            // A peer that is slow keeps its connection.
            let slow = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            if !slow {
                self.connection = None;
            }
            let goes_on = if slow {
                !self.shared.lock().closed
            } else {
                self.shared.pause(Limits::LOG_RECONNECT_INTERVAL)
            };
            if !goes_on {
                return self.lose((records.ends.len() - done) as u64);
            }
        }
        self.recovered();
    }

    fn send_from(&mut self, records: &Records, done: &mut usize) -> io::Result<()> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.shared.peer)?);
        }
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        match connection.send(records, done) {
            // A datagram that is too long for the socket, which no further attempt would shorten.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) =>
            {
                *done += 1;
                self.lose(1);
                self.warn(&error);
                Ok(())
            }
            sent => sent,
        }
    }

    fn lose(&mut self, records: u64) {
        self.lost += records;
        self.shared.lost.fetch_add(records, Ordering::Relaxed);
    }

    fn warn(&mut self, error: &io::Error) {
        if self.warned.is_none() {
            self.warned = Some(Instant::now());
            let peer = &self.shared.peer;
            print(format_args!(
                "the access log {peer}: {error}; lines are kept up to {} MiB, and further ones dropped",
                Limits::LOG_SOCKET_BYTES >> 20
            ));
        }
    }

    /// Ends a warning, at limited rate.
    fn recovered(&mut self) {
        if self
            .warned
            .is_some_and(|warned| warned.elapsed() >= Limits::LOG_WARN_INTERVAL)
        {
            self.warned = None;
            let peer = &self.shared.peer;
            match std::mem::take(&mut self.lost) {
                0 => print(format_args!("the access log {peer} gets lines again")),
                lost => print(format_args!(
                    "the access log {peer} gets lines again; {lost} were not sent"
                )),
            }
        }
    }
}

/// A connection to a peer.
enum Connection {
    /// Each record is a datagram.
    Local(UnixDatagram),
    Udp(UdpSocket),
    /// Records follow each other, with what separates them.
    Stream(Stream),
}

/// A stream of records.
struct Stream {
    socket: Box<dyn Write + Send>,
    /// Whether a record follows its length (RFC 6587, section 3.4.1) instead of ending with a line feed.
    counted: bool,
    /// What a slow peer has not accepted yet of a record.
    rest: Vec<u8>,
}

impl Connection {
    fn open(peer: &Peer) -> io::Result<Connection> {
        match peer {
            Peer::Syslog(SyslogAddress::Local(path)) => Connection::local(path),
            Peer::Journald(path) => Connection::local(path),
            Peer::Syslog(SyslogAddress::Udp(host, port)) => {
                let addresses: Vec<_> = (&**host, *port).to_socket_addrs()?.collect();
                let unspecified: &[_] = match addresses.first() {
                    Some(address) if address.is_ipv4() => &[([0, 0, 0, 0], 0).into()],
                    _ => &[([0_u16; 8], 0).into()],
                };
                let socket = UdpSocket::bind(unspecified)?;
                socket.connect(&addresses[..])?;
                socket.set_write_timeout(Some(Limits::LOG_SEND_TIME))?;
                Ok(Connection::Udp(socket))
            }
            Peer::Syslog(SyslogAddress::Tcp(host, port)) => {
                let mut last = io::Error::other("the name has no address");
                for address in (&**host, *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, Limits::LOG_CONNECT_TIME) {
                        Ok(socket) => {
                            socket.set_write_timeout(Some(Limits::LOG_SEND_TIME))?;
                            return Ok(Connection::stream(socket, true));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn local(path: &Path) -> io::Result<Connection> {
        let socket = UnixDatagram::unbound()?;
        match socket.connect(path) {
            Ok(()) => {
                socket.set_write_timeout(Some(Limits::LOG_SEND_TIME))?;
                Ok(Connection::Local(socket))
            }
            // Some programs listen on a socket of streams.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()) =>
            {
                let socket = UnixStream::connect(path)?;
                socket.set_write_timeout(Some(Limits::LOG_SEND_TIME))?;
                Ok(Connection::stream(socket, false))
            }
            Err(error) => Err(error),
        }
    }

    fn stream(socket: impl Write + Send + 'static, counted: bool) -> Connection {
        Connection::Stream(Stream {
            socket: Box::new(socket),
            counted,
            rest: Vec::new(),
        })
    }

    /// Sends the records from number `done` on, which it increases.
    fn send(&mut self, records: &Records, done: &mut usize) -> io::Result<()> {
        while *done < records.ends.len() {
            match self {
                Connection::Local(socket) => socket.send(records.get(*done)).map(drop)?,
                Connection::Udp(socket) => socket.send(records.get(*done)).map(drop)?,
                Connection::Stream(stream) => stream.send(records.get(*done))?,
            }
            *done += 1;
        }
        match self {
            Connection::Stream(stream) => stream.socket.flush(),
            _ => Ok(()),
        }
    }
}

impl Stream {
    fn send(&mut self, record: &[u8]) -> io::Result<()> {
        if self.rest.is_empty() {
            if self.counted {
                self.rest = format!("{} ", record.len()).into_bytes();
                self.rest.extend_from_slice(record);
            } else {
                self.rest.extend_from_slice(record);
                self.rest.push(b'\n');
            }
        }
        while !self.rest.is_empty() {
            match self.socket.write(&self.rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.rest.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
