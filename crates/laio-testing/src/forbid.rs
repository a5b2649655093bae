//! Forbids system calls: runs a thread, a test or a program under a seccomp filter.
//!
//! Containers forbid calls: Docker returns `EPERM`, older runtimes `ENOSYS`, some policies `EACCES`. A filter
//! made here returns a chosen errno for chosen calls, so every fallback can be tested anywhere and without
//! privileges. A filter cannot be removed, so there are three ways to use it:
//!
//! - [`forbid`] installs it on the calling thread and on all threads that it creates later;
//! - [`child()`] runs the body of a test in a child process, under the filter;
//! - [`spawn_forbidden`] starts another program under it.
//!
//! ```no_run
//! use laio_testing::forbid::{self, Forbid};
//!
//! // #[test]
//! fn works_without_io_uring() {
//!     for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
//!         forbid::child(laio_testing::test_name!(), &Forbid::io_uring(errno), || {
//!             // Here io_uring_setup fails with errno. A panic fails the whole test.
//!         });
//!     }
//! }
//! ```

mod docker;

pub use docker::DOCKER;

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::child;

/// All calls of io_uring.
pub const IO_URING: &[c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
/// The call of perf events.
pub const PERF: &[c_long] = &[libc::SYS_perf_event_open];
/// Reads and writes with flags, such as `RWF_NOWAIT`.
pub const NOWAIT: &[c_long] = &[libc::SYS_preadv2, libc::SYS_pwritev2];
/// Opening with a resolve policy, such as `RESOLVE_CACHED` and `RESOLVE_BENEATH`.
pub const OPENAT2: &[c_long] = &[libc::SYS_openat2];

/// The time limit of a child of [`child()`].
const LIMIT: Duration = Duration::from_secs(600);

/// Which calls fail, and with which errno.
///
/// ```
/// use laio_testing::forbid::{self, Forbid};
///
/// let container = Forbid::io_uring(libc::EPERM).and(forbid::PERF, libc::EACCES);
/// assert!(container.to_string().starts_with("425,426,427=EPERM "));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbid {
    sets: Vec<(Vec<Rule>, c_int)>,
}

/// A call, and the arguments with which it fails: always, if the list is empty.
type Rule = (c_long, Vec<SeccompRule>);

/// Returns a condition on the first argument of a call, of which a filter compares 32 bits here.
fn compare(with: SeccompCmpOp, value: u64) -> SeccompCondition {
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, with, value).expect("a valid condition")
}

impl Forbid {
    /// Returns a filter in which these calls fail with this errno.
    pub fn new(calls: &[c_long], errno: c_int) -> Forbid {
        Forbid { sets: Vec::new() }.and(calls, errno)
    }

    /// Adds these calls, with an errno of their own.
    ///
    /// # Panics
    ///
    /// If there are no calls, or the errno is out of range: such a filter would forbid nothing.
    pub fn and(self, calls: &[c_long], errno: c_int) -> Forbid {
        let rules = calls.iter().map(|&call| (call, Vec::new())).collect();
        self.and_rules(rules, errno)
    }

    fn and_rules(mut self, rules: Vec<Rule>, errno: c_int) -> Forbid {
        assert!(!rules.is_empty(), "a filter without calls");
        assert!((1..=4095).contains(&errno), "errno {errno} is out of range");
        self.sets.push((rules, errno));
        self
    }

    /// Returns Docker's default filter, for a container with Docker's default capabilities.
    pub fn docker() -> Forbid {
        docker::filter()
    }

    /// Returns the calls that fail whatever their arguments are.
    pub fn calls(&self) -> Vec<c_long> {
        let rules = self.sets.iter().flat_map(|(rules, _)| rules);
        let always = rules.filter(|(_, arguments)| arguments.is_empty());
        always.map(|&(call, _)| call).collect()
    }

    /// Forbids io_uring.
    pub fn io_uring(errno: c_int) -> Forbid {
        Forbid::new(IO_URING, errno)
    }

    /// Forbids to make rings, as `kernel.io_uring_disabled=2` does, with the errno of the kernel. The sysctl
    /// itself would change the whole machine.
    pub fn io_uring_disabled() -> Forbid {
        Forbid::new(&[libc::SYS_io_uring_setup], libc::EPERM)
    }

    /// Forbids perf events.
    pub fn perf(errno: c_int) -> Forbid {
        Forbid::new(PERF, errno)
    }

    /// Forbids both, as an ordinary container does.
    pub fn io_uring_and_perf(errno: c_int) -> Forbid {
        Forbid::io_uring(errno).and(PERF, errno)
    }

    /// Forbids `preadv2` and `pwritev2`.
    pub fn nowait(errno: c_int) -> Forbid {
        Forbid::new(NOWAIT, errno)
    }

    /// Forbids `openat2`.
    pub fn openat2(errno: c_int) -> Forbid {
        Forbid::new(OPENAT2, errno)
    }

    /// One filter program per errno; the kernel evaluates all of them.
    fn programs(&self) -> Vec<BpfProgram> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)
            .expect("filters are made for x86-64 and aarch64");
        let program = |(rules, errno): &(Vec<Rule>, c_int)| {
            let rules: BTreeMap<i64, _> = rules.iter().cloned().collect();
            let answer = SeccompAction::Errno(*errno as u32);
            SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)
                .and_then(BpfProgram::try_from)
                .expect("a valid filter")
        };
        self.sets.iter().map(program).collect()
    }
}

/// Writes `NUMBER,NUMBER=ERRNO`, one word for each errno.
impl std::fmt::Display for Forbid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (rules, errno)) in self.sets.iter().enumerate() {
            let numbers: Vec<String> = rules.iter().map(|(call, _)| call.to_string()).collect();
            let space = if index == 0 { "" } else { " " };
            let name = match *errno {
                libc::EPERM => "EPERM".to_owned(),
                libc::ENOSYS => "ENOSYS".to_owned(),
                libc::EACCES => "EACCES".to_owned(),
                other => other.to_string(),
            };
            write!(f, "{space}{}={name}", numbers.join(","))?;
        }
        Ok(())
    }
}

/// Makes these calls fail with this errno, on this thread and all threads that it starts, permanently.
///
/// Other threads of the process are not affected. A test thread ends with its test, so a test may call this
/// if the code under test keeps no state for the whole process, such as the result of a probe. Usually it
/// does: use [`child()`].
///
/// # Panics
///
/// If the kernel refuses the filter.
pub fn forbid(calls: &[c_long], errno: c_int) {
    install(&Forbid::new(calls, errno));
}

/// As [`forbid`], on all threads of the process.
///
/// # Panics
///
/// If the kernel refuses the filter.
pub fn forbid_all_threads(calls: &[c_long], errno: c_int) {
    for program in Forbid::new(calls, errno).programs() {
        seccompiler::apply_filter_all_threads(&program).expect("a seccomp filter on all threads");
    }
}

/// As [`forbid`], for a whole [`Forbid`].
///
/// # Panics
///
/// If the kernel refuses the filter.
pub fn install(forbid: &Forbid) {
    apply(&forbid.programs()).expect("a seccomp filter on this thread");
}

/// Allocates nothing and takes no lock, so it may run between fork and exec.
fn apply(programs: &[BpfProgram]) -> io::Result<()> {
    for program in programs {
        seccompiler::apply_filter(program).map_err(|error| match error {
            seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
            _ => io::Error::from_raw_os_error(libc::EINVAL),
        })?;
    }
    Ok(())
}

/// Starts a program under a filter: it and its children cannot make the forbidden calls.
///
/// # Errors
///
/// Those of starting a program, and of the filter.
pub fn spawn_forbidden(mut command: Command, forbid: &Forbid) -> io::Result<Child> {
    restrict(&mut command, forbid);
    command.spawn()
}

/// Puts the program that a command starts under a filter, with its children.
pub fn restrict(command: &mut Command, forbid: &Forbid) {
    let programs = forbid.programs();
    // SAFETY: the closure runs in the child between fork and exec. It makes system calls only: the
    // programs are compiled already, and their memory is the child's own copy.
    unsafe { command.pre_exec(move || apply(&programs)) };
}

/// Runs the body of a test in a child process under a filter.
///
/// `test` is the full name of the running test as the test harness knows it: write
/// [`test_name!()`](crate::test_name). In the child, the filter is installed on the test's thread before the
/// body runs. A test may call this several times with different filters. [`child::run`] explains which code
/// runs in which process.
///
/// # Panics
///
/// In the first process, if the body panicked, did not run, or took longer than two minutes. The message
/// contains the child's output.
pub fn child(test: &str, forbid: &Forbid, body: impl FnOnce()) {
    child_within(LIMIT, test, forbid, body);
}

/// As [`child()`] with another time limit. Skips the test where filters cannot be installed.
///
/// # Panics
///
/// As [`child()`].
pub fn child_within(limit: Duration, test: &str, forbid: &Forbid, body: impl FnOnce()) {
    if crate::lacks("seccomp") {
        return;
    }
    child::check(limit, test, &format!("without {forbid}"), || {
        install(forbid);
        body();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_name;
    use std::process::Stdio;

    /// Returns the errno of a call with impossible arguments, which has no effect.
    fn errno_of(call: c_long) -> c_int {
        // SAFETY: null pointers and the descriptor -1 are refused by every call used here.
        let result = unsafe { libc::syscall(call, -1, 0, 0, 0, 0, 0) };
        assert_eq!(result, -1);
        io::Error::last_os_error().raw_os_error().unwrap()
    }

    #[test]
    fn each_set_fails_with_each_errno_in_a_child() {
        if crate::lacks("seccomp") {
            return;
        }
        for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
            for calls in [IO_URING, PERF, NOWAIT, OPENAT2] {
                child(test_name!(), &Forbid::new(calls, errno), || {
                    for &call in calls {
                        assert_eq!(errno_of(call), errno, "call {call}");
                    }
                    let on_thread = std::thread::spawn(move || errno_of(calls[0]));
                    assert_eq!(on_thread.join().unwrap(), errno, "a thread inherits it");
                });
            }
        }
        assert_eq!(
            errno_of(libc::SYS_preadv2),
            libc::EBADF,
            "here nothing is forbidden"
        );
    }

    #[test]
    fn two_sets_have_two_errnos() {
        let forbid = Forbid::io_uring(libc::EPERM).and(PERF, libc::EACCES);
        child(test_name!(), &forbid, || {
            assert_eq!(errno_of(libc::SYS_io_uring_enter), libc::EPERM);
            assert_eq!(errno_of(libc::SYS_perf_event_open), libc::EACCES);
            assert_eq!(errno_of(libc::SYS_preadv2), libc::EBADF);
        });
    }

    #[test]
    fn the_filter_of_docker_looks_at_arguments() {
        child(test_name!(), &Forbid::docker(), || {
            // SAFETY: these calls take no pointers; the new sockets stay open until the process ends.
            let socket = |family| unsafe { libc::socket(family, libc::SOCK_SEQPACKET, 0) };
            assert!(socket(libc::AF_UNIX) >= 0);
            for refused in [libc::AF_ALG, 46, 1000] {
                assert_eq!(socket(refused), -1);
                assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
            }
            // SAFETY: as above.
            let personality = |persona| unsafe { libc::personality(persona) };
            assert_eq!(personality(0xffff_ffff), 0);
            assert_eq!(personality(0x40_0000), -1);
            assert_eq!(errno_of(libc::SYS_clone3), libc::ENOSYS);
            assert_eq!(
                errno_of(470),
                libc::ENOSYS,
                "a call that is newer than the profile"
            );
            assert_eq!(errno_of(libc::SYS_io_uring_enter), libc::EPERM);
        });
    }

    #[test]
    fn only_the_thread_and_its_children_are_touched() {
        if crate::lacks("seccomp") {
            return;
        }
        let inner = std::thread::spawn(|| {
            forbid(OPENAT2, libc::ENOSYS);
            errno_of(libc::SYS_openat2)
        });
        assert_eq!(inner.join().unwrap(), libc::ENOSYS);
        assert_ne!(errno_of(libc::SYS_openat2), libc::ENOSYS);
    }

    #[test]
    fn a_program_runs_under_the_filter() {
        if crate::lacks("seccomp") {
            return;
        }
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "cd / && exit 3; exit 4"])
            .stderr(Stdio::null());
        assert_eq!(command.status().expect("a shell").code(), Some(3));
        let forbid = Forbid::new(&[libc::SYS_chdir], libc::EPERM);
        let child = spawn_forbidden(command, &forbid).unwrap();
        let status = child::wait_within(LIMIT, child).expect("an end");
        assert_eq!(status.code(), Some(4));
    }
}
