//! The mounted file systems, and which attempts each supports.
//!
//! Three facts matter: whether the file system is remote (FUSE, NFS), so that a call on an open
//! file, or `open` itself, may wait for another process or machine (no attempt is safe there, even
//! if the name is cached); whether the file
//! system is in memory (tmpfs: the plain call never waits for a device); and whether it has refused
//! non-blocking attempts (then they are not made again on this file system).

use crate::Errno;
use crate::sys::high_fd::HighFd;
use rustix::fs::{AtFlags, Statx, StatxFlags};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

/// Where the file system's data and names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// In memory: never waits for a device (swap excepted).
    Memory,
    /// On a device of this machine: cached calls do not wait.
    Local,
    /// Remote (FUSE or network), or unknown: any call may wait for another process or machine.
    Remote,
}

impl Place {
    /// Classifies a file-system type by its name in `/proc/filesystems`. Unlisted types count as
    /// remote. An `autofs` is local: only crossing it waits, which `RESOLVE_CACHED` refuses.
    pub fn of_type(fstype: &str) -> Place {
        match fstype {
            "tmpfs" | "ramfs" => Place::Memory,
            "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "bcachefs" | "jfs" | "nilfs2"
            | "reiserfs" | "zfs" | "vfat" | "msdos" | "exfat" | "ntfs3" | "squashfs" | "erofs"
            | "iso9660" | "udf" | "cramfs" | "romfs" | "minix" | "hfs" | "hfsplus" | "overlay"
            | "devtmpfs" | "devpts" | "proc" | "sysfs" | "cgroup" | "cgroup2" | "mqueue"
            | "hugetlbfs" | "securityfs" | "debugfs" | "tracefs" | "configfs" | "fusectl"
            | "pstore" | "bpf" | "efivarfs" | "selinuxfs" | "binfmt_misc" | "nsfs"
            | "rpc_pipefs" | "autofs" | "rootfs" | "pipefs" | "sockfs" | "anon_inodefs" | "dax"
            | "binder" | "resctrl" => Place::Local,
            _ => Place::Remote,
        }
    }
}

/// What a context knows about one file system.
#[derive(Clone, Debug)]
pub struct Mount {
    /// `st_dev` of its files.
    pub device: u64,
    /// Its type, as in `/proc/self/mountinfo`; empty if it was not found there.
    pub fstype: String,
    /// Where one of its mount points is.
    pub point: String,
    /// Where its data are.
    pub place: Place,
    /// Whether it has refused a non-blocking read.
    pub reads_latched: bool,
    /// Whether it has refused a non-blocking write.
    pub writes_latched: bool,
    /// The statistics of calls on its files.
    pub counts: crate::stats::Counts,
}

/// The two kinds of `RWF_NOWAIT` attempts, which a file system may each not support.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NowaitKind {
    Reads,
    Writes,
}

impl Mount {
    /// Whether the file system is known not to support this kind of attempt.
    pub(crate) fn refuses(&self, kind: NowaitKind) -> bool {
        match kind {
            NowaitKind::Reads => self.reads_latched,
            NowaitKind::Writes => self.writes_latched,
        }
    }

    /// Whether O_NONBLOCK has no effect on its files, and their sizes are the numbers of bytes in
    /// them. A list of types that are known to be so: the non-blocking mode does have an effect on some
    /// regular files of the kernel (`/proc/kmsg`), and io_uring makes reads of an O_NONBLOCK file on
    /// the submitting thread even where the file system cannot do that without waiting (no
    /// FMODE_NOWAIT).
    pub(crate) fn ignores_nonblocking(&self) -> bool {
        let fstype = &self.fstype[..];
        matches!(
            fstype,
            "ext4" | "xfs" | "btrfs" | "f2fs" | "tmpfs" | "ramfs"
        )
    }

    /// Whether its buffered writes wait only where the kernel's limits of dirty pages are near, or
    /// rarely. Others collect garbage, reserve space or have limits of their own inside a write.
    pub(crate) fn writes_into_the_cache(&self) -> bool {
        matches!(self.fstype.as_str(), "ext2" | "ext3" | "ext4")
    }

    /// Records that the file system does not support this kind of attempt.
    pub(crate) fn set_refuses(&mut self, kind: NowaitKind) {
        match kind {
            NowaitKind::Reads => self.reads_latched = true,
            NowaitKind::Writes => self.writes_latched = true,
        }
    }
}

/// Index of a mount in [`Mounts`].
pub(crate) type MountIndex = u16;

/// The file systems seen by one context.
#[derive(Debug)]
pub(crate) struct Mounts {
    /// `/proc/thread-self/mountinfo` (threads may be in different mount namespaces): readable as priority
    /// data when the mounts have changed.
    table: Option<HighFd>,
    /// Whether any mounted file system is remote (or the table cannot be read).
    any_remote: bool,
    /// The lines of remote file systems.
    remote_lines: Vec<RemoteMount>,
    known: Vec<Mount>,
    by_device: HashMap<u64, MountIndex>,
    /// The mount of the root directory, once it was examined.
    root: Option<MountIndex>,
    /// A directory in which a name was found to be on a local file system, and the time until which that is
    /// trusted.
    trusted: Option<(RawFd, Vec<u8>, i64)>,
    /// When the table was last known to be current, in milliseconds of the coarse clock.
    current_at: i64,
    /// Times the table was read because it had changed.
    changes: u64,
}

impl Mounts {
    /// How long the table is trusted without a `poll`, in milliseconds: a program that never polls must
    /// notice a new file system too.
    const TRUSTED: i64 = 10;

    /// The number of file systems that one context distinguishes. Later ones count as remote.
    const KNOWN_MAX: usize = 4096;

    pub(crate) fn new() -> Mounts {
        let mut mounts = Mounts {
            table: open_table(),
            any_remote: true,
            remote_lines: Vec::new(),
            known: Vec::new(),
            by_device: HashMap::new(),
            root: None,
            trusted: None,
            current_at: 0,
            changes: 0,
        };
        mounts.refresh();
        mounts
    }

    /// The descriptor to watch for priority data.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.table.as_ref().map(AsFd::as_fd)
    }

    /// Whether resolving a name relative to a directory (or to the working directory: `AT_FDCWD`) begins
    /// on a local file system, wherever the name begins: at the directory or at the root.
    pub(crate) fn starts_locally(&mut self, directory: RawFd) -> bool {
        let is_local = |mounts: &Mounts, index: Option<MountIndex>| {
            index.is_some_and(|index| mounts.get(index).place != Place::Remote)
        };
        let (root, start) = (self.root(), self.of_directory(directory));
        is_local(self, root) && is_local(self, start)
    }

    /// The mount of the root directory.
    pub(super) fn root(&mut self) -> Option<MountIndex> {
        if self.root.is_none() {
            let root = peek_at(rustix::fs::CWD, c"/").ok();
            self.root = root.and_then(|root| self.find(&root));
        }
        self.root
    }

    /// The mount of a directory, or of the working directory: `AT_FDCWD`.
    pub(super) fn of_directory(&mut self, directory: RawFd) -> Option<MountIndex> {
        let status = match directory {
            libc::AT_FDCWD => peek_at(rustix::fs::CWD, c""),
            fd => peek(fd),
        };
        self.find(&status.ok()?)
    }

    /// Whether a directory, by its name relative to another, was found to be on a local file system a
    /// moment ago.
    pub(super) fn trusts(&self, directory: RawFd, name: &[u8]) -> bool {
        self.trusted.as_ref().is_some_and(|(of, parent, until)| {
            *of == directory && parent == name && coarse_milliseconds() < *until
        })
    }

    /// Records that it is.
    pub(super) fn trust(&mut self, directory: RawFd, name: &[u8]) {
        let until = coarse_milliseconds() + Mounts::TRUSTED;
        self.trusted = Some((directory, name.to_vec(), until));
    }

    /// Whether a remote file system is mounted at a path that ends with this component.
    pub(super) fn has_remote_at(&self, component: &[u8]) -> bool {
        let mut lines = self.remote_lines.iter();
        !component.is_empty() && lines.any(|line| line.last == component)
    }

    /// The device number of the remote file system that is mounted at this path.
    pub(super) fn remote_at(&mut self, point: &[u8]) -> Option<u64> {
        let is_it = |line: &&RemoteMount| line.point == point;
        // The last one covers the others.
        let line = self.remote_lines.iter().rev().find(is_it)?;
        let (id, device) = (line.id, line.device);
        // So that reports know it.
        let _ = self.find_device(device, id);
        Some(device)
    }

    /// Checks, before a name is looked up, that the table is current, unless that was known a moment ago.
    #[inline]
    pub(crate) fn note_lookup(&mut self) {
        let now = coarse_milliseconds();
        if now - self.current_at > Mounts::TRUSTED {
            self.current_at = now;
            self.check();
        }
    }

    /// Records that a poll of the mount table is armed, and has not reported a change.
    pub(crate) fn note_watched(&mut self) {
        self.current_at = coarse_milliseconds();
    }

    #[cold]
    fn check(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(table) = &self.table else { return };
        let mut changed = [PollFd::new(table, PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        if poll(&mut changed, Some(&now)).is_ok_and(|ready| ready > 0) {
            self.refresh();
        }
    }

    /// Whether a name may lead to a remote file system, which may wait in `open`.
    #[inline]
    pub(crate) fn any_remote(&self) -> bool {
        self.any_remote
    }

    /// Reads the table again after a change. Facts about file systems that are still mounted are
    /// kept; a device number may now mean another file system, so the rest is forgotten.
    pub(crate) fn refresh(&mut self) {
        let lines = self.read_table();
        self.root = None;
        self.trusted = None;
        self.changes += 1;
        self.any_remote = lines.is_empty()
            || lines
                .iter()
                .any(|line| Place::of_type(&line.fstype) == Place::Remote);
        let remote = lines.iter();
        let remote = remote.filter(|line| Place::of_type(&line.fstype) == Place::Remote);
        self.remote_lines = remote.map(RemoteMount::from_line).collect();
        for mount in &mut self.known {
            if let Some(line) = lines.iter().find(|line| line.device == mount.device) {
                mount.place = Place::of_type(&line.fstype);
                if mount.fstype != line.fstype {
                    mount.fstype.clone_from(&line.fstype);
                    mount.point.clone_from(&line.point);
                    mount.reads_latched = false;
                    mount.writes_latched = false;
                }
            }
        }
    }

    /// A number that changes when file systems are mounted or unmounted.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// The mount with this index.
    pub(crate) fn get(&self, index: MountIndex) -> &Mount {
        &self.known[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: MountIndex) -> &mut Mount {
        &mut self.known[index as usize]
    }

    /// All mounts seen so far.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mount> {
        self.known.iter()
    }

    /// The kind and mount of an open file. Sends no request to a remote file system: only attributes
    /// in the kernel's memory are read.
    pub(crate) fn of(&mut self, fd: RawFd) -> Result<(FileKind, Option<MountIndex>), Errno> {
        let status = peek(fd)?;
        Ok((FileKind::from_status(&status), self.find(&status)))
    }

    /// The mount of a file, from the attributes that [`peek`] returned.
    pub(crate) fn find(&mut self, status: &Statx) -> Option<MountIndex> {
        let device = rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor);
        self.find_device(device, status.stx_mnt_id)
    }

    /// The mount of a file: the device of its file system, and the ID that the kernel gives it.
    ///
    /// The ID is more reliable: btrfs gives its subvolumes devices that the table does not list. The
    /// kernel reports it since Linux 5.8; before, it is 0.
    pub(crate) fn find_device(&mut self, device: u64, mount_id: u64) -> Option<MountIndex> {
        if let Some(&index) = self.by_device.get(&device) {
            return Some(index);
        }
        if self.known.len() == Mounts::KNOWN_MAX {
            return None;
        }
        let lines = self.read_table();
        let line = lines
            .iter()
            .find(|line| line.id == mount_id && mount_id != 0)
            .or_else(|| lines.iter().find(|line| line.device == device));
        let (fstype, point) = line.map_or_else(Default::default, |line| {
            (line.fstype.clone(), line.point.clone())
        });
        // Unlisted files (pipes, sockets, memfd, anonymous inodes) are on the kernel's internal
        // mounts, which have major number 0: their file kind distinguishes them.
        let place = Place::of_type(&fstype);
        let index = self.known.len() as MountIndex;
        self.known.push(Mount {
            device,
            fstype,
            point,
            place,
            reads_latched: false,
            writes_latched: false,
            counts: Default::default(),
        });
        self.by_device.insert(device, index);
        Some(index)
    }

    fn read_table(&mut self) -> Vec<MountLine> {
        let text = self.table.as_ref().map(read_whole);
        match text {
            Some(Ok(text)) => text.lines().filter_map(MountLine::parse).collect(),
            _ => Vec::new(),
        }
    }
}

/// The time of a clock that costs no system call and advances every few milliseconds.
#[inline]
pub(crate) fn coarse_milliseconds() -> i64 {
    use rustix::time::{ClockId, clock_gettime};
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

fn open_table() -> Option<HighFd> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let table = open("/proc/thread-self/mountinfo", flags, Mode::empty()).ok()?;
    Some(HighFd::from(table))
}

/// Reads the whole table.
fn read_whole(table: &HighFd) -> Result<String, Errno> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    loop {
        match rustix::io::pread(table, &mut buffer, bytes.len() as u64)? {
            0 => return String::from_utf8(bytes).map_err(|_| Errno::INVAL),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The kind of an open file, as far as blocking is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Regular,
    Directory,
    /// Pipe, terminal, event descriptor: bytes come in order and may be waited for.
    Stream,
    /// Like a stream, and may have SO_RCVTIMEO or SO_SNDTIMEO.
    Socket,
}

impl FileKind {
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, FileKind::Stream | FileKind::Socket)
    }

    pub(crate) fn from_status(status: &Statx) -> FileKind {
        FileKind::of_mode(status.stx_mode)
    }

    pub(crate) fn of_mode(mode: u16) -> FileKind {
        match u32::from(mode) & libc::S_IFMT {
            libc::S_IFREG | libc::S_IFBLK => FileKind::Regular,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFSOCK => FileKind::Socket,
            _ => FileKind::Stream,
        }
    }
}

/// Type, device and mount of an open file from the kernel's memory, without a request to a remote
/// file system.
pub(crate) fn peek(fd: RawFd) -> Result<Statx, Errno> {
    peek_at(crate::sys::borrow(fd).ok_or(Errno::BADF)?, c"")
}

fn peek_at(directory: BorrowedFd<'_>, path: &std::ffi::CStr) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::TYPE | StatxFlags::MNT_ID;
    Ok(rustix::fs::statx(directory, path, flags, mask)?)
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq)]
struct MountLine {
    id: u64,
    device: u64,
    point: String,
    fstype: String,
}

/// A mounted remote file system.
#[derive(Debug)]
struct RemoteMount {
    id: u64,
    device: u64,
    /// Where it is mounted, and the last component of that.
    point: Vec<u8>,
    last: Vec<u8>,
}

impl RemoteMount {
    fn from_line(line: &MountLine) -> RemoteMount {
        let point = unescaped(&line.point);
        let last = point.rsplit(|byte| *byte == b'/').next();
        RemoteMount {
            id: line.id,
            device: line.device,
            last: last.unwrap_or_default().to_vec(),
            point,
        }
    }
}

impl MountLine {
    fn parse(line: &str) -> Option<MountLine> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        let id = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let point = fields.nth(1)?.to_owned();
        // "fuse.sshfs": the part after the dot names the server, not the file system.
        let fstype = filesystem.split(' ').next()?.split('.').next()?.to_owned();
        Some(MountLine {
            id,
            device,
            point,
            fstype,
        })
    }
}

/// A path of the table as bytes: there, spaces, tabs, line ends and backslashes are octal numbers.
fn unescaped(path: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_table_are_unescaped() {
        assert_eq!(unescaped(r"/a\040b\134c"), br"/a b\c");
        assert_eq!(unescaped(r"/a\04"), br"/a\04");
        assert_eq!(unescaped("/\u{e4}"), "/\u{e4}".as_bytes());
    }

    #[test]
    fn lines_parse() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let parsed = MountLine::parse(line).unwrap();
        assert_eq!((parsed.id, parsed.point.as_str()), (36, "/mnt2"));
        assert_eq!(parsed.device, rustix::fs::makedev(98, 0));
        assert_eq!(parsed.fstype, "ext3");
        let fuse = "40 27 0:50 / /home/u/x rw - fuse.sshfs u@h: rw";
        assert_eq!(
            Place::of_type(&MountLine::parse(fuse).unwrap().fstype),
            Place::Remote
        );
        assert_eq!(MountLine::parse("garbage"), None);
        assert_eq!(MountLine::parse(""), None);
    }

    #[test]
    fn finds_the_mount_of_a_file() {
        let mut mounts = Mounts::new();
        let file = std::fs::File::open("/proc/self/status").unwrap();
        use std::os::fd::AsRawFd;
        let (kind, index) = mounts.of(file.as_raw_fd()).unwrap();
        assert_eq!(kind, FileKind::Regular);
        assert_eq!(mounts.get(index.unwrap()).fstype, "proc");
        assert_eq!(mounts.of(-1), Err(Errno::BADF));
        assert_eq!(mounts.of(999_999), Err(Errno::BADF));
    }
}
