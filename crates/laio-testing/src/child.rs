//! Runs one test in a process of its own: the test program executes itself again.
//!
//! For code that must not affect the other tests of a program: installing a seccomp filter (see
//! [`forbid`](crate::forbid)), counting descriptors, forking, exiting with operations in flight.
//!
//! ```no_run
//! use laio_testing::{child, process::fd_count, test_name};
//! use std::time::Duration;
//!
//! // #[test]
//! fn leaks_no_descriptor() {
//!     child::check(Duration::from_secs(60), test_name!(), "", || {
//!         let before = fd_count();
//!         // ... nothing else runs in this process ...
//!         assert_eq!(fd_count(), before);
//!     });
//! }
//! ```

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::child_mark::CHILD;
use crate::limit::{scaled, wait_until};
use crate::watchdog;

pub use crate::child_mark::is_child;

/// The line that a child prints when its body has returned: proof that the body ran.
const PROOF: &str = "laio-testing: the body came to its end:";

/// The result of a child.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; `None` if it was killed after the time limit.
    pub status: Option<ExitStatus>,
    /// Its output on both streams.
    pub output: String,
    /// Whether its body returned.
    pub finished: bool,
}

/// Runs `body` on a test thread in a child process, and returns the child's result.
///
/// `test` is the full name of the running test: write [`test_name!()`](crate::test_name). The test
/// program is started again for this one test; there, the test comes to this line again, runs the
/// body and exits with status 0. So code before this line runs in both processes and code after it
/// only in the first. A test may call this several times with different marks: in a child, the calls
/// with another mark return `None` at once. Also where the machine cannot start the test program again, which is
/// recorded as a skip.
///
/// # Panics
///
/// When the child cannot be started.
pub fn run(limit: Duration, test: &str, mark: &str, body: impl FnOnce()) -> Option<Ended> {
    run_with(limit, test, mark, &[], body)
}

/// As [`run`], with these variables in the child's environment.
///
/// # Panics
///
/// When the child cannot be started.
pub fn run_with(
    limit: Duration,
    test: &str,
    mark: &str,
    variables: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<Ended> {
    let spawn = |command: &mut Command| command.envs(variables.iter().copied()).spawn();
    run_spawned(limit, test, mark, spawn, body)
}

/// As [`run`], with a function that starts the child.
pub(crate) fn run_spawned(
    limit: Duration,
    test: &str,
    mark: &str,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    body: impl FnOnce(),
) -> Option<Ended> {
    let wanted = format!("{test} {mark}");
    match std::env::var(CHILD) {
        Ok(ours) if ours == wanted => {
            body();
            println!("{PROOF} {wanted}");
            std::process::exit(0);
        }
        // A child with another mark, which has not reached its own call yet.
        Ok(ours) if ours.split(' ').next() == Some(test) => None,
        _ if crate::lacks("own-programs") => None,
        _ => Some(start(limit, test, &wanted, spawn)),
    }
}

/// As [`run`], and checks that the body returns.
///
/// # Panics
///
/// Also if the body panicked, did not run, or took longer than `limit`. The message contains the child's
/// output.
pub fn check(limit: Duration, test: &str, mark: &str, body: impl FnOnce()) {
    check_spawned(limit, test, mark, Command::spawn, body);
}

/// As [`check`], with a function that starts the child.
pub(crate) fn check_spawned(
    limit: Duration,
    test: &str,
    mark: &str,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    body: impl FnOnce(),
) {
    let Some(ended) = run_spawned(limit, test, mark, spawn, body) else {
        return;
    };
    let verdict = match ended.status {
        Some(status) if status.success() && ended.finished => return,
        Some(status) if status.success() => "did not run the body: is the name right?".to_owned(),
        Some(status) => format!("failed: {status}"),
        None => format!("was killed after {:?}", scaled(limit)),
    };
    panic!(
        "the child {test} {mark} {verdict}\n--- its output ---\n{}--- end ---",
        ended.output
    );
}

/// Waits for a child process, and kills it after `limit`; returns `None` if it was killed.
///
/// # Panics
///
/// If it is not a child of this process.
pub fn wait_within(limit: Duration, mut child: Child) -> Option<ExitStatus> {
    /// A killed process ends at once, unless it is in an uninterruptible wait.
    const KILL_LIMIT: Duration = Duration::from_secs(60);
    let mut status = None;
    let mut ended = || {
        status = child.try_wait().expect("our own child");
        status.is_some()
    };
    if !wait_until(limit, &mut ended) {
        child.kill().expect("our own child");
        wait_until(KILL_LIMIT, || {
            child.try_wait().expect("our own child").is_some()
        });
        return None;
    }
    status
}

fn start(
    limit: Duration,
    test: &str,
    wanted: &str,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
) -> Ended {
    watchdog::allow(scaled(limit));
    let program = std::env::current_exe().expect("the path of the test program");
    let output = tempfile::tempfile().expect("a file for the output of the child");
    let share = || Stdio::from(output.try_clone().expect("a descriptor for the child"));
    let mut command = Command::new(program);
    command
        .args([
            test,
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env(CHILD, wanted)
        .stdin(Stdio::null())
        .stdout(share())
        .stderr(share());
    let child = spawn(&mut command).expect("the test program as a child");
    let status = wait_within(limit, child);
    let output = contents(output);
    let finished = output.contains(&format!("{PROOF} {wanted}"));
    Ended {
        status,
        output,
        finished,
    }
}

fn contents(mut file: File) -> String {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .expect("the output of the child");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the name of the running test as the test harness knows it, such as `module::tests::name`.
///
/// It is derived from the position in the source, so it is correct on every thread.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        $crate::child::test_name_of(::std::any::type_name_of_val(&here))
    }};
}

/// Helper of [`test_name!`](crate::test_name): converts the path of a function inside the test.
#[doc(hidden)]
pub fn test_name_of(path: &'static str) -> &'static str {
    let mut name = path.strip_suffix("::here").unwrap_or(path);
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    name.split_once("::").map_or(name, |(_crate, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const LIMIT: Duration = Duration::from_secs(120);

    #[test]
    fn the_name_is_that_of_the_test() {
        let expected = "child::tests::the_name_is_that_of_the_test";
        assert_eq!(test_name!(), expected);
        let in_closure = || test_name!();
        assert_eq!(in_closure(), expected);
    }

    #[test]
    fn each_mark_runs_in_a_process_of_its_own() {
        let here = std::process::id();
        for mark in ["one", "two"] {
            let Some(ended) = run(LIMIT, test_name!(), mark, || {
                println!("{mark} runs in {}", std::process::id());
            }) else {
                continue;
            };
            assert!(ended.status.is_some_and(|status| status.success()) && ended.finished);
            assert!(
                ended.output.contains(&format!("{mark} runs in ")),
                "{}",
                ended.output
            );
            assert!(!ended.output.contains(&format!("runs in {here}\n")));
        }
    }

    /// Returns the panic message of a function. In a child the panic is not caught.
    fn message_of(body: impl FnOnce()) -> String {
        if is_child() {
            body();
            return String::new();
        }
        let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("a panic");
        *panic.downcast::<String>().expect("a message")
    }

    #[test]
    fn a_failing_child_fails_the_test_and_shows_its_output() {
        let name = test_name!();
        let message = message_of(|| check(LIMIT, name, "", || panic!("a reason")));
        assert!(message.contains("failed: exit status: 101"), "{message}");
        assert!(message.contains("a reason"), "{message}");
    }

    #[test]
    fn a_name_that_is_no_test_fails() {
        let message = message_of(|| check(LIMIT, "no::such", "", || ()));
        assert!(message.contains("is the name right?"), "{message}");
    }

    #[test]
    fn a_hanging_child_is_killed() {
        let (name, limit) = (test_name!(), Duration::from_millis(300));
        let message_of_limit = format!("was killed after {:?}", scaled(limit));
        let hang = || loop {
            std::thread::park();
        };
        let message = message_of(|| check(limit, name, "", hang));
        assert!(message.contains(&message_of_limit), "{message}");
    }
}
