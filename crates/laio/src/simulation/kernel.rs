//! The simulated kernel: files, streams, and the steps that it has been given.

use super::program::{Kind, ProgramCall};
use crate::operations::{Part, Slot};
use crate::{Call, Errno, Handle};
use laio_testing::Random;
use laio_testing::temp::{pipe, stream_pair};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::fcntl_dupfd_cloexec;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// A descriptor. The real one behind the number only answers what kind it is.
pub(super) struct File {
    pub(super) fd: RawFd,
    pub(super) is_regular: bool,
    pub(super) is_socket: bool,
    pub(super) nonblocking: bool,
    pub(super) open: bool,
    /// Of a stream: bytes that can be read, and that can be written.
    pub(super) available: usize,
    pub(super) room: usize,
    /// Whether the peer has ended the stream.
    pub(super) ended: bool,
    /// Connections that wait.
    pub(super) connections: usize,
    /// The number of bytes that were read before.
    read: u64,
    pub(super) size: usize,
    position: usize,
}

/// A step that a part of the background has.
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) slot: Slot,
    pub(super) handle: Handle,
    pub(super) part: Part,
    pub(super) step: Call,
    pub(super) cancelled: bool,
    /// Whether the kernel has begun with it.
    pub(super) begun: bool,
    /// Bytes that a helper has moved so far.
    pub(super) done: usize,
    /// Bytes to which an AIO request is limited.
    pub(super) cut: Option<usize>,
    /// Whether it has its result, and only lends the memory to the kernel.
    pub(super) is_notification: bool,
}

impl Request {
    /// The notification that follows the result of a zero-copy send.
    pub(super) fn notification(&self) -> Request {
        Request {
            is_notification: true,
            begun: true,
            ..*self
        }
    }
}

/// A descriptor that a call has opened.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    pub(super) fd: RawFd,
    pub(super) by: usize,
    pub(super) open: bool,
}

#[derive(Default)]
pub(super) struct Kernel {
    pub(super) files: Vec<File>,
    pub(super) requests: Vec<Request>,
    pub(super) opened: Vec<Opened>,
}

/// The numbers of descriptors that calls open begin here: no real one is so large.
const OPENED: RawFd = 1 << 29;

/// What a call on a descriptor can do now.
pub(super) enum Now {
    Moves(usize),
    Done(Result<usize, Errno>),
    Waits,
}

impl Kernel {
    pub(super) fn new(random: &mut Random) -> Kernel {
        let files = real().iter().map(|real| File {
            fd: real.fd.as_raw_fd(),
            is_regular: real.kind == RealKind::Regular,
            is_socket: matches!(real.kind, RealKind::Socket | RealKind::NonBlocking),
            nonblocking: real.kind == RealKind::NonBlocking,
            open: true,
            available: random.below(30),
            room: random.below(30),
            ended: false,
            connections: random.below(2),
            read: 0,
            size: 100 + random.below(60),
            position: 0,
        });
        Kernel {
            files: files.collect(),
            ..Kernel::default()
        }
    }

    pub(super) fn file(&self, fd: RawFd) -> &File {
        let mut files = self.files.iter();
        files.find(|file| file.fd == fd).expect("one of the files")
    }

    fn file_mut(&mut self, fd: RawFd) -> &mut File {
        let mut files = self.files.iter_mut();
        files.find(|file| file.fd == fd).expect("one of the files")
    }

    /// What a call can do now. `wanted`: the bytes that its step asks for.
    pub(super) fn now(&self, call: &ProgramCall, wanted: usize) -> Now {
        if call.kind == Kind::Open {
            return Now::Moves(0);
        }
        let file = self.file(call.fds.0);
        if !file.open && call.kind != Kind::CloseRange {
            return Now::Done(Err(Errno::BADF));
        }
        match call.kind {
            Kind::Close | Kind::CloseRange | Kind::Sync => Now::Moves(0),
            Kind::Accept if file.connections > 0 => Now::Moves(0),
            Kind::Accept => Now::Waits,
            _ if file.is_regular && call.kind.writes() => Now::Moves(wanted),
            _ if file.is_regular => {
                let at = if call.kind.is_positioned() {
                    call.offset + call.moved
                } else {
                    file.position
                };
                Now::Moves(file.size.saturating_sub(at).min(wanted))
            }
            kind if kind.reads() => match file.available.min(wanted) {
                0 if file.ended => Now::Moves(0),
                0 => Now::Waits,
                count => Now::Moves(count),
            },
            _ => match file.room.min(wanted) {
                0 => Now::Waits,
                count => Now::Moves(count),
            },
        }
    }

    /// Makes a step of a call, which moves so many bytes.
    pub(super) fn act(
        &mut self,
        number: usize,
        calls: &mut [ProgramCall],
        step: &Call,
        count: usize,
    ) -> usize {
        let (earlier, rest) = calls.split_at_mut(number);
        let call = &mut rest[0];
        let over = call.is_over() || call.finished;
        assert!(!over, "the kernel still acts for {call}");
        for other in earlier.iter().filter(|other| call.must_follow(other)) {
            let over = other.is_over() || other.finished;
            assert!(over, "{call} has overtaken {other}");
        }
        if call.kind.opens() {
            if call.kind == Kind::Accept {
                self.file_mut(call.fds.0).connections -= 1;
            }
            let fd = OPENED + self.opened.len() as RawFd;
            self.opened.push(Opened {
                fd,
                by: number,
                open: true,
            });
            return fd as usize;
        }
        if call.kind.closes() {
            for request in &self.requests {
                let is_other = request.number != number && !request.is_notification;
                assert!(
                    !is_other || !(call.fds.0..=call.fds.1).contains(&request.step.descriptor(0)),
                    "{call} closes a descriptor in use"
                );
            }
            for file in &mut self.files {
                file.open &= !call.names(file.fd);
            }
            return 0;
        }
        if !call.kind.moves_bytes() {
            return 0;
        }
        let file = self.file_mut(call.fds.0);
        let from = match (file.is_regular, call.kind.is_positioned()) {
            (true, true) => call.offset + call.moved,
            (true, false) => file.position,
            (false, _) => file.read as usize,
        };
        call.move_bytes(step, count, |index| ((from + index) * 7 + 3) as u8);
        match (file.is_regular, call.kind.reads()) {
            (true, reads) => {
                if !call.kind.is_positioned() {
                    file.position += count;
                }
                if !reads {
                    file.size = file.size.max(from + count);
                }
            }
            (false, true) => {
                file.available -= count;
                file.read += count as u64;
            }
            (false, false) => file.room -= count,
        }
        count
    }

    pub(super) fn close(&mut self, fd: RawFd) {
        let opened = self.opened.get_mut((fd - OPENED) as usize);
        let opened = opened.expect("a descriptor that a call has opened");
        assert!(opened.open, "{fd} is closed twice");
        opened.open = false;
    }

    /// The descriptor that a call has opened and that is still open.
    pub(super) fn opened_by(&self, number: usize) -> Option<RawFd> {
        let mut opened = self.opened.iter();
        let found = opened.find(|opened| opened.by == number && opened.open);
        found.map(|opened| opened.fd)
    }

    /// Lets peers send, read, connect or end their streams.
    pub(super) fn stir(&mut self, random: &mut Random) {
        let index = random.below(self.files.len());
        let file = &mut self.files[index];
        match random.below(8) {
            0..=2 => file.available += if file.ended { 0 } else { random.between(1..20) },
            3..=5 => file.room += random.between(1..20),
            6 => file.connections += 1,
            _ => file.ended |= random.chance(1, 4),
        }
    }

    /// Lets everything that waits come to its end.
    pub(super) fn flood(&mut self) {
        for file in &mut self.files {
            file.ended = true;
            file.available += 50;
            file.room += 50;
            file.connections += 1;
        }
    }

    /// Opens the number of a closed descriptor again.
    pub(super) fn reopen(&mut self, fd: RawFd) {
        let file = self.file_mut(fd);
        file.open = true;
        (file.available, file.room, file.ended, file.position) = (5, 5, false, 0);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RealKind {
    Pipe,
    Socket,
    NonBlocking,
    Regular,
}

struct Real {
    fd: OwnedFd,
    kind: RealKind,
}

/// Descriptors of each kind, on which no call is made but questions.
fn real() -> &'static [Real] {
    static REAL: OnceLock<Vec<Real>> = OnceLock::new();
    REAL.get_or_init(|| {
        let (from, to) = pipe();
        let (socket, other) = stream_pair();
        fcntl_setfl(&other, OFlags::RDWR | OFlags::NONBLOCK).expect("a socket has the mode");
        // Far above the others: a `close_range` may end where the table of descriptors has no entry yet.
        let regular = tempfile::tempfile().expect("a temporary file");
        let regular = fcntl_dupfd_cloexec(&regular, 200).expect("a free number");
        let real = |fd, kind| Real { fd, kind };
        vec![
            real(from, RealKind::Pipe),
            real(to, RealKind::Pipe),
            real(socket, RealKind::Socket),
            real(other, RealKind::NonBlocking),
            real(regular, RealKind::Regular),
        ]
    })
}
