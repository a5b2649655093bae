//! The calls of the simulated program: what each asks for, what the kernel has moved for it, and what it must report.

use crate::attempt::Why;
use crate::table::{self, Row};
use crate::{Call, Errno, Handle};
use laio_testing::Random;
use std::cell::Cell;
use std::rc::Rc;

/// What memory holds that no call has written.
const UNTOUCHED: u8 = 0xEE;
/// What memory holds that was freed.
const FREED: u8 = 0xDD;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    ReadV,
    Recv,
    RecvAll,
    Write,
    WriteV,
    Send,
    ReadAt,
    WriteAt,
    Sync,
    Open,
    Accept,
    Close,
    CloseRange,
}

pub(super) const KINDS: [Kind; 14] = [
    Kind::Read,
    Kind::ReadV,
    Kind::Recv,
    Kind::RecvAll,
    Kind::Write,
    Kind::WriteV,
    Kind::Send,
    Kind::ReadAt,
    Kind::WriteAt,
    Kind::Sync,
    Kind::Open,
    Kind::Accept,
    Kind::Close,
    Kind::CloseRange,
];

impl Kind {
    pub(super) fn reads(self) -> bool {
        matches!(
            self,
            Kind::Read | Kind::ReadV | Kind::Recv | Kind::RecvAll | Kind::ReadAt
        )
    }

    pub(super) fn writes(self) -> bool {
        matches!(
            self,
            Kind::Write | Kind::WriteV | Kind::Send | Kind::WriteAt
        )
    }

    pub(super) fn moves_bytes(self) -> bool {
        self.reads() || self.writes()
    }

    pub(super) fn opens(self) -> bool {
        matches!(self, Kind::Open | Kind::Accept)
    }

    pub(super) fn closes(self) -> bool {
        matches!(self, Kind::Close | Kind::CloseRange)
    }

    pub(super) fn is_positioned(self) -> bool {
        matches!(self, Kind::ReadAt | Kind::WriteAt)
    }
}

/// What has become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    New,
    Pending(Handle),
    /// A typed operation, delivered; its value is not taken.
    Delivered(Handle),
    Over,
    Abandoned,
}

/// What a call is about: a descriptor, and what is behind it.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) fd: i32,
    pub(super) is_regular: bool,
    pub(super) size: usize,
}

pub(super) struct ProgramCall {
    pub(super) kind: Kind,
    pub(super) call: Call,
    pub(super) row: &'static Row,
    /// The descriptors: one, or those of a range.
    pub(super) fds: (i32, i32),
    pub(super) regular: bool,
    /// Which calls it must not overtake: those that overlap in these directions (1 reads, 2 writes), or all.
    pub(super) directions: u8,
    pub(super) ordered: bool,
    pub(super) offset: usize,
    /// Cells, because the kernel writes them.
    memory: Box<[Cell<u8>]>,
    expected: Vec<u8>,
    /// The parts of the memory that the call names.
    vectors: Box<[libc::iovec]>,
    pub(super) length: usize,
    pub(super) moved: usize,
    /// The kernel has refused it, or stopped it short: it need not be complete.
    pub(super) excused: bool,
    pub(super) cancelled: bool,
    pub(super) timed_out: bool,
    pub(super) fate: Fate,
    /// The handle of its operation, if there was one.
    pub(super) handle: Option<Handle>,
    /// The operation has its result, whether or not that is delivered.
    pub(super) finished: bool,
    /// Of a typed operation: whether its value was dropped.
    pub(super) dropped: Option<Rc<Cell<bool>>>,
    pub(super) completions: u32,
    pub(super) why: Why,
}

impl ProgramCall {
    pub(super) fn new(
        kind: Kind,
        target: Target,
        last: i32,
        number: usize,
        random: &mut Random,
    ) -> Self {
        let length = if kind.moves_bytes() {
            random.between(1..40)
        } else {
            0
        };
        let expected: Vec<u8> = if kind.writes() {
            (0..length).map(|index| sent(number, index)).collect()
        } else {
            vec![UNTOUCHED; length]
        };
        let mut this = ProgramCall {
            kind,
            call: Call::new(0, []),
            row: &table::UNKNOWN,
            fds: (target.fd, target.fd),
            regular: target.is_regular && kind.moves_bytes(),
            directions: 0,
            ordered: false,
            offset: random.below(target.size + 4),
            memory: expected.iter().copied().map(Cell::new).collect(),
            expected,
            vectors: Box::default(),
            length,
            moved: 0,
            excused: false,
            cancelled: false,
            timed_out: false,
            fate: Fate::New,
            handle: None,
            finished: false,
            dropped: random.chance(1, 2).then(Rc::default),
            completions: 0,
            why: Why::NotTried,
        };
        if kind == Kind::CloseRange {
            this.fds.1 = last;
        }
        this.vectors = this.split(random);
        this.directions = match kind {
            Kind::ReadAt | Kind::WriteAt | Kind::Sync | Kind::Open => 0,
            _ if this.regular || kind.closes() => 3,
            Kind::Accept => 1,
            _ if kind.reads() => 1,
            _ => 2,
        };
        this.call = this.system_call();
        this.row = table::row(this.call.number);
        this
    }

    /// Cuts the memory into parts, some of them empty.
    fn split(&self, random: &mut Random) -> Box<[libc::iovec]> {
        let mut parts = Vec::new();
        let mut at = 0;
        while at < self.length {
            let part = random.below(self.length - at + 1);
            parts.push(libc::iovec {
                iov_base: self.memory[at..].as_ptr().cast_mut().cast(),
                iov_len: part,
            });
            at += part;
        }
        parts.into()
    }

    fn system_call(&self) -> Call {
        let fd = self.fds.0 as usize;
        let (address, length) = (self.memory.as_ptr() as usize, self.length);
        let (vectors, count) = (self.vectors.as_ptr() as usize, self.vectors.len());
        let wait_all = libc::MSG_WAITALL as usize;
        match self.kind {
            Kind::Read => Call::new(libc::SYS_read, [fd, address, length]),
            Kind::ReadV => Call::new(libc::SYS_readv, [fd, vectors, count]),
            Kind::Recv => Call::new(libc::SYS_recvfrom, [fd, address, length, 0]),
            Kind::RecvAll => Call::new(libc::SYS_recvfrom, [fd, address, length, wait_all]),
            Kind::Write => Call::new(libc::SYS_write, [fd, address, length]),
            Kind::WriteV => Call::new(libc::SYS_writev, [fd, vectors, count]),
            Kind::Send => Call::new(libc::SYS_sendto, [fd, address, length, 0]),
            Kind::ReadAt => Call::new(libc::SYS_pread64, [fd, address, length, self.offset]),
            Kind::WriteAt => Call::new(libc::SYS_pwrite64, [fd, address, length, self.offset]),
            Kind::Sync => Call::new(libc::SYS_fsync, [fd]),
            Kind::Open => {
                let name = c"name".as_ptr() as usize;
                Call::new(libc::SYS_openat, [libc::AT_FDCWD as usize, name, 0])
            }
            Kind::Accept => Call::new(libc::SYS_accept4, [fd, 0, 0, 0]),
            Kind::Close => Call::new(libc::SYS_close, [fd]),
            Kind::CloseRange => Call::new(libc::SYS_close_range, [fd, self.fds.1 as usize, 0]),
        }
    }

    /// The address of a byte of the memory that the call names.
    fn address(&self, index: usize) -> usize {
        self.memory.as_ptr() as usize + index
    }

    pub(super) fn names(&self, fd: i32) -> bool {
        self.kind != Kind::Open && (self.fds.0..=self.fds.1).contains(&fd)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.fate, Fate::Over | Fate::Delivered(_))
    }

    /// Whether this call must not act before the earlier one is over.
    pub(super) fn must_follow(&self, earlier: &ProgramCall) -> bool {
        let shared = self.names(earlier.fds.0) || earlier.names(self.fds.0);
        let closes = self.kind.closes() || earlier.kind.closes();
        let conflict = closes || self.ordered || self.directions & earlier.directions != 0;
        let opens = self.kind == Kind::Open || earlier.kind == Kind::Open;
        shared && conflict && !opens
    }

    /// Moves bytes for a step of this call: `next` has the bytes that a read gets. The step's memory must be exactly
    /// what is left, unless steps are bounded.
    pub(super) fn move_bytes(&mut self, step: &Call, count: usize, next: impl Fn(usize) -> u8) {
        assert!(
            self.moved + count <= self.length,
            "the kernel moves too much"
        );
        if self.kind.is_positioned() {
            assert_eq!(
                step.args[3],
                self.offset + self.moved,
                "the offset of {self}"
            );
        }
        let pieces = pieces(self.row, step);
        let addresses = pieces.iter().flat_map(|&(at, length)| at..at + length);
        for (index, address) in addresses.take(count).enumerate() {
            let at = self.moved + index;
            assert_eq!(address, self.address(at), "byte {at} of {self}");
            if self.kind.reads() {
                let byte = next(index);
                self.expected[at] = byte;
                self.memory[at].set(byte);
            }
        }
        self.moved += count;
    }

    /// The number of bytes that a step asks for.
    pub(super) fn wants(&self, step: &Call, bounded: bool) -> usize {
        let wanted = pieces(self.row, step)
            .iter()
            .map(|&(_, length)| length)
            .sum();
        let left = self.length - self.moved;
        assert!(
            wanted == left || (bounded && wanted < left),
            "a step of {wanted} bytes, {left} are left of {self}"
        );
        wanted
    }

    /// Checks a result, and frees the memory.
    pub(super) fn check(&mut self, result: Result<usize, Errno>) {
        let memory = self.memory.iter().map(Cell::get);
        assert!(
            memory.eq(self.expected.iter().copied()),
            "the memory of {self}"
        );
        match result {
            Ok(count) if self.kind.moves_bytes() => {
                assert_eq!(count, self.moved, "reported and moved by {self}");
                // A read of a stream takes what there is.
                let takes_all = self.regular || self.kind.writes() || self.kind == Kind::RecvAll;
                let complete = !takes_all || count == self.length;
                assert!(
                    complete || self.excused || self.cancelled,
                    "{count} bytes by {self}"
                );
            }
            Ok(_) => {}
            Err(errno) => {
                assert_eq!(self.moved, 0, "{errno:?} hides bytes of {self}");
                let cancelled = errno == Errno::CANCELED || errno == Errno::TIME;
                assert!(!cancelled || self.cancelled, "{errno:?} of {self}");
                assert!(
                    errno != Errno::TIME || self.timed_out,
                    "{errno:?} of {self}"
                );
                assert!(errno != Errno::INTR, "{errno:?} of {self}");
            }
        }
        self.memory.iter().for_each(|byte| byte.set(FREED));
    }
}

impl std::fmt::Display for ProgramCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ProgramCall {
            kind,
            fds,
            length,
            moved,
            fate,
            why,
            ..
        } = self;
        write!(
            f,
            "{kind:?} of {length} on {fds:?} ({moved} moved, {fate:?}, {why:?})"
        )
    }
}

/// The bytes that a call sends.
fn sent(number: usize, index: usize) -> u8 {
    (number * 31 + index * 7) as u8
}

/// The memory that a step names.
fn pieces(row: &Row, step: &Call) -> Vec<(usize, usize)> {
    match row.transfer {
        table::Transfer::Buffer {
            pointer, length, ..
        } => vec![(step.args[pointer as usize], step.args[length as usize])],
        table::Transfer::Vector { vector, count, .. } => {
            let (first, count) = (step.args[vector as usize], step.args[count as usize]);
            let first = first as *const libc::iovec;
            // SAFETY: the array is the program's, or in the scratch memory of its operation.
            let vectors = (0..count).map(|index| unsafe { *first.add(index) });
            vectors
                .map(|vector| (vector.iov_base as usize, vector.iov_len))
                .collect()
        }
        _ => Vec::new(),
    }
}
