//! The inline try: each way of making a call so that it cannot block.
//!
//! Every attempt ends in one of two ways. Either its result is the one that the plain call would have
//! given, or it has had no effect that the plain call, run in the background afterwards, would not have
//! had too. Where an errno could mean either "this cannot be tried here" or a true answer, the
//! background finds out by making the plain call.

mod carry;
mod descriptor;
mod path;
mod stream;

use crate::context::Context;
use crate::descriptors::{Access, Link};
use crate::mounts::FileKind;
use crate::strategy::Strategy;
use crate::table::{Attempt, Class, Opcode, Row, Transfer, Use};
use crate::{Call, Errno, sys};
use std::os::fd::RawFd;

pub(crate) use descriptor::{is_disk_command, range as descriptor_range};
pub(crate) use path::may_open_device;
pub(crate) use stream::NowaitKind;

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Attempted {
    /// The call's result.
    Done(Result<usize, Errno>),
    /// The call's result, but the budget of inline results is used up: it goes through `poll`.
    OverBudget(Result<usize, Errno>),
    /// The call must go to the background.
    Blocked(Blocked),
}

/// Why, and how far the attempt got.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    /// Bytes already moved.
    pub(crate) done: usize,
    pub(crate) why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It would have blocked.
    WouldBlock,
    /// No attempt was made: the back end or the class has none.
    NotTried,
    /// No attempt was made: whoever asks expects to wait, and will, in whatever mode a socket is.
    ExpectedToBlock,
    /// No attempt was made: only the ring sends without a copy.
    ZeroCopy,
    /// The file, or this environment, does not know the attempt.
    Unsupported,
    /// The file system is known not to know the attempt.
    KnownUnsupported,
    /// An earlier operation on the descriptor comes first.
    Ordered,
    /// No carrier is left to take the program on.
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
    /// Tries a call as its class and the back end want it tried.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn attempt(&mut self, index: usize, row: &Row, call: &Call) -> Attempted {
        let strategy = self.strategies[row.class as usize];
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_slow(strategy, row, call) };
        self.count(index, strategy, attempted)
    }

    /// Counts how an attempt went, and what it spends of the budget.
    pub(crate) fn count(
        &mut self,
        index: usize,
        strategy: Strategy,
        attempted: Attempted,
    ) -> Attempted {
        match attempted {
            Attempted::Done(result) => {
                self.stats.calls[index].inline += 1;
                if !matches!(strategy, Strategy::Try | Strategy::Carry) || !self.spend_budget() {
                    return Attempted::Done(result);
                }
                Attempted::OverBudget(result)
            }
            Attempted::OverBudget(_) => unreachable!("only this function says so"),
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

    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn attempt_slow(&mut self, strategy: Strategy, row: &Row, call: &Call) -> Attempted {
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
                // These end the operations in flight on their descriptors first, in every way.
                (_, Attempt::Close) => self.close(strategy, call),
                (_, Attempt::Replace(arg)) => self.replace(strategy, row, call, arg),
                (_, Attempt::CloseRange) => self.close_range(strategy, call),
                (Strategy::Plain, Attempt::LockCommand) if self.blocks_inline() => {
                    Attempted::Done(self.plain(row, call))
                }
                (Strategy::Plain | Strategy::Try | Strategy::Carry, Attempt::LockCommand) => {
                    self.lock_command(row, call)
                }
                (Strategy::Plain, Attempt::Position) if self.seek_asks_server(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                (Strategy::Plain, Attempt::DiskCommand) if self.is_disk_command(call) => {
                    Attempted::blocked(0, Why::NotTried)
                }
                (Strategy::Plain, _) => Attempted::Done(self.plain(row, call)),
                // Who waits for peers needs no kernel thread of his own.
                (Strategy::Carry, attempt)
                    if row.polls
                        && !self.options.pure
                        && self.link_of_poll(row, call).is_some() =>
                {
                    self.lazily(attempt, row, call)
                }
                (Strategy::Carry, _) => self.carry(row, call),
                (Strategy::Try, Attempt::NowaitRead | Attempt::NowaitWrite)
                    if self.activations.is_some() && self.is_known_file(call) =>
                {
                    self.carry(row, call)
                }
                (Strategy::Background, _) => Attempted::blocked(0, Why::NotTried),
                (Strategy::Try, _) if self.inject.attempts_fail => Attempted::WOULD_BLOCK,
                (Strategy::Try, attempt) => self.lazily(attempt, row, call),
            }
        }
    }

    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn lazily(&mut self, attempt: Attempt, row: &Row, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        unsafe {
            match attempt {
                Attempt::Never if accepts_at_once(row, call) => {
                    Attempted::Done(self.plain(row, call))
                }
                Attempt::Never => Attempted::blocked(0, Why::NotTried),
                Attempt::Plain | Attempt::Position | Attempt::DiskCommand => {
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
                Attempt::LockCommand
                | Attempt::Close
                | Attempt::Replace(_)
                | Attempt::CloseRange => unreachable!("handled for every way"),
            }
        }
    }

    /// An attempt for an operation whose descriptor has become ready.
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    pub(crate) unsafe fn retry_attempt(&mut self, row: &Row, call: &Call) -> Attempted {
        // SAFETY: by the caller.
        unsafe { self.lazily(row.attempt, row, call) }
    }

    /// The call itself. `EINTR` does not surface: where the plain call may block, see
    /// [`crate::blocking`].
    ///
    /// # Safety
    /// As for [`Context::attempt`].
    #[inline]
    unsafe fn plain(&mut self, row: &Row, call: &Call) -> Result<usize, Errno> {
        // SAFETY: by the caller.
        unsafe {
            let waits = row.attempt == Attempt::LockCommand;
            if matches!(row.class, Class::Instant | Class::Thread) && !waits {
                sys::syscall(call)
            } else {
                crate::blocking::run(row, call)
            }
        }
    }

    /// # Safety
    /// As for [`Context::attempt`].
    #[cold]
    unsafe fn thread_bound(&mut self, row: &Row, call: &Call) -> Result<usize, Errno> {
        // Calls made before must not see the new identity, directory or mask. What the ring has not
        // been given yet would.
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

    /// Whether an operation in flight on one of the call's descriptors comes first.
    fn must_wait(&self, row: &Row, call: &Call) -> bool {
        if matches!(
            row.attempt,
            Attempt::Close | Attempt::Replace(_) | Attempt::CloseRange
        ) {
            return false;
        }
        row.descriptors.iter().flatten().any(|descriptor| {
            let fd = call.descriptor(descriptor.arg);
            let position = row.attempt == Attempt::Position;
            let access = if position {
                Access::BOTH
            } else {
                access(row, call, descriptor)
            };
            self.descriptors.must_wait(fd, access)
        })
    }

    /// What an operation for this call claims on its descriptors.
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
            if !closes && self.descriptors.is_ordered(fd) {
                access = Access::BOTH;
            }
            *link = Link::new(fd, access);
        }
        if let Attempt::Replace(arg) = row.attempt
            && call.descriptor(arg) != call.descriptor(0)
        {
            links[1] = Link::new(call.descriptor(arg), Access::CLOSING);
        }
        // One descriptor in two places is claimed once: else the operation would wait for itself.
        let [first, second] = &mut links;
        if first.fd == second.fd {
            first.access = first.access.union(second.access);
            *second = Link::UNUSED;
        }
        links
    }

    /// The kind of file behind a descriptor: as remembered, else by looking, which is one system call.
    pub(crate) fn kind(&mut self, fd: RawFd) -> FileKind {
        if let Some(kind) = self.descriptors.kind(fd) {
            return kind;
        }
        self.look_at(fd).unwrap_or(FileKind::Stream)
    }

    /// Whether it is a file for certain. To go on reading what is not would wait for what nobody sends, so
    /// a descriptor that was a file when last looked at is looked at again.
    pub(crate) fn is_regular_file(&mut self, fd: RawFd) -> bool {
        let stream = self.descriptors.kind(fd).is_some_and(FileKind::is_stream);
        !stream && self.look_at(fd) == Ok(FileKind::Regular)
    }

    /// Looks at a descriptor and remembers its kind and mount.
    pub(crate) fn look_at(&mut self, fd: RawFd) -> Result<FileKind, Errno> {
        let (kind, mount) = self.mounts.of(fd)?;
        self.descriptors.learn(fd, kind, mount);
        Ok(kind)
    }
}

fn access(row: &Row, call: &Call, descriptor: &crate::table::Descriptor) -> Access {
    if let Some(pointer) = descriptor.offset_pointer
        && call.args[pointer as usize] != 0
    {
        return Access::NONE;
    }
    // preadv2 and pwritev2 use the file's position when the offset is -1.
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

/// Whether it is an `accept` of a socket in non-blocking mode: then the plain call does not wait.
fn accepts_at_once(row: &Row, call: &Call) -> bool {
    row.opcode == Some(Opcode::Accept) && sys::is_nonblocking(call.descriptor(0))
}
