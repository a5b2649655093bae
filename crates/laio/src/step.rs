//! What the result of a step means for its operation: it is finished, or which step comes next.

use crate::attempt::{Attempted, Why, may_be_empty_name};
use crate::blocking::interrupted_transfer;
use crate::operations::{InFlight, Part, State};
use crate::sys::terminal::has_lost_its_master;
use crate::table::{Attempt, Class, Transfer, Use};
use crate::transfer::{continues, reads_bytes, wanted};
use crate::{Errno, sys};

/// What comes after a step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The operation is finished, with this result.
    Finished(Result<usize, Errno>),
    /// Another step, wherever it belongs, for this reason.
    Again(Why),
    /// A non-blocking attempt of the rest.
    Attempt,
    /// A helper makes the plain call.
    Helper,
}

/// After a CQE or an AIO request. `short`: the injected bound of one step; 0 for none.
/// `rights_changed`: the call was refused, and the thread's rights are not the same as at the
/// hand-over.
pub(crate) fn after_result(
    operation: &mut InFlight,
    result: Result<usize, Errno>,
    short: usize,
    rights_changed: bool,
) -> Next {
    let (row, call) = (operation.row, operation.call);
    let errno = match result {
        Ok(moved) => return after_progress(operation, moved, short),
        Err(errno) => errno,
    };
    let done = operation.done;
    match errno {
        Errno::CANCELED
        | Errno::INTR
        | Errno::AGAIN
        | Errno::PERM
        | Errno::ACCES
        | Errno::INVAL
        | Errno::OPNOTSUPP
            if operation.cancelled =>
        {
            Next::Finished(total(done, Err(Errno::CANCELED)))
        }
        // The kernel interrupted it for reasons of its own. Also after a part: the plain call would go on.
        Errno::INTR => Next::Again(Why::WouldBlock),
        // The stream is in non-blocking mode, and the ring respects that where the kernel has no
        // non-blocking attempts (no FMODE_NOWAIT; see `Case::gather` for sockets and pipes). In
        // blocking mode the operation cannot wait on the ring (splice), but can in a helper.
        Errno::AGAIN if row.class == Class::Stream && sys::is_nonblocking(call.descriptor(0)) => {
            Next::Finished(total(done, Err(errno)))
        }
        // With the thread's present rights the plain call might be allowed although it was not
        // when the program made it.
        Errno::PERM | Errno::ACCES if rights_changed => Next::Finished(total(done, Err(errno))),
        // Either the call's result, or "not supported here": an older kernel, or a security
        // module or io_uring restriction that forbids this opcode (seccomp cannot). A helper
        // makes the plain call of the rest to find out; this step has had no effect.
        Errno::AGAIN
        | Errno::CANCELED
        | Errno::PERM
        | Errno::ACCES
        | Errno::INVAL
        | Errno::NOSYS
        | Errno::OPNOTSUPP
        | Errno::BADF
        | Errno::BADFD
            if row.attempt != Attempt::Close =>
        {
            Next::Helper
        }
        _ if done > 0 => Next::Finished(Ok(done)),
        // The ring checks names before flags; the plain call checks flags first.
        Errno::NAMETOOLONG | Errno::FAULT | Errno::NOENT
            if row.class == Class::Path
                && row.file.is_some()
                && (errno != Errno::NOENT || may_be_empty_name(row, &call)) =>
        {
            Next::Helper
        }
        // The ring checks the memory before the descriptor. Data may already be received and
        // lost, so a helper repeats a receive only where nothing can have been received.
        Errno::FAULT | Errno::MSGSIZE
            if row.descriptors[0].is_some_and(|first| {
                let fd = call.descriptor(first.arg);
                let of_sockets = matches!(row.attempt, Attempt::Dontwait(_));
                let bad_memory =
                    errno == Errno::FAULT && (first.usage != Use::Read || !sys::is_readable(fd));
                bad_memory || (of_sockets && !sys::is_socket(fd))
            }) =>
        {
            Next::Helper
        }
        errno => Next::Finished(Err(errno)),
    }
}

/// After a step that has moved bytes, or has succeeded with a value that is no byte count.
fn after_progress(operation: &mut InFlight, moved: usize, short: usize) -> Next {
    let (row, call, regular) = (operation.row, operation.call, operation.regular);
    let fd = call.descriptor(0);
    operation.done += moved;
    let done = operation.done;
    if done == 0 && may_lose_terminal(operation) && has_lost_its_master(fd) {
        // The ring began to read after the master was closed. The plain call would have been
        // waiting then.
        return Next::Finished(Err(Errno::IO));
    }
    if moved == 0 || !wants_more(operation) {
        return Next::Finished(Ok(done));
    }
    let over = match row.attempt {
        // The kernel writes a file to the end, or to a limit (of space, or of the process);
        // continuing would meet that limit again, and RLIMIT_FSIZE raises a signal.
        Attempt::NowaitWrite => regular && moved != short,
        // MSG_WAITALL has no meaning for datagrams, and a datagram is never sent in part.
        Attempt::Dontwait(_) => {
            !matches!(row.transfer, Transfer::Messages { .. }) && !sys::is_stream_socket(fd)
        }
        _ => false,
    };
    if over {
        return Next::Finished(Ok(done));
    }
    if row.attempt == Attempt::NowaitRead && regular {
        // This is usually the end of the file, which an attempt finds without another submission.
        return Next::Attempt;
    }
    if !regular && sys::is_nonblocking(fd) {
        Next::Finished(Ok(done))
    } else {
        Next::Again(Why::WouldBlock)
    }
}

/// After an AIO request, which may have been limited to `cut` bytes. It stops short where the plain call does, so only a bounded step of the
/// engine continues.
pub(crate) fn after_request(
    operation: &mut InFlight,
    result: Result<usize, Errno>,
    cut: Option<usize>,
    short: usize,
    rights_changed: bool,
) -> Next {
    let Ok(moved) = result else {
        return after_result(operation, result, short, rights_changed);
    };
    operation.done += moved;
    let stopped_at_bound = moved > 0 && (cut == Some(moved) || moved == short);
    if stopped_at_bound && wants_more(operation) {
        Next::Again(Why::WouldBlock)
    } else {
        Next::Finished(Ok(operation.done))
    }
}

/// After an attempt that was made because the descriptor was ready, or for the rest of a transfer.
pub(crate) fn after_attempt(operation: &mut InFlight, attempted: Attempted, short: usize) -> Next {
    match attempted {
        Attempted::Done(Ok(moved)) | Attempted::OverBudget(Ok(moved)) if moved > 0 && short > 0 => {
            after_progress(operation, moved, short)
        }
        Attempted::Done(result) | Attempted::OverBudget(result) => {
            Next::Finished(total(operation.done, result))
        }
        Attempted::Blocked(blocked) => {
            operation.done += blocked.done;
            operation.spurious_wakeups = match blocked.done {
                0 if operation.state == State::With(Part::Readiness) => {
                    operation.spurious_wakeups + 1
                }
                _ => 0,
            };
            match operation.spurious_wakeups < SPURIOUS_WAKEUPS_MAX {
                // An attempt that moves nothing must not lead to another. The placement never answers
                // these two reasons with one: the first waits for readiness, the second does not.
                true if blocked.why == Why::WouldBlock => Next::Again(Why::WouldBlock),
                true => Next::Again(Why::Unsupported),
                false => Next::Helper,
            }
        }
    }
}

/// After the call of a carrier, which blocked there while a spare thread took over the program.
pub(crate) fn after_carrier(operation: &mut InFlight, result: Result<usize, Errno>) -> Next {
    match result {
        Err(errno) if errno.is_interruption() && operation.cancelled => {
            Next::Finished(Err(Errno::CANCELED))
        }
        // A signal handler of the program interrupted it: a helper, which handles no signals,
        // makes the rest.
        Err(errno) if errno.is_interruption() => {
            operation.done = 0;
            Next::Helper
        }
        Ok(moved)
            if moved > 0
                && !operation.cancelled
                && interrupted_transfer(operation.row, &operation.call, moved) =>
        {
            operation.done = moved;
            Next::Helper
        }
        result => Next::Finished(result),
    }
}

/// The result of an operation that had moved `done` bytes before a call with this result.
pub(crate) fn total(done: usize, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Ok(moved) => Ok(done + moved),
        Err(_) if done > 0 => Ok(done),
        Err(errno) => Err(errno),
    }
}

/// Whether the operation continues after a short transfer, and has not moved all its bytes.
fn wants_more(operation: &InFlight) -> bool {
    let InFlight { row, call, .. } = operation;
    !operation.cancelled
        && continues(row, call, operation.regular)
        // SAFETY: the kernel has just accepted the pointers.
        && unsafe { wanted(row, call) }.is_some_and(|wanted| operation.done < wanted)
}

/// Readiness events in a row without progress after which a helper makes the call. Another process
/// may have taken the data; and a datagram socket that is shut down for reading is always ready,
/// but a non-blocking receive returns `EAGAIN` where a blocking one returns 0.
const SPURIOUS_WAKEUPS_MAX: u8 = 3;

/// Whether the operation reads a stream, has no bytes yet, and its descriptor was no hung-up
/// terminal when it was started. If a terminal's master is closed meanwhile, a plain read that
/// waits fails with `EIO`, and a read that begins later returns 0.
pub(crate) fn may_lose_terminal(operation: &InFlight) -> bool {
    operation.done == 0
        && !operation.regular
        && !operation.began_hung_up
        && reads_bytes(operation.row, &operation.call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Blocked;
    use crate::operations::Slots;
    use crate::{Call, table};

    #[test]
    fn a_blocked_attempt_leads_to_no_other() {
        let reasons = [
            Why::WouldBlock,
            Why::NotTried,
            Why::ExpectedToBlock,
            Why::ZeroCopy,
            Why::Unsupported,
            Why::KnownUnsupported,
            Why::Ordered,
            Why::NoCarrier,
        ];
        let call = Call::new(libc::SYS_read, [0, 0, 0]);
        let mut slots = Slots::new(1);
        let slot = slots.insert(table::row(call.number), &call, 0);
        for why in reasons {
            let blocked = Attempted::Blocked(Blocked::because(why));
            let expected = match why {
                Why::WouldBlock => Next::Again(Why::WouldBlock),
                _ => Next::Again(Why::Unsupported),
            };
            assert_eq!(after_attempt(&mut slots[slot], blocked, 0), expected);
        }
    }
}
