//! Waiting for readiness without a helper: for calls that are attempted again afterwards, and for
//! polls of a single descriptor.

use crate::attempt::Try;
use crate::background::reactor::Direction;
use crate::operations::Access;
use crate::operations::Operation;
use crate::sys::memory::can_read;
use crate::table::{Attempt, Opcode, Row, Use};
use crate::{Call, sys};
use std::os::fd::RawFd;

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
pub(crate) fn polled(this: &Try<'_>) -> Option<(RawFd, Direction)> {
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
