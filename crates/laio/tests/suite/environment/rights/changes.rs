//! Changes by which a thread gives up or gains rights for itself alone.

use super::operations::{Make, NO_RIGHTS, OTHER, Place};
use crate::harness::{Arg, at, cstring};
use laio::Errno;
use laio_testing::forbid;
use std::ffi::c_long;

/// One change.
pub(crate) struct Change {
    pub(crate) name: &'static str,
    /// Prepares the change, before the context is made. The error names the feature that this machine lacks.
    pub(crate) prepare: fn(&Place) -> Result<(), String>,
    /// Makes the change; an error means that the kernel does not permit it (now).
    pub(crate) change: Step,
    /// Reverts the change, if possible.
    pub(crate) back: Option<Step>,
    /// Whether a context can make the change, and io_uring then fails.
    pub(crate) through: bool,
}

type Step = fn(&Place, Make<'_>) -> Result<(), Errno>;

const KEEP: usize = u32::MAX as usize;
const NO_ID: usize = NO_RIGHTS as usize;

const USUAL: Change = Change {
    name: "",
    prepare: |_| Ok(()),
    change: |_, _| Ok(()),
    back: None,
    through: true,
};

pub(crate) const CAPABILITIES: Change = Change {
    name: "all capabilities dropped",
    change: |_, make| set_capabilities(make, 0, 0),
    ..USUAL
};

pub(crate) const EFFECTIVE_CAPABILITIES: Change = Change {
    name: "capabilities kept, and not effective",
    change: |_, make| set_capabilities(make, 0, u32::MAX),
    back: Some(|_, make| set_capabilities(make, u32::MAX, u32::MAX)),
    ..USUAL
};

pub(crate) const FILE_SYSTEM_USER: Change = Change {
    name: "setfsuid",
    change: |_, make| set(make, libc::SYS_setfsuid, [NO_ID, 0, 0]),
    back: Some(|_, make| set(make, libc::SYS_setfsuid, [0, 0, 0])),
    ..USUAL
};

pub(crate) const FILE_SYSTEM_GROUP: Change = Change {
    name: "setfsgid",
    change: |_, make| set(make, libc::SYS_setfsgid, [NO_ID, 0, 0]),
    back: Some(|_, make| set(make, libc::SYS_setfsgid, [0, 0, 0])),
    ..USUAL
};

pub(crate) const USERS: Change = Change {
    name: "setresuid",
    change: |_, make| set(make, libc::SYS_setresuid, [NO_ID, NO_ID, NO_ID]),
    ..USUAL
};

pub(crate) const EFFECTIVE_USER: Change = Change {
    name: "effective user",
    change: |_, make| set(make, libc::SYS_setresuid, [KEEP, NO_ID, KEEP]),
    back: Some(|_, make| set(make, libc::SYS_setresuid, [KEEP, 0, KEEP])),
    ..USUAL
};

pub(crate) const ALL_THREADS: Change = Change {
    name: "effective user of all threads, by the C library",
    change: |_, _| effective_user(NO_RIGHTS),
    back: Some(|_, _| effective_user(0)),
    through: false,
    ..USUAL
};

pub(crate) const BY_ANOTHER_THREAD: Change = Change {
    name: "effective user of all threads, changed by another thread",
    change: |_, _| on_another_thread(|| effective_user(NO_RIGHTS)),
    back: Some(|_, _| on_another_thread(|| effective_user(0))),
    through: false,
    ..USUAL
};

pub(crate) const GROUPS: Change = Change {
    name: "setresgid",
    change: |_, make| set(make, libc::SYS_setresgid, [NO_ID, NO_ID, NO_ID]),
    ..USUAL
};

pub(crate) const FURTHER_GROUPS: Change = Change {
    name: "setgroups",
    prepare: |_| {
        let groups = [OTHER];
        let by = |number, args| plain(number, args).map_err(|errno| errno.to_string());
        by(libc::SYS_setgroups, [1, at(&groups), 0, 0, 0, 0])?;
        // The files belong to another user, and the capability to set groups stays.
        by(libc::SYS_setfsuid, [NO_ID, 0, 0, 0, 0, 0])?;
        Ok(())
    },
    change: |_, make| set(make, libc::SYS_setgroups, [0, 0, 0]),
    back: Some(|_, make| {
        let groups = [OTHER];
        set(make, libc::SYS_setgroups, [1, at(&groups), 0])
    }),
    ..USUAL
};

pub(crate) const NO_NEW_PRIVILEGES: Change = Change {
    name: "no_new_privs",
    change: |_, make| no_new_privileges(make),
    ..USUAL
};

pub(crate) const LANDLOCK_FILES: Change = Change {
    name: "Landlock on files",
    prepare: |_| needs_landlock(1),
    change: |_, make| landlock(make, FILES, 0),
    ..USUAL
};

pub(crate) const LANDLOCK_AFTER_CAPABILITIES: Change = Change {
    name: "Landlock on files, by a thread with no_new_privs and without capabilities",
    prepare: |_| {
        needs_landlock(1)?;
        let mut make = plain;
        let done = no_new_privileges(&mut make).and_then(|()| set_capabilities(&mut make, 0, 0));
        done.map_err(|errno| errno.to_string())
    },
    change: |_, make| landlock(make, FILES, 0),
    ..USUAL
};

pub(crate) const LANDLOCK_CONNECTIONS: Change = Change {
    name: "Landlock on connections",
    prepare: |_| needs_landlock(4),
    change: |_, make| landlock(make, 0, CONNECT_TCP),
    ..USUAL
};

pub(crate) const FILTER: Change = Change {
    name: "a filter",
    change: |_, make| {
        no_new_privileges(make)?;
        forbid::forbid(&FORBIDDEN, libc::EPERM);
        Ok(())
    },
    through: false,
    ..USUAL
};

pub(crate) const SECOND_FILTER: Change = Change {
    name: "a second filter",
    prepare: |_| {
        forbid::forbid(&[libc::SYS_reboot], libc::EPERM);
        Ok(())
    },
    change: |_, _| {
        forbid::forbid(&FORBIDDEN, libc::EACCES);
        Ok(())
    },
    through: false,
    ..USUAL
};

pub(crate) const FILTER_OF_ALL_THREADS: Change = Change {
    name: "a filter for all threads",
    change: |_, _| {
        forbid::forbid_all_threads(&FORBIDDEN, libc::EPERM);
        Ok(())
    },
    through: false,
    ..USUAL
};

pub(crate) const LANDLOCK_OF_ALL_THREADS: Change = Change {
    name: "Landlock on files for all threads",
    prepare: |_| needs_landlock(8),
    change: |_, make| {
        const ALL_THREADS: usize = 1 << 3;
        landlock_with(make, FILES, 0, ALL_THREADS)
    },
    through: false,
    ..USUAL
};

pub(crate) const MOUNTS: Change = Change {
    name: "unshare of mounts, with one hidden",
    change: |place, make| {
        set(make, libc::SYS_unshare, [libc::CLONE_NEWNS as usize, 0, 0])?;
        hide(&place.path)
    },
    ..USUAL
};

pub(crate) const OTHER_MOUNTS: Change = Change {
    name: "setns to mounts with one hidden",
    change: |place, make| {
        let path = place.path.clone();
        let mounts = on_another_thread(move || {
            let mut plain = plain;
            set(
                &mut plain,
                libc::SYS_unshare,
                [libc::CLONE_NEWNS as usize, 0, 0],
            )?;
            hide(&path)?;
            let mounts = std::fs::File::open("/proc/thread-self/ns/mnt");
            mounts.map_err(Errno::from)
        })?;
        // The kernel changes the mounts of a thread only if no other thread shares its root and working directory.
        set(make, libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0])?;
        set(
            make,
            libc::SYS_setns,
            [mounts.arg(), libc::CLONE_NEWNS as usize, 0],
        )
    },
    ..USUAL
};

pub(crate) const ROOT: Change = Change {
    name: "chroot with a root of its own",
    change: |place, make| {
        set(make, libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0])?;
        let root = cstring(place.path.join("plain-changed-0"));
        set(make, libc::SYS_chroot, [root.arg(), 0, 0])
    },
    ..USUAL
};

pub(crate) const WORKING_DIRECTORY: Change = Change {
    name: "chdir with a directory of its own",
    change: |_, make| {
        set(make, libc::SYS_unshare, [libc::CLONE_FS as usize, 0, 0])?;
        set(make, libc::SYS_chdir, [c"/".arg(), 0, 0])
    },
    ..USUAL
};

pub(crate) const NETWORK: Change = Change {
    name: "unshare of the network",
    change: |_, make| set(make, libc::SYS_unshare, [libc::CLONE_NEWNET as usize, 0, 0]),
    ..USUAL
};

pub(crate) const USER_NAMESPACE: Change = Change {
    name: "unshare of users",
    change: |_, make| {
        set(
            make,
            libc::SYS_unshare,
            [libc::CLONE_NEWUSER as usize, 0, 0],
        )
    },
    ..USUAL
};

fn effective_user(user: u32) -> Result<(), Errno> {
    // SAFETY: seteuid takes no pointers.
    match unsafe { libc::seteuid(user) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

fn on_another_thread<T: Send + 'static>(
    body: impl FnOnce() -> Result<T, Errno> + Send + 'static,
) -> Result<T, Errno> {
    std::thread::spawn(body)
        .join()
        .expect("the thread does not panic")
}

/// Mounts an empty file system on a directory, in the calling thread's mount namespace only.
fn hide(directory: &std::path::Path) -> Result<(), Errno> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    plain(libc::SYS_mount, [0, c"/".arg(), 0, flags as usize, 0, 0])?;
    let (kind, on) = (c"tmpfs", cstring(directory));
    plain(libc::SYS_mount, [kind.arg(), on.arg(), kind.arg(), 0, 0, 0])?;
    Ok(())
}

fn plain(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    crate::harness::plain(number, args)
}

fn set(make: Make<'_>, number: c_long, [a, b, c]: [usize; 3]) -> Result<(), Errno> {
    make(number, [a, b, c, 0, 0, 0]).map(|_| ())
}

fn set_capabilities(make: Make<'_>, effective: u32, permitted: u32) -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // At most the capabilities that the thread has.
    let mut has = [0u32; 6];
    let args = [at(&header), crate::harness::at_mut(&mut has), 0, 0, 0, 0];
    plain(libc::SYS_capget, args)?;
    let sets = [
        effective & has[1],
        permitted & has[1],
        0,
        if effective == 0 { 0 } else { has[4] },
        if permitted == 0 { 0 } else { has[4] },
        0,
    ];
    make(libc::SYS_capset, [at(&header), at(&sets), 0, 0, 0, 0]).map(|_| ())
}

/// Drops `CAP_SYS_ADMIN` only.
pub(crate) fn drop_administration() {
    const SYS_ADMIN: u32 = 1 << 21;
    let (mut make, without) = (plain, !SYS_ADMIN);
    set_capabilities(&mut make, without, without).expect("capset of fewer");
}

fn no_new_privileges(make: Make<'_>) -> Result<(), Errno> {
    set(
        make,
        libc::SYS_prctl,
        [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0],
    )
}

/// Makes one call of each kind: on the ring, by a helper, on a stream.
const FORBIDDEN: [c_long; 5] = [
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_fchmodat,
    libc::SYS_truncate,
    libc::SYS_connect,
];

/// `LANDLOCK_ACCESS_FS_*` of the first version, without execution.
const FILES: u64 = 0x1ffe;
const CONNECT_TCP: u64 = 1 << 1;

fn needs_landlock(version: usize) -> Result<(), String> {
    const VERSION: usize = 1;
    match plain(libc::SYS_landlock_create_ruleset, [0, 0, VERSION, 0, 0, 0]) {
        Ok(found) if found >= version => Ok(()),
        Ok(found) => Err(format!("version {found} of Landlock, not {version}")),
        Err(errno) => Err(format!("no Landlock: {errno}")),
    }
}

/// Forbids these accesses everywhere.
fn landlock(make: Make<'_>, files: u64, network: u64) -> Result<(), Errno> {
    landlock_with(make, files, network, 0)
}

fn landlock_with(make: Make<'_>, files: u64, network: u64, flags: usize) -> Result<(), Errno> {
    no_new_privileges(make)?;
    let attributes: [u64; 2] = [files, network];
    let size = if network == 0 { 8 } else { 16 };
    let rules = plain(
        libc::SYS_landlock_create_ruleset,
        [at(&attributes), size, 0, 0, 0, 0],
    )?;
    let result = set(make, libc::SYS_landlock_restrict_self, [rules, flags, 0]);
    let _ = plain(libc::SYS_close, [rules, 0, 0, 0, 0, 0]);
    result
}
