//! Claims: which process works on which part, and whether it is alive.
//!
//! A claim is a link to a complete file, and `link` fails if the name exists, so only one process gets it. While the process
//! lives, one of its threads updates the file's modification time. A claim is dead if its process was on this
//! machine and is gone (same boot, same PID namespace, and no process with that PID and start
//! time), or if its modification time is older than the lease. Both times compared are the file
//! system's, so the clocks of the machines need not agree. If a process only seemed dead, its part
//! is copied twice; that is harmless, because files get their names when they are complete.

use super::plan_dir::{PlanDir, number};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A process that works on a plan.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    pub(crate) host: String,
    /// The boot ID of its machine.
    boot: String,
    process_namespace: String,
    pub(crate) process: u32,
    started: String,
    /// A unique string.
    pub(crate) token: String,
}

impl Owner {
    pub(crate) fn current() -> Owner {
        let read = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().to_owned()
        };
        let process = std::process::id();
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let time = time.unwrap_or_default().as_nanos();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let host = read("/proc/sys/kernel/hostname");
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '.';
        let name: String = host.chars().filter(|letter| plain(*letter)).collect();
        Owner {
            boot: read("/proc/sys/kernel/random/boot_id"),
            process_namespace: namespace.to_string_lossy().into_owned(),
            process,
            started: start_time(process).unwrap_or_default(),
            token: format!("{name}-{process:x}-{time:x}"),
            host,
        }
    }

    /// Host and PID, for messages.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.host, self.process)
    }

    /// Whether this process can see that the owner `of` a claim is gone.
    fn is_gone(&self, of: &Owner) -> bool {
        let here = !self.boot.is_empty()
            && self.boot == of.boot
            && self.process_namespace == of.process_namespace;
        // If `/proc` hides processes, it hides this one, too.
        here && start_time(self.process).is_some()
            && start_time(of.process).is_none_or(|started| started != of.started)
    }
}

/// The start time of a process, in clock ticks since boot.
fn start_time(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name, in parentheses, may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie does not run any more.
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18).map(str::to_owned))?
}

/// Creates and checks the claims of a plan.
pub(crate) struct Claims {
    plan_dir: PlanDir,
    pub(crate) me: Owner,
    lease: Duration,
}

impl Claims {
    pub(crate) fn new(plan_dir: &PlanDir, lease: Duration) -> Claims {
        Claims {
            plan_dir: plan_dir.clone(),
            me: Owner::current(),
            lease,
        }
    }

    /// Claims a part, unless a living process has it.
    pub(crate) fn take(&self, part: u32) -> io::Result<Option<Claim>> {
        if let Some(claim) = self.create(part)? {
            return Ok(Some(claim));
        }
        match self.inspect(part)? {
            ExistingClaim::Released => self.create(part),
            ExistingClaim::Dead(inode) if self.remove_dead(part, inode)? => self.create(part),
            ExistingClaim::Dead(_) | ExistingClaim::Alive => Ok(None),
        }
    }

    /// Claims a part, even if another process has it: the caller has assigned it to this process.
    pub(crate) fn take_over(&self, part: u32) -> io::Result<Claim> {
        loop {
            if let Some(claim) = self.create(part)? {
                return Ok(claim);
            }
            ignore_missing(fs::remove_file(self.path(part)))?;
        }
    }

    fn path(&self, part: u32) -> PathBuf {
        self.plan_dir.claims().join(number(part))
    }

    /// Creates a claim, as a link to a file that is complete: a process that is killed leaves no claim without an owner.
    fn create(&self, part: u32) -> io::Result<Option<Claim>> {
        let path = self.path(part);
        let whole = self.own_file("new");
        ignore_missing(fs::remove_file(&whole))?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&whole)?;
        let owner = serde_json::to_vec(&self.me)?;
        let linked = file
            .write_all(&owner)
            .and_then(|()| fs::hard_link(&whole, &path));
        // The answer of a server may have been lost after it has made the link.
        let is_linked = linked.is_ok() || file.metadata().is_ok_and(|status| status.nlink() > 1);
        let removed = ignore_missing(fs::remove_file(&whole));
        match linked {
            _ if is_linked => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) if has_no_links(&error) => return self.create_in_place(&path, &owner),
            Err(error) => return Err(error),
            Ok(()) => unreachable!("it is linked"),
        }
        removed?;
        Ok(Some(Claim::start(path, file, self.lease)?))
    }

    /// Creates a claim on a file system without hard links. If the process is killed before it has written the claim, that
    /// is dead when the lease is over.
    fn create_in_place(&self, path: &Path, owner: &[u8]) -> io::Result<Option<Claim>> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Err(error) = file.write_all(owner) {
            ignore_missing(fs::remove_file(path))?;
            return Err(error);
        }
        Ok(Some(Claim::start(path.to_owned(), file, self.lease)?))
    }

    /// A file of this process beside the claims.
    fn own_file(&self, purpose: &str) -> PathBuf {
        let name = format!(".{purpose}.{}", self.me.token);
        self.plan_dir.claims().join(name)
    }

    /// Removes files that processes have left beside the claims when they were killed: those older than the lease.
    pub(crate) fn remove_leftovers(&self) -> io::Result<()> {
        let now = self.now()?;
        for name in laio::directory::names(self.plan_dir.claims())? {
            let name = name?;
            if !name.as_bytes().starts_with(b".") {
                continue;
            }
            let path = self.plan_dir.claims().join(name);
            let Some(status) = ignore_missing(fs::symlink_metadata(&path))? else {
                continue;
            };
            let age = now.duration_since(status.modified()?);
            if age.is_ok_and(|age| age > self.lease) {
                ignore_missing(fs::remove_file(path))?;
            }
        }
        Ok(())
    }

    /// Determines whether the owner of an existing claim is dead.
    fn inspect(&self, part: u32) -> io::Result<ExistingClaim> {
        let path = self.path(part);
        let Some(status) = ignore_missing(fs::metadata(&path))? else {
            return Ok(ExistingClaim::Released);
        };
        let owner = fs::read(&path).ok();
        let owner: Option<Owner> = owner.and_then(|text| serde_json::from_slice(&text).ok());
        let mine = status.uid() == rustix::process::geteuid().as_raw();
        let is_gone = mine && owner.is_some_and(|owner| self.me.is_gone(&owner));
        let age = self.now()?.duration_since(status.modified()?);
        if is_gone || age.is_ok_and(|age| age > self.lease) {
            Ok(ExistingClaim::Dead(device_and_inode(&status)))
        } else {
            Ok(ExistingClaim::Alive)
        }
    }

    /// The current time of the file system.
    fn now(&self) -> io::Result<SystemTime> {
        let path = self.own_file("now");
        let file = File::create(&path)?;
        touch(&file)?;
        let now = file.metadata()?.modified();
        ignore_missing(fs::remove_file(path))?;
        now
    }

    /// Removes a dead claim. If several processes try, one succeeds.
    fn remove_dead(&self, part: u32, found: (u64, u64)) -> io::Result<bool> {
        let name = format!(".dead.{}.{}", number(part), self.me.token);
        let dead = self.plan_dir.claims().join(name);
        if ignore_missing(fs::rename(self.path(part), &dead))?.is_none() {
            return Ok(false);
        }
        if device_and_inode(&fs::metadata(&dead)?) != found {
            // Another process was faster, and this is its claim. Restore it; otherwise both copy
            // the part.
            let _ = fs::hard_link(&dead, self.path(part));
            fs::remove_file(dead)?;
            return Ok(false);
        }
        fs::remove_file(dead)?;
        Ok(true)
    }
}

/// The state of an existing claim.
enum ExistingClaim {
    /// The claim is gone.
    Released,
    /// The owner is dead; device and inode of the claim.
    Dead((u64, u64)),
    Alive,
}

fn device_and_inode(status: &fs::Metadata) -> (u64, u64) {
    (status.dev(), status.ino())
}

/// Whether the file system has no hard links.
fn has_no_links(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    matches!(
        number,
        Some(libc::EPERM | libc::EOPNOTSUPP | libc::ENOSYS | libc::EMLINK)
    )
}

/// `None` if the file does not exist.
fn ignore_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Sets the modification time to the file system's time, which may differ from this machine's.
fn touch(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    Ok(futimens(
        file,
        &Timestamps {
            last_access: now,
            last_modification: now,
        },
    )?)
}

/// A claim of this process, renewed by a thread until it is dropped.
pub(crate) struct Claim {
    path: PathBuf,
    inode: (u64, u64),
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Claim {
    fn start(path: PathBuf, file: File, lease: Duration) -> io::Result<Claim> {
        let inode = device_and_inode(&file.metadata()?);
        let (ended, end) = channel();
        let period = (lease / 4).max(Duration::from_millis(10));
        let thread = std::thread::Builder::new()
            .name("laio-cp-claim".to_owned())
            .spawn(move || {
                while end.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                    // If the renewal fails, another process may copy the part again, which is
                    // harmless.
                    let _ = touch(&file);
                }
            });
        Ok(Claim {
            path,
            inode,
            // Without a thread the claim is not renewed, with the same consequence.
            renewal: thread.ok().map(|thread| (ended, thread)),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.renewal.take() {
            drop(ended);
            // Its panic was printed by the panic hook, and affects only the claim.
            let _ = thread.join();
        }
        // Only if the claim is still this process's.
        let ours =
            fs::metadata(&self.path).is_ok_and(|status| device_and_inode(&status) == self.inode);
        if ours {
            // If it stays, it expires.
            let _ = fs::remove_file(&self.path);
        }
    }
}
