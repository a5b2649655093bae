//! The body of a test in a child process, with one failing call.

use std::ffi::c_int;
use std::time::Duration;

use super::{Counted, Fault, Faults, Kind, chosen, kind, start};
use crate::child::{self, Ended};
use crate::extent;

/// A call that marks the beginning and the end of the body, and that no program makes otherwise.
pub(super) const MARK: c_int = libc::SYS_personality as c_int;
/// The argument with which it changes nothing.
const QUERY: libc::c_ulong = 0xffff_ffff;

/// A child with a failing call.
#[derive(Debug)]
pub struct Failing {
    /// The result of the child.
    pub ended: Ended,
    /// The call that the fault met.
    pub hit: Option<String>,
    /// The number of calls of each kind in the body, in the order of the kinds.
    pub seen: Vec<u32>,
}

/// Names, in the environment of the child, the errno with which the call fails.
const ERRNO: &str = "LAIO_TEST_FAILING_ERRNO";

/// In the body of a child: the errno with which one of its calls fails.
pub fn failing_errno() -> Option<c_int> {
    std::env::var(ERRNO).ok()?.parse().ok()
}

/// Runs the body of a test in a child process as [`child::run`] does; calls of these kinds that the body makes are
/// counted, and one of them fails.
///
/// # Panics
///
/// When the child cannot be started.
pub fn child(
    limit: Duration,
    test: &str,
    mark: &str,
    kinds: &[&Kind],
    fault: Option<Fault>,
    body: impl FnOnce(),
) -> Option<Failing> {
    let mut numbers: Vec<c_int> = kinds.iter().map(|kind| kind.number()).collect();
    numbers.push(MARK);
    let counted = Counted {
        fault,
        pauses: true,
        ..Counted::default()
    };
    let mut faults: Option<Faults> = None;
    let spawn = |command: &mut std::process::Command| {
        if let Some(errno) = fault.and_then(|fault| fault.errno_of_call()) {
            command.env(ERRNO, errno.to_string());
        }
        let (child, started) = start(command, &numbers, counted)?;
        faults = Some(started);
        Ok(child)
    };
    let marked = || {
        mark_calls();
        body();
        mark_calls();
    };
    let ended = child::run_spawned(limit, test, mark, spawn, marked)?;
    let faults = faults.expect("the child was started");
    Some(Failing {
        ended,
        hit: faults.hit(),
        seen: kinds.iter().map(|kind| faults.seen(kind)).collect(),
    })
}

/// Runs the body of a test once without a fault, and then once for each fault that [`chosen`] returns for each kind of
/// these names; by default only for one kind in four, for others with another mark. The body must return in
/// each child; it finds the errno in [`failing_errno`].
///
/// # Panics
///
/// If a body does not return (the message has its output), or no kind has one of the names.
pub fn each(limit: Duration, test: &str, mark: &str, names: &[&str], body: impl Fn()) {
    if crate::lacks("seccomp") {
        return;
    }
    let kinds = names.iter().map(|name| kind(name).expect("a kind"));
    let kinds: Vec<&'static Kind> = kinds.collect();
    let run = |fault| child(limit, test, mark, &kinds, fault, &body);
    let Some(counted) = run(None) else {
        return;
    };
    let output = &counted.ended.output;
    assert!(counted.ended.finished, "without a fault: {output}");
    let mut wrong = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        if !extent::chooses(mark, index, 4) {
            continue;
        }
        for fault in chosen(kind, counted.seen[index], index) {
            let failing = run(Some(fault)).expect("a child");
            if !failing.ended.finished {
                wrong.push(format!(
                    "{fault}: {:?}\n{}",
                    failing.hit, failing.ended.output
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn mark_calls() {
    // SAFETY: the call takes no pointers, and this argument changes nothing.
    unsafe { libc::personality(QUERY) };
}
