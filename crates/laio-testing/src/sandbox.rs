//! What deployments take away from a program: system calls, capabilities, new privileges, processors, memory,
//! threads, the user root.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use crate::control_group::{Bound, ControlGroup};
use crate::forbid::{self, Forbid};
use crate::{Skip, child, or_skip};

/// An environment in which people run programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// `kernel.io_uring_disabled` is 2: rings cannot be made.
    IoUringDisabled,
    /// Docker's default filter, with the capabilities that Docker leaves to root.
    Docker,
    /// A container of Kubernetes, or a service with a user of its own: `no_new_privs`, without capabilities.
    Unprivileged,
    /// A virtual machine or a container with one processor.
    OneProcessor,
    /// A user namespace in which the user is root, as in rootless containers.
    UserNamespace,
    /// A control group with little memory.
    LittleMemory,
    /// A control group in which few threads can be started.
    FewThreads,
}

impl Environment {
    /// All environments.
    pub const ALL: [Environment; 7] = [
        Environment::IoUringDisabled,
        Environment::Docker,
        Environment::Unprivileged,
        Environment::OneProcessor,
        Environment::UserNamespace,
        Environment::LittleMemory,
        Environment::FewThreads,
    ];

    /// The memory of [`LittleMemory`](Environment::LittleMemory) in bytes.
    pub const MEMORY: u64 = 64 << 20;

    /// The most threads in [`FewThreads`](Environment::FewThreads).
    pub const THREADS: u64 = 48;

    /// Returns the filter, if there is one.
    pub fn filter(self) -> Option<Forbid> {
        match self {
            Environment::IoUringDisabled => Some(Forbid::io_uring_disabled()),
            Environment::Docker => Some(Forbid::docker()),
            _ => None,
        }
    }
}

/// An environment that this machine can make.
#[derive(Debug)]
pub struct Sandbox {
    environment: Environment,
    group: Option<ControlGroup>,
}

impl Sandbox {
    /// Prepares an environment. Its programs have ended when the sandbox is dropped.
    ///
    /// # Errors
    ///
    /// The skip, where the machine cannot make the environment.
    pub fn new(environment: Environment) -> Result<Sandbox, Skip> {
        let need = match environment {
            Environment::UserNamespace => "user-namespaces",
            _ => "seccomp",
        };
        Skip::unless_there(need)?;
        let bound = match environment {
            Environment::LittleMemory => Some(Bound::Memory(Environment::MEMORY)),
            Environment::FewThreads => Some(Bound::Processes(Environment::THREADS)),
            _ => None,
        };
        let group = bound.map(ControlGroup::new).transpose()?;
        Ok(Sandbox { environment, group })
    }

    /// Puts the program that a command starts into the environment, with its children.
    ///
    /// # Errors
    ///
    /// If the control group cannot be used.
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
        match self.environment {
            Environment::Docker => keep_capabilities(command, DOCKER_CAPABILITIES),
            Environment::Unprivileged => {
                set_no_new_privs(command);
                keep_capabilities(command, 0);
            }
            Environment::OneProcessor => keep_one_processor(command),
            Environment::UserNamespace => make_user_namespace(command),
            _ => (),
        }
        if let Some(group) = &self.group {
            group.take_in(command)?;
        }
        if let Some(filter) = self.environment.filter() {
            forbid::restrict(command, &filter);
        }
        Ok(())
    }

    /// How often a limit of the control group was reached, if there is one.
    pub fn times_reached(&self) -> Option<u64> {
        self.group.as_ref().map(ControlGroup::times_reached)
    }
}

/// Runs the body of a test in a child process, in an environment: as [`forbid::child_within`].
///
/// # Panics
///
/// If the body panicked, did not run, or took longer than `limit`. The message contains the child's output.
pub fn child_in(environment: Environment, limit: Duration, test: &str, body: impl FnOnce()) {
    let made = if child::is_child() {
        // It is in the sandbox already.
        Ok(None)
    } else {
        Sandbox::new(environment).map(Some)
    };
    let Some(sandbox) = or_skip(made) else {
        return;
    };
    let spawn = |command: &mut Command| {
        sandbox
            .iter()
            .try_for_each(|sandbox| sandbox.confine(command))?;
        command.spawn()
    };
    child::check_spawned(limit, test, &format!("{environment:?}"), spawn, body);
}

/// The default capabilities of Docker, without `CAP_SYS_ADMIN`.
const DOCKER_CAPABILITIES: u32 = 0xa804_25fb;

/// Starts a program with these capabilities at most, also if root starts it.
pub fn keep_capabilities(command: &mut Command, kept: u32) {
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(move || drop_capabilities_but(kept)) };
}

/// Starts a program with `no_new_privs`.
pub fn set_no_new_privs(command: &mut Command) {
    // SAFETY: the closure makes one system call, which takes no pointers.
    unsafe {
        command.pre_exec(|| check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into()));
    }
}

/// Starts a program that runs on one processor.
pub fn keep_one_processor(command: &mut Command) {
    // SAFETY: the closure makes system calls only; the kernel reads the set.
    unsafe {
        command.pre_exec(|| {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(usize::try_from(libc::sched_getcpu()).unwrap_or(0), &mut one);
            check(libc::sched_setaffinity(0, size_of_val(&one), &one).into())
        });
    }
}

/// Starts a program in a user namespace of its own, in which its user is root.
pub fn make_user_namespace(command: &mut Command) {
    // SAFETY: neither takes arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let users = format!("0 {user} 1");
    let groups = format!("0 {group} 1");
    // SAFETY: the closure makes system calls only: the texts and the short names of the files need no memory.
    unsafe {
        command.pre_exec(move || {
            check(libc::unshare(libc::CLONE_NEWUSER).into())?;
            std::fs::write("/proc/self/uid_map", &users)?;
            // A user may map groups only after it has given up setting others.
            std::fs::write("/proc/self/setgroups", "deny")?;
            std::fs::write("/proc/self/gid_map", &groups)
        });
    }
}

/// Whether the process may change to every user: it is root, with the capability, and its user namespace has
/// all users.
pub fn may_change_user() -> bool {
    const SETUID: libc::c_ulong = 7;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let users: u64 = map
        .split_whitespace()
        .nth(2)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    // SAFETY: neither takes pointers.
    let may =
        unsafe { libc::geteuid() == 0 && libc::prctl(libc::PR_CAPBSET_READ, SETUID, 0, 0, 0) == 1 };
    may && users > u64::from(u16::MAX)
}

/// Changes the effective user of all threads, as the C library does.
///
/// # Panics
///
/// If that is not allowed.
pub fn set_effective_user(user: u32) {
    // SAFETY: takes no pointers.
    assert_eq!(unsafe { libc::seteuid(user) }, 0);
}

/// Drops all other capabilities of the calling thread, also those that root would gain by starting a program.
fn drop_capabilities_but(kept: u32) -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let sets = [kept, kept, 0, 0, 0, 0];
    for number in 0..64 {
        if number >= 32 || kept >> number & 1 == 0 {
            // EINVAL: this kernel does not know the capability. EPERM: a user other than root has none.
            // SAFETY: takes no pointers.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        }
    }
    // SAFETY: geteuid takes no arguments; the kernel reads the header and two structs of three words.
    unsafe {
        if libc::geteuid() != 0 {
            return Ok(());
        }
        check(libc::syscall(libc::SYS_capset, &header, &sets))
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_name;

    const LIMIT: Duration = Duration::from_secs(120);

    #[test]
    fn each_environment_takes_away_what_it_says() {
        for environment in Environment::ALL {
            child_in(environment, LIMIT, test_name!(), || {
                check_inside(environment)
            });
        }
    }

    fn check_inside(environment: Environment) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let has = |line: &str| status.lines().any(|one| one.replace('\t', " ") == line);
        match environment {
            Environment::IoUringDisabled => {
                assert!(!crate::needs::find("io_uring").unwrap().is_there())
            }
            Environment::Docker => assert!(has("Seccomp: 2") && has("NoNewPrivs: 1"), "{status}"),
            Environment::Unprivileged => {
                assert!(
                    has("NoNewPrivs: 1") && has("CapBnd: 0000000000000000"),
                    "{status}"
                );
            }
            Environment::OneProcessor => {
                assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            }
            Environment::UserNamespace => {
                let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
                assert_eq!(map.split_whitespace().last(), Some("1"), "{map}");
            }
            Environment::LittleMemory | Environment::FewThreads => {
                let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
                assert!(groups.contains("/laio-test-"), "{groups}");
            }
        }
    }
}
