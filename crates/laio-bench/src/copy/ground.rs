//! The directory that is measured in: room, caches, and nothing left behind.

use super::Workload;
use super::contestant::alone;
use crate::caches;
use crate::error::{Error, While};
use crate::record::{Cache, Record};
use crate::stop::Stop;
use laio::Place;
use laio::probe::Directory;
use rustix::fs::statvfs;
use std::cell::{Cell, RefCell};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

#[derive(Debug)]
pub(super) struct Ground {
    /// Removed in the end, with all that is in it.
    own: TempDir,
    place: Place,
    /// What is done with. It stays while there is room: ext4 passes over inodes that were removed within the last
    /// minutes (`recently_deleted` in fs/ext4/ialloc.c), one by one, and whoever makes files next pays for that. What
    /// is in memory besides goes.
    done: RefCell<Vec<PathBuf>>,
    /// Bytes and inodes that are to stay free.
    reserve: (u64, u64),
    made: Cell<u32>,
}

/// Room that a file and a directory take besides their bytes: their part of inodes and directories, and
/// what is lost in the last block.
const EACH: u64 = 4096 + 512;

impl Ground {
    pub(super) fn prepare(directory: &Path) -> Result<Ground, Error> {
        let shown = directory.display();
        let probed = Directory::probe(directory).doing(format_args!("cannot use {shown}"))?;
        let own = tempfile::Builder::new()
            .prefix("laio-bench-cp-")
            .tempdir_in(directory)
            .doing(format_args!("cannot make a directory in {shown}"))?;
        let place = probed.place;
        let (bytes, inodes) = free(own.path())?;
        let room = match place {
            // What is kept must not crowd out what is measured.
            Place::Memory => (bytes / 2).min(memory() / 4),
            _ => bytes / 2,
        };
        Ok(Ground {
            own,
            place,
            done: RefCell::default(),
            reserve: (bytes - room, inodes / 2),
            made: Cell::default(),
        })
    }

    /// Those that can be had here, with a note on those that cannot.
    pub(super) fn caches(&self, wanted: &[Cache], record: &mut Record) -> Vec<Cache> {
        caches::possible(wanted, self.place, record)
    }

    /// A copy of the command, and of `laio-cp` beside it: of a program that runs, as this one does, the kernel keeps what
    /// is mapped, whatever is dropped. None if nothing can be run here.
    pub(super) fn program(&self, laio: &Path) -> Result<Option<PathBuf>, Error> {
        let room = self.path("program");
        std::fs::create_dir(&room).doing("cannot make a directory for the command")?;
        let copy = room.join("laio");
        for (from, to) in [laio, &alone(laio)].into_iter().zip([&copy, &alone(&copy)]) {
            if from.exists() {
                let doing = || format!("cannot copy {}", from.display());
                std::fs::copy(from, to).doing(doing())?;
            }
        }
        let ran = Command::new(&copy).arg("--version").output();
        Ok(ran.is_ok_and(|ran| ran.status.success()).then_some(copy))
    }

    /// A name that nothing has.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let number = self.made.get();
        self.made.set(number + 1);
        self.own.path().join(format!("{name}-{number}"))
    }

    /// Why a tree of so many bytes and its copy do not fit, if they do not.
    pub(super) fn lacks_room(
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
        // A file system that is full to the brim is slow, and in the way of others.
        let wanted = needed + needed / 10 + (64 << 20);
        let mib = |bytes: u64| bytes >> 20;
        Ok((free < wanted).then(|| {
            let (wanted, free) = (mib(wanted), mib(free));
            format!("it takes {wanted} MiB, and {free} MiB are free; use --scale, or --dir")
        }))
    }

    /// The tree, made if it is not there.
    pub(super) fn source(&self, workload: &Workload, stop: &Stop) -> Result<PathBuf, Error> {
        match (workload.shape(), workload) {
            (None, Workload::Given(path)) => Ok(path.clone()),
            (shape, _) => {
                let path = self.path("source");
                let shape = shape.expect("what is not given is made");
                shape.make(&path, stop)?;
                Ok(path)
            }
        }
    }

    /// A tree that was made, or a copy, is done with.
    pub(super) fn done(&self, path: PathBuf) -> Result<(), Error> {
        debug_assert!(path.starts_with(self.own.path()));
        if self.place != Place::Memory {
            // Dirty pages would stay.
            caches::settle(self.own.path(), Cache::Warm)?;
            caches::evict(&path)?;
        }
        self.done.borrow_mut().push(path);
        let (bytes, inodes) = free(self.own.path())?;
        // Some file systems count no inodes.
        let is_short = bytes < self.reserve.0 || inodes < self.reserve.1;
        let old = match is_short {
            true => self.done.take(),
            false => Vec::new(),
        };
        for path in old {
            let doing = || format!("cannot remove {}", path.display());
            match path.is_dir() {
                true => std::fs::remove_dir_all(&path).doing(doing())?,
                false if path.exists() => std::fs::remove_file(&path).doing(doing())?,
                false => {}
            }
        }
        Ok(())
    }

    /// Before each copy of so many bytes: what was written before is on the device, and memory is as it is to be.
    pub(super) fn settle(&self, cache: Cache, bytes: u64) -> Result<(), Error> {
        caches::settle(self.own.path(), cache)?;
        // As much again: the host is given pages all the time.
        caches::back(match cache {
            // The source comes into memory, too.
            Cache::Cold => 3 * bytes,
            Cache::Warm => 2 * bytes,
        })
    }
}

/// Bytes that a tree takes on its device.
pub(super) fn size(workload: &Workload) -> Result<u64, Error> {
    match (workload, workload.shape()) {
        (Workload::Given(path), _) if path.is_dir() => size_of(path),
        (_, Some(shape)) => Ok(shape.bytes() + (shape.files() + shape.directories()) * EACH),
        (_, None) => Ok(0),
    }
}

/// Bytes of memory.
fn memory() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram * u64::from(system.mem_unit)
}

/// Bytes and inodes that are free.
fn free(path: &Path) -> Result<(u64, u64), Error> {
    let room = statvfs(path).doing("cannot see how much room there is")?;
    Ok((room.f_bavail * room.f_frsize, room.f_favail))
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
