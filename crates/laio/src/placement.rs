//! Placement: which part of the back end takes an operation's next step. One decision over plain
//! values, without a system call; [`crate::lifecycle`] gathers the values and hands the step over.

use crate::attempt::Why;

/// A part of the background, which may have an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// io_uring makes the call.
    Ring,
    /// A worker thread of io_uring makes the call (`IOSQE_ASYNC`).
    RingWorker,
    /// A poll entry on the ring, or an interest in the epoll set, reports that the descriptor is
    /// ready; then the operation is attempted again.
    Readiness,
    /// POSIX AIO or Linux AIO has the step, or it is queued until a request is free.
    Aio,
    /// A helper thread makes the call.
    Helpers,
    /// The call blocked in the thread that was left behind when a spare thread took over the
    /// program.
    Carriers,
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
    /// For a remote or FUSE file the ring may report more bytes than were read.
    RemoteFile,
    /// Its arguments ask for more than the non-blocking forms do.
    Arguments,
    /// No other part takes it.
    NoOther,
}

/// The parts besides helpers that a step may go to. A part that declines a step is cleared here,
/// and the placement is asked again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    /// There is a ring, and the thread's rights allow it to take the call.
    pub(crate) ring: bool,
    /// A ring or epoll reports readiness.
    pub(crate) readiness: bool,
    pub(crate) aio: bool,
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
    pub(crate) may_open_device: bool,
    pub(crate) began_hung_up: bool,
    pub(crate) has_timeout_or_mode: bool,
    pub(crate) has_invalid_offset: bool,
    pub(crate) moves_file_position: bool,
    pub(crate) is_remote_file: bool,
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
        return match case.waits_in_submission {
            true => Placement::RingWorker,
            false => Placement::Ring,
        };
    }
    if case.is_retriable && case.parts.readiness && case.why != Why::Unsupported {
        let attempted = case.why == Why::WouldBlock || !case.has_attempt;
        return match attempted {
            true => Placement::Readiness,
            false => Placement::Attempt,
        };
    }
    match case.parts.aio {
        true => Placement::Aio,
        false => Placement::Helper(Reason::NoOther),
    }
}

/// Why no other part may make this step, if so.
fn needs_helper(case: &Case) -> Option<Reason> {
    let reasons = [
        (case.has_status_word, Reason::StatusWord),
        (case.may_open_device, Reason::Device),
        (case.began_hung_up, Reason::HungUpTerminal),
        (case.has_timeout_or_mode, Reason::TimeoutOrMode),
        (case.has_invalid_offset, Reason::InvalidOffset),
        (case.moves_file_position, Reason::FilePosition),
        (case.is_remote_file, Reason::RemoteFile),
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
            Placement::Helper(_) => Some(Part::Helpers),
        }
    }
}

impl Parts {
    /// Clears a part that has declined the step.
    pub(crate) fn decline(&mut self, part: Part) {
        match part {
            Part::Ring | Part::RingWorker => self.ring = false,
            Part::Readiness => self.readiness = false,
            Part::Aio => self.aio = false,
            Part::Helpers | Part::Carriers => unreachable!("neither declines a step"),
        }
    }
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
        may_open_device: false,
        began_hung_up: false,
        has_timeout_or_mode: false,
        has_invalid_offset: false,
        moves_file_position: false,
        is_remote_file: false,
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
        let table: [(Field, Reason); 8] = [
            (|case| &mut case.has_status_word, Reason::StatusWord),
            (|case| &mut case.may_open_device, Reason::Device),
            (|case| &mut case.began_hung_up, Reason::HungUpTerminal),
            (|case| &mut case.has_timeout_or_mode, Reason::TimeoutOrMode),
            (|case| &mut case.has_invalid_offset, Reason::InvalidOffset),
            (|case| &mut case.moves_file_position, Reason::FilePosition),
            (|case| &mut case.is_remote_file, Reason::RemoteFile),
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
