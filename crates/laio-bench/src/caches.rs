//! Brings the page cache into the state that a measurement requires: with the files in it, or without.

use crate::error::{Error, While};
use crate::record::{Cache, Record};
use laio::Place;
use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create, syncfs};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writing to this file drops the system's caches; only root may do so.
const DROP: &str = "/proc/sys/vm/drop_caches";
/// The value that drops pages, dentries and inodes.
const ALL: &str = "3";

/// Returns the wanted cache states that are possible in this directory, and adds a note for each other one.
pub(crate) fn possible(wanted: &[Cache], place: Place, record: &mut Record) -> Vec<Cache> {
    let reason = match place {
        Place::Memory => Some("the directory is in memory; name a --dir on a disk"),
        _ if File::options().write(true).open(DROP).is_err() => {
            Some("only root may drop the system's caches")
        }
        _ => None,
    };
    let mut caches = wanted.to_vec();
    if let Some(reason) = reason.filter(|_| wanted.contains(&Cache::Cold)) {
        record.note(format!("with cold caches: left out, {reason}"));
        caches.retain(|cache| *cache != Cache::Cold);
    }
    caches
}

/// Writes all dirty data of a file system to the device, then brings the caches into the required state.
pub(crate) fn settle(directory: &Path, cache: Cache) -> Result<(), Error> {
    let directory = File::open(directory).doing("cannot open the directory")?;
    syncfs(&directory).doing("cannot write dirty pages to the device")?;
    match cache {
        Cache::Cold => std::fs::write(DROP, ALL).doing("cannot drop the system's caches"),
        Cache::Warm => Ok(()),
    }
}

/// Evicts the data of a tree, or of a file, from the page cache, as far as it is clean.
pub(crate) fn evict(tree: &Path) -> Result<(), Error> {
    let doing = || format!("cannot evict {} from the page cache", tree.display());
    // A failed copy may have left no file; FIFOs and devices have no data.
    let Ok(status) = tree.symlink_metadata() else {
        return Ok(());
    };
    if status.is_dir() {
        for entry in std::fs::read_dir(tree).doing(doing())? {
            evict(&entry.doing(doing())?.path())?;
        }
    } else if status.is_file() {
        let file = File::open(tree).doing(doing())?;
        fadvise(&file, 0, None, Advice::DontNeed).doing(doing())?;
    }
    Ok(())
}

/// Makes sure that this many bytes of free memory, or all free memory, are backed by the host.
///
/// A virtual machine that reports its free pages to its host (`page_reporting`, within seconds) must fetch
/// them again one by one: with that, the same copy of 4 GiB in memory took 1.8 s or 4.6 s.
pub(crate) fn back(bytes: u64) -> Result<(), Error> {
    let system = rustix::system::sysinfo();
    // More would evict pages that must stay in the caches.
    let bytes = bytes.min(system.freeram * u64::from(system.mem_unit) / 10 * 9);
    let doing = "cannot fill free memory";
    // Not memory of this process: the commands that it starts would inherit its peak (getrusage(2)).
    let file = memfd_create("laio-bench", MemfdFlags::CLOEXEC).doing(doing)?;
    let (mut file, piece) = (File::from(file), vec![0; 1 << 20]);
    for _ in 0..bytes.div_ceil(piece.len() as u64) {
        file.write_all(&piece).doing(doing)?;
    }
    Ok(())
}
