//! Resolving names from the kernel's caches: `openat2(RESOLVE_CACHED)`.
//!
//! The name cache alone does not make `open` safe. A FIFO waits for its peer, a device may wait,
//! and a remote or FUSE file system sends a request even when the name is cached. So files
//! are opened in non-blocking mode, examined, and put back into blocking mode. Where any remote
//! file system is mounted, a name that crosses mounts is first resolved to an `O_PATH`
//! descriptor, which opens nothing, to see what it names. So are names below `/dev`: a device may
//! allow a single open, and may notice each open and close.

use super::opened::Examined;
use super::{Attempted, Try, Why};
use crate::knowledge::Knowledge;
use crate::knowledge::mounts::{FileKind, Place, peek};
use crate::rights::{accesses_as_it_opens, has_filters};
use crate::sys::high_fd::HighFd;
use crate::table::{Attempt, Name, Opcode, Row, known_how};
use crate::{Call, Errno, sys};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// `VALID_OPEN_FLAGS` of the kernel: `open` ignores other bits, `openat2` refuses them.
const OPEN_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_NOCTTY
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | libc::O_LARGEFILE
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_TMPFILE;

/// Flags of `newfstatat` and `statx`; they refuse others.
const STAT_FLAGS: i32 = libc::AT_SYMLINK_NOFOLLOW
    | libc::AT_NO_AUTOMOUNT
    | libc::AT_EMPTY_PATH
    | libc::AT_STATX_FORCE_SYNC
    | libc::AT_STATX_DONT_SYNC;

/// A name to resolve: the directory, its address, and how.
#[derive(Clone, Copy)]
struct Lookup {
    directory: RawFd,
    path: usize,
    how: libc::open_how,
}

impl Lookup {
    /// From the call's arguments, with no flags yet.
    fn new(name: Name, call: &Call) -> Lookup {
        // SAFETY: plain data, for which all zeros is a valid value.
        let how: libc::open_how = unsafe { std::mem::zeroed() };
        let directory = name
            .directory
            .map_or(libc::AT_FDCWD, |arg| call.descriptor(arg));
        Lookup {
            directory,
            path: call.args[name.path as usize],
            how,
        }
    }

    /// Resolves from the caches.
    ///
    /// # Safety
    /// The path is as the system call wants it.
    unsafe fn open(&self, flags: i32) -> Result<RawFd, Errno> {
        let mut how = self.how;
        how.flags = flags as u64;
        how.resolve |= libc::RESOLVE_CACHED;
        let how = (&raw const how) as usize;
        let args = [
            self.directory as usize,
            self.path,
            how,
            size_of::<libc::open_how>(),
        ];
        // SAFETY: the struct lives through the call; the path is the caller's.
        unsafe { sys::raw(libc::SYS_openat2, args) }.map(|fd| fd as RawFd)
    }
}

/// A descriptor for the time of an attempt, opened with `O_PATH`.
struct Resolved(RawFd);

impl Drop for Resolved {
    // Not by the C library: its `close` is a point of cancellation, which costs it a tenth of a `stat`.
    fn drop(&mut self) {
        let _ = sys::close(self.0);
    }
}

impl Knowledge {
    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn cached_open(&mut self, this: &Try<'_>) -> Attempted {
        let Try {
            row,
            call,
            memory_is_good,
            examined,
            ..
        } = *this;
        if !self.facts.cached_open {
            return Attempted::blocked(0, Why::Unsupported);
        }
        let name = row.file.expect("the table names the file");
        let mut lookup = Lookup::new(name, call);
        let Some(flags) = open_flags(row, call, &mut lookup.how, memory_is_good) else {
            return Attempted::blocked(0, Why::NotTried);
        };
        let device = !self.trust_names && may_open_device(row, call, memory_is_good);
        if device && flags & libc::O_EXCL != 0 {
            return Attempted::blocked(0, Why::NotTried);
        }
        // SAFETY: by the caller.
        let attempted = unsafe {
            if device {
                self.mounts.note_lookup();
                self.open_checked(&lookup, flags, examined)
            } else {
                self.open_cached(lookup, flags, examined)
            }
        };
        if let Attempted::Done(Ok(fd)) = attempted {
            self.note_opened(fd as RawFd, flags, examined);
        }
        attempted
    }

    /// # Safety
    /// As for the system call.
    unsafe fn open_cached(
        &mut self,
        lookup: Lookup,
        flags: i32,
        examined: Option<&Examined>,
    ) -> Attempted {
        self.mounts.note_lookup();
        // O_PATH opens nothing, whatever it resolves to.
        let care = self.mounts.any_remote() && flags & libc::O_PATH == 0;
        let mut within = lookup;
        if care {
            if !self.mounts.starts_locally(within.directory) {
                // SAFETY: by the caller.
                return unsafe { self.open_checked(&within, flags, examined) };
            }
            // A name that starts on a local file system and never leaves it is safe.
            within.how.resolve |= libc::RESOLVE_NO_XDEV;
        }
        // SAFETY: by the caller.
        match unsafe { self.open_here(&within, flags, examined) } {
            Attempted::Done(Err(Errno::XDEV)) if care => {
                // SAFETY: by the caller.
                unsafe { self.open_checked(&lookup, flags, examined) }
            }
            attempted => attempted,
        }
    }

    /// Opens a name that cannot lead to a remote file system.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn open_here(
        &mut self,
        lookup: &Lookup,
        flags: i32,
        examined: Option<&Examined>,
    ) -> Attempted {
        // Neither directories nor files that the caller opens in non-blocking mode wait.
        let unguarded = libc::O_PATH | libc::O_DIRECTORY | libc::O_NONBLOCK;
        if self.trust_names || flags & unguarded != 0 {
            // SAFETY: by the caller.
            let fd = unsafe { lookup.open(flags) };
            // What an O_PATH descriptor names may be remote.
            if let Ok(fd) = fd
                && (flags & libc::O_PATH == 0 || !self.mounts.any_remote())
            {
                self.examine(fd, examined);
            }
            return opened(fd);
        }
        // SAFETY: by the caller.
        match unsafe { lookup.open(flags | libc::O_NONBLOCK) } {
            Ok(fd) => self.settle(fd, flags, examined),
            // A FIFO without a reader, opened for writing.
            Err(Errno::NXIO) => Attempted::WOULD_BLOCK,
            Err(errno) => opened(Err(errno)),
        }
    }

    /// Opens where a name may lead to a remote file system.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn open_checked(
        &mut self,
        lookup: &Lookup,
        flags: i32,
        examined: Option<&Examined>,
    ) -> Attempted {
        let kept = flags & (libc::O_NOFOLLOW | libc::O_DIRECTORY);
        // SAFETY: by the caller.
        let found = match unsafe { lookup.open(libc::O_PATH | libc::O_CLOEXEC | kept) } {
            // Moved to a high number: the program gets the number that is free without it.
            // SAFETY: the descriptor was opened just now and has no other owner.
            Ok(fd) => HighFd::from(unsafe { OwnedFd::from_raw_fd(fd) }),
            Err(errno) => return opened(Err(errno)),
        };
        let Some(FileKind::Regular | FileKind::Directory) = self.local_kind(found.as_raw_fd())
        else {
            return Attempted::blocked(0, Why::NotTried);
        };
        // Opening the descriptor's own name opens exactly the examined file; in non-blocking mode,
        // because the file may have a lease.
        let own_name = format!("/proc/thread-self/fd/{}\0", found.as_raw_fd());
        let flags = flags & !libc::O_NOFOLLOW;
        let args = [
            libc::AT_FDCWD as usize,
            own_name.as_ptr() as usize,
            (flags | libc::O_NONBLOCK) as usize,
        ];
        // SAFETY: the name lives through the call.
        match unsafe { sys::raw(libc::SYS_openat, args) } {
            Ok(fd) if flags & libc::O_NONBLOCK != 0 => {
                self.examine(fd as RawFd, examined);
                Attempted::Done(Ok(fd))
            }
            Ok(fd) => self.settle(fd as RawFd, flags, examined),
            Err(Errno::AGAIN) => Attempted::WOULD_BLOCK,
            // Also where there is no /proc.
            Err(_) => Attempted::blocked(0, Why::Unsupported),
        }
    }

    /// The kind of the file, if it is on a local file system.
    fn local_kind(&mut self, fd: RawFd) -> Option<FileKind> {
        let status = peek(fd).ok()?;
        let mount = self.mounts.find(&status)?;
        let device = u32::from(status.stx_mode) & libc::S_IFMT == libc::S_IFBLK;
        (self.mounts.get(mount).place != Place::Remote && !device)
            .then(|| FileKind::from_status(&status))
    }

    /// Resolves a name to a descriptor whose metadata can be read without waiting.
    ///
    /// # Safety
    /// As for the system call.
    unsafe fn resolve(&mut self, lookup: &Lookup, flags: i32) -> Result<Resolved, Attempted> {
        self.mounts.note_lookup();
        // SAFETY: by the caller.
        let found = match unsafe { lookup.open(libc::O_PATH | libc::O_CLOEXEC | flags) } {
            Ok(fd) => Resolved(fd),
            // The plain call needs no descriptor.
            Err(Errno::MFILE | Errno::NFILE) => {
                return Err(Attempted::blocked(0, Why::Unsupported));
            }
            Err(errno) => return Err(opened(Err(errno))),
        };
        if self.mounts.any_remote() && self.local_kind(found.0).is_none() {
            return Err(Attempted::blocked(0, Why::NotTried));
        }
        Ok(found)
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn cached_stat(&mut self, this: &Try<'_>) -> Attempted {
        let Try {
            row,
            call,
            memory_is_good,
            ..
        } = *this;
        if !self.facts.cached_open {
            return Attempted::blocked(0, Why::Unsupported);
        }
        let name = row.file.expect("the table names the file");
        let flags = row.flags_of(call);
        // The plain call rejects bad arguments before it reads the name.
        let both = libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC;
        let is_statx = row.opcode == Some(Opcode::Statx);
        let bad =
            is_statx && (flags & both == both || call.args[3] as i32 & libc::STATX__RESERVED != 0);
        if flags & !STAT_FLAGS != 0 || bad {
            return Attempted::blocked(0, Why::NotTried);
        }
        if flags & libc::AT_EMPTY_PATH != 0 {
            // Usually the name is empty; a name that is not is left to the background.
            return if is_empty_name(call.args[name.path as usize], memory_is_good) {
                // SAFETY: by the caller.
                unsafe { self.if_local(row, call) }
            } else {
                Attempted::blocked(0, Why::NotTried)
            };
        }
        let follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            libc::O_NOFOLLOW
        } else {
            0
        };
        // SAFETY: by the caller.
        let found = match unsafe { self.resolve(&Lookup::new(name, call), follow) } {
            Ok(found) => found,
            Err(attempted) => return attempted,
        };
        let fd = found.0 as usize;
        let empty = c"".as_ptr() as usize;
        let attempt = if is_statx {
            let flags = (flags | libc::AT_EMPTY_PATH) as usize;
            Call::new(
                libc::SYS_statx,
                [fd, empty, flags, call.args[3], call.args[4]],
            )
        } else {
            Call::new(libc::SYS_fstat, [fd, call.args[name.path as usize + 1]])
        };
        // SAFETY: the buffer is the caller's.
        Attempted::Done(unsafe { sys::syscall(&attempt) })
    }

    /// # Safety
    /// As for the system call.
    pub(super) unsafe fn cached_access(&mut self, row: &Row, call: &Call) -> Attempted {
        if !self.facts.cached_open || !self.access_can_be_tried() {
            return Attempted::blocked(0, Why::Unsupported);
        }
        let name = row.file.expect("the table names the file");
        // `faccessat` has no flags: what the C library calls so is faccessat2.
        let flags = row.flags_of(call);
        let mode = call.args[name.path as usize + 1];
        // The plain call rejects bad arguments before it reads the name.
        let known = libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW;
        if flags & !known != 0 || mode as i32 & !(libc::R_OK | libc::W_OK | libc::X_OK) != 0 {
            return Attempted::blocked(0, Why::NotTried);
        }
        let follow = if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
            libc::O_NOFOLLOW
        } else {
            0
        };
        // SAFETY: by the caller.
        let found = match unsafe { self.resolve(&Lookup::new(name, call), follow) } {
            Ok(found) => found,
            Err(attempted) => return attempted,
        };
        let flags = (flags | libc::AT_EMPTY_PATH) as usize;
        let empty = c"".as_ptr() as usize;
        // SAFETY: the name lives through the call.
        let result =
            unsafe { sys::raw(libc::SYS_faccessat2, [found.0 as usize, empty, mode, flags]) };
        // Linux before 5.8 has no faccessat2.
        opened(result.map(|ok| ok as RawFd))
    }

    /// `access` checks with the real IDs, `open` with the file-system IDs: whether the two are equal
    /// now.
    fn access_can_be_tried(&self) -> bool {
        if self.settled_rights {
            self.facts.same_identity
        } else {
            accesses_as_it_opens()
        }
    }
}

/// Converts the result of a cached lookup into that of the call. Without seccomp filters a refusal is
/// what the plain call would return.
fn opened(result: Result<RawFd, Errno>) -> Attempted {
    match result {
        Ok(fd) => Attempted::Done(Ok(fd as usize)),
        // Not in the caches; or a file lease must be broken first.
        Err(Errno::AGAIN) => Attempted::WOULD_BLOCK,
        Err(Errno::PERM | Errno::ACCES) if !has_filters() => {
            Attempted::Done(result.map(|fd| fd as usize))
        }
        // Either the call's result, or the refusal of a filter that forbids the attempt but not the
        // call: the background makes the plain call. Some devices return ENXIO and ENODEV for a
        // non-blocking open; an unreadable name returns EFAULT only if the flags are valid, and the
        // attempt omits some of them.
        Err(
            Errno::FAULT
            | Errno::PERM
            | Errno::ACCES
            | Errno::NOSYS
            | Errno::INVAL
            | Errno::NXIO
            | Errno::NODEV
            | Errno::OPNOTSUPP
            | Errno::TOOBIG,
        ) => Attempted::blocked(0, Why::Unsupported),
        Err(errno) => Attempted::Done(Err(errno)),
    }
}

/// The flags of an attempt to open, or `None` if there can be none.
fn open_flags(
    row: &Row,
    call: &Call,
    how: &mut libc::open_how,
    memory_is_good: bool,
) -> Option<i32> {
    let by_struct = row.opcode == Some(Opcode::OpenAt2);
    let flags = if by_struct {
        // A mode without O_CREAT stays in: it is an error.
        *how = known_how(call, memory_is_good)?;
        let flags = i32::try_from(how.flags).ok()?;
        if flags & !OPEN_FLAGS != 0 {
            return None;
        }
        flags
    } else {
        row.flags_of(call) & OPEN_FLAGS
    };
    if flags & libc::O_PATH != 0 && !by_struct {
        let kept = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        return Some(flags & kept);
    }
    // Creating or truncating a file is not attempted. O_CREAT cannot be omitted for the attempt
    // either: fs.protected_regular refuses some existing files only with it.
    let makes =
        flags & (libc::O_CREAT | libc::O_TRUNC) != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE;
    (!makes).then_some(flags)
}

/// Whether the path is `""`, or null, which AT_EMPTY_PATH treats the same since Linux 6.11.
/// `memory_is_good`: no check is needed.
fn is_empty_name(path: usize, memory_is_good: bool) -> bool {
    let can_read = || memory_is_good || sys::memory::can_read(path, 1);
    // SAFETY: one byte that can be read.
    path == 0 || (can_read() && unsafe { *(path as *const u8) } == 0)
}

/// Whether an `open` may open a device: its name is below `/dev`, or it has O_EXCL without O_CREAT.
/// `memory_is_good`: no check is needed.
pub(crate) fn may_open_device(row: &Row, call: &Call, memory_is_good: bool) -> bool {
    const PLACE: &[u8] = b"/dev/";
    const SHARED_MEMORY: &[u8] = b"/dev/shm/";
    if row.attempt != Attempt::CachedOpen {
        return false;
    }
    let name = row.file.expect("the table names the file");
    let flags = match row.opcode {
        Some(Opcode::OpenAt2) => known_how(call, memory_is_good).map_or(0, |how| how.flags as i32),
        _ => row.flags_of(call),
    };
    if flags & (libc::O_PATH | libc::O_DIRECTORY | libc::O_CREAT) != 0 {
        return false;
    }
    let path = call.args[name.path as usize];
    flags & libc::O_EXCL != 0
        || (begins_with(path, PLACE, memory_is_good)
            && !begins_with(path, SHARED_MEMORY, memory_is_good))
}

fn begins_with(path: usize, prefix: &[u8], memory_is_good: bool) -> bool {
    if path == 0 {
        return false;
    }
    // Stops at the end of the string, where the memory may end.
    prefix.iter().enumerate().all(|(index, &expected)| {
        let address = path + index;
        let looked = index > 0 && !address.is_multiple_of(PAGE_MIN);
        let readable = looked || memory_is_good || sys::memory::can_read(address, 1);
        // SAFETY: a byte that can be read: the page was looked at, or is the one before's.
        readable && unsafe { *(address as *const u8) } == expected
    })
}

/// Whether a name is empty, or may be. Only for names that the kernel has just read. Returns true
/// without looking for calls that seldom fail with ENOENT: repeating those in a helper is cheap
/// enough.
pub(crate) fn may_be_empty_name(row: &Row, call: &Call) -> bool {
    let often = matches!(row.attempt, Attempt::CachedOpen | Attempt::CachedStat);
    let is_empty = |name: Name| {
        let first = call.args[name.path as usize] as *const u8;
        // SAFETY: the kernel has found a string there.
        unsafe { *first == 0 }
    };
    !often || row.file.is_some_and(is_empty)
}

/// The smallest page size.
const PAGE_MIN: usize = 4096;
