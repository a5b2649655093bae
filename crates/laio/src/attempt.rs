//! Attempts: ways to make a call inline so that it cannot block.
//!
//! An attempt either returns the result that the plain call would have returned, or it has no
//! effect beyond those that the plain call, made in the background afterwards, has too. If an errno
//! could mean either "cannot be attempted here" or be the call's result, the background makes the
//! plain call.

mod carry;
mod descriptor;
mod path;
mod stream;

use crate::context::Context;
use crate::descriptors::{Access, Link};
use crate::strategy::Strategy;
use crate::table::{Attempt, Class, Opcode, Row, Transfer, Use};
use crate::{Call, Errno, sys};

pub(crate) use descriptor::{is_disk_command, range as descriptor_range};
pub(crate) use path::{RingOpened, may_be_empty_name, may_open_device};

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

/// Why a call must go to the background, and the bytes that the attempt has moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    /// Bytes already moved.
    pub(crate) done: usize,
    pub(crate) why: Why,
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
    /// The call must wait for an earlier operation on the descriptor.
    Ordered,
    /// No spare carrier is left to continue the program.
    NoCarrier,
}

impl Attempted {
    pub(crate) fn blocked(done: usize, why: Why) -> Attempted {
        Attempted::Blocked(Blocked { done, why })
    }

    const WOULD_BLOCK: Attempted = Attempted::Blocked(Blocked {
        done: 0,
        why: Why::WouldBlock,
    });
}

impl Context {
    /// Makes or attempts a call with the back end's strategy for its class.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn attempt(&mut self, index: usize, row: &Row, call: &Call) -> Attempted {
        let strategy = self.strategies[row.class as usize];
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_by_strategy(strategy, row, call) };
        self.count(index, strategy, attempted)
    }

    /// Updates the statistics and the inline budget after an attempt.
    pub(crate) fn count(
        &mut self,
        index: usize,
        strategy: Strategy,
        attempted: Attempted,
    ) -> Attempted {
        match attempted {
            Attempted::Done(result) => {
                self.stats.calls[index].inline += 1;
                if !matches!(strategy, Strategy::Try | Strategy::Carry) || !self.over_budget() {
                    return Attempted::Done(result);
                }
                Attempted::OverBudget(result)
            }
            Attempted::OverBudget(_) => unreachable!("only `count` makes OverBudget"),
            Attempted::Blocked(blocked) => {
                let counts = &mut self.stats.calls[index];
                match blocked.why {
                    Why::WouldBlock | Why::Ordered | Why::ExpectedToBlock | Why::ZeroCopy => {
                        counts.background += 1;
                    }
                    Why::NotTried | Why::Unsupported | Why::NoCarrier => counts.fallback += 1,
                    Why::KnownUnsupported => {
                        counts.fallback += 1;
                        counts.latched += 1;
                    }
                }
                attempted
            }
        }
    }

    /// Makes or attempts a call with this strategy, in order with the operations in flight.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn attempt_by_strategy(
        &mut self,
        strategy: Strategy,
        row: &Row,
        call: &Call,
    ) -> Attempted {
        match row.class {
            Class::Refused => return Attempted::Done(Err(row.refusal)),
            Class::Thread => {
                // SAFETY: by the caller.
                return Attempted::Done(unsafe { self.thread_bound(row, call) });
            }
            _ => {}
        }
        if self.operations.live() > 0 && self.must_wait(row, call) {
            return Attempted::blocked(0, Why::Ordered);
        }
        // SAFETY: by the caller, for all calls below.
        unsafe {
            match (strategy, row.attempt) {
                // These cancel the operations in flight on their descriptors first, with every
                // strategy.
                (_, Attempt::Close) => self.close(strategy, call),
                (_, Attempt::Duplicate(arg)) => self.duplicate(strategy, row, call, arg),
                (_, Attempt::CloseRange) => self.close_range(strategy, call),
                (Strategy::Plain, Attempt::Fcntl) if self.blocks_inline() => {
                    Attempted::Done(self.plain(row, call))
                }
                (Strategy::Plain | Strategy::Try | Strategy::Carry, Attempt::Fcntl) => {
                    self.fcntl(row, call)
                }
                (Strategy::Plain, Attempt::Seek) if self.seek_asks_remote(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                (Strategy::Plain, Attempt::Ioctl) if self.is_disk_command(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                (Strategy::Plain, _) => Attempted::Done(self.plain(row, call)),
                // A poll of a stream waits by readiness, which needs no thread.
                (Strategy::Carry, attempt)
                    if row.polls
                        && !self.options.carry_streams
                        && self.link_of_poll(row, call).is_some() =>
                {
                    self.attempt_nonblocking(attempt, row, call)
                }
                (Strategy::Carry, _) => self.carry(row, call),
                (Strategy::Try, Attempt::NowaitRead | Attempt::NowaitWrite)
                    if self.activations.is_some() && self.is_known_file(call) =>
                {
                    self.carry(row, call)
                }
                (Strategy::Background, _) => Attempted::blocked(0, Why::NotTried),
                (Strategy::Try, _) if self.inject.attempts_fail => Attempted::WOULD_BLOCK,
                (Strategy::Try, attempt) => self.attempt_nonblocking(attempt, row, call),
            }
        }
    }

    /// Makes the call in its non-blocking form, if it has one.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn attempt_nonblocking(
        &mut self,
        attempt: Attempt,
        row: &Row,
        call: &Call,
    ) -> Attempted {
        // SAFETY: by the caller.
        unsafe {
            match attempt {
                Attempt::Never if accepts_at_once(row, call) => {
                    Attempted::Done(self.plain(row, call))
                }
                Attempt::Never => Attempted::blocked(0, Why::NotTried),
                Attempt::Plain | Attempt::Seek | Attempt::Ioctl => {
                    Attempted::Done(self.plain(row, call))
                }
                Attempt::PlainIfLocal => self.if_local(row, call),
                Attempt::NowaitRead => self.nowait_read(row, call),
                Attempt::NowaitWrite => self.nowait_write(row, call),
                Attempt::Dontwait(flags) => self.dontwait(row, call, flags),
                Attempt::CachedOpen => self.cached_open(row, call),
                Attempt::CachedStat => self.cached_stat(row, call),
                Attempt::CachedAccess => self.cached_access(row, call),
                Attempt::Flag(arg, bits) => self.with_flag(row, call, arg, bits),
                Attempt::ZeroTimeout(arg, form) => self.with_zero_timeout(call, arg, form),
                Attempt::Fcntl | Attempt::Close | Attempt::Duplicate(_) | Attempt::CloseRange => {
                    unreachable!("handled before, whatever the strategy")
                }
            }
        }
    }

    /// Attempts an operation whose descriptor has become ready.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    pub(crate) unsafe fn retry_attempt(&mut self, row: &Row, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        unsafe { self.attempt_nonblocking(row.attempt, row, call) }
    }

    /// Makes the call itself. It never returns `EINTR`: [`crate::blocking`] restarts calls that may
    /// block.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn plain(&mut self, row: &Row, call: &Call) -> Result<usize, Errno> {
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

    /// Makes a call that reads or changes state of the calling thread.
    ///
    /// # Errors
    /// Those of the call, and those of [`Context::flush`], which then are the call's result.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    #[cold]
    unsafe fn thread_bound(&mut self, row: &Row, call: &Call) -> Result<usize, Errno> {
        // Submit queued ring and AIO entries first: they must not run with credentials, directory
        // or umask that are set here. If that fails, the call is not made.
        self.flush()?;
        // SAFETY: by the caller.
        let make = || unsafe { sys::syscall(call) };
        let result = match &self.activations {
            Some(activations) if row.changes_identity => activations.change_identity(make),
            _ => make(),
        };
        if row.changes_identity && result.is_ok() {
            self.rights_changed(row);
        }
        if let Some(activations) = &self.activations {
            activations.note_mask();
        }
        result
    }

    /// Whether the call must wait for an operation in flight on one of its descriptors.
    fn must_wait(&self, row: &Row, call: &Call) -> bool {
        if matches!(
            row.attempt,
            Attempt::Close | Attempt::Duplicate(_) | Attempt::CloseRange
        ) {
            return false;
        }
        row.descriptors.iter().flatten().any(|descriptor| {
            let fd = call.descriptor(descriptor.arg);
            let seeks = row.attempt == Attempt::Seek;
            let access = if seeks {
                Access::BOTH
            } else {
                access(row, call, descriptor)
            };
            let link = Link::new(fd, access).ordered(self.knowledge.hints.is_ordered(fd));
            self.descriptors.must_wait(&link)
        })
    }

    /// The links of an operation for this call to its descriptors, with the access to each.
    pub(crate) fn links(&self, row: &Row, call: &Call, regular: bool) -> [Link; 2] {
        let mut links = [Link::UNUSED; 2];
        if let Some(poll) = self.link_of_poll(row, call) {
            links[0] = poll;
            return links;
        }
        for (link, descriptor) in links.iter_mut().zip(row.descriptors.iter().flatten()) {
            let fd = call.descriptor(descriptor.arg);
            let closes = row.attempt == Attempt::Close;
            let mut access = if closes {
                Access::CLOSING
            } else {
                access(row, call, descriptor)
            };
            // Reads and writes of a file share its position.
            if access != Access::NONE && regular && !closes {
                access = Access::BOTH;
            }
            *link = Link::new(fd, access).ordered(self.knowledge.hints.is_ordered(fd));
        }
        if let Attempt::Duplicate(arg) = row.attempt
            && call.descriptor(arg) != call.descriptor(0)
        {
            links[1] = Link::new(call.descriptor(arg), Access::CLOSING);
        }
        // A descriptor that the call names twice gets one link: otherwise the operation would wait
        // for itself.
        let [first, second] = &mut links;
        if first.fd == second.fd {
            first.access = first.access.union(second.access);
            *second = Link::UNUSED;
        }
        links
    }
}

fn access(row: &Row, call: &Call, descriptor: &crate::table::Descriptor) -> Access {
    if let Some(pointer) = descriptor.offset_pointer
        && call.args[pointer as usize] != 0
    {
        return Access::NONE;
    }
    // preadv2 and pwritev2 use the file position when the offset is -1.
    if let Transfer::Vector {
        offset: Some(offset),
        flags: Some(_),
        ..
    } = row.transfer
        && call.args[offset as usize] == usize::MAX
    {
        return Access::BOTH;
    }
    match descriptor.usage {
        Use::Unordered | Use::Directory => Access::NONE,
        Use::Read => Access::READING,
        Use::Write => Access::WRITING,
        Use::Both => Access::BOTH,
    }
}

/// Whether the call is an `accept` on a non-blocking socket: then the plain call does not wait.
fn accepts_at_once(row: &Row, call: &Call) -> bool {
    row.opcode == Some(Opcode::Accept) && sys::is_nonblocking(call.descriptor(0))
}
