//! Thousands of operations of all kinds on one context, cancelled at any time.
//!
//! `LAIO_STRESS` sets the number of operations, over all back ends.

use super::parked::FRESH;
use crate::harness::*;
use laio::{Call, Completion, Context, Errno, Handle, Outcome, PollOptions};
use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::temp::{pattern, pipe, scratch, stream_pair};
use laio_testing::{FaultFs, Random, child, process, test_name};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// The maximal number of operations in flight.
const AT_ONCE: usize = 300;

fn operations() -> usize {
    let asked = std::env::var("LAIO_STRESS").ok();
    asked.map_or(5_000, |number| {
        number.parse().expect("LAIO_STRESS is a number")
    })
}

/// The descriptors and files that operations use.
struct Ground {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    sockets: Vec<(OwnedFd, OwnedFd)>,
    listener: TcpListener,
    cold: File,
    contents: Vec<u8>,
    paths: Vec<CString>,
    hanging: Option<(FaultFs, File, CString)>,
    _directory: tempfile::TempDir,
}

impl Ground {
    fn new() -> Ground {
        let directory = scratch();
        let contents = pattern(1 << 20, 8);
        let path = directory.path().join("cold");
        std::fs::write(&path, &contents).expect("a file");
        let cold = File::open(&path).expect("a file");
        let _ = laio_testing::temp::make_cold(&cold);
        let hanging = laio_testing::or_skip(FaultFs::mount()).map(|fs| {
            fs.add_file("read", b"never read");
            fs.add_file("open", b"never seen");
            let file = File::open(fs.join("read")).expect("a file");
            fs.set_at("read", Kind::Read, Fault::Hang);
            fs.set_at("open", Kind::Open, Fault::Hang);
            let path = cstring(fs.join("open"));
            (fs, file, path)
        });
        Ground {
            pipes: (0..8).map(|_| feeding(pipe())).collect(),
            sockets: (0..8).map(|_| feeding(stream_pair())).collect(),
            listener: TcpListener::bind("127.0.0.1:0").expect("a port"),
            cold,
            contents,
            paths: [path, directory.path().join("none")].map(cstring).into(),
            hanging,
            _directory: directory,
        }
    }
}

/// The second end belongs to the test, which must not wait on it.
fn feeding(ends: (OwnedFd, OwnedFd)) -> (OwnedFd, OwnedFd) {
    rustix::fs::fcntl_setfl(&ends.1, rustix::fs::OFlags::NONBLOCK).expect("a mode");
    ends
}

/// Starts connecting.
fn client(listener: &TcpListener) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a socket");
    let _ = connect(&socket, &listener.local_addr().expect("its address"));
    socket
}

/// An operation that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Stream,
    Accept,
    File(usize),
    Open,
    Sleep,
    HangingRead,
    HangingOpen,
}

struct Flight {
    sort: Sort,
    number: u64,
    cancelled: bool,
    buffer: Box<[u8; 64]>,
}

struct Storm<'a> {
    ground: &'a Ground,
    context: Context,
    random: Random,
    live: HashMap<Handle, Flight>,
    /// The live operations as a list, to choose from.
    handles: Vec<Handle>,
    hanging: usize,
    clients: Vec<OwnedFd>,
    counts: [usize; 3],
}

static SHORT: libc::timespec = timespec(0, 200_000);
static LONG: libc::timespec = timespec(1000, 0);

impl Storm<'_> {
    fn start(&mut self, number: u64) {
        let random = &mut self.random;
        let mut buffer = Box::new([FRESH; 64]);
        let to = at_mut(&mut *buffer);
        let here = libc::AT_FDCWD as usize;
        let (sort, call) = match (random.below(100), &self.ground.hanging) {
            (0..30, _) => {
                let (from, _) = random.pick(&self.ground.pipes);
                (Sort::Stream, Call::new(libc::SYS_read, [from.arg(), to, 3]))
            }
            (30..50, _) => {
                let (ours, _) = random.pick(&self.ground.sockets);
                let args = [ours.arg(), to, 3, 0, 0, 0];
                (Sort::Stream, Call::new(libc::SYS_recvfrom, args))
            }
            (50..57, _) => {
                let listener = self.ground.listener.as_raw_fd() as usize;
                let flags = libc::SOCK_CLOEXEC as usize;
                (
                    Sort::Accept,
                    Call::new(libc::SYS_accept4, [listener, 0, 0, flags]),
                )
            }
            (57..75, _) => {
                let offset = random.below(self.ground.contents.len() - 64);
                let args = [self.ground.cold.arg(), to, 64, offset];
                (Sort::File(offset), Call::new(libc::SYS_pread64, args))
            }
            (75..85, _) => {
                let path = random.pick(&self.ground.paths).arg();
                let flags = libc::O_CLOEXEC as usize;
                (
                    Sort::Open,
                    Call::new(libc::SYS_openat, [here, path, flags, 0]),
                )
            }
            (85..96, None) | (85..92, Some(_)) => {
                let time = if random.chance(1, 3) { &SHORT } else { &LONG };
                (Sort::Sleep, Call::new(libc::SYS_nanosleep, [at(time), 0]))
            }
            (92..96, Some((_, file, _))) if self.hanging < 8 => {
                let args = [file.arg(), to, 64, 0];
                (Sort::HangingRead, Call::new(libc::SYS_pread64, args))
            }
            (96..100, Some((_, _, path))) if self.hanging < 8 => {
                let flags = libc::O_CLOEXEC as usize;
                let args = [here, path.arg(), flags, 0];
                (Sort::HangingOpen, Call::new(libc::SYS_openat, args))
            }
            _ => (Sort::Sleep, Call::new(libc::SYS_nanosleep, [at(&SHORT), 0])),
        };
        // SAFETY: the buffer is kept until the completion, the rest longer.
        let outcome = unsafe { self.context.call_with(call, number) };
        let flight = Flight {
            sort,
            number,
            cancelled: false,
            buffer,
        };
        match outcome {
            Outcome::Done(result) => {
                self.counts[0] += 1;
                check(self.ground, &flight, result);
            }
            Outcome::Pending(handle) => {
                self.hanging += usize::from(hangs(sort));
                assert!(self.live.insert(handle, flight).is_none(), "a handle twice");
                self.handles.push(handle);
            }
        }
    }

    fn cancel_one(&mut self) {
        if self.handles.is_empty() {
            return;
        }
        let handle = self.handles[self.random.below(self.handles.len())];
        match self.context.cancel(handle) {
            Ok(()) => self.live.get_mut(&handle).expect("live").cancelled = true,
            Err(errno) => assert_eq!(errno, Errno::ALREADY),
        }
    }

    fn feed(&mut self) {
        let index = self.random.below(8);
        match self.random.below(5) {
            0 | 1 => drop(rustix::io::write(&self.ground.pipes[index].1, b"data!!")),
            2 | 3 => drop(rustix::io::write(&self.ground.sockets[index].1, b"data!!")),
            _ if self.clients.len() < 50 => {
                self.clients.push(client(&self.ground.listener));
            }
            _ => self.clients.clear(),
        }
        // Keeps the streams neither full nor empty.
        if index == 0 && self.random.chance(1, 4) {
            let _ = laio_testing::temp::evict(&self.ground.cold, 0, 0);
        }
    }

    fn poll(&mut self, timeout: Duration) {
        let mut completions: Vec<Completion> = Vec::new();
        let most = if self.random.chance(1, 2) {
            usize::MAX
        } else {
            3
        };
        let timeout = Some(timeout);
        let taken = self.context.poll_with(
            PollOptions {
                timeout,
                most,
                ..PollOptions::default()
            },
            |one| completions.push(one),
        );
        assert_eq!(taken, Ok(completions.len()));
        for completion in completions {
            let flight = self
                .live
                .remove(&completion.handle)
                .expect("one completion each");
            self.hanging -= usize::from(hangs(flight.sort));
            assert_eq!(completion.user_data, flight.number);
            let which = if completion.result == Err(Errno::CANCELED) {
                assert!(flight.cancelled, "{:?} of itself", flight.sort);
                2
            } else {
                1
            };
            self.counts[which] += 1;
            check(self.ground, &flight, completion.result);
        }
        if self.live.len() * 2 < self.handles.len() {
            self.handles = self.live.keys().copied().collect();
        }
        self.handles.retain(|handle| self.live.contains_key(handle));
    }

    fn run(&mut self, count: usize) {
        let mut number = 0;
        while number < count {
            for _ in 0..self.random.between(1..20) {
                self.start(number as u64);
                number += 1;
            }
            for _ in 0..self.random.below(8) {
                self.feed();
            }
            for _ in 0..self.random.below(8) {
                self.cancel_one();
            }
            if self.random.chance(1, 3) {
                self.poll(Duration::ZERO);
            }
            while self.live.len() > AT_ONCE {
                for _ in 0..20 {
                    self.cancel_one();
                }
                self.poll(Duration::from_micros(100));
            }
        }
    }

    fn end(&mut self) {
        for handle in std::mem::take(&mut self.handles) {
            if self.context.cancel(handle).is_ok() {
                self.live.get_mut(&handle).expect("live").cancelled = true;
            }
        }
        let end = std::time::Instant::now() + LIMIT;
        while !self.live.is_empty() {
            let sorts = || {
                self.live
                    .values()
                    .map(|flight| flight.sort)
                    .collect::<Vec<_>>()
            };
            let left = end.saturating_duration_since(std::time::Instant::now());
            assert!(!left.is_zero(), "{:?} do not end", sorts());
            self.poll(left);
        }
        assert_eq!(self.context.pending(), 0);
        assert_eq!(self.context.poll(&mut Vec::new(), None), Ok(0));
    }
}

fn hangs(sort: Sort) -> bool {
    matches!(sort, Sort::HangingRead | Sort::HangingOpen)
}

fn check(ground: &Ground, flight: &Flight, result: Result<usize, Errno>) {
    let written = match (flight.sort, result) {
        (_, Err(Errno::CANCELED)) => 0,
        (Sort::Stream, Ok(moved @ 1..=3)) => moved,
        (Sort::Accept, Ok(_)) => {
            drop(own(result));
            0
        }
        (Sort::Open, Ok(_)) => {
            drop(own(result));
            0
        }
        (Sort::Open, Err(Errno::NOENT)) | (Sort::Sleep, Ok(0)) => 0,
        // Cancelled while in flight: the result counts the bytes read until then.
        (Sort::File(offset), Ok(moved)) if moved == 64 || flight.cancelled => {
            assert_eq!(
                flight.buffer[..moved],
                ground.contents[offset..offset + moved]
            );
            moved
        }
        (sort, result) => panic!("{sort:?} came to {result:?}"),
    };
    if !matches!(flight.sort, Sort::File(_)) {
        let rest = &flight.buffer[written..];
        assert!(
            rest.iter().all(|&byte| byte == FRESH),
            "{:?} wrote more",
            flight.sort
        );
    }
}

#[test]
fn operations_of_all_kinds_cancelled_at_any_time() {
    let count = operations();
    // A million operations take a while.
    let limit = LIMIT * 6 + Duration::from_secs(count as u64 / 500);
    for way in ways() {
        let mark = way.to_string();
        child::check(limit, test_name!(), &mark, || {
            let ground = Ground::new();
            let before = process::open_fds();
            let mut storm = Storm {
                ground: &ground,
                context: way.with(|options| options.helpers(16)),
                random: Random::for_test(),
                live: HashMap::new(),
                handles: Vec::new(),
                hanging: 0,
                clients: Vec::new(),
                counts: [0; 3],
            };
            storm.run(count);
            storm.end();
            let [inline, completed, cancelled] = storm.counts;
            println!("{way}: {inline} inline, {completed} completed, {cancelled} cancelled");
            assert_eq!(inline + completed + cancelled, storm.counts.iter().sum());
            drop(storm);
            assert_eq!(process::open_fds(), before, "descriptors left open");
        });
    }
}

/// All back ends, and some of the modes.
fn ways() -> Vec<Way> {
    let only = std::env::var("LAIO_CONTRACT_WAY").unwrap_or_default();
    let has_ring = Context::new(laio::Options::new().backend(laio::BackendKind::Uring)).is_ok();
    let mut ways = all_ways();
    ways.retain(|way| {
        let mode = matches!(way.mode, Mode::Natural) || way.mode == Mode::ForceBlock;
        let sensible =
            mode && (way.mode == Mode::Natural || way.backend == laio::BackendKind::Lazy);
        let there = has_ring || way.backend != laio::BackendKind::Uring;
        way.goes_to_background() && sensible && there && way.to_string().contains(&only)
    });
    ways
}
