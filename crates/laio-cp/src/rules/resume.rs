//! Continues an interrupted copy.
//!
//! A file has a temporary name, derived from the identity of its source, until its data and
//! attributes are complete; its times are set last. A second run therefore recognizes
//!
//! - complete files: final name, and size and time of the source ([`check`]);
//! - partial files: the temporary name that this run would choose ([`partial`]); and
//! - leftovers of sources that have changed: temporary names that no copy uses ([`leftovers`]).
//!
//! The process that writes a temporary file holds a lock on it (`flock`), which the kernel releases
//! when the process ends.

mod leftovers;
mod partial;
mod whole;

pub(crate) use leftovers::remove as remove_leftovers;
pub(crate) use partial::{Lock, open_target};
pub(crate) use whole::check;

use crate::options::Options;

/// Sets the options that `--resume` implies: temporary names, and the times of the sources.
pub(crate) fn apply_implied_options(options: &mut Options) {
    if options.resume {
        options.atomic = true;
        options.preserve.timestamps = true;
    }
}
