//! Attempts: ways to make a call inline so that it cannot block.
//!
//! An attempt either returns the result that the plain call would have returned, or it has no
//! effect beyond those that the plain call, made in the background afterwards, has too. If an errno
//! could mean either "cannot be attempted here" or be the call's result, the background makes the
//! plain call.

mod descriptor;
mod opened;
mod path;
mod stream;

use crate::knowledge::Knowledge;
use crate::knowledge::mounts::NowaitKind;
use crate::table::{self, Attempt, Class, Opcode, Row};
use crate::transfer::Provisional;
use crate::{Call, Errno, sys};

pub(crate) use descriptor::range as descriptor_range;
pub use opened::Examined;
pub(crate) use opened::{has_peer, is_file, provisional, set_mode};
pub(crate) use path::{may_be_empty_name, may_open_device};

/// A call to make inline, and what its caller knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Try<'a> {
    pub(crate) row: &'static Row,
    pub(crate) call: &'a Call,
    /// Whether a typed operation owns the memory, so that it is not probed.
    pub(crate) memory_is_good: bool,
    /// Whether the call has a status word. Only a helper can write it, so no carrier and no
    /// readiness event may serve the call.
    pub(crate) has_status: bool,
    /// Where an `open` records the status of the file, if its operation wants it.
    pub(crate) examined: Option<&'a Examined>,
    /// How many bytes at the beginning of the file to bring into memory; see
    /// [`crate::Operation::wants_loaded`].
    pub(crate) load: usize,
}

impl Try<'_> {
    pub(crate) fn new(call: &Call) -> Try<'_> {
        Try {
            row: table::row(call.number),
            call,
            memory_is_good: false,
            has_status: false,
            examined: None,
            load: 0,
        }
    }
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Attempted {
    /// The call's result.
    Done(Result<usize, Errno>),
    /// The call's result, but the inline budget is used up: `poll` delivers it.
    OverBudget(Result<usize, Errno>),
    /// The call must go to the background.
    Blocked(Blocked),
}

/// A call that a carrier is still making: the address of its `Flight`, see [`crate::background`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CarriedCall(pub(crate) *const ());

/// Why a call must go to the background, and what the attempt leaves to its operation.
#[derive(Debug)]
pub(crate) struct Blocked {
    /// Bytes already moved.
    pub(crate) done: usize,
    pub(crate) why: Why,
    /// The FIFO that the attempt has opened (or a note that it opened and closed a device). The FIFO
    /// stays open so that its peer does not see it closed before a helper opens it again; freeing
    /// the operation's slot closes it. See [`crate::transfer::Scratch::provisional`].
    pub(crate) provisional: Option<Provisional>,
    /// The call itself, which blocked in its thread while a spare thread took over the program.
    pub(crate) in_flight: Option<CarriedCall>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The attempt would have blocked.
    WouldBlock,
    /// The back end or the class has no attempt.
    NotTried,
    /// No attempt was made: the typed operation asks for none, and wants to wait even if the
    /// descriptor is non-blocking.
    ExpectedToBlock,
    /// No attempt was made: only io_uring has zero-copy sends.
    ZeroCopy,
    /// The file, or this environment, does not support the attempt.
    Unsupported,
    /// The file system is known not to support the attempt.
    KnownUnsupported,
    /// No attempt was made: calls of this kind on this descriptor have blocked nearly every time.
    UsuallyBlocks,
    /// The call must wait for an earlier operation on the descriptor.
    Ordered,
    /// The call was not made on a carrier, because no spare is left to continue the program, and the
    /// attempt made instead did not finish it.
    NoCarrier,
}

impl Blocked {
    /// Nothing was moved or opened.
    pub(crate) const fn because(why: Why) -> Blocked {
        Blocked {
            done: 0,
            why,
            provisional: None,
            in_flight: None,
        }
    }
}

impl Attempted {
    pub(crate) fn blocked(done: usize, why: Why) -> Attempted {
        Attempted::Blocked(Blocked {
            done,
            ..Blocked::because(why)
        })
    }

    pub(crate) const WOULD_BLOCK: Attempted = Attempted::Blocked(Blocked::because(Why::WouldBlock));
}

impl Knowledge {
    /// Makes the call in its non-blocking form, if it has one.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn attempt(&mut self, this: &Try<'_>) -> Attempted {
        let Try { row, call, .. } = *this;
        // SAFETY: by the caller.
        unsafe {
            match row.attempt {
                Attempt::Never if accepts_at_once(row, call) => Attempted::Done(plain(row, call)),
                Attempt::Never => Attempted::blocked(0, Why::NotTried),
                Attempt::PlainIfLocal => self.if_local(row, call),
                Attempt::NowaitRead => self.nowait(row, call, NowaitKind::Reads),
                Attempt::NowaitWrite => self.nowait(row, call, NowaitKind::Writes),
                Attempt::Dontwait(flags) => self.dontwait(row, call, flags),
                Attempt::CachedOpen => self.cached_open(this),
                Attempt::CachedStat => self.cached_stat(this),
                Attempt::CachedAccess => self.cached_access(row, call),
                Attempt::Flag(arg, bits) => self.with_flag(row, call, arg, bits),
                Attempt::ZeroTimeout(arg, form) => self.with_zero_timeout(call, arg, form),
                Attempt::Plain
                | Attempt::Seek
                | Attempt::Ioctl
                | Attempt::Fcntl
                | Attempt::Close
                | Attempt::Duplicate(_)
                | Attempt::CloseRange => self.plain(this),
            }
        }
    }

    /// Makes the call itself, unless it would wait for a disk or for a remote file system.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn plain(&mut self, this: &Try<'_>) -> Attempted {
        let Try { row, call, .. } = *this;
        // SAFETY: by the caller.
        unsafe {
            match row.attempt {
                Attempt::Close => self.close(call),
                Attempt::Duplicate(arg) => self.duplicate(call, arg),
                Attempt::CloseRange => self.close_range(call),
                _ if self.blocks_inline => Attempted::Done(plain(row, call)),
                Attempt::Fcntl => self.fcntl(row, call),
                Attempt::Seek if self.seek_asks_remote(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                Attempt::Ioctl if table::is_disk_command(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                _ => Attempted::Done(plain(row, call)),
            }
        }
    }
}

/// Makes the call itself. Where it may block, [`crate::blocking`] restarts it after a signal.
///
/// # Safety
/// As for the system call.
#[inline]
unsafe fn plain(row: &Row, call: &Call) -> Result<usize, Errno> {
    // SAFETY: by the caller.
    unsafe {
        let waits = row.attempt == Attempt::Fcntl;
        if matches!(row.class, Class::Instant | Class::Thread) && !waits {
            sys::syscall(call)
        } else {
            crate::blocking::run(row, call)
        }
    }
}

/// Whether the call is an `accept` on a non-blocking socket: then the plain call does not wait.
fn accepts_at_once(row: &Row, call: &Call) -> bool {
    row.opcode == Some(Opcode::Accept) && sys::is_nonblocking(call.descriptor(0))
}
