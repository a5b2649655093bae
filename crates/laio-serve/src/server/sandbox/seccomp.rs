//! The system calls that serving needs.

use laio::BackendKind;
use libc as c;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Makes every other system call of the calling thread, and of threads that it creates, fail with
/// `EPERM` (seccomp). Such a filter does not see io_uring operations, none of which starts a
/// program.
///
/// # Errors
/// The reason why the filter cannot be applied.
pub(super) fn apply(kind: BackendKind, changes_files: bool) -> Result<(), String> {
    if kind == BackendKind::Activations {
        return Err(
            "the back end activations creates and watches threads with other system calls"
                .to_owned(),
        );
    }
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(|error| format!("{error}"))?;
    let changes: &[i64] = if changes_files { CHANGES } else { &[] };
    let calls = CALLS.iter().chain(OLD_CALLS).chain(changes);
    let rules = calls.map(|&call| (call, Vec::new())).collect();
    let eperm = SeccompAction::Errno(c::EPERM as u32);
    let program = SeccompFilter::new(rules, eperm, SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

#[rustfmt::skip]
const CALLS: &[i64] = &[
    // Data.
    c::SYS_read, c::SYS_readv, c::SYS_pread64, c::SYS_preadv, c::SYS_preadv2, c::SYS_write, c::SYS_writev,
    c::SYS_pwrite64, c::SYS_pwritev, c::SYS_pwritev2, c::SYS_lseek, c::SYS_sendfile, c::SYS_splice, c::SYS_tee,
    c::SYS_vmsplice, c::SYS_copy_file_range, c::SYS_fadvise64, c::SYS_readahead, c::SYS_fsync, c::SYS_fdatasync,
    c::SYS_ftruncate, c::SYS_fallocate,
    // Names and metadata.
    c::SYS_openat, c::SYS_openat2, c::SYS_close, c::SYS_close_range, c::SYS_fstat, c::SYS_newfstatat, c::SYS_statx,
    c::SYS_readlinkat, c::SYS_faccessat, c::SYS_faccessat2, c::SYS_getdents64, c::SYS_getcwd, c::SYS_statfs,
    c::SYS_fstatfs, c::SYS_inotify_init1, c::SYS_inotify_add_watch, c::SYS_inotify_rm_watch,
    c::SYS_unlinkat,
    // Descriptors.
    c::SYS_fcntl, c::SYS_flock, c::SYS_ioctl, c::SYS_dup, c::SYS_dup3, c::SYS_pipe2, c::SYS_eventfd2,
    c::SYS_memfd_create, c::SYS_timerfd_create, c::SYS_timerfd_settime, c::SYS_timerfd_gettime,
    // Sockets of clients and of upstreams.
    c::SYS_socket, c::SYS_socketpair, c::SYS_connect, c::SYS_accept, c::SYS_accept4, c::SYS_recvfrom,
    c::SYS_recvmsg, c::SYS_recvmmsg, c::SYS_sendto, c::SYS_sendmsg, c::SYS_sendmmsg, c::SYS_shutdown,
    c::SYS_getsockname, c::SYS_getpeername, c::SYS_getsockopt, c::SYS_setsockopt,
    // Waiting and asynchronous I/O.
    c::SYS_epoll_create1, c::SYS_epoll_ctl, c::SYS_epoll_pwait, c::SYS_epoll_pwait2, c::SYS_ppoll, c::SYS_pselect6,
    c::SYS_io_uring_setup, c::SYS_io_uring_enter, c::SYS_io_uring_register, c::SYS_io_setup, c::SYS_io_submit,
    c::SYS_io_getevents, c::SYS_io_cancel, c::SYS_io_destroy, c::SYS_restart_syscall,
    // Memory.
    c::SYS_mmap, c::SYS_munmap, c::SYS_mremap, c::SYS_mprotect, c::SYS_madvise, c::SYS_brk, c::SYS_mlock,
    c::SYS_munlock,
    // Threads.
    c::SYS_clone, c::SYS_clone3, c::SYS_exit, c::SYS_exit_group, c::SYS_futex, c::SYS_futex_waitv,
    c::SYS_set_robust_list, c::SYS_get_robust_list, c::SYS_rseq, c::SYS_set_tid_address, c::SYS_prctl,
    c::SYS_membarrier, c::SYS_sched_yield, c::SYS_sched_getaffinity, c::SYS_sched_setaffinity,
    c::SYS_sched_getparam, c::SYS_sched_getscheduler, c::SYS_sched_setscheduler, c::SYS_getcpu,
    // Signals, which interrupt helpers.
    c::SYS_rt_sigaction, c::SYS_rt_sigprocmask, c::SYS_rt_sigreturn, c::SYS_rt_sigpending, c::SYS_rt_sigsuspend,
    c::SYS_rt_sigtimedwait, c::SYS_rt_sigqueueinfo, c::SYS_rt_tgsigqueueinfo, c::SYS_tgkill, c::SYS_tkill,
    c::SYS_sigaltstack,
    // Time and identity.
    c::SYS_clock_gettime, c::SYS_clock_getres, c::SYS_clock_nanosleep, c::SYS_nanosleep, c::SYS_gettimeofday,
    c::SYS_getrandom, c::SYS_uname, c::SYS_sysinfo, c::SYS_getrusage, c::SYS_times, c::SYS_getpid, c::SYS_getppid,
    c::SYS_gettid, c::SYS_getuid, c::SYS_geteuid, c::SYS_getgid, c::SYS_getegid, c::SYS_prlimit64, c::SYS_getrlimit,
];

/// The system calls of uploads, in addition.
const CHANGES: &[i64] = &[
    c::SYS_linkat,
    c::SYS_renameat2,
    c::SYS_mkdirat,
    c::SYS_fchmod,
    c::SYS_utimensat,
];

/// Older forms of system calls that C libraries still use.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLD_CALLS: &[i64] = &[
    c::SYS_open, c::SYS_stat, c::SYS_lstat, c::SYS_access, c::SYS_readlink, c::SYS_dup2, c::SYS_pipe, c::SYS_poll,
    c::SYS_select, c::SYS_epoll_create, c::SYS_epoll_wait, c::SYS_eventfd, c::SYS_time, c::SYS_arch_prctl,
];

#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[i64] = &[];
