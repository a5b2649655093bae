//! Docker's default filter, as rules: `.ci/docker-profile` compares them with the profile itself.
//!
//! The profile is of github.com/moby/profiles/seccomp v0.3.0, for a container with Docker's default
//! capabilities. It lists what it allows; this lists the rest, of the calls that each processor has.

use std::ffi::c_long;

use seccompiler::SeccompCmpOp::{Eq, Ge, MaskedEq, Ne};
use seccompiler::{SeccompCondition, SeccompRule};

use super::{Forbid, compare};

/// The calls that fail with `EPERM` whatever their arguments are.
pub const DOCKER: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_get_mempolicy,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    // The C library's crate lacks these.
    459, // lsm_get_self_attr
    460, // lsm_set_self_attr
    461, // lsm_list_modules
];

#[cfg(target_arch = "x86_64")]
const OF_THE_PROCESSOR: &[c_long] = &[
    libc::SYS__sysctl,
    libc::SYS_afs_syscall,
    libc::SYS_getpmsg,
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_putpmsg,
    libc::SYS_security,
    libc::SYS_sysfs,
    libc::SYS_tuxcall,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_vserver,
    174, // create_module
    177, // get_kernel_syms
    178, // query_module
];

#[cfg(not(target_arch = "x86_64"))]
const OF_THE_PROCESSOR: &[c_long] = &[
    294, // kexec_file_load
];

/// The last call that the profile names (removexattrat). runc answers later ones with `ENOSYS`, so that C
/// libraries use older calls.
const LAST: c_long = 466;

/// More calls than any kernel has; the filter may have 4,096 instructions.
const END: c_long = 600;

/// The flags of `clone` that make a namespace.
const NAMESPACES: &[u64] = &[
    0x0002_0000, // CLONE_NEWNS
    0x0200_0000, // CLONE_NEWCGROUP
    0x0400_0000, // CLONE_NEWUTS
    0x0800_0000, // CLONE_NEWIPC
    0x1000_0000, // CLONE_NEWUSER
    0x2000_0000, // CLONE_NEWPID
    0x4000_0000, // CLONE_NEWNET
];

/// The address families that `socket` refuses, of those below [`FAMILIES`].
const REFUSED_FAMILIES: &[u64] = &[3, 4, 5, 6, 11, 12, 19, 20, 23, 25, 34, 37, 38, 40];

/// From this one on `socket` refuses all families.
const FAMILIES: u64 = 46;

/// The arguments that `personality` permits.
const PERSONALITIES: &[u64] = &[0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Returns Docker's default filter.
pub(super) fn filter() -> Forbid {
    let namespaces = NAMESPACES
        .iter()
        .map(|&flag| rule([compare(MaskedEq(flag), flag)]));
    let refused = REFUSED_FAMILIES
        .iter()
        .map(|&family| rule([compare(Eq, family)]));
    let families = refused.chain([rule([compare(Ge, FAMILIES)])]);
    let personalities = rule(PERSONALITIES.iter().map(|&one| compare(Ne, one)));
    let with_arguments = vec![
        (libc::SYS_clone, namespaces.collect()),
        (libc::SYS_socket, families.collect()),
        (libc::SYS_personality, vec![personalities]),
    ];
    // clone3 has its flags in memory, which a filter does not see: ENOSYS makes C libraries use clone.
    let later: Vec<c_long> = (LAST + 1..END).chain([libc::SYS_clone3]).collect();
    Forbid::new(DOCKER, libc::EPERM)
        .and(OF_THE_PROCESSOR, libc::EPERM)
        .and_rules(with_arguments, libc::EPERM)
        .and(&later, libc::ENOSYS)
}

/// Returns a rule that matches where all conditions do.
fn rule(conditions: impl IntoIterator<Item = SeccompCondition>) -> SeccompRule {
    SeccompRule::new(conditions.into_iter().collect()).expect("a rule with conditions")
}
