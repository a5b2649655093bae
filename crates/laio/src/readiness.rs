//! Waiting for readiness without a helper: for calls that are attempted again afterwards, and for
//! polls of a single descriptor.

use crate::attempt::Try;
use crate::background::prepare;
use crate::background::reactor::Direction;
use crate::context::{Context, Waiter};
use crate::descriptors::{Access, Link};
use crate::operation::{Operation, Slot, State};
use crate::sys::memory::can_read;
use crate::table::{Attempt, Opcode, Row, Use};
use crate::{BackendKind, Call, Errno, sys};
use std::os::fd::RawFd;

impl Context {
    /// The link of a poll without a time-out on one event of one descriptor, if readiness can serve
    /// it: no other operation waits there for the same event. Later calls then queue behind it, and
    /// a close cancels it.
    pub(crate) fn link_of_poll(&self, this: &Try<'_>) -> Option<Link> {
        let (fd, direction) = polled(this)?;
        let access = match direction {
            Direction::Read => Access::READING,
            Direction::Write => Access::WRITING,
        };
        let waits = match &self.waiter {
            Waiter::Ring(_) => true,
            Waiter::Reactor(_) => self.uses_reactor(),
        };
        let link = Link::new(fd, access).ordered(self.knowledge.hints.is_ordered(fd));
        let free = waits && !this.has_status && !self.descriptors.must_wait(&link);
        free.then_some(link)
    }

    /// Whether this back end waits for streams by epoll.
    pub(crate) fn uses_reactor(&self) -> bool {
        self.kind.is_hybrid() || matches!(self.kind, BackendKind::Lazy | BackendKind::Activations)
    }

    /// Waits for the readiness that an operation needs. Returns false if epoll does not support the
    /// descriptor, it is not open, or max_user_watches is reached.
    pub(crate) fn wait_until_ready(&mut self, slot: Slot) -> Result<bool, Errno> {
        let (fd, direction) = awaited(&self.operations[slot]);
        match &mut self.waiter {
            Waiter::Ring(ring) => {
                let entry = prepare::readiness(fd, direction == Direction::Write);
                // SAFETY: the entry points to nothing.
                unsafe { ring.push(entry, self.operations.handle(slot).to_raw())? };
            }
            Waiter::Reactor(reactor) => {
                if reactor.add(fd, direction, slot).is_err() {
                    return Ok(false);
                }
            }
        }
        self.operations[slot].state = State::Readiness;
        Ok(true)
    }
}

/// The descriptor and direction whose readiness an operation waits for.
pub(crate) fn awaited(operation: &Operation) -> (RawFd, Direction) {
    polled_descriptor(operation).unwrap_or((operation.call.descriptor(0), direction(operation.row)))
}

/// The descriptor and direction that a poll started with [`Context::link_of_poll`] waits for.
pub(crate) fn polled_descriptor(operation: &Operation) -> Option<(RawFd, Direction)> {
    let link = operation.links[0];
    let direction = match link.access {
        _ if !operation.row.polls => return None,
        Access::READING => Direction::Read,
        Access::WRITING => Direction::Write,
        _ => return None,
    };
    Some((link.fd, direction))
}

/// The descriptor and direction of a poll that has neither time-out nor signal mask.
fn polled(this: &Try<'_>) -> Option<(RawFd, Direction)> {
    let Try { row, call, .. } = *this;
    let args = &call.args;
    let for_ever = match row.attempt {
        _ if !row.polls || args[1] != 1 => return None,
        // poll: in milliseconds.
        Attempt::ZeroTimeout(arg, crate::table::Timeout::Milliseconds) => {
            (args[arg as usize] as i32) < 0
        }
        _ => args[2] == 0 && args[3] == 0,
    };
    let address = args[0];
    let readable = address.is_multiple_of(align_of::<libc::pollfd>())
        && (this.memory_is_good || can_read(address, size_of::<libc::pollfd>()));
    if !for_ever || !readable {
        return None;
    }
    // SAFETY: aligned plain data that can be read, and belongs to the call.
    let poll = unsafe { *(address as *const libc::pollfd) };
    let direction = match poll.events {
        libc::POLLOUT => Direction::Write,
        events if events == libc::POLLIN || events == libc::POLLIN | libc::POLLRDHUP => {
            Direction::Read
        }
        _ => return None,
    };
    (poll.fd >= 0).then_some((poll.fd, direction))
}

/// Whether the call can be attempted again whenever its descriptor is ready. `on_ring`: the ring
/// takes it, so that an `accept` does not wait for readiness.
pub(crate) fn waits_for_readiness(row: &Row, call: &Call, on_ring: bool) -> bool {
    match row.attempt {
        Attempt::NowaitRead | Attempt::NowaitWrite | Attempt::Dontwait(_) => true,
        _ => row.opcode == Some(Opcode::Accept) && !on_ring && is_well_formed_accept(row, call),
    }
}

/// Whether an `accept` waits for a connection, rather than fail at once.
fn is_well_formed_accept(row: &Row, call: &Call) -> bool {
    use rustix::net::sockopt::socket_acceptconn;
    let listens = sys::borrow(call.descriptor(0)).map(socket_acceptconn);
    let known = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    listens == Some(Ok(true)) && row.flags_of(call) & !known == 0
}

pub(crate) fn direction(row: &Row) -> Direction {
    match row.descriptors[0].map(|descriptor| descriptor.usage) {
        Some(Use::Write) => Direction::Write,
        _ => Direction::Read,
    }
}

pub(crate) fn is_connect(row: &Row) -> bool {
    row.opcode == Some(Opcode::Connect)
}

/// Whether the descriptor is a socket with `SO_RCVTIMEO`, or `SO_SNDTIMEO` where `write` says so.
pub(crate) fn has_timeout(fd: RawFd, write: bool) -> bool {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    let direction = if write { Timeout::Send } else { Timeout::Recv };
    let timeout = sys::borrow(fd).map(|fd| socket_timeout(fd, direction));
    matches!(timeout, Some(Ok(Some(_))))
}
