//! Pipes, files, names and waits at random, many in flight: every result is checked, and arrives once.
//!
//! `LAIO_STRESS_HANDOFFS` sets the number of hand-offs.

use super::support::{Deadline, for_each_detector, start};
use crate::harness::timespec;
use laio::{Completion, Context, Errno, Outcome};
use laio_testing::random::Random;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const LANES: usize = 24;
const FILE: usize = 1 << 16;

/// A sequence of calls, one at a time, with their memory.
struct Lane {
    pipe: (OwnedFd, OwnedFd),
    event: OwnedFd,
    poll: libc::pollfd,
    word: AtomicU32,
    buffer: [u8; 512],
    /// The action that ends its call.
    word_sent: u64,
    status: libc::statx,
    busy: Option<Busy>,
}

#[derive(Clone, Copy, Debug)]
enum Busy {
    /// The call reads from the pipe, into which the test has to write the value.
    Pipe(u64),
    /// The call waits for the event.
    Event,
    /// The call waits for the word to change.
    Word,
    /// The call ends without an action.
    Alone,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Read(u64),
    Polled,
    Woken,
    Bytes {
        at: usize,
        length: usize,
    },
    Size,
    Missing,
    Slept,
    /// The result of a call that ends the wait of a lane: bytes written, or waiters woken.
    Helped {
        at_least: usize,
        at_most: usize,
    },
}

fn pattern(at: usize) -> u8 {
    (at * 31 + at / 257) as u8
}

struct Workspace {
    /// Never grows: the kernel uses addresses of its elements.
    lanes: Vec<Lane>,
    file: tempfile::NamedTempFile,
    name: std::ffi::CString,
    missing: std::ffi::CString,
    time: Box<libc::timespec>,
    random: Random,
    stamp: u64,
    in_flight: HashMap<u64, (usize, Expected)>,
    checked: u64,
}

impl Workspace {
    fn new() -> Workspace {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..FILE).map(pattern).collect();
        std::fs::write(file.path(), bytes).unwrap();
        let name = std::ffi::CString::new(file.path().as_os_str().as_bytes()).unwrap();
        let lane = || {
            use rustix::event::{EventfdFlags, eventfd};
            let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            Lane {
                poll: libc::pollfd {
                    fd: event.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                },
                pipe: rustix::pipe::pipe().unwrap(),
                event,
                word: AtomicU32::new(0),
                buffer: [0; 512],
                word_sent: 0,
                // SAFETY: plain data.
                status: unsafe { std::mem::zeroed() },
                busy: None,
            }
        };
        Workspace {
            lanes: (0..LANES).map(|_| lane()).collect(),
            file,
            name,
            missing: c"/nothing/of/this/name".to_owned(),
            time: Box::new(timespec(0, 50_000)),
            random: Random::new(0xac71),
            stamp: 0,
            in_flight: HashMap::new(),
            checked: 0,
        }
    }

    /// Starts a call in an idle lane, or makes the action that ends the call of a busy one.
    fn step(&mut self, context: &mut Context) {
        let at = self.random.below(LANES);
        match self.lanes[at].busy {
            None => self.begin(context, at),
            Some(busy) => self.help(context, at, busy),
        }
    }

    fn begin(&mut self, context: &mut Context, at: usize) {
        self.stamp += 1;
        let stamp = self.stamp;
        let kind = self.random.below(8);
        let lane = &mut self.lanes[at];
        let buffer = lane.buffer.as_mut_ptr() as usize;
        let (busy, expected, number, args) = match kind {
            0..=2 => {
                let args = [lane.pipe.0.as_raw_fd() as usize, buffer, 8, 0, 0];
                let busy = Busy::Pipe(stamp);
                (busy, Expected::Read(stamp), libc::SYS_read, args)
            }
            3 => {
                let args = [(&raw mut lane.poll) as usize, 1, 0, 0, 8];
                (Busy::Event, Expected::Polled, libc::SYS_ppoll, args)
            }
            4 => {
                let word = lane.word.as_ptr() as usize;
                let value = lane.word.load(SeqCst) as usize;
                let args = [word, libc::FUTEX_WAIT as usize, value, 0, 0];
                (Busy::Word, Expected::Woken, libc::SYS_futex, args)
            }
            5 => {
                let from = self.random.below(FILE);
                let length = 512.min(FILE - from);
                let file = self.file.as_raw_fd() as usize;
                let expected = Expected::Bytes { at: from, length };
                let args = [file, buffer, 512, from, 0];
                (Busy::Alone, expected, libc::SYS_pread64, args)
            }
            6 => {
                let found = self.random.below(2) == 0;
                let (name, expected) = if found {
                    (&self.name, Expected::Size)
                } else {
                    (&self.missing, Expected::Missing)
                };
                let status = (&raw mut lane.status) as usize;
                let (here, all) = (libc::AT_FDCWD as usize, libc::STATX_BASIC_STATS as usize);
                let args = [here, name.as_ptr() as usize, 0, all, status];
                (Busy::Alone, expected, libc::SYS_statx, args)
            }
            _ => {
                let time = (&raw const *self.time) as usize;
                let expected = Expected::Slept;
                let args = [time, 0, 0, 0, 0];
                (Busy::Alone, expected, libc::SYS_nanosleep, args)
            }
        };
        lane.busy = Some(busy);
        match start(context, number, args) {
            Outcome::Done(result) => self.check(at, expected, result),
            Outcome::Pending(handle) => {
                let before = self.in_flight.insert(handle.to_raw(), (at, expected));
                assert!(before.is_none(), "a live handle was given twice");
            }
        }
    }

    fn help(&mut self, context: &mut Context, at: usize, busy: Busy) {
        let lane = &mut self.lanes[at];
        lane.word_sent = match busy {
            Busy::Pipe(value) => value,
            _ => 1,
        };
        let bytes = (&raw const lane.word_sent) as usize;
        let write = |fd: &OwnedFd| {
            let args = [fd.as_raw_fd() as usize, bytes, 8];
            (libc::SYS_write, args, 8, 8)
        };
        let (number, args, at_least, at_most) = match busy {
            Busy::Pipe(_) => write(&lane.pipe.1),
            Busy::Event => write(&lane.event),
            Busy::Word => {
                lane.word.fetch_add(1, SeqCst);
                let address = lane.word.as_ptr() as usize;
                let args = [address, libc::FUTEX_WAKE as usize, 1];
                (libc::SYS_futex, args, 0, 1)
            }
            Busy::Alone => return,
        };
        lane.busy = Some(Busy::Alone);
        let expected = Expected::Helped { at_least, at_most };
        match start(context, number, args) {
            Outcome::Done(result) => self.check(at, expected, result),
            // The pipe has free space, but the call may still block on a lock or under a debugger.
            Outcome::Pending(handle) => {
                let before = self.in_flight.insert(handle.to_raw(), (at, expected));
                assert!(before.is_none(), "a live handle was given twice");
            }
        }
    }

    fn check(&mut self, at: usize, expected: Expected, result: Result<usize, Errno>) {
        if let Expected::Helped { at_least, at_most } = expected {
            let right = |result: usize| (at_least..=at_most).contains(&result);
            assert!(result.is_ok_and(right), "{expected:?}: {result:?}");
            return;
        }
        self.checked += 1;
        let lane = &mut self.lanes[at];
        lane.busy = None;
        match expected {
            Expected::Helped { .. } => unreachable!("seen above"),
            Expected::Read(value) => {
                assert_eq!(result, Ok(8));
                assert_eq!(lane.buffer[..8], value.to_ne_bytes());
            }
            Expected::Polled => {
                assert_eq!(result, Ok(1));
                rustix::io::read(&lane.event, &mut [0u8; 8]).unwrap();
            }
            // EAGAIN: the word had changed before an interrupted call was repeated.
            Expected::Woken => assert!(matches!(result, Ok(0) | Err(Errno::AGAIN)), "{result:?}"),
            Expected::Bytes { at, length } => {
                assert_eq!(result, Ok(length));
                let right = (0..length).all(|i| lane.buffer[i] == pattern(at + i));
                assert!(right, "{length} bytes at {at}");
            }
            Expected::Size => {
                assert_eq!(result, Ok(0));
                assert_eq!(std::mem::take(&mut lane.status.stx_size), FILE as u64);
            }
            Expected::Missing => assert_eq!(result, Err(Errno::NOENT)),
            Expected::Slept => assert_eq!(result, Ok(0)),
        }
        lane.buffer[..8].fill(0xee);
    }

    fn collect(&mut self, context: &mut Context, timeout: Duration) {
        let mut completions: Vec<Completion> = Vec::new();
        context.poll(&mut completions, Some(timeout)).unwrap();
        for completion in completions {
            let raw = completion.handle.to_raw();
            let (at, expected) = self.in_flight.remove(&raw).expect("completed once");
            self.check(at, expected, completion.result);
        }
    }

    /// Ends all calls in flight.
    fn finish(&mut self, context: &mut Context) {
        let deadline = Deadline::new();
        while !self.in_flight.is_empty() {
            for at in 0..LANES {
                if let Some(busy) = self.lanes[at].busy {
                    self.help(context, at, busy);
                }
            }
            self.collect(context, Duration::from_millis(10));
            deadline.check(|| format!("lost: {:?}", self.in_flight));
        }
        assert_eq!(context.pending(), 0);
    }
}

fn wanted() -> u64 {
    let wanted = std::env::var("LAIO_STRESS_HANDOFFS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(1_500)
}

/// Runs until this many hand-offs have happened, or none happens any more.
pub(super) fn run(context: &mut Context, handoffs: u64) {
    let mut workspace = Workspace::new();
    let mut deadline = Deadline::new();
    let mut seen = 0;
    while context.stats().handoffs < handoffs {
        for _ in 0..64 {
            workspace.step(context);
            // Thread-local state of the program follows the program.
            std::thread_local! {
                static HERE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
            }
            HERE.set(HERE.get() + 1);
            drop(vec![0u8; 100 + workspace.stamp as usize % 4_000]);
            workspace.collect(context, Duration::ZERO);
        }
        if context.stats().handoffs > seen {
            seen = context.stats().handoffs;
            deadline = Deadline::new();
            laio_testing::watchdog::step(format_args!("{seen} hand-offs of {handoffs}"));
        }
        deadline.check(|| format!("no hand-off after {seen}: {:?}", workspace.in_flight));
    }
    workspace.finish(context);
    let stats = context.stats();
    println!(
        "{} results checked, {} hand-offs, {} spurious wakeups, {} carriers",
        workspace.checked,
        stats.handoffs,
        stats.false_wakeups,
        context.info().carriers()
    );
}

#[test]
fn every_result_is_correct_and_arrives_once() {
    for_each_detector(|mut context| run(&mut context, wanted()));
}
