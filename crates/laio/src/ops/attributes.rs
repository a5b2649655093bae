//! Attributes of a file: setting permissions, owner and times, and checking access.

use super::outputs::done;
use super::{Name, Timestamp, pointer, word};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The file whose attribute is set.
#[derive(Debug)]
enum Of<F> {
    Open(F),
    /// With the `AT_*` flags of the look-up.
    Named(Name<F>, i32),
}

impl<F> Of<F> {
    fn named(name: Name<F>) -> Self {
        Of::Named(name, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn follow(&mut self) {
        if let Of::Named(_, flags) = self {
            *flags &= !libc::AT_SYMLINK_NOFOLLOW;
        }
    }
}

operation! {
    /// Sets the permissions of a file.
    pub struct SetMode<F: AsFd = OwnedFd> {
        of: Of<F>,
        mode: u32,
    }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let mode = self.mode as usize;
        match &self.of {
            Of::Open(file) => Call::new(libc::SYS_fchmod, [word(file), mode]),
            Of::Named(name, flags) => {
                let (directory, path) = name.words();
                match *flags as usize {
                    0 => Call::new(libc::SYS_fchmodat, [directory, path, mode]),
                    flags => Call::new(SYS_FCHMODAT2, [directory, path, mode, flags]),
                }
            }
        }
    }

    /// `EPERM` if the file belongs to another user, `EOPNOTSUPP` for a symbolic link, which has no
    /// permissions; `ENOSYS` without following before Linux 6.6.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> SetMode<F> {
    /// Sets the permissions of an open file (`fchmod`). The file-type bits of `mode` are ignored.
    pub fn new(file: F, mode: u32) -> Self {
        let of = Of::Open(file);
        SetMode { of, mode }
    }

    /// Sets the permissions of a file by name (`fchmodat2`, on Linux 6.6 or later), without
    /// following a symbolic link.
    ///
    /// On an older kernel open the file with `O_PATH | O_NOFOLLOW`, check that it is not a symbolic
    /// link, and use [`Name::of_open`] with [follow](SetMode::follow).
    pub fn named(name: Name<F>, mode: u32) -> Self {
        let of = Of::named(name);
        SetMode { of, mode }
    }

    /// Follows a symbolic link, which every kernel supports.
    pub fn follow(mut self) -> Self {
        self.of.follow();
        self
    }
}

/// The number is missing in the C library for some architectures; it is the same on all.
const SYS_FCHMODAT2: libc::c_long = 452;

operation! {
    /// Sets the owner and group of a file.
    ///
    /// This clears the set-user-ID and set-group-ID bits, so set the mode afterwards.
    pub struct SetOwner<F: AsFd = OwnedFd> {
        of: Of<F>,
        user: Option<u32>,
        group: Option<u32>,
    }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let id = |id: Option<u32>| id.unwrap_or(u32::MAX) as usize;
        let (user, group) = (id(self.user), id(self.group));
        match &self.of {
            Of::Open(file) => Call::new(libc::SYS_fchown, [word(file), user, group]),
            Of::Named(name, flags) => {
                let (directory, path) = name.words();
                let args = [directory, path, user, group, *flags as usize];
                Call::new(libc::SYS_fchownat, args)
            }
        }
    }

    /// `EPERM` without `CAP_CHOWN`, unless the caller owns the file and is a member of the group;
    /// `EINVAL` for an ID that is not mapped in the user namespace.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> SetOwner<F> {
    /// Sets the given IDs of an open file (`fchown`). `u32::MAX` is not a valid ID, and means the
    /// same as `None`.
    pub fn new(file: F, user: Option<u32>, group: Option<u32>) -> Self {
        let of = Of::Open(file);
        SetOwner { of, user, group }
    }

    /// Sets the given IDs of a file by name (`fchownat`), without following a symbolic link.
    pub fn named(name: Name<F>, user: Option<u32>, group: Option<u32>) -> Self {
        let of = Of::named(name);
        SetOwner { of, user, group }
    }

    /// Follows a symbolic link.
    pub fn follow(mut self) -> Self {
        self.of.follow();
        self
    }
}

impl Timestamp {
    /// For [`SetTimes`]: the current time when the kernel makes the call.
    pub const NOW: Timestamp = Timestamp {
        seconds: 0,
        nanoseconds: libc::UTIME_NOW as u32,
    };
}

operation! {
    /// Sets the times of the last access and the last modification of a file (`utimensat`).
    pub struct SetTimes<F: AsFd = OwnedFd> {
        of: Of<F>,
        times: [libc::timespec; 2],
    }

    // SAFETY: the name is on the operation's heap, and the times are part of the operation.
    unsafe call(self) {
        let times = pointer(&mut self.times);
        let args = match &self.of {
            // A null name means the descriptor, as in futimens.
            Of::Open(file) => [word(file), 0, times, 0],
            Of::Named(name, flags) => {
                let (directory, path) = name.words();
                [directory, path, times, *flags as usize]
            }
        };
        Call::new(libc::SYS_utimensat, args)
    }

    /// `EPERM` (for [`Timestamp::NOW`] alone: `EACCES`) if the file belongs to another user,
    /// `EINVAL` if the nanoseconds are a second or more. A file system truncates times to its
    /// resolution.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> SetTimes<F> {
    /// Sets the given times of an open file: [`Timestamp`]s, or [`Timestamp::NOW`].
    pub fn new(file: F, accessed: Option<Timestamp>, modified: Option<Timestamp>) -> Self {
        SetTimes::of(Of::Open(file), accessed, modified)
    }

    /// Sets the given times of a file by name, without following a symbolic link.
    pub fn named(name: Name<F>, accessed: Option<Timestamp>, modified: Option<Timestamp>) -> Self {
        SetTimes::of(Of::named(name), accessed, modified)
    }

    fn of(of: Of<F>, accessed: Option<Timestamp>, modified: Option<Timestamp>) -> Self {
        let omitted = libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        };
        let times = [accessed, modified].map(|time| {
            time.map_or(omitted, |time| libc::timespec {
                tv_sec: time.seconds,
                tv_nsec: time.nanoseconds.into(),
            })
        });
        SetTimes { of, times }
    }

    /// Follows a symbolic link.
    pub fn follow(mut self) -> Self {
        self.of.follow();
        self
    }
}

operation! {
    /// Checks whether a file may be read, written or executed.
    ///
    /// The result may be outdated when it is delivered: prefer to try the access itself.
    pub struct Access<F: AsFd = OwnedFd> {
        /// Checks all of these rights, for the real user and group of the thread (`faccessat`).
        new(name: Name<F>, rights: u32);
        flags: i32 = 0,
    }

    /// Checks for the effective user and group, which `open` uses. Linux 5.8 or later.
    with effective(self) { self.flags |= libc::AT_EACCESS }

    /// Checks a symbolic link itself. Linux 5.8 or later.
    with no_follow(self) { self.flags |= libc::AT_SYMLINK_NOFOLLOW }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        let rights = self.rights as usize;
        if self.flags == 0 {
            return Call::new(libc::SYS_faccessat, [directory, path, rights]);
        }
        let args = [directory, path, rights, self.flags as usize];
        Call::new(libc::SYS_faccessat2, args)
    }

    /// `EACCES` if one of the rights is denied, or the name cannot be looked up; `EROFS` for
    /// writing on a read-only file system; `ETXTBSY` for writing a file that is being executed.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl Access {
    /// The file exists.
    pub const EXISTS: u32 = libc::F_OK as u32;
    /// The file may be read.
    pub const READ: u32 = libc::R_OK as u32;
    /// The file may be written.
    pub const WRITE: u32 = libc::W_OK as u32;
    /// The file may be executed; for a directory: names in it may be looked up.
    pub const EXECUTE: u32 = libc::X_OK as u32;
}
