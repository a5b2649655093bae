//! The directory of the measured copies: its free space, its cache state, and the removal of all files at the end.

use super::Workload;
use super::subject::alone;
use crate::caches;
use crate::error::{Error, While};
use crate::info::probe::Directory;
use crate::record::{Cache, Record};
use crate::stop::Stop;
use laio::Place;
use rustix::fs::statvfs;
use std::cell::{Cell, RefCell};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

#[derive(Debug)]
pub(super) struct Workspace {
    /// Removed when dropped, with its contents.
    own: TempDir,
    place: Place,
    /// Trees that are no longer needed. They stay while space is free: ext4 skips inodes that were removed within the
    /// last minutes (`recently_deleted` in fs/ext4/ialloc.c) one by one, which slows the next creation of files. Their
    /// pages are evicted at once.
    done: RefCell<Vec<PathBuf>>,
    /// The bytes and inodes that must stay free.
    reserve: (u64, u64),
    made: Cell<u32>,
}

/// The disk space of a file or directory in addition to its bytes: its share of inode tables and directories, and
/// the unused part of the last block.
const EACH: u64 = 4096 + 512;

impl Workspace {
    pub(super) fn prepare(directory: &Path) -> Result<Workspace, Error> {
        let shown = directory.display();
        let probed = Directory::probe(directory).doing(format_args!("cannot use {shown}"))?;
        let own = tempfile::Builder::new()
            .prefix("laio-bench-cp-")
            .tempdir_in(directory)
            .doing(format_args!("cannot make a directory in {shown}"))?;
        let place = probed.place;
        let (bytes, inodes) = free(own.path())?;
        let capacity = match place {
            // Kept trees must not displace the measured ones from memory.
            Place::Memory => (bytes / 2).min(memory() / 4),
            _ => bytes / 2,
        };
        Ok(Workspace {
            own,
            place,
            done: RefCell::default(),
            reserve: (bytes - capacity, inodes / 2),
            made: Cell::default(),
        })
    }

    /// Returns the wanted cache states that are possible here, and adds a note for each other one.
    pub(super) fn caches(&self, wanted: &[Cache], record: &mut Record) -> Vec<Cache> {
        caches::possible(wanted, self.place, record)
    }

    /// Copies `laio` and `laio-cp`, and returns the copy of `laio`. The kernel does not drop the mapped pages of a
    /// running program, such as this one, so the original could not start with cold caches. `None` if programs cannot
    /// be run in this directory.
    pub(super) fn program(&self, laio: &Path) -> Result<Option<PathBuf>, Error> {
        let directory = self.path("program");
        std::fs::create_dir(&directory).doing("cannot make a directory for the command")?;
        let copy = directory.join("laio");
        for (from, to) in [laio, &alone(laio)].into_iter().zip([&copy, &alone(&copy)]) {
            if from.exists() {
                let doing = || format!("cannot copy {}", from.display());
                std::fs::copy(from, to).doing(doing())?;
            }
        }
        let ran = Command::new(&copy).arg("--version").output();
        Ok(ran.is_ok_and(|ran| ran.status.success()).then_some(copy))
    }

    /// Returns a new path in the directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let number = self.made.get();
        self.made.set(number + 1);
        self.own.path().join(format!("{name}-{number}"))
    }

    /// Returns the reason if a tree of this size and its copy do not fit.
    pub(super) fn lacks_space(
        &self,
        workload: &Workload,
        bytes: u64,
    ) -> Result<Option<String>, Error> {
        let needed = match workload {
            Workload::Given(path) if !path.is_dir() => {
                return Ok(Some(format!("{} is not a directory", path.display())));
            }
            Workload::Given(_) => bytes,
            _ => 2 * bytes,
        };
        let (free, _) = free(self.own.path())?;
        // A full file system is slow, and disturbs other programs.
        let wanted = needed + needed / 10 + (64 << 20);
        let mib = |bytes: u64| bytes >> 20;
        Ok((free < wanted).then(|| {
            let (wanted, free) = (mib(wanted), mib(free));
            format!("it needs {wanted} MiB, and {free} MiB are free; use --scale or --dir")
        }))
    }

    /// Returns the tree; creates it unless it is an existing one.
    pub(super) fn source(&self, workload: &Workload, stop: &Stop) -> Result<PathBuf, Error> {
        match (workload.shape(), workload) {
            (None, Workload::Given(path)) => Ok(path.clone()),
            (shape, _) => {
                let path = self.path("source");
                let shape = shape.expect("a tree that is not given is generated");
                shape.make(&path, stop)?;
                Ok(path)
            }
        }
    }

    /// Evicts a tree or copy that is no longer needed, and removes old ones if free space is short.
    pub(super) fn done(&self, path: PathBuf) -> Result<(), Error> {
        debug_assert!(path.starts_with(self.own.path()));
        if self.place != Place::Memory {
            // Dirty pages cannot be evicted.
            caches::settle(self.own.path(), Cache::Warm)?;
            caches::evict(&path)?;
        }
        self.done.borrow_mut().push(path);
        let (bytes, inodes) = free(self.own.path())?;
        // Some file systems count no inodes.
        let is_short = bytes < self.reserve.0 || inodes < self.reserve.1;
        let old = if is_short {
            self.done.take()
        } else {
            Vec::new()
        };
        for path in old {
            let doing = || format!("cannot remove {}", path.display());
            if path.is_dir() {
                std::fs::remove_dir_all(&path).doing(doing())?
            } else if path.exists() {
                std::fs::remove_file(&path).doing(doing())?
            }
        }
        Ok(())
    }

    /// Prepares a copy of `bytes` bytes: writes dirty data to the device, and brings the caches into the given state.
    pub(super) fn settle(&self, cache: Cache, bytes: u64) -> Result<(), Error> {
        caches::settle(self.own.path(), cache)?;
        // Twice the need: the guest returns pages to the host continuously.
        caches::back(match cache {
            // Reading the source fills pages too.
            Cache::Cold => 3 * bytes,
            Cache::Warm => 2 * bytes,
        })
    }
}

/// Returns the disk space of a tree in bytes.
pub(super) fn size(workload: &Workload) -> Result<u64, Error> {
    match (workload, workload.shape()) {
        (Workload::Given(path), _) if path.is_dir() => size_of(path),
        (_, Some(shape)) => Ok(shape.bytes() + (shape.files() + shape.directories()) * EACH),
        (_, None) => Ok(0),
    }
}

/// Returns the size of the memory in bytes.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram * u64::from(system.mem_unit)
}

/// Returns the free bytes and inodes of a file system.
fn free(path: &Path) -> Result<(u64, u64), Error> {
    let status = statvfs(path).doing("cannot determine the free space")?;
    Ok((status.f_bavail * status.f_frsize, status.f_favail))
}

fn size_of(tree: &Path) -> Result<u64, Error> {
    let mut total = 0;
    let mut below = vec![tree.to_owned()];
    while let Some(directory) = below.pop() {
        let doing = || format!("cannot read {}", directory.display());
        for entry in std::fs::read_dir(&directory).doing(doing())? {
            let entry = entry.doing(doing())?;
            let status = entry.metadata().doing(doing())?;
            total += status.blocks() * 512 + EACH;
            if status.is_dir() {
                below.push(entry.path());
            }
        }
    }
    Ok(total)
}
