//! Placement: where the next step of an operation goes. [`Case::gather`] gathers what decides, and
//! [`placement`] decides, over plain values and without a system call.

use crate::attempt::{Try, Why, may_open_device};
use crate::background::{Background, Parts};
use crate::knowledge::Knowledge;
use crate::knowledge::hints::Hints;
use crate::knowledge::mounts::FileKind;
use crate::operations::{Access, Direction, InFlight, Link, Operations, Order, Part, Slot};
use crate::sys::memory::can_read;
use crate::table::{Attempt, Class, Opcode, Row, Timeout, Transfer};
use crate::transfer::{only_plain, reads_bytes, uses_position};
use crate::{Call, Errno, sys};
use std::os::fd::RawFd;

/// Hands an operation's next step, which is `call`, to the part of the background that takes it.
/// Returns false if the operation must be attempted first.
pub(crate) fn hand_over(
    background: &mut Background,
    operations: &mut Operations,
    knowledge: &mut Knowledge,
    slot: Slot,
    call: &Call,
    why: Why,
) -> Result<bool, Errno> {
    let parts = background.accepts(operations[slot].row, operations[slot].regular);
    let case = Case::gather(operations, slot, call, why, parts, knowledge);
    let started = offer(case, |part| {
        background.start(part, operations, slot, call, why)
    })?;
    let closes = operations[slot].row.attempt == Attempt::Close;
    if started && closes && operations[slot].remote.is_some() {
        operations.begin_remote_close(slot, &mut knowledge.hints);
    }
    Ok(started)
}

/// Offers a step to one part after the other, until one has started it. Returns false if the operation must be
/// attempted first.
pub(crate) fn offer(
    mut case: Case,
    mut start: impl FnMut(Part) -> Result<bool, Errno>,
) -> Result<bool, Errno> {
    loop {
        let Some(part) = placement(&case).part() else {
            return Ok(false);
        };
        if start(part)? {
            return Ok(true);
        }
        case.parts.decline(part);
    }
}

/// Where the next step of an operation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// io_uring makes the call.
    Ring,
    /// A worker thread of io_uring makes the call: trying it on the submitting thread could wait.
    RingWorker,
    /// The call is attempted first: an invalid call fails at once, and must not wait for readiness.
    Attempt,
    /// The descriptor's readiness is awaited; then the call is attempted again.
    Readiness,
    /// POSIX AIO or Linux AIO makes the call.
    Aio,
    /// A helper thread makes the plain call.
    Helper(Reason),
}

/// Why a helper makes the plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Only another thread can write the status word.
    StatusWord,
    /// The thread that opens the file also reads its status, and brings its beginning into memory.
    AfterOpen,
    /// It opens a FIFO or device, or may: that can wait, and can have side effects.
    Device,
    /// It reads a terminal that is hung up already.
    HungUpTerminal,
    /// The ring ignores the time-outs of sockets, and sometimes non-blocking mode.
    TimeoutOrMode,
    /// The ring accepts an offset that the plain call refuses.
    InvalidOffset,
    /// The ring does not advance the file position in all cases.
    FilePosition,
    /// The ring would pass the buffered write on to a worker, because the file system has no
    /// non-blocking form of it: that worker sleeps between two calls, a helper looks for the next.
    BriefWrite,
    /// It asks a remote or FUSE file system. A worker of the ring that waits for one is missing to all
    /// other calls, and for a file the ring may report more bytes than were read.
    Remote,
    /// Its arguments ask for more than the non-blocking forms do.
    Arguments,
    /// No other part takes it.
    NoOther,
}

/// What decides the placement of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Why the step was not made inline.
    pub(crate) why: Why,
    pub(crate) parts: Parts,
    /// The call has a non-blocking form.
    pub(crate) has_attempt: bool,
    /// The call waits for one event of one descriptor, and is attempted after it.
    pub(crate) is_poll: bool,
    /// The call can be attempted whenever its descriptor is ready.
    pub(crate) is_retriable: bool,
    pub(crate) has_status_word: bool,
    /// The `open` was tried, and more is wanted of the thread that makes it.
    pub(crate) goes_on_after_open: bool,
    pub(crate) may_open_device: bool,
    pub(crate) began_hung_up: bool,
    pub(crate) has_timeout_or_mode: bool,
    pub(crate) has_invalid_offset: bool,
    pub(crate) moves_file_position: bool,
    pub(crate) is_brief_write: bool,
    pub(crate) is_remote: bool,
    /// See [`crate::transfer::only_plain`].
    pub(crate) only_plain: bool,
    /// The ring's own attempt, on the submitting thread, could wait for a remote file system.
    pub(crate) waits_in_submission: bool,
}

/// Decides where the next step of an operation goes.
pub(crate) fn placement(case: &Case) -> Placement {
    if case.is_poll && case.parts.readiness {
        return Placement::Readiness;
    }
    if let Some(reason) = needs_helper(case) {
        return Placement::Helper(reason);
    }
    if case.parts.ring {
        return if case.waits_in_submission {
            Placement::RingWorker
        } else {
            Placement::Ring
        };
    }
    if case.is_retriable && case.parts.readiness && case.why != Why::Unsupported {
        let attempted = case.why == Why::WouldBlock || !case.has_attempt;
        return if attempted {
            Placement::Readiness
        } else {
            Placement::Attempt
        };
    }
    if case.parts.aio {
        Placement::Aio
    } else {
        Placement::Helper(Reason::NoOther)
    }
}

/// Why no other part may make this step, if so.
fn needs_helper(case: &Case) -> Option<Reason> {
    let reasons = [
        (case.has_status_word, Reason::StatusWord),
        (case.goes_on_after_open, Reason::AfterOpen),
        (case.may_open_device, Reason::Device),
        (case.began_hung_up, Reason::HungUpTerminal),
        (case.has_timeout_or_mode, Reason::TimeoutOrMode),
        (case.has_invalid_offset, Reason::InvalidOffset),
        (case.moves_file_position, Reason::FilePosition),
        (case.is_brief_write, Reason::BriefWrite),
        (case.is_remote, Reason::Remote),
        (case.only_plain, Reason::Arguments),
    ];
    let reason = reasons.into_iter().find(|(applies, _)| *applies);
    reason.map(|(_, reason)| reason)
}

impl Placement {
    /// The part that takes the step; `None` for an attempt.
    pub(crate) fn part(self) -> Option<Part> {
        match self {
            Placement::Attempt => None,
            Placement::Ring => Some(Part::Ring),
            Placement::RingWorker => Some(Part::RingWorker),
            Placement::Readiness => Some(Part::Readiness),
            Placement::Aio => Some(Part::Aio),
            Placement::Helper(_) => Some(Part::Helper),
        }
    }
}

impl Case {
    /// A call of this row without peculiarities: the file is local, and a stream is a socket or pipe
    /// in blocking mode, without time-outs.
    pub(crate) fn usual(row: &Row, why: Why, parts: Parts) -> Case {
        let is_retriable = match row.attempt {
            Attempt::NowaitRead | Attempt::NowaitWrite | Attempt::Dontwait(_) => true,
            // The ring takes an `accept`, so that it does not wait for readiness.
            _ => row.opcode == Some(Opcode::Accept) && !parts.ring,
        };
        Case {
            why,
            parts,
            has_attempt: row.attempt != Attempt::Never,
            is_poll: false,
            is_retriable: is_retriable && row.class == Class::Stream,
            has_status_word: false,
            goes_on_after_open: false,
            may_open_device: false,
            began_hung_up: false,
            has_timeout_or_mode: false,
            has_invalid_offset: false,
            moves_file_position: false,
            is_brief_write: false,
            is_remote: false,
            only_plain: false,
            waits_in_submission: false,
        }
    }

    /// Gathers what decides the placement of an operation's next step, which is `call`. Questions to
    /// the kernel are asked only where the answer matters.
    pub(crate) fn gather(
        operations: &mut Operations,
        slot: Slot,
        call: &Call,
        why: Why,
        parts: Parts,
        knowledge: &mut Knowledge,
    ) -> Case {
        let operation = &operations[slot];
        let (row, regular) = (operation.row, operation.regular);
        let usual = Case::usual(row, why, parts);
        let fd = call.descriptor(0);
        let stream = row.class == Class::Stream && !regular;
        let tried = why == Why::WouldBlock;
        // The ring ignores SO_RCVTIMEO and SO_SNDTIMEO. It also ignores non-blocking mode where the
        // kernel supports non-blocking attempts (FMODE_NOWAIT: sockets and pipes): there it waits
        // for readiness. An attempt that failed with EAGAIN has seen the mode.
        // FileKind::Stream excludes sockets, which alone have these time-outs.
        let may_time_out = knowledge.hints.kind(fd) != Some(FileKind::Stream);
        let has_timeout_or_mode = stream
            && !(why == Why::ExpectedToBlock || operation.zero_copy)
            && ((may_time_out && has_timeout(fd, Direction::for_row(row)))
                || (!tried && sys::is_nonblocking(fd)));
        let began_hung_up =
            stream && !tried && reads_bytes(row, call) && sys::terminal::is_hung_up(fd);
        let has_status_word = operation.status.is_some();
        // FUSE refuses the attempt, and may have been mounted since the table of mounts was read.
        let suspect = match why {
            Why::Unsupported => true,
            Why::KnownUnsupported => row.attempt == Attempt::NowaitRead,
            _ => false,
        };
        let remote = knowledge.asked_remote(row, call, regular, suspect, tried);
        let case = Case {
            is_poll: operation.polled().is_some(),
            is_retriable: usual.is_retriable
                && stream
                && (row.opcode != Some(Opcode::Accept) || is_well_formed_accept(row, call)),
            has_status_word,
            goes_on_after_open: tried && operation.goes_on_after_open(),
            may_open_device: operation.is_provisional()
                // An attempt has read the name.
                || (!has_status_word && may_open_device(row, call, tried)),
            began_hung_up,
            has_timeout_or_mode,
            has_invalid_offset: parts.ring
                && !tried
                && has_invalid_offset(operation, &operations.order, knowledge),
            // The ring does not advance the file position when a transfer ends outside the
            // submission (O_DIRECT, FUSE), nor when the rest of it fails (the disk is full, a
            // buffer is bad).
            moves_file_position: regular && uses_position(row, call),
            is_brief_write: parts.ring
                && why == Why::KnownUnsupported
                && row.attempt == Attempt::NowaitWrite,
            // Seen on Linux 6.18: at the end of a FUSE file the ring counts the bytes before it
            // twice. And a FUSE file counts as ready, because it has a poll operation, so a read
            // waits inside io_uring_enter.
            is_remote: remote.is_some(),
            only_plain: only_plain(row, call),
            // For `open` the kernel trusts the dcache, also for a remote or FUSE file system, and
            // that a name does not lead to one cannot always be seen.
            waits_in_submission: row.attempt == Attempt::CachedOpen
                && knowledge.mounts.any_remote(),
            ..usual
        };
        operations[slot].began_hung_up = began_hung_up;
        operations[slot].remote = remote;
        case
    }
}

/// Whether the call gives an offset for a descriptor without positions, which the ring accepts but
/// the plain call refuses.
fn has_invalid_offset(operation: &InFlight, order: &Order, knowledge: &mut Knowledge) -> bool {
    let placed = matches!(
        operation.row.transfer,
        Transfer::Buffer {
            offset: Some(_),
            ..
        } | Transfer::Vector {
            offset: Some(_),
            ..
        }
    );
    let fd = operation.call.descriptor(0);
    // The hint may be stale, so ask for a position (pipes have none). Not needed while other
    // operations are in flight: the first of them has checked.
    placed
        && !order.has_others(fd)
        && (knowledge.kind(fd) != FileKind::Regular || !sys::has_position(fd))
}

/// Whether the descriptor is a socket with a time-out in this direction (`SO_RCVTIMEO`,
/// `SO_SNDTIMEO`).
fn has_timeout(fd: RawFd, direction: Direction) -> bool {
    sys::has_timeout(
        fd,
        match direction {
            Direction::Read => libc::SO_RCVTIMEO,
            Direction::Write => libc::SO_SNDTIMEO,
        },
    )
}

/// Whether an `accept` waits for a connection, rather than fail at once.
fn is_well_formed_accept(row: &Row, call: &Call) -> bool {
    use rustix::net::sockopt::socket_acceptconn;
    let listens = sys::borrow(call.descriptor(0)).map(socket_acceptconn);
    let known = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    listens == Some(Ok(true)) && row.flags_of(call) & !known == 0
}

/// The link of a poll without a time-out on one event of one descriptor, if readiness can serve it:
/// a part reports readiness, and no other operation waits there for the same event. Later calls then
/// queue behind it, and a close cancels it.
pub(crate) fn link_of_poll(
    this: &Try<'_>,
    reports_readiness: bool,
    order: &Order,
    hints: &Hints,
) -> Option<Link> {
    let (fd, direction) = polled(this)?;
    let access = match direction {
        Direction::Read => Access::READING,
        Direction::Write => Access::WRITING,
    };
    let link = Link::new(fd, access).ordered(hints.is_ordered(fd));
    let free = reports_readiness && !this.has_status && !order.must_wait(&link);
    free.then_some(link)
}

/// The descriptor and direction of a poll that has neither time-out nor signal mask.
fn polled(this: &Try<'_>) -> Option<(RawFd, Direction)> {
    let Try { row, call, .. } = *this;
    let args = &call.args;
    let for_ever = match row.attempt {
        _ if !row.polls || args[1] != 1 => return None,
        // poll: in milliseconds.
        Attempt::ZeroTimeout(arg, Timeout::Milliseconds) => (args[arg as usize] as i32) < 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A blocked call without peculiarities.
    const PLAIN: Case = Case {
        why: Why::WouldBlock,
        parts: Parts {
            ring: false,
            readiness: false,
            aio: false,
        },
        has_attempt: true,
        is_poll: false,
        is_retriable: false,
        has_status_word: false,
        goes_on_after_open: false,
        may_open_device: false,
        began_hung_up: false,
        has_timeout_or_mode: false,
        has_invalid_offset: false,
        moves_file_position: false,
        is_brief_write: false,
        is_remote: false,
        only_plain: false,
        waits_in_submission: false,
    };

    /// A blocked `recv`.
    const RECEIVE: Case = Case {
        is_retriable: true,
        ..PLAIN
    };

    const RING: Parts = Parts {
        ring: true,
        readiness: true,
        aio: false,
    };

    const EPOLL: Parts = Parts {
        ring: false,
        readiness: true,
        aio: false,
    };

    const AIO: Parts = Parts {
        ring: false,
        readiness: true,
        aio: true,
    };

    #[test]
    fn each_case_has_its_place() {
        use Placement::*;
        let helper = Helper(Reason::NoOther);
        let with = |case: Case, parts: Parts| Case { parts, ..case };
        let because = |case: Case, why: Why| Case { why, ..case };
        let table = [
            ("receive, ring", with(RECEIVE, RING), Ring),
            ("receive, epoll", with(RECEIVE, EPOLL), Readiness),
            ("receive, threads only", RECEIVE, helper),
            (
                "queued receive: attempted before it waits",
                because(with(RECEIVE, EPOLL), Why::Ordered),
                Attempt,
            ),
            (
                "queued accept: has no attempt",
                Case {
                    has_attempt: false,
                    ..because(with(RECEIVE, EPOLL), Why::Ordered)
                },
                Readiness,
            ),
            (
                "a descriptor without non-blocking form",
                because(with(RECEIVE, EPOLL), Why::Unsupported),
                helper,
            ),
            ("file, ring", with(PLAIN, RING), Ring),
            ("file, epoll", with(PLAIN, EPOLL), helper),
            (
                "open, remote file system",
                Case {
                    waits_in_submission: true,
                    ..with(PLAIN, RING)
                },
                RingWorker,
            ),
            ("file, AIO", with(PLAIN, AIO), Aio),
            (
                "poll, ring",
                Case {
                    is_poll: true,
                    ..with(PLAIN, RING)
                },
                Readiness,
            ),
            (
                "poll of a descriptor that epoll declined",
                Case {
                    is_poll: true,
                    ..PLAIN
                },
                helper,
            ),
        ];
        for (name, case, expected) in table {
            assert_eq!(placement(&case), expected, "{name}");
        }
    }

    #[test]
    fn what_only_a_plain_call_does_goes_to_a_helper() {
        type Field = fn(&mut Case) -> &mut bool;
        let table: [(Field, Reason); 10] = [
            (|case| &mut case.has_status_word, Reason::StatusWord),
            (|case| &mut case.goes_on_after_open, Reason::AfterOpen),
            (|case| &mut case.may_open_device, Reason::Device),
            (|case| &mut case.began_hung_up, Reason::HungUpTerminal),
            (|case| &mut case.has_timeout_or_mode, Reason::TimeoutOrMode),
            (|case| &mut case.has_invalid_offset, Reason::InvalidOffset),
            (|case| &mut case.moves_file_position, Reason::FilePosition),
            (|case| &mut case.is_brief_write, Reason::BriefWrite),
            (|case| &mut case.is_remote, Reason::Remote),
            (|case| &mut case.only_plain, Reason::Arguments),
        ];
        for parts in [RING, EPOLL, AIO, Parts::default()] {
            for (field, reason) in table {
                let mut case = Case { parts, ..RECEIVE };
                *field(&mut case) = true;
                assert_eq!(placement(&case), Placement::Helper(reason));
            }
        }
    }

    #[test]
    fn a_step_that_every_part_declines_goes_to_a_helper() {
        let mut case = Case {
            parts: Parts { aio: true, ..RING },
            ..RECEIVE
        };
        for expected in [Placement::Ring, Placement::Readiness, Placement::Aio] {
            assert_eq!(placement(&case), expected);
            case.parts.decline(expected.part().expect("a part"));
        }
        assert_eq!(placement(&case), Placement::Helper(Reason::NoOther));
    }
}
