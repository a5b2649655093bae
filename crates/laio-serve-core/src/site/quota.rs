//! A limit on the bytes and the names below the root of a site.
//!
//! The files are counted once, when the server starts. From then on each change counts what it adds before it adds it,
//! so that several at a time cannot exceed the limit together.

use laio_serve_base::messages::print;
use laio_serve_base::observe::UsedQuota;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The limit of a site, and what is used of it.
#[derive(Clone, Debug)]
pub struct Quota {
    /// The most bytes in files.
    bytes: Option<u64>,
    /// The most files and directories.
    names: Option<u64>,
    used: Arc<Used>,
}

/// What is below a directory. Sites with the same root share it, and so do the workers before and after a reload.
#[derive(Debug)]
struct Used {
    /// The device and the inode of the directory.
    identity: (u64, u64),
    path: PathBuf,
    bytes: AtomicU64,
    names: AtomicU64,
    is_counted: AtomicBool,
}

/// The directories with a quota of all sites of a server, before and after a reload.
#[derive(Clone, Debug, Default)]
pub struct CountedDirectories(Arc<Mutex<Vec<Weak<Used>>>>);

/// Directories below each other that are counted.
const DEPTH_MAX: usize = 256;

/// The pause before a count that has failed is tried again.
const COUNT_AGAIN: Duration = Duration::from_secs(1);

/// Why a quota admits no change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// The change would exceed the limit.
    Exceeded,
    /// The server has not yet counted what the directory holds.
    Counting,
}

impl CountedDirectories {
    /// Returns what is used of each directory. Those that are still being counted are left out.
    pub fn used(&self) -> Vec<UsedQuota> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let used = all.iter().filter_map(Weak::upgrade).filter_map(|used| {
            let (bytes, files) = used.counted()?;
            let directory = used.path.clone();
            Some(UsedQuota {
                directory,
                bytes,
                files,
            })
        });
        used.collect()
    }

    /// Returns the count of a directory, which begins if no site has the directory yet.
    fn count(&self, directory: &OwnedFd, path: &Path) -> io::Result<Arc<Used>> {
        let status = rustix::fs::fstat(directory)?;
        let identity = (status.st_dev, status.st_ino);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|used| used.strong_count() > 0);
        let mut known = all.iter().filter_map(Weak::upgrade);
        if let Some(used) = known.find(|used| used.identity == identity) {
            return Ok(used);
        }
        let used = Arc::new(Used {
            identity,
            path: std::path::absolute(path)?,
            bytes: AtomicU64::new(0),
            names: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
        });
        all.push(Arc::downgrade(&used));
        count_in_background(open(directory, c".")?, &used)?;
        Ok(used)
    }
}

impl Used {
    /// Returns the bytes and names, once they are counted.
    fn counted(&self) -> Option<(u64, u64)> {
        let is_counted = self.is_counted.load(Ordering::Acquire);
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        is_counted.then(|| (load(&self.bytes), load(&self.names)))
    }
}

/// What a change has counted in advance. Dropping it gives back what was not used.
pub struct Reservation<'q> {
    quota: Option<&'q Quota>,
    bytes: u64,
    names: u64,
}

impl Quota {
    /// Returns the quota of a directory, which is counted in the background. Returns none without a limit.
    ///
    /// # Errors
    /// When the directory cannot be read, or no thread can be started.
    pub fn of(
        counted: &CountedDirectories,
        directory: &OwnedFd,
        path: &Path,
        bytes: Option<u64>,
        names: Option<u64>,
    ) -> io::Result<Option<Quota>> {
        if bytes.is_none() && names.is_none() {
            return Ok(None);
        }
        let used = counted.count(directory, path)?;
        Ok(Some(Quota { bytes, names, used }))
    }

    /// Counts something that was removed.
    pub fn release(&self, bytes: u64, names: u64) {
        // Other programs may have made what is removed, so it may be more than was counted.
        subtract(&self.used.bytes, bytes);
        subtract(&self.used.names, names);
    }

    fn reserve(&self, bytes: u64, names: u64) -> Result<(), QuotaError> {
        add(&self.used.bytes, bytes, self.bytes)?;
        add(&self.used.names, names, self.names).inspect_err(|_| {
            subtract(&self.used.bytes, bytes);
        })
    }
}

/// Checks that changes can be made: what is there is counted.
pub fn check_counted(quota: Option<&Quota>) -> Result<(), QuotaError> {
    match quota {
        Some(quota) if quota.used.counted().is_none() => Err(QuotaError::Counting),
        _ => Ok(()),
    }
}

impl<'q> Reservation<'q> {
    /// Counts bytes and names in advance.
    ///
    /// # Errors
    /// When the quota has no space for them.
    pub fn of(quota: Option<&'q Quota>, bytes: u64, names: u64) -> Result<Self, QuotaError> {
        let mut reservation = Reservation {
            quota,
            bytes: 0,
            names: 0,
        };
        reservation.grow(bytes, names)?;
        Ok(reservation)
    }

    /// Counts more.
    ///
    /// # Errors
    /// Like [`Reservation::of`].
    pub fn grow(&mut self, bytes: u64, names: u64) -> Result<(), QuotaError> {
        if let Some(quota) = self.quota {
            quota.reserve(bytes, names)?;
        }
        self.bytes += bytes;
        self.names += names;
        Ok(())
    }

    /// Counts bytes up to this length, if they are not counted yet.
    ///
    /// # Errors
    /// Like [`Reservation::of`].
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), QuotaError> {
        self.grow(bytes.saturating_sub(self.bytes), 0)
    }

    /// Leaves what was used counted: `bytes` of the file, in place of a file of `replaced` bytes if there was one.
    pub fn commit(mut self, bytes: u64, replaced: Option<u64>) {
        if let Some(quota) = self.quota.take() {
            let unused = self.bytes.saturating_sub(bytes);
            let names = u64::from(replaced.is_some()).min(self.names);
            quota.release(unused + replaced.unwrap_or(0), names);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(quota) = self.quota {
            quota.release(self.bytes, self.names);
        }
    }
}

fn add(used: &AtomicU64, more: u64, most: Option<u64>) -> Result<(), QuotaError> {
    let sum = |used: u64| {
        let sum = used.saturating_add(more);
        // What adds nothing is allowed although other programs have added too much.
        (more == 0 || most.is_none_or(|most| sum <= most)).then_some(sum)
    };
    match used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum) {
        Ok(_) => Ok(()),
        Err(_) => Err(QuotaError::Exceeded),
    }
}

fn subtract(used: &AtomicU64, less: u64) {
    let rest = |used: u64| Some(used.saturating_sub(less));
    let _ = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
}

/// Counts what is below a directory, on a thread of its own, because the directory may be large and the disk slow.
fn count_in_background(directory: OwnedFd, used: &Arc<Used>) -> io::Result<()> {
    let path = used.path.clone();
    let used = Arc::downgrade(used);
    let purpose = "the thread that counts what a directory holds";
    laio::thread::start("laio-quota", purpose, move || {
        let mut warned = false;
        let (bytes, names) = loop {
            match count(&directory, &used, DEPTH_MAX) {
                Ok(counted) => break counted,
                Err(error) if !std::mem::replace(&mut warned, true) => print(format_args!(
                    "cannot count the files below {} for --upload-quota and --upload-files: {error}; nothing can \
                     be changed there until the server, which goes on trying, has counted them",
                    path.display()
                )),
                Err(_) => {}
            }
            std::thread::sleep(COUNT_AGAIN);
            if used.strong_count() == 0 {
                return;
            }
        };
        // Nothing has changed meanwhile: the server refuses changes until then.
        if let Some(used) = used.upgrade() {
            used.bytes.store(bytes, Ordering::Relaxed);
            used.names.store(names, Ordering::Relaxed);
            used.is_counted.store(true, Ordering::Release);
        }
    })?;
    Ok(())
}

/// Returns the bytes of the files below a directory, and the number of names. Follows no links, and leaves out what is
/// in directories that the server may not read. Ends early when no site needs the result.
///
/// # Errors
/// When something cannot be counted: the numbers would be too small, and the limit too large.
fn count(directory: &OwnedFd, used: &Weak<Used>, depth: usize) -> io::Result<(u64, u64)> {
    let (mut bytes, mut names) = (0, 0);
    for entry in Dir::new(open(directory, c".")?)? {
        let entry = entry?;
        let name = entry.file_name();
        if used.strong_count() == 0 {
            break;
        }
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let status = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            status => status?,
        };
        names += 1;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => bytes += u64::try_from(status.st_size).unwrap_or(0),
            FileType::Directory if depth > 0 => {
                let (more, further) = match open(directory, name) {
                    Ok(inner) => count(&inner, used, depth - 1)?,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => (0, 0),
                    Err(errno) => return Err(errno.into()),
                };
                bytes += more;
                names += further;
            }
            _ => {}
        }
    }
    Ok((bytes, names))
}

fn open(directory: &impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(bytes: Option<u64>, names: Option<u64>) -> Quota {
        Quota {
            bytes,
            names,
            used: Arc::new(Used {
                identity: (0, 0),
                path: PathBuf::new(),
                bytes: AtomicU64::new(0),
                names: AtomicU64::new(0),
                is_counted: AtomicBool::new(true),
            }),
        }
    }

    #[test]
    fn reservations() {
        let quota = quota(Some(10), Some(2));
        let first = Reservation::of(Some(&quota), 6, 1).unwrap();
        assert!(Reservation::of(Some(&quota), 5, 1).is_err());
        assert_eq!(quota.used.counted(), Some((6, 1)));
        first.commit(4, None);
        assert_eq!(quota.used.counted(), Some((4, 1)));
        // A file that replaces one needs room for both until it is complete.
        let second = Reservation::of(Some(&quota), 6, 1).unwrap();
        assert!(Reservation::of(Some(&quota), 0, 1).is_err());
        assert!(Reservation::of(Some(&quota), 0, 0).is_ok());
        second.commit(6, Some(4));
        assert_eq!(quota.used.counted(), Some((6, 1)));
        drop(Reservation::of(Some(&quota), 1, 1).unwrap());
        assert_eq!(quota.used.counted(), Some((6, 1)));
        quota.release(100, 100);
        assert_eq!(quota.used.counted(), Some((0, 0)));
        let mut none = Reservation::of(None, 1 << 60, 1).unwrap();
        assert!(none.grow_to(u64::MAX).is_ok());
    }

    #[test]
    fn many_threads_do_not_exceed_it() {
        let quota = quota(Some(1000), None);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        if let Ok(reservation) = Reservation::of(Some(&quota), 7, 1) {
                            assert!(quota.used.counted().unwrap().0 <= 1000);
                            reservation.commit(7, None);
                        }
                    }
                });
            }
        });
        assert_eq!(quota.used.counted().unwrap().0, 994);
    }
}
