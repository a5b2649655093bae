//! What deployments take away from a program: capabilities, new privileges, processors, the user root.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

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

/// Whether the process may change its user: it is root, with the capability.
pub fn may_change_user() -> bool {
    const SETUID: libc::c_ulong = 7;
    // SAFETY: neither takes pointers.
    unsafe { libc::geteuid() == 0 && libc::prctl(libc::PR_CAPBSET_READ, SETUID, 0, 0, 0) == 1 }
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
