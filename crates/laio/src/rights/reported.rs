//! The rights of the calling thread, as far as the kernel reports them.
//!
//! Without a filter they are read by system calls, which cost a tenth of reading `/proc`. A filter
//! may kill a process for a call that it does not list, so with filters they are read from `/proc`:
//! every filter allows `open`, `read` and `close`.

use crate::sys;
use crate::{Call, Errno};
use std::mem::{replace, size_of_val};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rights of a thread, as far as the kernel reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedRights {
    /// Real, effective, saved and file-system user.
    users: [u32; 4],
    groups: [u32; 4],
    further_groups: Vec<u32>,
    /// Effective, permitted and inheritable, in two words each.
    capabilities: [u32; 6],
    secure_bits: usize,
    no_new_privileges: bool,
    /// The lines of `/proc/thread-self/status` about rights, where filters are in force.
    filtered: Option<String>,
}

/// Whether a line of `/proc/thread-self/status` is about rights.
pub(crate) fn is_about_rights(line: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "Uid:",
        "Gid:",
        "Groups:",
        "Cap",
        "NoNewPrivs:",
        "Seccomp:",
        "Seccomp_filters:",
    ];
    BEGINNINGS.iter().any(|begin| line.starts_with(begin))
}

/// Bit of `CAP_SYS_ADMIN` in the first word of a capability set.
const SYS_ADMIN: u32 = 1 << 21;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

impl ReportedRights {
    /// Reads the rights of the calling thread. `None`: the kernel does not report them, so they
    /// must be assumed to differ.
    pub(crate) fn of_this_thread() -> Option<ReportedRights> {
        if has_filters() {
            return ReportedRights::from_status(
                &std::fs::read_to_string("/proc/thread-self/status").ok()?,
            );
        }
        ReportedRights::by_calls().ok()
    }

    fn by_calls() -> Result<ReportedRights, Errno> {
        let (user, group) = (ids(libc::SYS_getresuid)?, ids(libc::SYS_getresgid)?);
        let mut reported = ReportedRights {
            users: [
                user[0],
                user[1],
                user[2],
                file_system_id(libc::SYS_setfsuid)?,
            ],
            groups: [
                group[0],
                group[1],
                group[2],
                file_system_id(libc::SYS_setfsgid)?,
            ],
            further_groups: further_groups()?,
            capabilities: capabilities()?,
            secure_bits: prctl(libc::PR_GET_SECUREBITS)?,
            no_new_privileges: prctl(libc::PR_GET_NO_NEW_PRIVS)? != 0,
            filtered: None,
        };
        reported.further_groups.shrink_to_fit();
        Ok(reported)
    }

    fn from_status(status: &str) -> Option<ReportedRights> {
        let lines: Vec<&str> = status
            .lines()
            .filter(|line| is_about_rights(line))
            .collect();
        let value = |name: &str| {
            let mut found = lines.iter().filter_map(|line| line.strip_prefix(name));
            found.next().map(str::trim)
        };
        let permitted = u64::from_str_radix(value("CapPrm:")?, 16).ok()?;
        Some(ReportedRights {
            capabilities: [0, permitted as u32, 0, 0, 0, 0],
            no_new_privileges: value("NoNewPrivs:")? != "0",
            filtered: Some(lines.join("\n")),
            ..ReportedRights::default()
        })
    }

    /// Whether filters are in force.
    pub(crate) fn is_filtered(&self) -> bool {
        self.filtered.is_some()
    }

    /// Whether the thread may have entered a Landlock domain, which the kernel does not report.
    /// Entering one requires `no_new_privs`, which cannot be cleared, or a permitted
    /// `CAP_SYS_ADMIN`.
    pub(crate) fn allows_landlock(&self) -> bool {
        self.no_new_privileges || self.capabilities[1] & SYS_ADMIN != 0
    }
}

/// Whether seccomp filters the calls of this thread. True if it cannot be determined.
pub(crate) fn has_filters() -> bool {
    match prctl(libc::PR_GET_SECCOMP) {
        Ok(mode) => mode != 0,
        Err(Errno::INVAL) => status_has_filters(),
        Err(_) => true,
    }
}

/// The kernel was built without seccomp, or an emulator of programs does not pass the question on to a kernel that
/// has it. A thread's status has a line about filters where the kernel has seccomp.
#[cold]
fn status_has_filters() -> bool {
    static KERNEL_HAS_NONE: AtomicBool = AtomicBool::new(false);
    if KERNEL_HAS_NONE.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(status) = std::fs::read_to_string("/proc/thread-self/status") else {
        return true;
    };
    let mode = seccomp_mode(&status);
    KERNEL_HAS_NONE.store(mode.is_none(), Ordering::Relaxed);
    mode.is_some_and(|mode| mode != "0")
}

fn seccomp_mode(status: &str) -> Option<&str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("Seccomp:").map(str::trim))
}

/// Whether the kernel has Landlock. True if it cannot be determined.
pub(crate) fn has_landlock() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        const VERSION: usize = 1;
        // SAFETY: with this flag the kernel takes no attributes, and makes nothing.
        let version = unsafe { sys::raw(libc::SYS_landlock_create_ruleset, [0, 0, VERSION]) };
        match version {
            Err(Errno::OPNOTSUPP) => false,
            Err(Errno::NOSYS) => has_filters(),
            _ => true,
        }
    })
}

/// Whether `access` looks names up with the rights that `open` would use: `access` uses the real
/// user and group, with all permitted capabilities for root and none for others.
pub(crate) fn accesses_as_it_opens() -> bool {
    let same = || -> Result<bool, Errno> {
        let (user, group) = (ids(libc::SYS_getresuid)?, ids(libc::SYS_getresgid)?);
        let [low, low_permitted, _, high, high_permitted, _] = capabilities()?;
        let wanted = match user[0] {
            0 => (low_permitted, high_permitted),
            _ => (0, 0),
        };
        Ok(file_system_id(libc::SYS_setfsuid)? == user[0]
            && file_system_id(libc::SYS_setfsgid)? == group[0]
            && (low, high) == wanted)
    };
    same().unwrap_or(false)
}

/// The root and the working directory of a thread, where its name lookups start: the part of its FS
/// state that can be compared without `kcmp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FsRoots([[u64; 4]; 2]);

impl FsRoots {
    /// Returns those of the calling thread; `None` if the kernel does not report them.
    pub(crate) fn of_this_thread() -> Option<FsRoots> {
        Some(FsRoots([identity(c"/")?, identity(c".")?]))
    }
}

/// Mount, device and inode of a directory.
fn identity(name: &std::ffi::CStr) -> Option<[u64; 4]> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let status = statx(CWD, name, AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    Some([
        status.stx_mnt_id,
        status.stx_ino,
        status.stx_dev_major.into(),
        status.stx_dev_minor.into(),
    ])
}

/// Whether the calling thread shares its FS state (root, working directory and umask: `CLONE_FS`)
/// with another thread of the process. An error where kcmp is not available.
pub(crate) fn shares_fs_state_with(thread: u32) -> Result<bool, Errno> {
    share_fs_state(thread_id(), thread)
}

/// The TID of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: gettid takes no pointers.
    let id = unsafe { sys::raw(libc::SYS_gettid, []) };
    id.unwrap_or(0) as u32
}

/// Whether two threads of the process share their FS state.
pub(crate) fn share_fs_state(one: u32, other: u32) -> Result<bool, Errno> {
    const KCMP_FS: usize = 3;
    let args = [one as usize, other as usize, KCMP_FS, 0, 0];
    // SAFETY: kcmp takes no pointers for this question.
    unsafe { sys::raw(libc::SYS_kcmp, args) }.map(|order| order == 0)
}

fn prctl(question: i32) -> Result<usize, Errno> {
    // SAFETY: the questions asked here take no pointers.
    unsafe { sys::raw(libc::SYS_prctl, [question as usize, 0, 0, 0, 0]) }
}

/// Real, effective and saved.
fn ids(number: libc::c_long) -> Result<[u32; 3], Errno> {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = ids.each_mut().map(|id| std::ptr::from_mut(id) as usize);
    // SAFETY: the kernel writes one number to each of the three.
    unsafe { sys::raw(number, [real, effective, saved])? };
    Ok(ids)
}

/// With an invalid ID the call returns the current one and changes nothing.
fn file_system_id(number: libc::c_long) -> Result<u32, Errno> {
    // SAFETY: takes no pointers.
    unsafe { sys::raw(number, [u32::MAX as usize]) }.map(|id| id as u32)
}

fn further_groups() -> Result<Vec<u32>, Errno> {
    let mut groups = vec![0u32; 32];
    loop {
        let args = [groups.len(), groups.as_mut_ptr() as usize];
        // SAFETY: the kernel writes at most as many numbers as there is room for.
        match unsafe { sys::raw(libc::SYS_getgroups, args) } {
            Ok(count) => {
                groups.truncate(count);
                return Ok(groups);
            }
            // The buffer is too small; the kernel's limit is 65,536.
            Err(Errno::INVAL) if groups.len() < 65_536 => {
                let room = groups.len() * 2;
                drop(replace(&mut groups, vec![0; room]));
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// Effective, permitted, inheritable: low words, then high words.
fn capabilities() -> Result<[u32; 6], Errno> {
    let header = [CAPABILITY_VERSION_3, 0];
    let mut sets = [0u32; 6];
    debug_assert_eq!(size_of_val(&sets), 24);
    let args = [header.as_ptr() as usize, sets.as_mut_ptr() as usize];
    // SAFETY: the kernel reads the header and writes the two structs of this version, three words each.
    unsafe { sys::syscall(&Call::new(libc::SYS_capget, args))? };
    Ok(sets)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_child_are_the_same() {
        let here = ReportedRights::of_this_thread().expect("the kernel shows it");
        let there = std::thread::spawn(ReportedRights::of_this_thread)
            .join()
            .unwrap();
        assert_eq!(Some(here), there);
        assert_eq!(FsRoots::of_this_thread(), FsRoots::of_this_thread());
    }

    #[test]
    fn no_new_privileges_shows() {
        let (before, after) = std::thread::spawn(|| {
            let before = ReportedRights::of_this_thread();
            rustix::thread::set_no_new_privs(true).expect("needs no privilege");
            (before, ReportedRights::of_this_thread())
        })
        .join()
        .unwrap();
        assert_ne!(before, after);
        assert!(after.expect("the kernel shows it").allows_landlock());
    }

    #[test]
    fn status_is_read() {
        let status = "Name:\ta\nUid:\t0\t0\t0\t0\nCapPrm:\t0000000000200000\nNoNewPrivs:\t0\n\
                      Seccomp:\t2\nSeccomp_filters:\t1\nVmRSS:\t1 kB\n";
        let one = ReportedRights::from_status(status).expect("all lines are there");
        assert!(one.allows_landlock());
        let two = ReportedRights::from_status(&status.replace("filters:\t1", "filters:\t2"));
        assert_ne!(Some(&one), two.as_ref());
        let more_memory = ReportedRights::from_status(&status.replace("1 kB", "2 kB"));
        assert_eq!(Some(&one), more_memory.as_ref());
        assert_eq!(seccomp_mode(status), Some("2"));
        assert_eq!(seccomp_mode(&status.replace("Seccomp:", "Seccompx:")), None);
    }
}
