//! A FUSE file system that delays, fails, hangs and shortens requests on command.
//!
//! Whether a call on an ordinary file blocks depends on the page cache. On a [`FaultFs`] the test decides. It
//! keeps its files in memory; threads of the test serve it. The test can delay each request, choose its
//! result, and count it.
//!
//! ```
//! use laio_testing::{FaultFs, or_skip};
//! use laio_testing::fault_fs::{Fault, Kind, Released};
//! use std::time::Duration;
//!
//! let Some(fs) = or_skip(FaultFs::mount()) else { return };
//! fs.add_file("slow", b"contents");
//! fs.set_at("slow", Kind::Read, Fault::Hang);
//!
//! let path = fs.path().join("slow");
//! let reader = std::thread::spawn(move || std::fs::read(path));
//! assert!(fs.wait_hung(1, Duration::from_secs(60)), "the read has reached the file system");
//! fs.release(Released::Served);
//! assert_eq!(reader.join().unwrap().unwrap(), b"contents");
//! assert!(fs.requests_at("slow", Kind::Read) >= 1);
//! ```
//!
//! # Caching and locks in the kernel
//!
//! - By default nothing is cached: every path walk asks [`Kind::Lookup`] for each component, every
//!   `stat` asks [`Kind::Getattr`], every read and write comes here, in pieces of at most 128 KiB.
//!   [`Options::cached`] lets the kernel cache names, attributes and data.
//! - The kernel itself holds a lock of the directory during create, unlink, rename and the like, and a
//!   lock of the file during a write that extends it: while such a request hangs, others like it in
//!   the same directory or file wait in the kernel and do not come here. Lookups, reads and
//!   overwriting writes do not wait for each other.
//! - `close` sends [`Kind::Flush`] and waits for it; the kernel sends [`Kind::Release`] later and does not
//!   wait for it.
//! - If a lookup of a name that the kernel knew fails, the kernel repeats the lookup.
//! - After a reply of `ENOSYS` to some kinds (open, flush, fsync, access, create, fallocate) the kernel never
//!   sends them again on this mount.
//!
//! # Interrupts and unmounting
//!
//! A signal to a thread that waits for a request ends the request with `EINTR`. With
//! [`Options::interruptible`]`(false)` the file system ignores signals, like an unreachable file server: then
//! nothing but this file system can end a hanging request, not even SIGKILL.
//!
//! Dropping a [`FaultFs`] ends all waiting requests with `ECONNABORTED`, unmounts even if files are open, and
//! never blocks. If the test process dies in any other way, a small watchdog process unmounts instead;
//! without it, a killed test with a hanging request would never end. Both processes and threads are visible:
//! a mount has five threads and one child process, which `wait` does not return.
//!
//! # Requirements
//!
//! `/dev/fuse`, and either root or `fusermount3` together with fusectl mounted on
//! `/sys/fs/fuse/connections`, as systems usually have it.

mod relay;
mod rules;
mod server;
mod tree;
mod watchdog;

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuser::{BackgroundSession, Config, FileType, MountOption, Session, SessionACL};
use tempfile::TempDir;

use crate::Skip;
use relay::Relay;
use rules::Rules;
use server::{Handshake, Server};
use tree::{NewNode, ROOT, Tree};
use watchdog::Watchdog;

/// The time limit for threads to end when the file system is dropped.
const DROP_LIMIT: Duration = Duration::from_secs(60);

/// The kinds of request that the kernel sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Finding a name in a directory.
    Lookup,
    /// Attributes: `stat`.
    Getattr,
    /// Changing attributes: `chmod`, `chown`, `truncate`, `utimens`, and `O_TRUNC`.
    Setattr,
    /// The target of a symbolic link.
    Readlink,
    /// Creating a special file.
    Mknod,
    /// Creating a directory.
    Mkdir,
    /// Removing a file.
    Unlink,
    /// Removing a directory.
    Rmdir,
    /// Creating a symbolic link.
    Symlink,
    /// Renaming; rules and counts use the old name.
    Rename,
    /// Creating a hard link; rules and counts use the new name.
    Link,
    /// Opening an existing file.
    Open,
    /// Creating and opening a file: `O_CREAT` without an existing file.
    Create,
    /// Reading data.
    Read,
    /// Writing data.
    Write,
    /// Each `close`.
    Flush,
    /// The last `close`, in the background.
    Release,
    /// `fsync` and `fdatasync`.
    Fsync,
    /// `fallocate`.
    Fallocate,
    /// Opening a directory.
    Opendir,
    /// Listing a directory.
    Readdir,
    /// The last `close` of a directory, in the background.
    Releasedir,
    /// `fsync` of a directory.
    Fsyncdir,
    /// `access`.
    Access,
    /// `statfs`.
    Statfs,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 25] = [
        Kind::Lookup,
        Kind::Getattr,
        Kind::Setattr,
        Kind::Readlink,
        Kind::Mknod,
        Kind::Mkdir,
        Kind::Unlink,
        Kind::Rmdir,
        Kind::Symlink,
        Kind::Rename,
        Kind::Link,
        Kind::Open,
        Kind::Create,
        Kind::Read,
        Kind::Write,
        Kind::Flush,
        Kind::Release,
        Kind::Fsync,
        Kind::Fallocate,
        Kind::Opendir,
        Kind::Readdir,
        Kind::Releasedir,
        Kind::Fsyncdir,
        Kind::Access,
        Kind::Statfs,
    ];
}

/// A fault of a request.
///
/// `Delay` and `Hang` define when the file system replies; `Fail`, `Short` and `Flip` define the reply. A
/// request may have one of each sort: hang, and then fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The reply comes after this time.
    Delay(Duration),
    /// The reply comes when the test releases the request.
    Hang,
    /// The request fails with this errno.
    Fail(i32),
    /// A read or write transfers at most this many bytes, even if more are available; a listing has at most
    /// this many entries. Only without [`Options::cached`]: a caching kernel takes a short read for the end
    /// of the file.
    Short(usize),
    /// The first byte that a read returns, or that a write stores, is wrong.
    Flip,
    /// Setting attributes succeeds without any effect.
    Pretend,
}

impl Fault {
    fn is_about_time(self) -> bool {
        matches!(self, Fault::Delay(_) | Fault::Hang)
    }
}

/// How a hanging request continues when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// As if it had not hung; a rule for its result still applies.
    Served,
    /// It fails with this errno.
    Fail(i32),
}

/// Options of a [`FaultFs`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    cached: bool,
    interruptible: bool,
}

impl Options {
    /// Lets the kernel cache names, attributes and data for an hour, and read ahead. Off by default.
    pub fn cached(self, cached: bool) -> Options {
        Options { cached, ..self }
    }

    /// Whether a signal ends a request that waits. On by default.
    pub fn interruptible(self, interruptible: bool) -> Options {
        Options {
            interruptible,
            ..self
        }
    }

    /// Mounts the file system on a new directory.
    ///
    /// # Errors
    ///
    /// If FUSE is not available or not permitted.
    pub fn mount(self) -> Result<FaultFs, Skip> {
        watchdog::without_signals(|| FaultFs::with(self))
    }
}

/// State that the server's threads and the test share.
#[derive(Debug)]
struct Shared {
    rules: Arc<Rules>,
    tree: Mutex<Tree>,
}

impl Shared {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A mounted file system. See the [module](self).
#[derive(Debug)]
pub struct FaultFs {
    shared: Arc<Shared>,
    /// The parts that end with the mount, in the order of [`FaultFs::drop`]. `None` after that.
    parts: Option<Parts>,
    directory: TempDir,
}

#[derive(Debug)]
struct Parts {
    /// The FUSE session, which mounts and unmounts. It serves no requests: the relay passes them to `server`.
    mount: Session<Handshake>,
    server: BackgroundSession,
    relay: Relay,
    watchdog: Option<Watchdog>,
}

impl FaultFs {
    /// Mounts an empty file system on a new directory, uncached and interruptible.
    ///
    /// # Errors
    ///
    /// If FUSE is not available or not permitted.
    pub fn mount() -> Result<FaultFs, Skip> {
        FaultFs::options().mount()
    }

    /// Returns the options of a mount, which can be changed before mounting.
    pub fn options() -> Options {
        Options {
            cached: false,
            interruptible: true,
        }
    }

    fn with(options: Options) -> Result<FaultFs, Skip> {
        crate::watchdog::enter();
        device_is_there()?;
        let directory = tempfile::Builder::new()
            .prefix("laio-fault-")
            .tempdir()
            .map_err(|e| Skip::because("fuse", format!("no directory to mount on: {e}")))?;
        let owner = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let rules = Arc::new(Rules::default());
        let tree = Mutex::new(Tree::new(owner));
        let shared = Arc::new(Shared {
            rules: Arc::clone(&rules),
            tree,
        });

        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("laio-fault".into())];
        // Allows access by other users if run as root, for servers that drop privileges.
        config.acl = if owner.0 == 0 {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        let mount = Session::new(Handshake, directory.path(), &config)
            .map_err(|e| Skip::because("fuse", format!("mounting a FUSE file system: {e}")))?;

        let failed = |e| Skip::because("fuse", format!("serving a FUSE file system: {e}"));
        let device = mount.as_fd().try_clone_to_owned().map_err(failed)?;
        let (ours, theirs) = relay::sockets().map_err(failed)?;
        relay::greet(&ours).map_err(failed)?;
        let server = Server::new(Arc::clone(&shared), options.cached);
        let server = Session::from_fd(server, theirs, SessionACL::All, config)
            .and_then(|session| {
                relay::take_greeting(&ours)?;
                session.spawn()
            })
            .map_err(failed)?;
        let relay = Relay::start(device, ours, rules, options.interruptible).map_err(failed)?;
        let parts = Some(Parts {
            mount,
            server,
            relay,
            watchdog: None,
        });
        // From here on, an error drops the mount.
        let mut fs = FaultFs {
            shared,
            parts,
            directory,
        };
        let watchdog = Watchdog::start(fs.path())?;
        if let Some(parts) = &mut fs.parts {
            parts.watchdog = Some(watchdog);
        }
        Ok(fs)
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of a name below the mount point.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Adds a file, or replaces its contents, without a request or a fault.
    ///
    /// # Panics
    ///
    /// If the directory of the name does not exist, or the name is a directory.
    pub fn add_file(&self, name: &str, contents: &[u8]) {
        self.add(name, FileType::RegularFile, 0o644, contents);
    }

    /// Adds a directory. The name may have several components; all but the last must exist.
    ///
    /// # Panics
    ///
    /// If the name exists, or its directory does not.
    pub fn add_dir(&self, name: &str) {
        self.add(name, FileType::Directory, 0o755, b"");
    }

    fn add(&self, name: &str, kind: FileType, mode: u32, data: &[u8]) {
        let name = name.trim_matches('/');
        let (directory, last) = name.rsplit_once('/').unwrap_or(("", name));
        let mut tree = self.shared.tree();
        let owner = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let new = NewNode {
            kind,
            mode,
            owner,
            device: 0,
            data: data.to_vec(),
        };
        let parent = tree.find(directory);
        let done = parent.and_then(|parent| match tree.lookup(parent, last.as_ref()) {
            Ok(inode) if kind == FileType::RegularFile => tree.replace(inode, data),
            _ => tree.make(parent, last.as_ref(), new).map(drop),
        });
        if let Err(errno) = done {
            panic!("{name}: {}", std::io::Error::from_raw_os_error(errno));
        }
    }

    /// Moves all times of a file back by this duration.
    ///
    /// # Panics
    ///
    /// If the file does not exist.
    pub fn age(&self, name: &str, by: Duration) {
        let mut tree = self.shared.tree();
        let aged = tree.find(name).and_then(|inode| tree.age(inode, by));
        aged.unwrap_or_else(|errno| panic!("{name}: {}", std::io::Error::from_raw_os_error(errno)));
    }

    /// Returns the contents of a file in the server, without a request; `None` if it does not exist.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let mut tree = self.shared.tree();
        let inode = tree.find(name).ok()?;
        tree.read(inode, 0, usize::MAX).ok().map(<[u8]>::to_vec)
    }

    /// Sets a fault for all later requests of this kind. Replaces an earlier fault of the same sort: see
    /// [`Fault`].
    pub fn set(&self, kind: Kind, fault: Fault) {
        self.shared.rules.set(None, kind, fault, false);
    }

    /// As [`set`](FaultFs::set), for requests about one name: a path below the mount, or `""` for the root.
    /// It takes precedence over a rule for all names.
    pub fn set_at(&self, name: &str, kind: Kind, fault: Fault) {
        self.shared.rules.set(Some(name), kind, fault, false);
    }

    /// Sets a fault for the next request of this kind, which takes precedence over lasting rules. Several are
    /// queued.
    pub fn next(&self, kind: Kind, fault: Fault) {
        self.shared.rules.set(None, kind, fault, true);
    }

    /// As [`next`](FaultFs::next), for requests about one name.
    pub fn next_at(&self, name: &str, kind: Kind, fault: Fault) {
        self.shared.rules.set(Some(name), kind, fault, true);
    }

    /// Sets a fault for the n-th request of this kind from now on; 1 is the next one.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn nth(&self, n: u64, kind: Kind, fault: Fault) {
        let passing = n.checked_sub(1).expect("requests are counted from 1");
        self.shared.rules.set_after(passing, kind, fault);
    }

    /// Whether a fault for one request of this kind has not occurred yet.
    pub fn is_pending(&self, kind: Kind) -> bool {
        self.shared.rules.is_pending(kind)
    }

    /// Removes the rules for one kind. Waiting requests continue to wait.
    pub fn clear(&self, kind: Kind) {
        self.shared.rules.clear(Some(kind));
    }

    /// Removes all rules. Waiting requests continue to wait.
    pub fn clear_all(&self) {
        self.shared.rules.clear(None);
    }

    /// Returns how many requests hang now.
    pub fn hung(&self) -> usize {
        self.shared.rules.hung()
    }

    /// Waits until at least `count` requests hang; returns false if they do not within `limit`.
    pub fn wait_hung(&self, count: usize, limit: Duration) -> bool {
        self.shared.rules.wait_hung(count, limit)
    }

    /// Releases all hanging requests, and removes all rules to hang. Returns how many there were.
    pub fn release(&self, released: Released) -> usize {
        self.shared.rules.release(released, false)
    }

    /// Releases the oldest hanging request, and keeps the rules. Returns false if none hangs.
    pub fn release_one(&self, released: Released) -> bool {
        self.shared.rules.release(released, true) == 1
    }

    /// Returns how many requests of a kind have arrived, whatever their results.
    pub fn requests(&self, kind: Kind) -> u64 {
        self.shared.rules.requests(None, kind)
    }

    /// As [`requests`](FaultFs::requests), about one name.
    pub fn requests_at(&self, name: &str, kind: Kind) -> u64 {
        self.shared.rules.requests(Some(name), kind)
    }

    /// Returns how many requests have arrived in all.
    pub fn all_requests(&self) -> u64 {
        self.shared.rules.all_requests()
    }

    /// Resets the counters.
    pub fn reset_counts(&self) {
        self.shared.rules.reset_counts();
    }
}

impl Drop for FaultFs {
    fn drop(&mut self) {
        let Some(Parts {
            mount,
            server,
            relay,
            watchdog,
        }) = self.parts.take()
        else {
            return;
        };
        // First release all waiting requests, so that the steps below cannot wait for them.
        self.shared.rules.close();
        // If permitted, this also ends all current and later requests in the kernel.
        watchdog::unmount_by_force(self.path());
        // Without the permission this calls fusermount3, which needs a running server.
        drop(mount);
        self.shared.rules.wait_idle(DROP_LIMIT);
        // The relay has the last descriptor of the device: when it is closed, the kernel ends all requests.
        relay.stop();
        // An error only means that the relay has closed its end.
        let _ = server.join();
        if let Some(watchdog) = watchdog {
            watchdog.stop();
        }
    }
}

/// Returns a clearer error than `mount` if the device cannot be used.
fn device_is_there() -> Result<(), Skip> {
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Err(Skip::because(
            "fuse",
            "no /dev/fuse: the kernel module is not loaded, or a container hides it",
        )),
        Err(e) => Err(Skip::because("fuse", format!("/dev/fuse: {e}"))),
    }
}

/// FUSE defines this inode of the root.
const _: () = assert!(ROOT == fuser::INodeNo::ROOT.0);

#[cfg(test)]
mod tests;
