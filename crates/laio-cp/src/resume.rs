//! Going on with a copy that was interrupted, however it was.
//!
//! A file gets its name when it is complete and has its attributes, its times last of them; until then it has
//! a temporary name, made of what its source is. So a second run knows
//!
//! - what is whole: it has its name, and the size and time of its source ([`check`]);
//! - what was begun: it has the temporary name that this run would give it ([`partial`]); and
//! - what is left of sources that have changed since: temporary names that nobody uses ([`leftovers`]).
//!
//! Whoever is at work on a temporary file holds a lock (`flock`) on it, which ends with the process.

mod leftovers;
mod partial;
mod whole;

pub(crate) use leftovers::remove as remove_leftovers;
pub(crate) use partial::{Lock, open_target};
pub(crate) use whole::check;

use crate::options::Options;
use laio_rt::fs::Metadata;

/// What is resumable has temporary names, and the times of its sources.
pub(crate) fn apply_implied_options(options: &mut Options) {
    if options.resume {
        options.atomic = true;
        options.preserve.timestamps = true;
    }
}

/// Whether a source has changed in nothing for so long before `since`, by the clocks of the two file systems,
/// that no change may hide behind the precision of its times.
fn was_stable_before(source: &Metadata, since: i64) -> bool {
    /// Of the coarsest file systems (FAT), and then some.
    const PRECISION: i64 = 2;
    let changed = source.changed().max(source.modified());
    since - changed.seconds > PRECISION
}
