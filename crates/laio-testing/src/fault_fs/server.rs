//! Serves the requests: applies the rules to each, and then executes it on the tree.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::os::unix::ffi::OsStrExt;

use super::relay::DATA_MAX;
use super::rules::{Admission, Manner, Verdict};
use super::tree::{Changes, NewNode, Tree};
use super::{Kind, Shared};

/// How long the kernel may cache in cached mode: longer than any test.
const CACHE_TIME: Duration = Duration::from_secs(3600);

/// The kernel limits the number of its background requests, such as read-ahead. A hanging one must not block
/// the others.
const BACKGROUND_MAX: u16 = 4096;

/// Used only for the `FUSE_INIT` handshake at mount time.
#[derive(Debug)]
pub(super) struct Handshake;

impl Filesystem for Handshake {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Capabilities that the kernel does not offer are not used.
        for wanted in [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(DATA_MAX);
        let _ = config.set_max_readahead(DATA_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }
}

/// The file system, as the FUSE library requires it.
#[derive(Debug)]
pub(super) struct Server {
    shared: Arc<Shared>,
    /// How long the kernel may cache names and attributes.
    time: Duration,
    open: FopenFlags,
    open_directory: FopenFlags,
}

/// A reply that can be an error. The library's types have this method, but no trait with it.
trait Refuse: Send + 'static {
    fn refuse(self, errno: i32);
}

macro_rules! refuse {
    ($($reply:ty)*) => {
        $(impl Refuse for $reply {
            fn refuse(self, errno: i32) {
                self.error(Errno::from_i32(errno));
            }
        })*
    };
}

refuse!(ReplyAttr ReplyCreate ReplyData ReplyDirectory ReplyEmpty ReplyEntry ReplyOpen ReplyStatfs ReplyWrite);

/// The result of a request on the tree.
type Done<T> = Result<T, i32>;

impl Server {
    pub(super) fn new(shared: Arc<Shared>, cached: bool) -> Server {
        if cached {
            Server {
                shared,
                time: CACHE_TIME,
                open: FopenFlags::FOPEN_KEEP_CACHE,
                open_directory: FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
            }
        } else {
            let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
            Server {
                shared,
                time: Duration::ZERO,
                open: direct,
                open_directory: FopenFlags::empty(),
            }
        }
    }

    /// Applies the rules to a request about `name`, and executes `work`, at once or, if it must wait, on a
    /// thread of its own.
    fn serve<R: Refuse>(
        &self,
        name: &str,
        kind: Kind,
        request: &Request,
        reply: R,
        work: impl FnOnce(&mut Tree, Manner, R) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        let number = request.unique().0;
        let go_on = |shared: &Shared, verdict, reply: R| match verdict {
            Verdict::Serve(manner) => work(&mut shared.tree(), manner, reply),
            Verdict::Fail(errno) => reply.refuse(errno),
        };
        match shared.rules.admit(name, kind, number) {
            Admission::Now(verdict) => go_on(&shared, verdict, reply),
            Admission::Later(then) => {
                // The thread is detached: the rules count these threads.
                std::thread::Builder::new()
                    .name("faultfs-waiting".into())
                    .spawn(move || {
                        let verdict = shared.rules.wait(number, then);
                        go_on(&shared, verdict, reply);
                        shared.rules.answered();
                    })
                    .expect("a thread for a request that waits");
            }
        }
    }

    fn name(&self, inode: INodeNo) -> String {
        self.shared.tree().path(inode.0)
    }

    fn name_in(&self, parent: INodeNo, name: &OsStr) -> String {
        self.shared.tree().path_of(parent.0, name)
    }

    /// A request whose reply contains a name's attributes.
    fn entry(
        &self,
        name: &str,
        kind: Kind,
        request: &Request,
        reply: ReplyEntry,
        work: impl FnOnce(&mut Tree) -> Done<FileAttr> + Send + 'static,
    ) {
        let time = self.time;
        self.serve(
            name,
            kind,
            request,
            reply,
            move |tree, _, reply| match work(tree) {
                Ok(attributes) => reply.entry(&time, &attributes, Generation(0)),
                Err(errno) => reply.refuse(errno),
            },
        );
    }

    /// A request with an empty reply.
    fn simple(
        &self,
        name: &str,
        kind: Kind,
        request: &Request,
        reply: ReplyEmpty,
        work: impl FnOnce(&mut Tree) -> Done<()> + Send + 'static,
    ) {
        self.serve(
            name,
            kind,
            request,
            reply,
            move |tree, _, reply| match work(tree) {
                Ok(()) => reply.ok(),
                Err(errno) => reply.refuse(errno),
            },
        );
    }
}

/// The new node of a request.
fn new_node(request: &Request, kind: FileType, mode: u32, data: &[u8]) -> NewNode {
    let owner = (request.uid(), request.gid());
    NewNode {
        kind,
        mode,
        owner,
        device: 0,
        data: data.to_vec(),
    }
}

fn kind_of(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

fn time_of(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

impl Filesystem for Server {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        self.entry(&path, Kind::Lookup, request, reply, move |tree| {
            let inode = tree.lookup(parent.0, &name)?;
            tree.attributes(inode)
        });
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let time = self.time;
        let work = move |tree: &mut Tree, _, reply: ReplyAttr| match tree.attributes(ino.0) {
            Ok(attributes) => reply.attr(&time, &attributes),
            Err(errno) => reply.refuse(errno),
        };
        self.serve(&self.name(ino), Kind::Getattr, request, reply, work);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let time = self.time;
        let (accessed, modified) = (atime.map(time_of), mtime.map(time_of));
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            accessed,
            modified,
        };
        let work = move |tree: &mut Tree, manner: Manner, reply: ReplyAttr| {
            let changed = if manner.pretends {
                tree.attributes(ino.0)
            } else {
                tree.change(ino.0, &changes)
            };
            match changed {
                Ok(attributes) => reply.attr(&time, &attributes),
                Err(errno) => reply.refuse(errno),
            }
        };
        self.serve(&self.name(ino), Kind::Setattr, request, reply, work);
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let work = move |tree: &mut Tree, _, reply: ReplyData| match tree.read(ino.0, 0, usize::MAX)
        {
            Ok(target) => reply.data(target),
            Err(errno) => reply.refuse(errno),
        };
        self.serve(&self.name(ino), Kind::Readlink, request, reply, work);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        let mut new = new_node(request, kind_of(mode), mode & !umask, b"");
        new.device = rdev;
        let work = move |tree: &mut Tree| tree.make(parent.0, &name, new);
        self.entry(&path, Kind::Mknod, request, reply, work);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        let new = new_node(request, FileType::Directory, mode & !umask, b"");
        let work = move |tree: &mut Tree| tree.make(parent.0, &name, new);
        self.entry(&path, Kind::Mkdir, request, reply, work);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        let work = move |tree: &mut Tree| tree.unlink(parent.0, &name);
        self.simple(&path, Kind::Unlink, request, reply, work);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        let work = move |tree: &mut Tree| tree.remove_directory(parent.0, &name);
        self.simple(&path, Kind::Rmdir, request, reply, work);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (path, name) = (self.name_in(parent, link_name), link_name.to_owned());
        let new = new_node(
            request,
            FileType::Symlink,
            0o777,
            target.as_os_str().as_bytes(),
        );
        let work = move |tree: &mut Tree| tree.make(parent.0, &name, new);
        self.entry(&path, Kind::Symlink, request, reply, work);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let path = self.name_in(parent, name);
        let (name, newname) = (name.to_owned(), newname.to_owned());
        let work = move |tree: &mut Tree| {
            if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
                return Err(libc::EINVAL);
            }
            tree.rename((parent.0, &name), (newparent.0, &newname), flags.is_empty())
        };
        self.simple(&path, Kind::Rename, request, reply, work);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let (path, name) = (self.name_in(newparent, newname), newname.to_owned());
        let work = move |tree: &mut Tree| tree.link(ino.0, newparent.0, &name);
        self.entry(&path, Kind::Link, request, reply, work);
    }

    fn open(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = self.open;
        let work = move |_: &mut Tree, _, reply: ReplyOpen| reply.opened(FileHandle(0), flags);
        self.serve(&self.name(ino), Kind::Open, request, reply, work);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let (path, name) = (self.name_in(parent, name), name.to_owned());
        let new = new_node(request, FileType::RegularFile, mode & !umask, b"");
        let (time, flags) = (self.time, self.open);
        let work =
            move |tree: &mut Tree, _, reply: ReplyCreate| match tree.make(parent.0, &name, new) {
                Ok(made) => reply.created(&time, &made, Generation(0), FileHandle(0), flags),
                Err(errno) => reply.refuse(errno),
            };
        self.serve(&path, Kind::Create, request, reply, work);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let work = move |tree: &mut Tree, manner: Manner, reply: ReplyData| match tree.read(
            ino.0,
            offset,
            size as usize,
        ) {
            Ok(data) => reply.data(&manner.of(data)),
            Err(errno) => reply.refuse(errno),
        };
        self.serve(&self.name(ino), Kind::Read, request, reply, work);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = data.to_vec();
        let work = move |tree: &mut Tree, manner: Manner, reply: ReplyWrite| {
            let data = manner.of(&data);
            match tree.write(ino.0, offset, &data) {
                Ok(()) => reply.written(data.len() as u32),
                Err(errno) => reply.refuse(errno),
            }
        };
        self.serve(&self.name(ino), Kind::Write, request, reply, work);
    }

    fn flush(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.simple(&self.name(ino), Kind::Flush, request, reply, |_| Ok(()));
    }

    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.simple(&self.name(ino), Kind::Release, request, reply, |_| Ok(()));
    }

    fn fsync(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.simple(&self.name(ino), Kind::Fsync, request, reply, |_| Ok(()));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let work = move |tree: &mut Tree| tree.allocate(ino.0, mode, offset, length);
        self.simple(&self.name(ino), Kind::Fallocate, request, reply, work);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = self.open_directory;
        let work = move |_: &mut Tree, _, reply: ReplyOpen| reply.opened(FileHandle(0), flags);
        self.serve(&self.name(ino), Kind::Opendir, request, reply, work);
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let work = move |tree: &mut Tree, manner: Manner, mut reply: ReplyDirectory| {
            let entries = match tree.list(ino.0, offset) {
                Ok(entries) => entries,
                Err(errno) => return reply.refuse(errno),
            };
            for entry in entries.iter().take(manner.limit) {
                if reply.add(INodeNo(entry.inode), entry.next, entry.kind, &entry.name) {
                    break;
                }
            }
            reply.ok();
        };
        self.serve(&self.name(ino), Kind::Readdir, request, reply, work);
    }

    fn releasedir(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.simple(
            &self.name(ino),
            Kind::Releasedir,
            request,
            reply,
            |_| Ok(()),
        );
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.simple(&self.name(ino), Kind::Fsyncdir, request, reply, |_| Ok(()));
    }

    fn access(&self, request: &Request, ino: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        self.simple(&self.name(ino), Kind::Access, request, reply, |_| Ok(()));
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let work = |_: &mut Tree, _, reply: ReplyStatfs| {
            let (blocks, free) = (1 << 20, 1 << 19);
            reply.statfs(blocks, free, free, 1 << 20, 1 << 19, 4096, 255, 4096);
        };
        self.serve(&self.name(ino), Kind::Statfs, request, reply, work);
    }
}
