//! The sources and destinations of earlier arguments.

use super::directory::Entry;
use super::identity::{Identity, identity};
use crate::lock::lock;
use laio_rt::fs::Metadata;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sources and destinations that arguments have used, recorded only if two destinations
/// overlap: a later argument must not overwrite the copy of an earlier one.
#[derive(Debug, Default)]
pub(crate) struct SeenTargets {
    has_duplicates: AtomicBool,
    seen: Mutex<Seen>,
}

/// The used sources and destinations.
#[derive(Debug, Default)]
struct Seen {
    sources: Vec<(Identity, PathBuf)>,
    targets: HashSet<OsString>,
}

impl SeenTargets {
    pub(crate) fn look_for_duplicates(&self, pairs: &[(OsString, OsString)], are_listed: bool) {
        // One destination may also be inside another. In a list that is normal: it names the
        // contents of its directories.
        let mut targets: Vec<_> = pairs.iter().map(|(_, target)| Path::new(target)).collect();
        targets.sort_unstable();
        let clash = |two: &[&Path]| two[0] == two[1] || (!are_listed && two[1].starts_with(two[0]));
        // The contents of `directory/.` are merged with the other copies.
        let is_all = |target: &&Path| target.file_name().is_none();
        let is_among = !are_listed && targets.len() > 1 && targets.iter().any(is_all);
        let duplicates = is_among || targets.windows(2).any(clash);
        self.has_duplicates.store(duplicates, Ordering::Relaxed);
    }

    /// Whether destinations overlap, so that arguments must be copied one after the other.
    pub(crate) fn has_duplicates(&self) -> bool {
        self.has_duplicates.load(Ordering::Relaxed)
    }

    /// Whether a source was an argument before; records it.
    pub(crate) fn is_repeated_source(&self, entry: &Entry, status: &Metadata) -> bool {
        if !self.has_duplicates() || entry.argument.is_none() {
            return false;
        }
        let (identity, path) = (identity(status), entry.source_path());
        let mut seen = lock(&self.seen);
        // Two hard links of one file are two sources.
        let same =
            |(known, other): &(Identity, PathBuf)| *known == identity && is_same_name(other, &path);
        let repeated = seen.sources.iter().any(same);
        seen.sources.push((identity, path));
        repeated
    }

    /// Records the destination of an argument.
    pub(crate) fn insert(&self, entry: &Entry) {
        if self.has_duplicates() && entry.argument.is_some() {
            let mut seen = lock(&self.seen);
            seen.targets.insert(entry.new_name().to_owned());
        }
    }

    /// Whether an earlier argument has this destination.
    pub(crate) fn contains(&self, entry: &Entry) -> bool {
        self.has_duplicates() && entry.argument.is_some() && {
            let seen = lock(&self.seen);
            seen.targets.contains(entry.new_name())
        }
    }
}

/// Whether two paths name the same entry of the same directory.
fn is_same_name(one: &Path, other: &Path) -> bool {
    let split = |path: &Path| {
        let path = PathBuf::from(without_trailing_slashes(path.as_os_str()));
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = rustix::fs::stat(above.unwrap_or(Path::new("."))).ok();
        (
            above.map(|above| (above.st_dev, above.st_ino)),
            path.file_name().map(OsStr::to_owned),
        )
    };
    split(one) == split(other)
}

pub(crate) fn without_trailing_slashes(path: &OsStr) -> OsString {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/');
    OsString::from_vec(bytes[..end.map_or(bytes.len().min(1), |last| last + 1)].to_vec())
}
