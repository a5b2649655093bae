//! Looks a blocked call up in the engine's table of system calls.

use crate::proc_files::BlockedCall;
use crate::report::Cause;
use laio::table::{self, Attempt, Class, Row};

/// The row of a call; `None` outside of a call.
pub(crate) fn row(call: &BlockedCall) -> Option<&'static Row> {
    Some(table::row(call.number?))
}

/// The name of a call.
pub(crate) fn name(call: &BlockedCall) -> &'static str {
    row(call).map_or("page fault", |row| row.name)
}

/// Whether the call waits for a lock or a condition variable.
pub(crate) fn is_futex(call: &BlockedCall) -> bool {
    row(call).is_some_and(|row| row.name.starts_with("futex"))
}

/// What laio does with the call in place of waiting for it.
pub(crate) fn remedy(row: &Row, subject: &str) -> &'static str {
    let has_ring = row.opcode.is_some();
    // `read` and `write` are calls on streams that also take files.
    let class = match row.class {
        Class::Stream if subject.starts_with('/') => Class::FileRead,
        class => class,
    };
    match (class, row.attempt) {
        (Class::Instant, _) => "laio makes it at once: it waits only if its memory is not there",
        (Class::Thread, _) => "laio makes it plainly: it belongs to its thread",
        (Class::Refused, _) => "laio does not make this call",
        (Class::Stream, _) if has_ring => {
            "laio attempts it, then waits on the ring or for readiness"
        }
        (_, Attempt::Never) if has_ring => "laio gives it to the ring, or to a helper thread",
        (_, Attempt::Never) => "laio gives it to a helper thread",
        _ if has_ring => "laio attempts it, then gives it to the ring or to a helper thread",
        _ => "laio attempts it, then gives it to a helper thread",
    }
}

/// What else a wait is, if it is not one in a call that laio makes.
pub(crate) fn other_remedy(cause: Cause, subject: &str) -> &'static str {
    match cause {
        Cause::PageFault if subject.starts_with('/') => {
            "not a system call: a page of a mapped file was not in memory; \
             laio reads files without mapping them"
        }
        Cause::PageFault => "not a system call: a page of memory was not there",
        Cause::Futex => "not a file: another thread has the lock, or has to wake this one",
        Cause::Processor => "not a call: more threads can run than there are processors",
        Cause::Stopped | Cause::Call => "",
    }
}

/// The number of a call of this processor.
#[cfg(test)]
pub(crate) fn number(name: &str) -> Option<usize> {
    (0..1024).find(|number| table::row(*number).name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_follow_the_table() {
        let remedy = |name| remedy(table::row(number(name).unwrap()), "");
        assert_eq!(
            remedy("pread64"),
            "laio attempts it, then gives it to the ring or to a helper thread"
        );
        assert_eq!(
            remedy("fsync"),
            "laio gives it to the ring, or to a helper thread"
        );
        assert_eq!(remedy("getdents64"), "laio gives it to a helper thread");
        assert_eq!(
            remedy("recvmsg"),
            "laio attempts it, then waits on the ring or for readiness"
        );
    }
}
