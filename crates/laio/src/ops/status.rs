//! The status of a file: kind, size, times, identity.

use super::{Name, pointer, word};
use crate::knowledge::facts::has_statx;
use crate::sys::abi::STATUS_MASK;
use crate::{Call, Errno};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Unknown: the file system does not report it, or the file has no kind (an eventfd).
    Unknown,
}

impl FileType {
    /// Returns the kind from the `S_IFMT` bits of a mode.
    pub(super) fn of_mode(mode: u32) -> FileType {
        match mode & libc::S_IFMT {
            libc::S_IFREG => FileType::Regular,
            libc::S_IFDIR => FileType::Directory,
            libc::S_IFLNK => FileType::Symlink,
            libc::S_IFIFO => FileType::Fifo,
            libc::S_IFSOCK => FileType::Socket,
            libc::S_IFCHR => FileType::CharDevice,
            libc::S_IFBLK => FileType::BlockDevice,
            _ => FileType::Unknown,
        }
    }
}

/// A point in time, as file systems store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since the epoch, negative before it.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
}

impl Timestamp {
    fn from_statx(time: &libc::statx_timestamp) -> Timestamp {
        Timestamp {
            seconds: time.tv_sec,
            nanoseconds: time.tv_nsec,
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> SystemTime {
        let part = Duration::from_nanos(time.nanoseconds.into());
        match u64::try_from(time.seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + part,
            Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + part,
        }
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        const SECOND: u32 = 1_000_000_000;
        let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
            Err(error) => match (
                error.duration().as_secs() as i64,
                error.duration().subsec_nanos(),
            ) {
                (seconds, 0) => (-seconds, 0),
                (seconds, part) => (-seconds - 1, SECOND - part),
            },
        };
        Timestamp {
            seconds,
            nanoseconds,
        }
    }
}

/// The status of a file, as `statx` reports it.
#[derive(Clone, Copy)]
pub struct FileStatus {
    statx: libc::statx,
}

impl FileStatus {
    pub(super) fn new(statx: libc::statx) -> FileStatus {
        FileStatus { statx }
    }

    /// Returns the kind of the file.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.mode())
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::Regular
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type() == FileType::Symlink
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.statx.stx_size
    }

    /// Returns the allocated space, in units of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.statx.stx_blocks
    }

    /// Returns the preferred transfer size of the file system in bytes.
    pub fn block_size(&self) -> u32 {
        self.statx.stx_blksize
    }

    /// Kind and permissions: `st_mode`.
    pub fn mode(&self) -> u32 {
        self.statx.stx_mode.into()
    }

    /// Number of the file on its device.
    pub fn inode(&self) -> u64 {
        self.statx.stx_ino
    }

    /// Returns the device, as `st_dev`. Device and inode together identify a file.
    pub fn device(&self) -> u64 {
        libc::makedev(self.statx.stx_dev_major, self.statx.stx_dev_minor)
    }

    /// The device that a device file stands for, as `st_rdev`.
    pub fn represented_device(&self) -> u64 {
        libc::makedev(self.statx.stx_rdev_major, self.statx.stx_rdev_minor)
    }

    /// The mount that the file was found on, on Linux 5.8 or later.
    pub fn mount(&self) -> Option<u64> {
        (self.statx.stx_mask & libc::STATX_MNT_ID != 0).then_some(self.statx.stx_mnt_id)
    }

    /// Number of names (hard links).
    pub fn links(&self) -> u32 {
        self.statx.stx_nlink
    }

    /// The owner.
    pub fn user(&self) -> u32 {
        self.statx.stx_uid
    }

    /// The group.
    pub fn group(&self) -> u32 {
        self.statx.stx_gid
    }

    /// When the contents were last changed.
    pub fn modified(&self) -> Timestamp {
        Timestamp::from_statx(&self.statx.stx_mtime)
    }

    /// When contents or status were last changed.
    pub fn changed(&self) -> Timestamp {
        Timestamp::from_statx(&self.statx.stx_ctime)
    }

    /// Returns when the contents were last read, if the mount records that.
    pub fn accessed(&self) -> Timestamp {
        Timestamp::from_statx(&self.statx.stx_atime)
    }

    /// Returns the status with these times of last access and modification, recorded earlier.
    pub fn with_times(mut self, accessed: Timestamp, modified: Timestamp) -> FileStatus {
        let set = |kept: &mut libc::statx_timestamp, time: Timestamp| {
            kept.tv_sec = time.seconds;
            kept.tv_nsec = time.nanoseconds;
        };
        set(&mut self.statx.stx_atime, accessed);
        set(&mut self.statx.stx_mtime, modified);
        self
    }

    /// Returns when the file was created, if the file system records that.
    pub fn created(&self) -> Option<Timestamp> {
        let known = self.statx.stx_mask & libc::STATX_BTIME != 0;
        known.then(|| Timestamp::from_statx(&self.statx.stx_btime))
    }
}

impl fmt::Debug for FileStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStatus")
            .field("file_type", &self.file_type())
            .field("mode", &format_args!("{:#o}", self.mode()))
            .field("size", &self.size())
            .field("inode", &self.inode())
            .field("device", &self.device())
            .field("links", &self.links())
            .field("modified", &self.modified())
            .finish_non_exhaustive()
    }
}

const MASK: usize = STATUS_MASK as usize;

fn empty() -> libc::statx {
    // SAFETY: plain data, for which all zeros is a valid value.
    unsafe { std::mem::zeroed() }
}

/// The call that writes the status of a file to `statx`: where that call is missing, an older one.
fn call(directory: usize, path: usize, flags: i32, statx: &mut libc::statx) -> Call {
    let (flags, to) = (flags as usize, pointer(statx));
    if has_statx() {
        Call::new(libc::SYS_statx, [directory, path, flags, MASK, to])
    } else {
        Call::new(libc::SYS_newfstatat, [directory, path, to, flags])
    }
}

/// Returns the status that [`call`] has written to `statx`.
fn status(result: Result<usize, Errno>, statx: libc::statx) -> io::Result<FileStatus> {
    result?;
    Ok(FileStatus::new(if has_statx() {
        statx
    } else {
        of_stat(&statx)
    }))
}

const _: () = assert!(size_of::<libc::stat>() <= size_of::<libc::statx>());
const _: () = assert!(align_of::<libc::stat>() <= align_of::<libc::statx>());

/// Converts the older struct, which the kernel has written to the beginning of this memory.
fn of_stat(memory: &libc::statx) -> libc::statx {
    // SAFETY: the memory is large enough and aligned, initialised, and any bits are a valid `stat`.
    let stat = unsafe { &*(&raw const *memory).cast::<libc::stat>() };
    let time = |seconds, nanoseconds| {
        let mut time = empty().stx_mtime;
        (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
        time
    };
    let mut statx = empty();
    statx.stx_mask = libc::STATX_BASIC_STATS;
    statx.stx_blksize = stat.st_blksize as u32;
    statx.stx_nlink = stat.st_nlink as u32;
    statx.stx_uid = stat.st_uid;
    statx.stx_gid = stat.st_gid;
    statx.stx_mode = stat.st_mode as u16;
    statx.stx_ino = stat.st_ino;
    statx.stx_size = stat.st_size as u64;
    statx.stx_blocks = stat.st_blocks as u64;
    statx.stx_atime = time(stat.st_atime, stat.st_atime_nsec);
    statx.stx_mtime = time(stat.st_mtime, stat.st_mtime_nsec);
    statx.stx_ctime = time(stat.st_ctime, stat.st_ctime_nsec);
    (statx.stx_dev_major, statx.stx_dev_minor) =
        (libc::major(stat.st_dev), libc::minor(stat.st_dev));
    (statx.stx_rdev_major, statx.stx_rdev_minor) =
        (libc::major(stat.st_rdev), libc::minor(stat.st_rdev));
    statx
}

operation! {
    /// The status of an open file.
    pub struct StatFile<F: AsFd> {
        /// Reads the status of `file`.
        new(file: F);
        statx: libc::statx = empty(),
    }

    // SAFETY: the name lives for ever, and the struct to fill is part of the operation.
    unsafe call(self) {
        let name = c"".as_ptr() as usize;
        call(word(&self.file), name, libc::AT_EMPTY_PATH, &mut self.statx)
    }

    /// The status.
    finish(self, result) -> io::Result<FileStatus> { status(result, self.statx) }
}

operation! {
    /// The status of a file by its name.
    pub struct StatPath<F: AsFd = OwnedFd> {
        /// Reads the status of the file `name`, following symbolic links.
        new(name: Name<F>);
        flags: i32 = libc::AT_NO_AUTOMOUNT,
        statx: libc::statx = empty(),
    }

    /// Reads the status of a symbolic link itself.
    with no_follow(self) { self.flags |= libc::AT_SYMLINK_NOFOLLOW }

    // SAFETY: the name is on the operation's heap, and the struct to fill is part of the operation.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        call(directory, path, self.flags, &mut self.statx)
    }

    /// The status.
    finish(self, result) -> io::Result<FileStatus> { status(result, self.statx) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_call_says_the_same() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let (mut newer, mut older) = (empty(), empty());
        let name = c"".as_ptr();
        // SAFETY: each call writes the struct that it is for; the memory is large enough for both.
        unsafe {
            let flags = libc::AT_EMPTY_PATH;
            assert_eq!(libc::statx(fd, name, flags, STATUS_MASK, &mut newer), 0);
            let place = (&raw mut older).cast();
            assert_eq!(libc::fstatat(fd, name, place, flags), 0);
        }
        let (newer, older) = (FileStatus::new(newer), FileStatus::new(of_stat(&older)));
        assert_eq!(format!("{newer:?}"), format!("{older:?}"));
        let others = |status: &FileStatus| {
            let times = (status.accessed(), status.changed());
            let owner = (
                status.user(),
                status.group(),
                status.blocks(),
                status.block_size(),
            );
            (status.represented_device(), times, owner)
        };
        assert_eq!(others(&newer), others(&older));
    }

    #[test]
    fn times_before_the_epoch() {
        let time = Timestamp {
            seconds: -2,
            nanoseconds: 500_000_000,
        };
        let half = Duration::from_millis(1500);
        assert_eq!(SystemTime::from(time), UNIX_EPOCH - half);
    }
}
