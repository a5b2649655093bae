//! Getting what was read out of memory.

use crate::error::{Error, While};
use crate::record::{Cache, Record};
use laio::Place;
use rustix::fs::syncfs;
use std::fs::File;
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
