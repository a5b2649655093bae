//! Who does which part, and whether they are still alive.
//!
//! A claim is a file that only one process can make (`O_EXCL`). As long as the process lives, a thread of it
//! renews the file's time of change. A claim is dead if its process was on this machine and is not there any
//! more (same boot, same process namespace, same start time: numbers are used again), or if its time is older
//! than the lease. Both times that are compared are those of the file system, so that clocks of machines need
//! not agree. That a part is done twice, because a process only seemed dead, does no harm: files get their
//! names when they are complete.

use super::plan_dir::{PlanDir, number};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A process that works on a plan.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Owner {
    pub(crate) host: String,
    /// Of this start of the machine.
    boot: String,
    process_namespace: String,
    pub(crate) process: u32,
    started: String,
    /// No other has it.
    pub(crate) token: String,
}

impl Owner {
    pub(crate) fn this() -> Owner {
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
            started: started(process).unwrap_or_default(),
            token: format!("{name}-{process:x}-{time:x}"),
            host,
        }
    }

    /// As in messages.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.host, self.process)
    }

    /// Whether this process can see that the other is not there any more.
    fn is_gone(&self, of: &Owner) -> bool {
        let here = !self.boot.is_empty()
            && self.boot == of.boot
            && self.process_namespace == of.process_namespace;
        // If processes cannot be looked at, this one cannot either.
        here && started(self.process).is_some()
            && started(of.process).is_none_or(|started| started != of.started)
    }
}

/// When a process was started, in ticks since the machine was.
fn started(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A zombie does nothing any more.
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18).map(str::to_owned))?
}

pub(crate) struct Claims {
    plan_dir: PlanDir,
    pub(crate) me: Owner,
    lease: Duration,
}

impl Claims {
    pub(crate) fn new(plan_dir: &PlanDir, lease: Duration) -> Claims {
        Claims {
            plan_dir: plan_dir.clone(),
            me: Owner::this(),
            lease,
        }
    }

    /// Claims a part, if nobody who is alive has it.
    pub(crate) fn take(&self, part: u32) -> io::Result<Option<Claim>> {
        if let Some(claim) = self.make(part)? {
            return Ok(Some(claim));
        }
        match self.inspect(part)? {
            ExistingClaim::Released => self.make(part),
            ExistingClaim::Dead(inode) if self.remove_dead(part, inode)? => self.make(part),
            ExistingClaim::Dead(_) | ExistingClaim::Alive => Ok(None),
        }
    }

    /// Claims a part, whoever has it: the one who calls knows better.
    pub(crate) fn take_over(&self, part: u32) -> io::Result<Claim> {
        loop {
            if let Some(claim) = self.make(part)? {
                return Ok(claim);
            }
            ignore_missing(fs::remove_file(self.path(part)))?;
        }
    }

    /// Notes that a part is begun: what more than one has begun may have left something behind.
    pub(crate) fn record_attempt(&self, part: u32) -> io::Result<()> {
        let name = format!("{}.{}", number(part), self.me.token);
        File::create(self.plan_dir.attempts().join(name)).map(drop)
    }

    fn path(&self, part: u32) -> PathBuf {
        self.plan_dir.claims().join(number(part))
    }

    fn make(&self, part: u32) -> io::Result<Option<Claim>> {
        let path = self.path(part);
        let opened = OpenOptions::new().write(true).create_new(true).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        // Who reads it before it is written finds nothing, and goes by its time.
        file.write_all(&serde_json::to_vec(&self.me)?)?;
        Ok(Some(Claim::start(path, file, self.lease)?))
    }

    /// Whether who has a part is dead.
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
        match is_gone || age.is_ok_and(|age| age > self.lease) {
            true => Ok(ExistingClaim::Dead(inode(&status))),
            false => Ok(ExistingClaim::Alive),
        }
    }

    /// What time the file system thinks it is.
    fn now(&self) -> io::Result<SystemTime> {
        let path = self
            .plan_dir
            .claims()
            .join(format!(".now.{}", self.me.token));
        let file = File::create(&path)?;
        touch(&file)?;
        let now = file.metadata()?.modified();
        ignore_missing(fs::remove_file(path))?;
        now
    }

    /// Takes a dead claim away. Of several who do so one succeeds.
    fn remove_dead(&self, part: u32, found: (u64, u64)) -> io::Result<bool> {
        let name = format!(".dead.{}.{}", number(part), self.me.token);
        let dead = self.plan_dir.claims().join(name);
        if ignore_missing(fs::rename(self.path(part), &dead))?.is_none() {
            return Ok(false);
        }
        if inode(&fs::metadata(&dead)?) != found {
            // Somebody was faster, and this is his. He gets it back, or both do the part.
            let _ = fs::hard_link(&dead, self.path(part));
            fs::remove_file(dead)?;
            return Ok(false);
        }
        fs::remove_file(dead)?;
        Ok(true)
    }
}

/// What is found in the way of a claim.
enum ExistingClaim {
    /// Nothing any more.
    Released,
    /// The claim of somebody who is dead.
    Dead((u64, u64)),
    Alive,
}

fn inode(status: &fs::Metadata) -> (u64, u64) {
    (status.dev(), status.ino())
}

/// None if it is not there.
fn ignore_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Sets the time of change to that of the file system, which is not always that of this machine.
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

/// A part that is ours, and is told to be so until this is dropped.
pub(crate) struct Claim {
    path: PathBuf,
    inode: (u64, u64),
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Claim {
    fn start(path: PathBuf, file: File, lease: Duration) -> io::Result<Claim> {
        let inode = inode(&file.metadata()?);
        let (ended, end) = channel();
        let period = (lease / 4).max(Duration::from_millis(10));
        let thread = std::thread::Builder::new()
            .name("laio-cp-claim".to_owned())
            .spawn(move || {
                while end.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                    // If it cannot be told, others may do it again; that does no harm.
                    let _ = touch(&file);
                }
            })?;
        Ok(Claim {
            path,
            inode,
            renewal: Some((ended, thread)),
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.renewal.take() {
            drop(ended);
            // A panic of it has been reported, and harms nothing.
            let _ = thread.join();
        }
        // Unless somebody else has it by now.
        let ours = fs::metadata(&self.path).is_ok_and(|status| inode(&status) == self.inode);
        if ours {
            // If it stays, others find that nobody renews it.
            let _ = fs::remove_file(&self.path);
        }
    }
}
