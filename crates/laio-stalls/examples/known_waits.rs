//! A thread with an event loop that makes known waits in fourteen ways, and writes when and how long: what
//! `benches/stalls/attribution.py` compares with the report of `laio stalls`.
//!
//!     known_waits COUNT FILE
//!
//! Each line of FILE has the start and the length in nanoseconds of the monotonic clock, the names that
//! the call can have, and a part of its subject. Waits take 1 to 200 ms. It needs FUSE, the rights of root,
//! and 127.0.0.1 as the name server of the machine, with a free port 53: the script gives it a namespace.

#![forbid(unsafe_code)]

use laio_testing::fault_fs::{Fault, FaultFs, Kind};
use laio_testing::random::Random;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketType, accept, bind, connect, listen, socket,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().expect("COUNT").parse().expect("a number");
    let out = arguments.next().expect("FILE");
    let work = std::thread::Builder::new().name("known".to_owned());
    let lines = work.spawn(move || waits(count)).unwrap().join().unwrap();
    std::fs::write(out, lines).unwrap();
}

fn waits(count: usize) -> String {
    let directory = tempfile::tempdir().unwrap();
    let fs = FaultFs::options()
        .cached(true)
        .mount()
        .expect("a FUSE file system");
    let place = Place {
        directory: directory.path().to_owned(),
        fs,
        names: NameServer::start(),
    };
    let events = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let (_silent, reader) = pipe().map(|(reader, writer)| (writer, reader)).unwrap();
    epoll::add(&events, &reader, EventData::new_u64(0), EventFlags::IN).unwrap();
    let mut random = Random::new(7);
    let mut lines = String::new();
    for number in 0..count {
        idle(&events, Duration::from_millis(1 + random.below(10) as u64));
        // From 1 to 200 ms, as many between 1 and 14 ms as between 14 and 200 ms.
        let length = 200f64.powf(random.below(1_000_000) as f64 / 1e6);
        let length = Duration::from_secs_f64(length / 1000.0);
        let prepared = place.prepare(number, length);
        let start = now();
        (prepared.wait)();
        let lasted = now() - start;
        writeln!(
            lines,
            "{start}\t{lasted}\t{}\t{}",
            prepared.calls, prepared.subject
        )
        .unwrap();
    }
    lines
}

fn idle(events: &std::os::fd::OwnedFd, time: Duration) {
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: time.as_nanos() as i64,
    };
    let mut list = Vec::with_capacity(1);
    epoll::wait(
        events,
        rustix::buffer::spare_capacity(&mut list),
        Some(&time),
    )
    .unwrap();
}

fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Place {
    directory: PathBuf,
    fs: FaultFs,
    names: NameServer,
}

struct Prepared {
    calls: &'static str,
    subject: String,
    wait: Box<dyn FnOnce()>,
}

fn prepared(calls: &'static str, subject: &str, wait: impl FnOnce() + 'static) -> Prepared {
    Prepared {
        calls,
        subject: subject.to_owned(),
        wait: Box::new(wait),
    }
}

/// Ends a wait after its time.
fn after(length: Duration, end: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        sleep(length);
        end();
    });
}

impl Place {
    fn prepare(&self, number: usize, length: Duration) -> Prepared {
        match number % 14 {
            0 => read_pipe(length),
            1 => open_fifo(&self.directory.join(format!("fifo{number}")), length),
            2 => lock_file(&self.directory.join("lock"), length),
            3 => lock_mutex(length),
            4 => prepared("clock_nanosleep|nanosleep", "", move || sleep(length)),
            5 => wait_child(length),
            6 => poll_pipe(length),
            7 => connect_busy(&self.directory.join(format!("socket{number}")), length),
            8 => self.remote(number, Kind::Open, length, "openat|open", |path| {
                drop(File::open(path))
            }),
            9 => self.remote(number, Kind::Read, length, "read|pread64", |path| {
                File::open(path).unwrap().read_exact(&mut [0; 100]).unwrap();
            }),
            10 => self.remote(number, Kind::Fsync, length, "fsync", |path| {
                File::options()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .sync_all()
                    .unwrap();
            }),
            11 => self.remote(number, Kind::Read, length, "page fault", fault),
            12 => self.names.wait(number, length),
            _ => lose_processor(length),
        }
    }

    /// A wait for a file server that answers late.
    fn remote(
        &self,
        number: usize,
        kind: Kind,
        length: Duration,
        calls: &'static str,
        act: fn(PathBuf),
    ) -> Prepared {
        let name = format!("file{number}");
        self.fs.add_file(&name, &[7; 4096]);
        self.fs.next_at(&name, kind, Fault::Delay(length));
        let path = self.fs.join(&name);
        let subject = path.to_str().unwrap().to_owned();
        prepared(calls, &subject, move || act(path))
    }
}

/// A name server that has no names, and says so late.
struct NameServer(Arc<Mutex<Duration>>);

impl NameServer {
    fn start() -> NameServer {
        /// Response, recursion available, no such name.
        const ABSENT: [u8; 2] = [0x81, 0x83];
        let delay = Arc::new(Mutex::new(Duration::ZERO));
        let server = NameServer(delay.clone());
        let socket = UdpSocket::bind("127.0.0.1:53").expect("port 53, as root");
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut query) {
                let (socket, mut answer) = (socket.try_clone().unwrap(), query[..length].to_vec());
                answer[2..4].copy_from_slice(&ABSENT);
                let delay = *delay.lock().unwrap();
                after(delay, move || drop(socket.send_to(&answer, client)));
            }
        });
        server
    }

    fn wait(&self, number: usize, length: Duration) -> Prepared {
        *self.0.lock().unwrap() = length;
        let name = format!("name{number}.example.:80");
        prepared("poll|ppoll", "socket to 127.0.0.1:53", move || {
            assert!(name.to_socket_addrs().is_err());
        })
    }
}

/// Another thread of the same processor takes it, by its real-time priority.
fn lose_processor(length: Duration) -> Prepared {
    let before = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set(0);
    let (start, started) = std::sync::mpsc::channel();
    let (say, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sched_setaffinity(None, &one).unwrap();
        let tid = rustix::thread::gettid().as_raw_nonzero().to_string();
        let raised = Command::new("chrt").args(["-f", "-p", "10", &tid]).status();
        assert!(
            raised.expect("chrt").success(),
            "a real-time priority, as root"
        );
        say.send(()).unwrap();
        started.recv().unwrap();
        let begin = now();
        while now() - begin < length.as_nanos() as u64 {}
    });
    ready.recv().unwrap();
    prepared("no processor", "", move || {
        sched_setaffinity(None, &one).unwrap();
        start.send(()).unwrap();
        sched_setaffinity(None, &before).unwrap();
    })
}

fn fault(path: PathBuf) {
    let file = File::open(path).unwrap();
    assert_eq!(laio_testing::mapped::first_byte(&file).unwrap(), 7);
}

fn read_pipe(length: Duration) -> Prepared {
    let (mut reader, mut writer) = pipe().unwrap();
    prepared("read", "a pipe", move || {
        after(length, move || writer.write_all(b"x").unwrap());
        reader.read_exact(&mut [0]).unwrap();
    })
}

fn open_fifo(path: &Path, length: Duration) -> Prepared {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let (reader, writer) = (path.to_owned(), path.to_owned());
    prepared("openat|open", path.to_str().unwrap(), move || {
        after(length, move || drop(File::create(writer).unwrap()));
        drop(File::open(reader).unwrap());
    })
}

fn lock_file(path: &Path, length: Duration) -> Prepared {
    let (held, wanted) = (File::create(path).unwrap(), File::create(path).unwrap());
    flock(&held, FlockOperation::LockExclusive).unwrap();
    prepared("flock", path.to_str().unwrap(), move || {
        after(length, move || drop(held));
        flock(&wanted, FlockOperation::LockExclusive).unwrap();
    })
}

fn lock_mutex(length: Duration) -> Prepared {
    let mutex = Arc::new(Mutex::new(()));
    let (locked, is_locked) = std::sync::mpsc::channel();
    let other = mutex.clone();
    prepared("futex", "", move || {
        std::thread::spawn(move || {
            let held = other.lock();
            locked.send(()).unwrap();
            sleep(length);
            drop(held);
        });
        is_locked.recv().unwrap();
        drop(mutex.lock());
    })
}

fn wait_child(length: Duration) -> Prepared {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    prepared("wait4|waitid", "child cat", move || {
        after(length, move || drop(input));
        child.wait().unwrap();
    })
}

fn poll_pipe(length: Duration) -> Prepared {
    let (reader, mut writer) = pipe().unwrap();
    prepared("poll|ppoll", "a pipe", move || {
        after(length, move || writer.write_all(b"x").unwrap());
        rustix::event::poll(&mut [PollFd::new(&reader, PollFlags::IN)], None).unwrap();
    })
}

fn connect_busy(path: &Path, length: Duration) -> Prepared {
    let address = SocketAddrUnix::new(path).unwrap();
    let stream = || socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let (listener, first, second) = (stream(), stream(), stream());
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    connect(&first, &address).unwrap();
    prepared("connect", path.to_str().unwrap(), move || {
        after(length, move || {
            drop(accept(&listener).unwrap());
            drop(accept(&listener).unwrap());
            drop(first);
        });
        connect(&second, &address).unwrap();
    })
}
