//! The rows, grouped by subject. One row is one line, so that a group reads as a table.
//!
//! An argument counts as a pointer only if it is always an address (or null): the last argument of
//! `fcntl`, `ioctl`, `prctl`, `semctl`, `keyctl` is one for some commands and is left out. Likewise a
//! call yields a descriptor only if its result always is a new one, since the descriptor that a
//! cancelled call still produced is closed.

use super::{
    Attempt::*,
    Class::*,
    Opcode, Row, Timeout,
    Use::{Both, Directory, Read, Unordered, Write},
    WouldWait,
};
use crate::Errno;

const fn row(name: &'static str, x86_64: u16, aarch64: u16, class: super::Class) -> Row {
    Row::new(name, Some(x86_64), Some(aarch64), class)
}

/// A call that only x86-64 has.
const fn x86(name: &'static str, number: u16, class: super::Class) -> Row {
    Row::new(name, Some(number), None, class)
}

// Flags, in the type of the table. `FSYNC_DATASYNC` is the ring's; the C library has no name for it.
const SPLICE_NONBLOCK: u32 = libc::SPLICE_F_NONBLOCK;
const NOWAIT: u32 = libc::IPC_NOWAIT as u32;
const NOFOLLOW: u32 = libc::AT_SYMLINK_NOFOLLOW as u32;
const REMOVEDIR: u32 = libc::AT_REMOVEDIR as u32;
const CREAT: u32 = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u32;
const FSYNC_DATASYNC: u32 = 1;

// Notes that several rows share.
const CHOSEN: &str = "the caller chose the resulting number: cancellation must not close it";
const FAULTS: &str = "reads the pages in, from the disk if necessary";
const GONE: &str = "removed, or never implemented: the kernel answers ENOSYS";
const KEYS: &str = "keyrings belong to the thread";
const MASK: &str = "the signal mask is set in the thread that waits";
const NULL_NAME: &str = "a null name means the file of the descriptor";
const OWN_MASK: &str = "waits under the calling thread's mask: use signalfd or rt_sigtimedwait";
const PID_ZERO: &str = "0 names the calling thread";
const RESOLVES: &str = "later lookups depend on it: runs in program order, even if resolving the name waits for the disk";
const RING: &str = "a ring of the caller may allow only the thread that made it";
const SAME: &str = "given a descriptor, it returns that one: cancellation must not close it";
const SENDER: &str = "whether it is permitted depends on the calling thread";
const TWICE: &str = "the child would return into laio's code: use the C library's function";
const XATTR_LINK: &str = "the ring operation follows symbolic links";

/// All system calls of x86-64 and aarch64 up to Linux 7.0.
#[rustfmt::skip]
pub static ROWS: &[Row] = &super::numbered([
    // Streams, and files by position
    row("read", 0, 63, Stream).attempt(NowaitRead).buffer(1, 2, None).opcode(Opcode::Read).fd(0, Read),
    row("write", 1, 64, Stream).attempt(NowaitWrite).buffer(1, 2, None).opcode(Opcode::Write).fd(0, Write),
    row("readv", 19, 65, Stream).attempt(NowaitRead).vector(1, 2, None, None).opcode(Opcode::ReadV).fd(0, Read),
    row("writev", 20, 66, Stream).attempt(NowaitWrite).vector(1, 2, None, None).opcode(Opcode::WriteV).fd(0, Write),
    row("pread64", 17, 67, FileRead).attempt(NowaitRead).buffer(1, 2, Some(3)).opcode(Opcode::Read).fd(0, Unordered),
    row("pwrite64", 18, 68, FileWrite).attempt(NowaitWrite).buffer(1, 2, Some(3)).opcode(Opcode::Write).fd(0, Unordered),
    row("preadv", 295, 69, FileRead).attempt(NowaitRead).vector(1, 2, Some(3), None).opcode(Opcode::ReadV).fd(0, Unordered),
    row("pwritev", 296, 70, FileWrite).attempt(NowaitWrite).vector(1, 2, Some(3), None).opcode(Opcode::WriteV).fd(0, Unordered),
    row("preadv2", 327, 286, FileRead).attempt(NowaitRead).vector(1, 2, Some(3), Some(5)).opcode(Opcode::ReadV).fd(0, Unordered).note("offset -1 means the file position, as readv"),
    row("pwritev2", 328, 287, FileWrite).attempt(NowaitWrite).vector(1, 2, Some(3), Some(5)).opcode(Opcode::WriteV).fd(0, Unordered).note("offset -1 means the file position, as writev"),
    row("sendfile", 40, 71, Stream).fd(0, Write).fd_at(1, Both, 2).note("no flag keeps it from waiting for the file"),
    row("splice", 275, 76, Stream).opcode(Opcode::Splice).fd_at(0, Read, 1).fd_at(2, Write, 3).note("SPLICE_F_NONBLOCK covers the pipe only, not the file or socket at the other end"),
    row("tee", 276, 77, Stream).attempt(Flag(3, SPLICE_NONBLOCK)).opcode(Opcode::Tee).fd(0, Read).fd(1, Write).note("both ends are pipes, so the flag covers all it can wait for"),
    row("vmsplice", 278, 75, Stream).attempt(Flag(3, SPLICE_NONBLOCK)).pointers(&[1]).fd(0, Both).note("the pipe's end decides the direction; it waits only before the first page"),
    row("copy_file_range", 326, 285, FileWrite).fd_at(0, Both, 1).fd_at(2, Both, 3),
    row("lseek", 8, 62, Instant).attempt(Seek).fd(0, Both),

    // Flushing, read-ahead and allocation
    row("fsync", 74, 82, FileWrite).opcode(Opcode::Fsync).fd(0, Unordered),
    row("fdatasync", 75, 83, FileWrite).opcode(Opcode::Fsync).implies(FSYNC_DATASYNC).fd(0, Unordered),
    row("sync", 162, 81, FileWrite),
    row("syncfs", 306, 267, FileWrite).fd(0, Unordered),
    row("sync_file_range", 277, 84, FileWrite).opcode(Opcode::SyncFileRange).fd(0, Unordered),
    row("msync", 26, 227, FileWrite).pointers(&[0]),
    row("fallocate", 285, 47, FileWrite).opcode(Opcode::Fallocate).fd(0, Unordered),
    row("truncate", 76, 45, FileWrite).path(0),
    row("ftruncate", 77, 46, FileWrite).opcode(Opcode::Ftruncate).fd(0, Unordered),
    row("fadvise64", 221, 223, FileRead).opcode(Opcode::Fadvise).fd(0, Unordered).note("starting read-ahead can wait for block maps and for the request queue"),
    row("readahead", 187, 213, FileRead).fd(0, Unordered).note("can wait for block maps and for the request queue"),
    row("cachestat", 451, 451, Instant).fd(0, Unordered).pointers(&[1, 2]),
    row("mincore", 27, 232, Instant).pointers(&[0, 2]),

    // Sockets
    row("socket", 41, 198, Instant).opcode(Opcode::Socket).yields_descriptor(),
    row("socketpair", 53, 199, Instant).pointers(&[3]),
    row("bind", 49, 200, Instant).opcode(Opcode::Bind).fd(0, Unordered).pointers(&[1]).note("a Unix socket with a path creates that name, which can wait for the disk"),
    row("listen", 50, 201, Instant).opcode(Opcode::Listen).fd(0, Unordered),
    row("accept", 43, 202, Stream).opcode(Opcode::Accept).fd(0, Read).pointers(&[1, 2]).yields_descriptor().note("the call has no flag for not waiting: waits for readiness; made inline if the socket is in non-blocking mode"),
    row("accept4", 288, 242, Stream).opcode(Opcode::Accept).fd(0, Read).pointers(&[1, 2]).flags(3).yields_descriptor().note("SOCK_NONBLOCK applies to the new socket: waits for readiness; made inline if the socket is in non-blocking mode"),
    row("connect", 42, 203, Stream).opcode(Opcode::Connect).fd(0, Write).pointers(&[1]).note("the call has no flag for not waiting"),
    row("shutdown", 48, 210, Instant).opcode(Opcode::Shutdown).fd(0, Write).note("waits for writes in flight, which it would cut off; not for reads, which it ends"),
    row("recvfrom", 45, 207, Stream).attempt(Dontwait(3)).buffer(1, 2, None).opcode(Opcode::Recv).fd(0, Read).pointers(&[4, 5]).note("the ring operation has no address: used only if it is null"),
    row("sendto", 44, 206, Stream).attempt(Dontwait(3)).buffer(1, 2, None).opcode(Opcode::Send).fd(0, Write).pointers(&[4]).note("the ring operation has no address: used only if it is null"),
    row("recvmsg", 47, 212, Stream).attempt(Dontwait(2)).message(1).opcode(Opcode::RecvMsg).fd(0, Read),
    row("sendmsg", 46, 211, Stream).attempt(Dontwait(2)).message(1).opcode(Opcode::SendMsg).fd(0, Write),
    row("recvmmsg", 299, 243, Stream).attempt(Dontwait(3)).messages(1, 2).fd(0, Read).pointers(&[4]).note("without MSG_WAITFORONE it waits for all the messages asked for"),
    row("sendmmsg", 307, 269, Stream).attempt(Dontwait(3)).messages(1, 2).fd(0, Write),
    row("getsockname", 51, 204, Instant).fd(0, Unordered).pointers(&[1, 2]),
    row("getpeername", 52, 205, Instant).fd(0, Unordered).pointers(&[1, 2]),
    row("setsockopt", 54, 208, Instant).fd(0, Unordered).pointers(&[3]),
    row("getsockopt", 55, 209, Instant).fd(0, Unordered).pointers(&[3, 4]),

    // POSIX message queues: they are in memory, so calls wait only for a full or empty queue
    row("mq_open", 240, 180, Instant).pointers(&[0, 3]).yields_descriptor(),
    row("mq_unlink", 241, 181, Instant).pointers(&[0]),
    row("mq_timedsend", 242, 182, Stream).fd(0, Write).pointers(&[1, 4]).note("its time-out is absolute: there is no zero time-out"),
    row("mq_timedreceive", 243, 183, Stream).fd(0, Read).pointers(&[1, 3, 4]).note("its time-out is absolute: there is no zero time-out"),
    row("mq_notify", 244, 184, Instant).fd(0, Unordered).pointers(&[1]),
    row("mq_getsetattr", 245, 185, Instant).fd(0, Unordered).pointers(&[1, 2]),

    // Descriptors
    row("close", 3, 57, Instant).attempt(Close).opcode(Opcode::Close).fd(0, Both).note("NFS and FUSE flush at close, which can wait for another machine or process"),
    row("close_range", 436, 436, Instant).attempt(CloseRange),
    row("dup", 32, 23, Instant).fd(0, Unordered).yields_descriptor(),
    x86("dup2", 33, Instant).attempt(Duplicate(1)).fd(0, Unordered).note(CHOSEN),
    row("dup3", 292, 24, Instant).attempt(Duplicate(1)).fd(0, Unordered).flags(2).note(CHOSEN),
    row("fcntl", 72, 25, Instant).attempt(Fcntl).fd(0, Unordered).note("F_SETLKW and F_OFD_SETLKW are attempted as F_SETLK and F_OFD_SETLK"),
    row("ioctl", 16, 29, Instant).attempt(Ioctl).fd(0, Unordered).note("FICLONE, FICLONERANGE, FIDEDUPERANGE, FIEMAP, FIFREEZE, FITHAW and FITRIM wait for the disk and go to the background; all others run plainly"),
    x86("pipe", 22, Instant).pointers(&[0]),
    row("pipe2", 293, 59, Instant).pointers(&[0]),
    x86("eventfd", 284, Instant).yields_descriptor(),
    row("eventfd2", 290, 19, Instant).yields_descriptor(),
    x86("signalfd", 282, Instant).fd(0, Unordered).pointers(&[1]).note(SAME),
    row("signalfd4", 289, 74, Instant).fd(0, Unordered).pointers(&[1]).note(SAME),
    row("timerfd_create", 283, 85, Instant).yields_descriptor(),
    row("timerfd_settime", 286, 86, Instant).fd(0, Unordered).pointers(&[2, 3]),
    row("timerfd_gettime", 287, 87, Instant).fd(0, Unordered).pointers(&[1]),
    row("memfd_create", 319, 279, Instant).pointers(&[0]).yields_descriptor(),
    row("memfd_secret", 447, 447, Instant).yields_descriptor(),
    row("userfaultfd", 323, 282, Instant).yields_descriptor().note("belongs to the address space, not to the thread"),
    row("pidfd_open", 434, 434, Instant).yields_descriptor(),
    row("pidfd_getfd", 438, 438, Instant).fd(0, Unordered).yields_descriptor(),
    row("kcmp", 312, 272, Instant),
    row("bpf", 321, 280, Instant).pointers(&[1]).note("some commands yield a descriptor, others a count"),
    row("perf_event_open", 298, 241, Thread).pointers(&[0]).fd(3, Unordered).yields_descriptor().note("pid 0 is the calling thread"),

    // Waiting for descriptors
    x86("poll", 7, Waiting).attempt(ZeroTimeout(2, Timeout::Milliseconds)).opcode(Opcode::PollAdd).pointers(&[0]).polls().note("the ring operation is for one descriptor"),
    row("ppoll", 271, 73, Waiting).attempt(ZeroTimeout(2, Timeout::Timespec)).pointers(&[0, 2, 3]).polls().note(MASK),
    x86("select", 23, Waiting).pointers(&[1, 2, 3, 4]).note("an attempt with a zero time-out would clear the sets"),
    row("pselect6", 270, 72, Waiting).pointers(&[1, 2, 3, 4, 5]).note("an attempt with a zero time-out would clear the sets"),
    x86("epoll_create", 213, Instant).yields_descriptor(),
    row("epoll_create1", 291, 20, Instant).yields_descriptor(),
    row("epoll_ctl", 233, 21, Instant).opcode(Opcode::EpollCtl).fd(0, Unordered).fd(2, Unordered).pointers(&[3]),
    x86("epoll_wait", 232, Waiting).attempt(ZeroTimeout(3, Timeout::Milliseconds)).fd(0, Unordered).pointers(&[1]),
    row("epoll_pwait", 281, 22, Waiting).attempt(ZeroTimeout(3, Timeout::Milliseconds)).fd(0, Unordered).pointers(&[1, 4]).note(MASK),
    row("epoll_pwait2", 441, 441, Waiting).attempt(ZeroTimeout(3, Timeout::Timespec)).fd(0, Unordered).pointers(&[1, 3, 4]).note(MASK),
    x86("epoll_ctl_old", 214, Instant).note(GONE),
    x86("epoll_wait_old", 215, Instant).note(GONE),

    // Asynchronous I/O of the kernel
    row("io_setup", 206, 0, Instant).pointers(&[1]),
    row("io_destroy", 207, 1, Waiting).note("waits for the requests in flight"),
    row("io_submit", 209, 2, Waiting).pointers(&[2]).note("does buffered I/O synchronously, and waits when the request queue is full"),
    row("io_cancel", 210, 3, Instant).pointers(&[1, 2]),
    row("io_getevents", 208, 4, Waiting).pointers(&[3, 4]).note("an attempt with a zero time-out could take some events but fewer than min_nr"),
    row("io_pgetevents", 333, 292, Waiting).pointers(&[3, 4, 5]).note("an attempt with a zero time-out could take some events but fewer than min_nr"),
    row("io_uring_setup", 425, 425, Thread).pointers(&[1]).yields_descriptor().note(RING),
    row("io_uring_enter", 426, 426, Thread).fd(0, Unordered).pointers(&[4]).note(RING),
    row("io_uring_register", 427, 427, Thread).fd(0, Unordered).pointers(&[2]).note(RING),

    // Opening files
    x86("open", 2, Path).attempt(CachedOpen).path(0).flags(1).opcode(Opcode::OpenAt).yields_descriptor(),
    row("openat", 257, 56, Path).attempt(CachedOpen).path_at(0, 1).flags(2).opcode(Opcode::OpenAt).yields_descriptor(),
    row("openat2", 437, 437, Path).attempt(CachedOpen).path_at(0, 1).opcode(Opcode::OpenAt2).pointers(&[2]).yields_descriptor().note("flags and mode are in the struct open_how"),
    x86("creat", 85, Path).path(0).implies(CREAT).yields_descriptor().note("RESOLVE_CACHED never creates or truncates"),
    row("name_to_handle_at", 303, 264, Path).path_at(0, 1).flags(4).pointers(&[2, 3]),
    row("open_by_handle_at", 304, 265, Path).fd(0, Directory).pointers(&[1]).yields_descriptor().note("takes no name, so there is no cached lookup"),

    // Metadata by name
    x86("stat", 4, Path).attempt(CachedStat).path(0).pointers(&[1]),
    x86("lstat", 6, Path).attempt(CachedStat).path(0).implies(NOFOLLOW).pointers(&[1]),
    row("newfstatat", 262, 79, Path).attempt(CachedStat).path_at(0, 1).flags(3).pointers(&[2]),
    row("statx", 332, 291, Path).attempt(CachedStat).path_at(0, 1).flags(2).opcode(Opcode::Statx).pointers(&[4]),
    x86("access", 21, Path).attempt(CachedAccess).path(0),
    row("faccessat", 269, 48, Path).attempt(CachedAccess).path_at(0, 1),
    row("faccessat2", 439, 439, Path).attempt(CachedAccess).path_at(0, 1).flags(3),
    x86("readlink", 89, Path).path(0).pointers(&[1]),
    row("readlinkat", 267, 78, Path).path_at(0, 1).pointers(&[2]),
    x86("chmod", 90, Path).path(0),
    row("fchmodat", 268, 53, Path).path_at(0, 1),
    row("fchmodat2", 452, 452, Path).path_at(0, 1).flags(3),
    x86("chown", 92, Path).path(0),
    x86("lchown", 94, Path).path(0).implies(NOFOLLOW),
    row("fchownat", 260, 54, Path).path_at(0, 1).flags(4),
    x86("utime", 132, Path).path(0).pointers(&[1]),
    x86("utimes", 235, Path).path(0).pointers(&[1]),
    x86("futimesat", 261, Path).path_at(0, 1).pointers(&[2]).note(NULL_NAME),
    row("utimensat", 280, 88, Path).path_at(0, 1).flags(3).pointers(&[2]).note(NULL_NAME),
    row("file_getattr", 468, 468, Path).path_at(0, 1).flags(4).pointers(&[2]),
    row("file_setattr", 469, 469, Path).path_at(0, 1).flags(4).pointers(&[2]),

    // Metadata by descriptor
    row("fstat", 5, 80, Path).attempt(PlainIfLocal).fd(0, Unordered).pointers(&[1]).note("the inode is in memory while the file is open"),
    row("fstatfs", 138, 44, Path).attempt(PlainIfLocal).fd(0, Unordered).pointers(&[1]),
    row("fchmod", 91, 52, Path).fd(0, Unordered).note("can wait for the journal"),
    row("fchown", 93, 55, Path).fd(0, Unordered).note("can wait for the journal"),
    x86("getdents", 78, Path).fd(0, Both).pointers(&[1]).note("uses the directory's position; no call reads cached entries only"),
    row("getdents64", 217, 61, Path).fd(0, Both).pointers(&[1]).note("uses the directory's position; no call reads cached entries only"),

    // Extended attributes: they can be in a block of their own, so even those of an open file can wait
    row("setxattr", 188, 5, Path).path(0).opcode(Opcode::SetXattr).pointers(&[1, 2]),
    row("lsetxattr", 189, 6, Path).path(0).implies(NOFOLLOW).pointers(&[1, 2]).note(XATTR_LINK),
    row("fsetxattr", 190, 7, Path).opcode(Opcode::FsetXattr).fd(0, Unordered).pointers(&[1, 2]),
    row("getxattr", 191, 8, Path).path(0).opcode(Opcode::GetXattr).pointers(&[1, 2]),
    row("lgetxattr", 192, 9, Path).path(0).implies(NOFOLLOW).pointers(&[1, 2]).note(XATTR_LINK),
    row("fgetxattr", 193, 10, Path).opcode(Opcode::FgetXattr).fd(0, Unordered).pointers(&[1, 2]),
    row("listxattr", 194, 11, Path).path(0).pointers(&[1]),
    row("llistxattr", 195, 12, Path).path(0).implies(NOFOLLOW).pointers(&[1]),
    row("flistxattr", 196, 13, Path).fd(0, Unordered).pointers(&[1]),
    row("removexattr", 197, 14, Path).path(0).pointers(&[1]),
    row("lremovexattr", 198, 15, Path).path(0).implies(NOFOLLOW).pointers(&[1]),
    row("fremovexattr", 199, 16, Path).fd(0, Unordered).pointers(&[1]),
    row("setxattrat", 463, 463, Path).path_at(0, 1).flags(2).pointers(&[3, 4]),
    row("getxattrat", 464, 464, Path).path_at(0, 1).flags(2).pointers(&[3, 4]),
    row("listxattrat", 465, 465, Path).path_at(0, 1).flags(2).pointers(&[3]),
    row("removexattrat", 466, 466, Path).path_at(0, 1).flags(2).pointers(&[3]),

    // Names in directories. Of two names the first is `file`; the second's directory is the second
    // descriptor, and its address the argument after that. A symbolic link's text is not resolved.
    x86("mkdir", 83, Path).path(0).opcode(Opcode::MkdirAt),
    row("mkdirat", 258, 34, Path).path_at(0, 1).opcode(Opcode::MkdirAt),
    x86("rmdir", 84, Path).path(0).opcode(Opcode::UnlinkAt).implies(REMOVEDIR),
    x86("unlink", 87, Path).path(0).opcode(Opcode::UnlinkAt),
    row("unlinkat", 263, 35, Path).path_at(0, 1).flags(2).opcode(Opcode::UnlinkAt),
    x86("rename", 82, Path).path(0).opcode(Opcode::RenameAt).pointers(&[1]),
    row("renameat", 264, 38, Path).path_at(0, 1).opcode(Opcode::RenameAt).fd(2, Directory).pointers(&[3]),
    row("renameat2", 316, 276, Path).path_at(0, 1).flags(4).opcode(Opcode::RenameAt).fd(2, Directory).pointers(&[3]),
    x86("link", 86, Path).path(0).opcode(Opcode::LinkAt).pointers(&[1]),
    row("linkat", 265, 37, Path).path_at(0, 1).flags(4).opcode(Opcode::LinkAt).fd(2, Directory).pointers(&[3]),
    x86("symlink", 88, Path).path(1).opcode(Opcode::SymlinkAt).pointers(&[0]),
    row("symlinkat", 266, 36, Path).path_at(1, 2).opcode(Opcode::SymlinkAt).pointers(&[0]),
    x86("mknod", 133, Path).path(0),
    row("mknodat", 259, 33, Path).path_at(0, 1),

    // The working directory and the root, which all threads share
    row("getcwd", 79, 17, Instant).pointers(&[0]),
    row("umask", 95, 166, Instant).note("belongs to the process: an open still in flight may use the new one"),
    row("chdir", 80, 49, Thread).path(0).note(RESOLVES),
    row("fchdir", 81, 50, Thread).fd(0, Unordered).note(RESOLVES),
    row("chroot", 161, 51, Thread).path(0).note(RESOLVES),
    row("pivot_root", 155, 41, Thread).path(0).pointers(&[1]).note(RESOLVES),

    // File systems and mounts
    row("statfs", 137, 43, Path).path(0).pointers(&[1]),
    x86("ustat", 136, Path).pointers(&[1]),
    x86("sysfs", 139, Instant).note("names and numbers of file-system types"),
    row("mount", 165, 40, Path).path(1).pointers(&[0, 2, 4]),
    row("umount2", 166, 39, Path).path(0),
    row("open_tree", 428, 428, Path).path_at(0, 1).flags(2).yields_descriptor(),
    row("open_tree_attr", 467, 467, Path).path_at(0, 1).flags(2).pointers(&[3]).yields_descriptor(),
    row("move_mount", 429, 429, Path).path_at(0, 1).fd(2, Directory).pointers(&[3]),
    row("mount_setattr", 442, 442, Path).path_at(0, 1).flags(2).pointers(&[3]),
    row("fsopen", 430, 430, Path).pointers(&[0]).yields_descriptor().note("can load the file system's module"),
    row("fsconfig", 431, 431, Path).fd(0, Unordered).pointers(&[2, 3]).note("FSCONFIG_CMD_CREATE reads the superblock"),
    row("fsmount", 432, 432, Path).fd(0, Unordered).yields_descriptor(),
    row("fspick", 433, 433, Path).path_at(0, 1).yields_descriptor(),
    row("statmount", 457, 457, Instant).pointers(&[0, 1]),
    row("listmount", 458, 458, Instant).pointers(&[0, 1]),
    row("listns", 470, 470, Instant).pointers(&[0, 1]),
    row("swapon", 167, 224, Path).path(0),
    row("swapoff", 168, 225, Path).path(0).note("reads back all that is swapped out"),
    row("quotactl", 179, 60, Path).path(1).pointers(&[3]),
    row("quotactl_fd", 443, 443, Path).fd(0, Unordered).pointers(&[3]),
    row("acct", 163, 89, Path).path(0),

    // File events
    x86("inotify_init", 253, Instant).yields_descriptor(),
    row("inotify_init1", 294, 26, Instant).yields_descriptor(),
    row("inotify_add_watch", 254, 27, Path).fd(0, Unordered).path(1),
    row("inotify_rm_watch", 255, 28, Instant).fd(0, Unordered),
    row("fanotify_init", 300, 262, Instant).yields_descriptor(),
    row("fanotify_mark", 301, 263, Path).fd(0, Unordered).path_at(3, 4),

    // Memory of the process
    row("brk", 12, 214, Instant).pointers(&[0]),
    row("mmap", 9, 222, Instant).fd(4, Unordered).pointers(&[0]).note("with MAP_POPULATE it reads the pages and can wait"),
    row("munmap", 11, 215, Instant).pointers(&[0]),
    row("mremap", 25, 216, Instant).pointers(&[0, 4]),
    row("remap_file_pages", 216, 234, Instant).pointers(&[0]),
    row("mprotect", 10, 226, Instant).pointers(&[0]),
    row("pkey_mprotect", 329, 288, Instant).pointers(&[0]),
    row("pkey_alloc", 330, 289, Thread).changes_identity().note("only the calling thread, and threads it starts later, may use memory under the key"),
    row("pkey_free", 331, 290, Instant),
    row("map_shadow_stack", 453, 453, Instant).pointers(&[0]),
    row("mseal", 462, 462, Instant).pointers(&[0]),
    row("madvise", 28, 233, FileRead).opcode(Opcode::Madvise).pointers(&[0]).note("MADV_WILLNEED, MADV_POPULATE_READ, MADV_REMOVE and others wait for the disk"),
    row("process_madvise", 440, 440, FileRead).fd(0, Unordered).pointers(&[1]).note("as madvise"),
    row("mlock", 149, 228, FileRead).pointers(&[0]).note(FAULTS),
    row("mlock2", 325, 284, FileRead).pointers(&[0]).note(FAULTS),
    row("mlockall", 151, 230, FileRead).note(FAULTS),
    row("munlock", 150, 229, Instant).pointers(&[0]),
    row("munlockall", 152, 231, Instant),
    row("mbind", 237, 235, Instant).pointers(&[0, 3]).note("with MPOL_MF_MOVE it copies pages"),
    row("migrate_pages", 256, 238, Waiting).pointers(&[2, 3]).note("copies pages after draining the per-CPU page lists"),
    row("move_pages", 279, 239, Waiting).pointers(&[2, 3, 4]).note("copies pages after draining the per-CPU page lists"),
    row("set_mempolicy", 238, 237, Thread).pointers(&[1]).note("the policy belongs to the thread"),
    row("get_mempolicy", 239, 236, Thread).pointers(&[0, 1, 3]).note("the policy belongs to the thread"),
    row("set_mempolicy_home_node", 450, 450, Instant).pointers(&[0]),
    row("process_vm_readv", 310, 270, Instant).pointers(&[1, 3]).note("a copy of memory: only a page fault can wait"),
    row("process_vm_writev", 311, 271, Instant).pointers(&[1, 3]).note("a copy of memory: only a page fault can wait"),
    row("process_mrelease", 448, 448, Waiting).fd(0, Unordered).note("frees the memory of a dying process"),
    row("membarrier", 324, 283, Thread).note("orders the calling thread's accesses"),
    x86("modify_ldt", 154, Instant).pointers(&[1]),

    // System V shared memory, semaphores and messages
    row("shmget", 29, 194, Instant),
    row("shmat", 30, 196, Instant).pointers(&[1]),
    row("shmdt", 67, 197, Instant).pointers(&[0]),
    row("shmctl", 31, 195, Instant).pointers(&[2]),
    row("semget", 64, 190, Instant),
    row("semop", 65, 193, Waiting).pointers(&[1]).note("IPC_NOWAIT is a flag of each operation in the array"),
    row("semtimedop", 220, 192, Waiting).attempt(ZeroTimeout(3, Timeout::Timespec)).pointers(&[1, 3]),
    row("semctl", 66, 191, Instant),
    row("msgget", 68, 186, Instant),
    row("msgsnd", 69, 189, Waiting).attempt(Flag(3, NOWAIT)).pointers(&[1]),
    row("msgrcv", 70, 188, Waiting).attempt(Flag(4, NOWAIT)).would_wait(WouldWait::NoMessage).pointers(&[1]).note("ENOMSG means that it would wait"),
    row("msgctl", 71, 187, Instant).pointers(&[2]),

    // Locks and futexes
    row("flock", 73, 32, Waiting).attempt(Flag(1, libc::LOCK_NB as u32)).fd(0, Unordered),
    row("futex", 202, 98, Waiting).pointers(&[0, 4]).note("priority-inheritance operations act for the thread that makes them: do not use them through laio"),
    row("futex_wait", 455, 455, Waiting).pointers(&[0, 4]).note("its time-out is absolute"),
    row("futex_waitv", 449, 449, Waiting).pointers(&[0, 3]).note("its time-out is absolute"),
    row("futex_wake", 454, 454, Instant).pointers(&[0]),
    row("futex_requeue", 456, 456, Instant).pointers(&[0]),
    row("set_robust_list", 273, 99, Thread).pointers(&[0]),
    row("get_robust_list", 274, 100, Thread).pointers(&[1, 2]).note(PID_ZERO),

    // Time
    row("nanosleep", 35, 101, Waiting).opcode(Opcode::Timeout).pointers(&[0, 1]).note("the remaining time is never stored: EINTR does not surface"),
    row("clock_nanosleep", 230, 115, Waiting).opcode(Opcode::Timeout).flags(1).pointers(&[2, 3]).note("the ring has the clocks MONOTONIC, REALTIME and BOOTTIME only"),
    x86("time", 201, Instant).pointers(&[0]),
    row("gettimeofday", 96, 169, Instant).pointers(&[0, 1]),
    row("settimeofday", 164, 170, Instant).pointers(&[0, 1]),
    row("clock_gettime", 228, 113, Thread).pointers(&[1]).note("CLOCK_THREAD_CPUTIME_ID is the calling thread's"),
    row("clock_settime", 227, 112, Instant).pointers(&[1]),
    row("clock_getres", 229, 114, Instant).pointers(&[1]),
    row("clock_adjtime", 305, 266, Instant).pointers(&[1]),
    row("adjtimex", 159, 171, Instant).pointers(&[0]),
    row("times", 100, 153, Instant).pointers(&[0]),
    row("getitimer", 36, 102, Instant).pointers(&[1]),
    row("setitimer", 38, 103, Instant).pointers(&[1, 2]),
    x86("alarm", 37, Instant),
    row("timer_create", 222, 107, Thread).pointers(&[1, 2]).note("CLOCK_THREAD_CPUTIME_ID is the calling thread's"),
    row("timer_settime", 223, 110, Instant).pointers(&[2, 3]),
    row("timer_gettime", 224, 108, Instant).pointers(&[1]),
    row("timer_getoverrun", 225, 109, Instant),
    row("timer_delete", 226, 111, Instant),

    // Processes and threads
    row("getpid", 39, 172, Instant),
    row("getppid", 110, 173, Instant),
    row("gettid", 186, 178, Thread),
    x86("getpgrp", 111, Instant),
    row("getpgid", 121, 155, Instant),
    row("setpgid", 109, 154, Instant),
    row("getsid", 124, 156, Instant),
    row("setsid", 112, 157, Instant),
    row("wait4", 61, 260, Waiting).attempt(Flag(2, libc::WNOHANG as u32)).would_wait(WouldWait::NoChild).pointers(&[1, 3]).note("0 means that it would wait"),
    row("waitid", 247, 95, Waiting).attempt(Flag(3, libc::WNOHANG as u32)).would_wait(WouldWait::NoChildInfo).opcode(Opcode::WaitId).pointers(&[2, 4]).note("0 with si_pid 0 means that it would wait: the attempt needs a siginfo_t even if the caller passes none"),
    row("execve", 59, 221, Thread).path(0).pointers(&[1, 2]).note("replaces the process"),
    row("execveat", 322, 281, Thread).path_at(0, 1).flags(4).pointers(&[2, 3]).note("replaces the process"),
    row("exit", 60, 93, Thread).note("ends the thread without its context's clean-up"),
    row("exit_group", 231, 94, Thread),
    x86("fork", 57, Refused).note(TWICE),
    x86("vfork", 58, Refused).note(TWICE),
    row("clone", 56, 220, Refused).note(TWICE),
    row("clone3", 435, 435, Refused).note(TWICE),
    row("set_tid_address", 218, 96, Thread).pointers(&[0]),
    row("rseq", 334, 293, Thread).pointers(&[0]),
    row("rseq_slice_yield", 471, 471, Thread).note("gives up the calling thread's time slice; since Linux 7.0"),
    row("prctl", 157, 167, Thread).changes_identity().note("most commands are about the thread; some change its filters or capabilities"),
    x86("arch_prctl", 158, Thread),
    row("personality", 135, 92, Thread).changes_identity().note("the execution domain belongs to the thread"),
    row("ptrace", 101, 117, Thread).note("the tracer is a thread"),
    row("getcpu", 309, 168, Thread).pointers(&[0, 1, 2]),
    row("getrusage", 98, 165, Thread).pointers(&[1]).note("RUSAGE_THREAD is the calling thread's"),
    row("getrlimit", 97, 163, Instant).pointers(&[1]),
    row("setrlimit", 160, 164, Instant).pointers(&[1]),
    row("prlimit64", 302, 261, Instant).pointers(&[2, 3]),

    // Signals
    row("kill", 62, 129, Instant),
    row("tkill", 200, 130, Instant),
    row("tgkill", 234, 131, Instant),
    row("rt_sigqueueinfo", 129, 138, Thread).pointers(&[2]).note(SENDER),
    row("rt_tgsigqueueinfo", 297, 240, Thread).pointers(&[3]).note(SENDER),
    row("pidfd_send_signal", 424, 424, Thread).fd(0, Unordered).pointers(&[2]).note(SENDER),
    row("rt_sigaction", 13, 134, Instant).pointers(&[1, 2]),
    row("rt_sigprocmask", 14, 135, Thread).pointers(&[1, 2]),
    row("rt_sigpending", 127, 136, Thread).pointers(&[0]),
    row("rt_sigsuspend", 130, 133, Refused).pointers(&[0]).refuse(Errno::OPNOTSUPP).note(OWN_MASK),
    x86("pause", 34, Refused).refuse(Errno::OPNOTSUPP).note(OWN_MASK),
    row("rt_sigtimedwait", 128, 137, Waiting).attempt(ZeroTimeout(2, Timeout::Timespec)).pointers(&[0, 1, 2]).note("in the background only signals to the process are seen, not those to the thread"),
    row("rt_sigreturn", 15, 139, Refused).note("returns from a handler on this very stack"),
    row("restart_syscall", 219, 128, Refused).note("only the kernel makes it"),
    row("sigaltstack", 131, 132, Thread).pointers(&[0, 1]),
    x86("uretprobe", 335, Refused).note("only the kernel's own trampoline makes it"),
    x86("uprobe", 336, Refused).note("only the kernel's own trampoline makes it"),

    // Scheduling
    row("sched_yield", 24, 124, Thread),
    row("sched_setparam", 142, 118, Thread).pointers(&[1]).note(PID_ZERO),
    row("sched_getparam", 143, 121, Thread).pointers(&[1]).note(PID_ZERO),
    row("sched_setscheduler", 144, 119, Thread).pointers(&[2]).note(PID_ZERO),
    row("sched_getscheduler", 145, 120, Thread).note(PID_ZERO),
    row("sched_setattr", 314, 274, Thread).pointers(&[1]).note(PID_ZERO),
    row("sched_getattr", 315, 275, Thread).pointers(&[1]).note(PID_ZERO),
    row("sched_setaffinity", 203, 122, Thread).pointers(&[2]).note(PID_ZERO),
    row("sched_getaffinity", 204, 123, Thread).pointers(&[2]).note(PID_ZERO),
    row("sched_rr_get_interval", 148, 127, Thread).pointers(&[1]).note(PID_ZERO),
    row("sched_get_priority_max", 146, 125, Instant),
    row("sched_get_priority_min", 147, 126, Instant),
    row("getpriority", 140, 141, Thread).note(PID_ZERO),
    row("setpriority", 141, 140, Thread).note(PID_ZERO),
    row("ioprio_get", 252, 31, Thread).note(PID_ZERO),
    row("ioprio_set", 251, 30, Thread).note(PID_ZERO),

    // Credentials, namespaces, filters: for the kernel they belong to the thread
    row("getuid", 102, 174, Thread),
    row("geteuid", 107, 175, Thread),
    row("getgid", 104, 176, Thread),
    row("getegid", 108, 177, Thread),
    row("getresuid", 118, 148, Thread).pointers(&[0, 1, 2]),
    row("getresgid", 120, 150, Thread).pointers(&[0, 1, 2]),
    row("getgroups", 115, 158, Thread).pointers(&[1]),
    row("setuid", 105, 146, Thread).changes_identity(),
    row("setgid", 106, 144, Thread).changes_identity(),
    row("setreuid", 113, 145, Thread).changes_identity(),
    row("setregid", 114, 143, Thread).changes_identity(),
    row("setresuid", 117, 147, Thread).changes_identity(),
    row("setresgid", 119, 149, Thread).changes_identity(),
    row("setfsuid", 122, 151, Thread).changes_identity(),
    row("setfsgid", 123, 152, Thread).changes_identity(),
    row("setgroups", 116, 159, Thread).pointers(&[1]).changes_identity(),
    row("capget", 125, 90, Thread).pointers(&[0, 1]).note(PID_ZERO),
    row("capset", 126, 91, Thread).pointers(&[0, 1]).changes_identity(),
    row("setns", 308, 268, Thread).fd(0, Unordered).changes_identity(),
    row("unshare", 272, 97, Thread).changes_identity(),
    row("seccomp", 317, 277, Thread).pointers(&[2]).changes_identity(),
    row("landlock_create_ruleset", 444, 444, Instant).pointers(&[0]).note("with LANDLOCK_CREATE_RULESET_VERSION the result is no descriptor"),
    row("landlock_add_rule", 445, 445, Instant).fd(0, Unordered).pointers(&[2]),
    row("landlock_restrict_self", 446, 446, Thread).fd(0, Unordered).changes_identity(),
    row("lsm_get_self_attr", 459, 459, Thread).pointers(&[1, 2]),
    row("lsm_set_self_attr", 460, 460, Thread).pointers(&[1]).changes_identity(),
    row("lsm_list_modules", 461, 461, Instant).pointers(&[0, 1]),
    row("add_key", 248, 217, Thread).pointers(&[0, 1, 2]).note(KEYS),
    row("request_key", 249, 218, Thread).pointers(&[0, 1, 2]).note("keyrings belong to the thread; can wait for a key daemon"),
    row("keyctl", 250, 219, Thread).changes_identity().note("keyrings belong to the thread, and some commands replace them"),

    // The machine
    row("uname", 63, 160, Instant).pointers(&[0]),
    row("sysinfo", 99, 179, Instant).pointers(&[0]),
    row("sethostname", 170, 161, Instant).pointers(&[0]),
    row("setdomainname", 171, 162, Instant).pointers(&[0]),
    row("getrandom", 318, 278, Waiting).attempt(Flag(2, libc::GRND_NONBLOCK)).pointers(&[0]).note("waits only until the generator is seeded, early at boot"),
    row("syslog", 103, 116, Waiting).pointers(&[1]).note("SYSLOG_ACTION_READ waits for a message"),
    row("vhangup", 153, 58, Waiting),
    row("reboot", 169, 142, Thread).note("usually does not return"),
    row("kexec_load", 246, 104, Instant).pointers(&[2]),
    row("kexec_file_load", 320, 294, FileRead).fd(0, Unordered).fd(1, Unordered).pointers(&[3]),
    row("init_module", 175, 105, Waiting).pointers(&[0, 2]).note("runs the module's initialisation, which may probe devices"),
    row("finit_module", 313, 273, Waiting).fd(0, Unordered).pointers(&[1]).note("runs the module's initialisation, which may probe devices"),
    row("delete_module", 176, 106, Waiting).pointers(&[0]),
    x86("iopl", 172, Thread),
    x86("ioperm", 173, Thread),

    // Numbers whose call was removed or never implemented
    x86("uselib", 134, Instant).note(GONE),
    x86("create_module", 174, Instant).note(GONE),
    x86("get_kernel_syms", 177, Instant).note(GONE),
    x86("query_module", 178, Instant).note(GONE),
    row("nfsservctl", 180, 42, Instant).note(GONE),
    x86("getpmsg", 181, Instant).note(GONE),
    x86("putpmsg", 182, Instant).note(GONE),
    x86("afs_syscall", 183, Instant).note(GONE),
    x86("tuxcall", 184, Instant).note(GONE),
    x86("security", 185, Instant).note(GONE),
    x86("vserver", 236, Instant).note(GONE),
    x86("set_thread_area", 205, Instant).note(GONE),
    x86("get_thread_area", 211, Instant).note(GONE),
    row("lookup_dcookie", 212, 18, Instant).note(GONE),
    x86("_sysctl", 156, Instant).note(GONE),
]);
