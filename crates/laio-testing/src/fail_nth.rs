//! Fails the n-th system call of a kind in another program, by seccomp notification.
//!
//! A filter makes the chosen calls of a program wait for this process, which counts them over all threads and
//! children, lets them go on, and fails one of them (or ends the program there). The program is not traced, so it
//! makes the same choices as without a fault; io_uring operations are no system calls and are not counted.
//!
//! ```no_run
//! use laio_testing::fail_nth::{self, Fault};
//! use std::process::Command;
//!
//! // The third statx fails.
//! let statx = fail_nth::kind("statx").unwrap();
//! let mut command = Command::new("cp");
//! command.args(["-r", "from", "to"]);
//! let fault = Fault::errno(statx, 3, libc::EIO);
//! let (mut child, faults) = fail_nth::spawn(&mut command, &[statx], Some(fault)).unwrap();
//! child.wait().unwrap();
//! println!("{} calls, failed: {:?}", faults.seen(statx), faults.hit());
//! ```

mod child;
mod choice;
mod kinds;
pub(crate) mod listener;

use std::collections::HashMap;
use std::ffi::c_int;
use std::fmt;
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

pub use child::{Failing, child, each, failing_errno};
pub use choice::chosen;
pub use kinds::{KINDS, Kind, OF_FILES, errno_name, kind};
use listener::{Answer, Asked, Handover};

/// Starts a program whose calls of these kinds are counted, and one of them fails. Without a fault they are only
/// counted until [`Faults::arm`] sets one.
///
/// # Errors
///
/// If the program cannot be started, or the kernel refuses the filter.
pub fn spawn(
    command: &mut Command,
    kinds: &[&Kind],
    fault: Option<Fault>,
) -> io::Result<(Child, Faults)> {
    let numbers: Vec<i32> = kinds.iter().map(|kind| kind.number()).collect();
    let counted = Counted {
        fault,
        ..Counted::default()
    };
    start(command, &numbers, counted)
}

fn start(command: &mut Command, numbers: &[i32], counted: Counted) -> io::Result<(Child, Faults)> {
    let handover = Arc::new(Handover::new()?);
    listener::filter_in_child(command, numbers, handover.clone());
    let shared = Arc::new(Mutex::new(counted));
    let supervisor = {
        let (handover, shared) = (handover.clone(), shared.clone());
        thread::Builder::new()
            .name("fail-nth".into())
            .spawn(move || supervise(&handover, &shared))?
    };
    let started = command.spawn();
    if started.is_err() {
        handover.give_up();
    }
    let faults = Faults {
        shared,
        supervisor: Some(supervisor),
    };
    started.map(|child| (child, faults))
}

/// A fault: which call of a kind, counted from the start or from [`Faults::arm`], and what happens there.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    kind: &'static Kind,
    nth: u32,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Fails(c_int),
    AlwaysFails(c_int),
    Kills,
}

impl Fault {
    /// Returns a fault in which the n-th call (from 1) fails with an errno, and the others succeed.
    pub fn errno(kind: &'static Kind, nth: u32, errno: c_int) -> Fault {
        let what = What::Fails(errno);
        Fault { kind, nth, what }
    }

    /// Returns a fault in which the n-th call and all later ones fail with an errno.
    pub fn from_then_on(kind: &'static Kind, nth: u32, errno: c_int) -> Fault {
        let what = What::AlwaysFails(errno);
        Fault { kind, nth, what }
    }

    /// Returns a fault in which `SIGKILL` ends the process before its n-th call is made.
    pub fn kill(kind: &'static Kind, nth: u32) -> Fault {
        let what = What::Kills;
        Fault { kind, nth, what }
    }

    fn errno_of_call(&self) -> Option<c_int> {
        match self.what {
            What::Fails(errno) | What::AlwaysFails(errno) => Some(errno),
            What::Kills => None,
        }
    }

    fn answer(&self, count: u32) -> Answer {
        match self.what {
            What::Fails(errno) if count == self.nth => Answer::Fail(errno),
            What::AlwaysFails(errno) if count >= self.nth => Answer::Fail(errno),
            What::Kills if count == self.nth => Answer::Kill,
            _ => Answer::GoOn,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, nth) = (self.kind.name, self.nth);
        match self.what {
            What::Fails(errno) => write!(f, "{name} number {nth} fails with {}", errno_name(errno)),
            What::AlwaysFails(errno) => {
                write!(
                    f,
                    "{name} fails with {} from number {nth} on",
                    errno_name(errno)
                )
            }
            What::Kills => write!(f, "the process is killed at {name} number {nth}"),
        }
    }
}

/// The faults of one started program, and what it did.
#[derive(Debug)]
pub struct Faults {
    shared: Arc<Mutex<Counted>>,
    supervisor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counted {
    fault: Option<Fault>,
    seen: HashMap<i32, u32>,
    hit: Option<String>,
    /// Whether calls are not counted now: see [`child()`].
    pauses: bool,
}

impl Faults {
    /// Sets the fault, and counts from zero again.
    pub fn arm(&self, fault: Fault) {
        *lock(&self.shared) = Counted {
            fault: Some(fault),
            ..Counted::default()
        };
    }

    /// Removes the fault, and counts from zero again.
    pub fn disarm(&self) {
        *lock(&self.shared) = Counted::default();
    }

    /// Returns the number of calls of this kind since the last [`arm`](Faults::arm) or
    /// [`disarm`](Faults::disarm).
    pub fn seen(&self, kind: &Kind) -> u32 {
        lock(&self.shared)
            .seen
            .get(&kind.number())
            .copied()
            .unwrap_or(0)
    }

    /// Returns the call that the fault met first: its thread, arguments and file.
    pub fn hit(&self) -> Option<String> {
        lock(&self.shared).hit.clone()
    }
}

/// Waits until the program and its children have ended.
impl Drop for Faults {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            // Its panic is a bug of this module, which the next test would hide.
            assert!(
                supervisor.join().is_ok() || thread::panicking(),
                "the supervisor panicked"
            );
        }
    }
}

fn supervise(handover: &Handover, shared: &Mutex<Counted>) {
    let Some(listener) = handover.take() else {
        return;
    };
    while let Some(asked) = listener.next() {
        let answer = decide(&asked, &mut lock(shared));
        listener.answer(&asked, answer);
    }
}

fn decide(asked: &Asked, counted: &mut Counted) -> Answer {
    if asked.is_internal() {
        return Answer::GoOn;
    }
    if asked.number() == child::MARK {
        counted.pauses = !counted.pauses;
        return Answer::GoOn;
    }
    if counted.pauses {
        return Answer::GoOn;
    }
    let count = counted.seen.entry(asked.number()).or_insert(0);
    *count += 1;
    let Some(fault) = counted
        .fault
        .filter(|fault| fault.kind.number() == asked.number())
    else {
        return Answer::GoOn;
    };
    let answer = fault.answer(*count);
    if !matches!(answer, Answer::GoOn) && counted.hit.is_none() {
        counted.hit = Some(format!("{}{}", fault.kind.name, asked.describe()));
    }
    answer
}

fn lock(shared: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    // The program must go on, whatever happened to a test.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    /// Runs a shell script with a fault, and returns its status, and the call that the fault met.
    fn run(
        script: &str,
        fault: Option<Fault>,
        kinds: &[&'static Kind],
    ) -> (Option<i32>, Option<String>, u32) {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", script])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let (mut child, faults) = spawn(&mut command, kinds, fault).unwrap();
        let status = child.wait().unwrap();
        (status.code(), faults.hit(), faults.seen(kinds[0]))
    }

    #[test]
    fn only_the_chosen_call_fails() {
        if crate::lacks("seccomp") {
            return;
        }
        let chdir = kind("chdir").unwrap();
        let script = "cd / || exit 1; cd /tmp || exit 2; cd / || exit 3; exit 9";
        let without = run(script, None, &[chdir]);
        assert_eq!(without, (Some(9), None, 3));
        for nth in 1..=3 {
            let (status, hit, seen) =
                run(script, Some(Fault::errno(chdir, nth, libc::EIO)), &[chdir]);
            assert_eq!((status, seen), (Some(nth as i32), nth));
            assert!(hit.unwrap().starts_with("chdir"));
        }
        let (status, hit, _) = run(script, Some(Fault::errno(chdir, 4, libc::EIO)), &[chdir]);
        assert_eq!((status, hit), (Some(9), None));
    }

    #[test]
    fn all_later_calls_fail_also_of_children() {
        if crate::lacks("seccomp") {
            return;
        }
        let chdir = kind("chdir").unwrap();
        let script = "cd /; (cd /) || (cd /) || exit 7";
        let fault = Fault::from_then_on(chdir, 2, libc::EACCES);
        let (status, _, seen) = run(script, Some(fault), &[chdir]);
        assert_eq!((status, seen), (Some(7), 3));
    }

    #[test]
    fn a_kill_ends_the_program_before_the_call() {
        if crate::lacks("seccomp") {
            return;
        }
        let chdir = kind("chdir").unwrap();
        let (status, hit, _) = run("cd /; exit 9", Some(Fault::kill(chdir, 1)), &[chdir]);
        assert_eq!(status, None);
        assert!(hit.is_some());
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let mut command = Command::new("/does/not/exist");
        let error = spawn(&mut command, &[kind("chdir").unwrap()], None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
