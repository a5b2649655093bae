//! The calls that can fail, with the errnos that the kernel may return for each.

use std::ffi::{c_int, c_long};

use libc::{
    EACCES, EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EINTR, EINVAL, EIO, EMFILE, EMLINK, ENFILE,
    ENOENT, ENOMEM, ENOSPC, ENOSYS, EOPNOTSUPP, EPERM, ERANGE, EROFS, ESTALE, EXDEV,
};

/// A system call, and the errnos of its manual page that a disk, a limit or a filter may cause.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The name of the call.
    pub name: &'static str,
    /// The errnos, the most likely ones first.
    pub errnos: &'static [c_int],
    number: c_long,
}

impl Kind {
    pub(super) fn number(&self) -> i32 {
        self.number as i32
    }
}

/// Kinds of calls that the engine and a program that uses files through it make. Not `clone3` and `close`:
/// without a thread there is no driver, and the standard library panics at a directory that it cannot close.
pub const OF_FILES: &[&str] = &[
    "copy_file_range",
    "fcntl",
    "fdatasync",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents64",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "linkat",
    "lseek",
    "mkdirat",
    "newfstatat",
    "openat",
    "openat2",
    "pread64",
    "preadv2",
    "pwrite64",
    "pwritev2",
    "read",
    "renameat",
    "renameat2",
    "statx",
    "tgkill",
    "unlinkat",
    "write",
];

/// Returns the call of this name.
pub fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// Returns the name of an errno that occurs in [`KINDS`], for messages.
pub fn errno_name(errno: c_int) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

macro_rules! kinds {
    ($($name:ident $number:ident: $($errno:ident)*;)*) => {
        /// All calls that can fail.
        pub const KINDS: &[Kind] = &[$(Kind {
            name: stringify!($name),
            errnos: &[$($errno),*],
            number: libc::$number,
        }),*];
    };
}

kinds! {
    chdir SYS_chdir: EIO EACCES;
    close SYS_close: EIO ENOSPC EDQUOT EINTR;
    clone3 SYS_clone3: EAGAIN ENOMEM ENOSYS;
    copy_file_range SYS_copy_file_range: EIO ENOSPC EDQUOT EINVAL EXDEV ENOSYS EOPNOTSUPP EPERM EINTR ENOMEM;
    dup SYS_dup: EMFILE;
    epoll_create1 SYS_epoll_create1: EMFILE ENOMEM;
    epoll_ctl SYS_epoll_ctl: ENOMEM ENOSPC;
    eventfd2 SYS_eventfd2: EMFILE ENOMEM;
    faccessat2 SYS_faccessat2: EIO ENOSYS;
    fallocate SYS_fallocate: EIO ENOSPC EOPNOTSUPP ENOSYS EFBIG EINTR;
    fchmod SYS_fchmod: EIO EPERM EROFS;
    fchmodat SYS_fchmodat: EIO EPERM EROFS EOPNOTSUPP;
    fchown SYS_fchown: EIO EPERM EINVAL EDQUOT;
    fchownat SYS_fchownat: EIO EPERM EINVAL EDQUOT;
    fcntl SYS_fcntl: EMFILE EINVAL;
    fdatasync SYS_fdatasync: EIO ENOSPC EDQUOT;
    fgetxattr SYS_fgetxattr: EIO ENOMEM ERANGE ESTALE;
    flistxattr SYS_flistxattr: EIO ENOMEM ERANGE ESTALE;
    flock SYS_flock: EINTR ENOSYS EOPNOTSUPP;
    fsetxattr SYS_fsetxattr: EIO ENOSPC EDQUOT EPERM EOPNOTSUPP;
    fstat SYS_fstat: EIO ENOMEM ESTALE;
    fsync SYS_fsync: EIO ENOSPC EDQUOT EINVAL;
    ftruncate SYS_ftruncate: EIO EFBIG EINTR;
    futex SYS_futex: EINTR EAGAIN;
    getdents64 SYS_getdents64: EIO ESTALE ENOMEM;
    getxattr SYS_getxattr: EIO ENOMEM ERANGE;
    inotify_add_watch SYS_inotify_add_watch: ENOSPC ENOMEM EACCES;
    inotify_init1 SYS_inotify_init1: EMFILE;
    io_setup SYS_io_setup: EAGAIN ENOSYS ENOMEM;
    io_submit SYS_io_submit: EAGAIN ENOMEM;
    io_uring_enter SYS_io_uring_enter: EINTR EAGAIN EBUSY ENOMEM;
    io_uring_register SYS_io_uring_register: EINVAL ENOMEM EPERM;
    io_uring_setup SYS_io_uring_setup: ENOSYS EPERM ENOMEM EMFILE;
    ioctl SYS_ioctl: EOPNOTSUPP EXDEV EIO ENOSPC;
    lgetxattr SYS_lgetxattr: EIO ENOMEM ERANGE;
    linkat SYS_linkat: EIO ENOSPC EMLINK EACCES EPERM EXDEV EEXIST;
    listxattr SYS_listxattr: EIO ENOMEM ERANGE;
    llistxattr SYS_llistxattr: EIO ENOMEM ERANGE;
    lsetxattr SYS_lsetxattr: EIO ENOSPC EDQUOT EPERM EOPNOTSUPP;
    lseek SYS_lseek: EIO EINVAL;
    madvise SYS_madvise: ENOMEM EINVAL;
    mkdirat SYS_mkdirat: EIO ENOSPC EDQUOT EACCES EPERM EROFS EMLINK EEXIST;
    mknodat SYS_mknodat: EIO ENOSPC EPERM EACCES;
    mmap SYS_mmap: ENOMEM;
    newfstatat SYS_newfstatat: EIO ENOMEM EACCES ESTALE;
    openat SYS_openat: EIO EACCES EMFILE ENFILE ENOMEM ENOSPC EINTR ESTALE;
    openat2 SYS_openat2: EIO EACCES EMFILE ENFILE ENOMEM ENOSPC EINTR ENOSYS EPERM ESTALE EAGAIN;
    pipe2 SYS_pipe2: EMFILE;
    pread64 SYS_pread64: EIO EINTR ESTALE;
    preadv2 SYS_preadv2: EIO EAGAIN EOPNOTSUPP;
    pwrite64 SYS_pwrite64: EIO ENOSPC EDQUOT EFBIG EINTR;
    pwritev2 SYS_pwritev2: EIO ENOSPC EAGAIN EOPNOTSUPP;
    read SYS_read: EIO EINTR ESTALE;
    readlinkat SYS_readlinkat: EIO ENOMEM EACCES ESTALE;
    renameat SYS_renameat: EIO ENOSPC EACCES EPERM;
    renameat2 SYS_renameat2: EIO ENOSPC EACCES EPERM EINVAL ENOSYS EEXIST;
    sendfile SYS_sendfile: EIO ENOMEM EINVAL EAGAIN;
    sendto SYS_sendto: EAGAIN ENOMEM;
    setsockopt SYS_setsockopt: EINVAL ENOMEM;
    splice SYS_splice: EIO EINVAL EAGAIN ENOMEM;
    statx SYS_statx: EIO ENOMEM EACCES ESTALE EINTR ENOSYS;
    symlinkat SYS_symlinkat: EIO ENOSPC EDQUOT EACCES EPERM EEXIST;
    syncfs SYS_syncfs: EIO ENOSPC;
    tgkill SYS_tgkill: EAGAIN;
    unlinkat SYS_unlinkat: EIO EACCES EPERM EBUSY ENOENT;
    utimensat SYS_utimensat: EIO EPERM EINVAL ENOSYS;
    write SYS_write: EIO ENOSPC EDQUOT EFBIG EINTR;
    writev SYS_writev: EIO EAGAIN;
}

const NAMES: &[(c_int, &str)] = &[
    (EACCES, "EACCES"),
    (EAGAIN, "EAGAIN"),
    (EBUSY, "EBUSY"),
    (EDQUOT, "EDQUOT"),
    (EEXIST, "EEXIST"),
    (EFBIG, "EFBIG"),
    (EINTR, "EINTR"),
    (EINVAL, "EINVAL"),
    (EIO, "EIO"),
    (EMFILE, "EMFILE"),
    (EMLINK, "EMLINK"),
    (ENFILE, "ENFILE"),
    (ENOENT, "ENOENT"),
    (ENOMEM, "ENOMEM"),
    (ENOSPC, "ENOSPC"),
    (ENOSYS, "ENOSYS"),
    (EOPNOTSUPP, "EOPNOTSUPP"),
    (EPERM, "EPERM"),
    (ERANGE, "ERANGE"),
    (EROFS, "EROFS"),
    (ESTALE, "ESTALE"),
    (EXDEV, "EXDEV"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_and_errnos_of_its_own() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(!kind.errnos.is_empty(), "{}", kind.name);
            assert!(
                KINDS[..index]
                    .iter()
                    .all(|other| other.number != kind.number),
                "{}",
                kind.name
            );
            assert!(
                kind.errnos
                    .iter()
                    .all(|&errno| !errno_name(errno).contains(' '))
            );
        }
        assert_eq!(kind("statx").unwrap().number(), libc::SYS_statx as i32);
        assert_eq!(kind("no such call"), None);
    }
}
