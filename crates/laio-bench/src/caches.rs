//! Memory as a measurement is to find it: with what was read in it or not, and there.

use crate::error::{Error, While};
use crate::record::{Cache, Record};
use laio::Place;
use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create, syncfs};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writing here drops what the caches hold; for root only.
const DROP: &str = "/proc/sys/vm/drop_caches";
/// Pages, names and attributes.
const ALL: &str = "3";

/// Those of the wanted that can be had in such a place, with a note on those that cannot.
pub(crate) fn possible(wanted: &[Cache], place: Place, record: &mut Record) -> Vec<Cache> {
    let reason = match place {
        Place::Memory => Some("the directory is in memory; name a --dir on a disk"),
        _ if File::options().write(true).open(DROP).is_err() => {
            Some("dropping the system's caches is for root")
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

/// What was written in a file system is brought to the device; then memory is made as it is to be.
pub(crate) fn settle(directory: &Path, cache: Cache) -> Result<(), Error> {
    let directory = File::open(directory).doing("cannot open the directory")?;
    syncfs(&directory).doing("cannot write back what was written")?;
    match cache {
        Cache::Cold => std::fs::write(DROP, ALL).doing("cannot drop the system's caches"),
        Cache::Warm => Ok(()),
    }
}

/// The data of a tree, or of a file, goes out of memory, where it is on the device.
pub(crate) fn evict(tree: &Path) -> Result<(), Error> {
    let doing = || format!("cannot get {} out of memory", tree.display());
    // A copy that failed may have left nothing; FIFOs and devices have no data.
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

/// Makes sure that so many bytes of the free memory are there, or all that is free.
///
/// A virtual machine that reports its free pages to its host (`page_reporting`, within seconds) has to ask for them
/// again, a page at a time: that made one and the same copy of 4 GiB in memory take 1.8 s or 4.6 s.
pub(crate) fn back(bytes: u64) -> Result<(), Error> {
    let system = rustix::system::sysinfo();
    // More would crowd out what is to stay in the caches.
    let bytes = bytes.min(system.freeram * u64::from(system.mem_unit) / 10 * 9);
    let doing = "cannot fill free memory";
    // Not memory of this process, whose peak would be counted for the commands that it starts (getrusage(2)).
    let file = memfd_create("laio-bench", MemfdFlags::CLOEXEC).doing(doing)?;
    let (mut file, piece) = (File::from(file), vec![0; 1 << 20]);
    for _ in 0..bytes.div_ceil(piece.len() as u64) {
        file.write_all(&piece).doing(doing)?;
    }
    Ok(())
}
