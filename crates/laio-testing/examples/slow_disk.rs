//! A file that is slow to read, to make a disk of (`losetup`, then a file system in it): each read takes a time, or
//! there are only so many in a second.
//!
//!     slow_disk DIRECTORY FILE MILLISECONDS [READS-A-SECOND]
//!
//! `DIRECTORY/disk` then has the bytes of FILE, until the directory is unmounted. Writes are not delayed.

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, SessionACL, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

const DIRECTORY: u64 = 1;
const DISK: u64 = 2;
const FOR_EVER: Duration = Duration::from_secs(3600);

struct SlowDisk {
    file: Arc<File>,
    delay: Duration,
    /// The time that each read takes, and the time until which the disk is busy.
    busy: Duration,
    until: Arc<Mutex<Instant>>,
}

impl SlowDisk {
    fn attributes(&self, inode: u64) -> io::Result<FileAttr> {
        let directory = inode == DIRECTORY;
        let size = if directory {
            0
        } else {
            self.file.metadata()?.len()
        };
        let now = SystemTime::UNIX_EPOCH;
        Ok(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size.div_ceil(512),
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: if directory {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Returns the time at which a read that arrives now ends.
    fn turn(&self) -> Instant {
        let now = Instant::now();
        if self.busy.is_zero() {
            return now + self.delay;
        }
        let mut until = self.until.lock().unwrap_or_else(|error| error.into_inner());
        *until = now.max(*until) + self.busy;
        now.max(*until) + self.delay
    }
}

impl Filesystem for SlowDisk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_READ | InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(4096);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(DISK) {
            Ok(attributes) if parent.0 == DIRECTORY && name == "disk" => {
                reply.entry(&FOR_EVER, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode.0) {
            Ok(attributes) => reply.attr(&FOR_EVER, &attributes),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (file, over) = (self.file.clone(), self.turn());
        // One thread for each read that the kernel may have in flight.
        std::thread::spawn(move || {
            let mut data = vec![0; size as usize];
            let read = file.read_at(&mut data, offset);
            std::thread::sleep(over.saturating_duration_since(Instant::now()));
            match read {
                Ok(count) => reply.data(&data[..count]),
                Err(_) => reply.error(Errno::EIO),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || io::Error::other("slow_disk DIRECTORY FILE MILLISECONDS [READS-A-SECOND]");
    let (Some(directory), Some(file), Some(delay)) =
        (arguments.first(), arguments.get(1), arguments.get(2))
    else {
        return Err(usage());
    };
    let rate = arguments.get(3).map_or(Ok(0.0), |rate| rate.parse());
    let rate: f64 = rate.map_err(|_| usage())?;
    let busy = if rate > 0.0 { 1.0 / rate } else { 0.0 };
    let disk = SlowDisk {
        file: Arc::new(File::options().read(true).write(true).open(file)?),
        delay: Duration::from_millis(delay.parse().map_err(|_| usage())?),
        busy: Duration::from_secs_f64(busy),
        until: Arc::new(Mutex::new(Instant::now())),
    };
    let mut config = Config::default();
    config.acl = SessionACL::All;
    fuser::mount(disk, directory, &config)
}
