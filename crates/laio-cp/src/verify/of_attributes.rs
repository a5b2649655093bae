//! Whether a copy has got the attributes that it was to have.

use crate::attributes::{self, Names, Object};
use crate::directory::{Directory, Entry, Found};
use crate::outcome::{Failure, count};
use crate::quote::quote;
use crate::worker::Worker;
use laio::ops::{ReadLink, StatFile, StatPath};
use laio_rt::fs::{Metadata, Timestamp};
use std::io;
use std::path::PathBuf;

/// What is to be the same.
struct Pair<'a> {
    worker: &'a Worker,
    source: &'a Metadata,
    origin: Option<(&'a Names, &'a Object)>,
    target: &'a Object,
}

/// Those of a file; what differs is told.
pub(crate) async fn file_attributes(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    origin: (&Names, &Object),
    target: &Object,
) {
    if worker.options().verify {
        let pair = Pair {
            worker,
            source,
            origin: Some(origin),
            target,
        };
        compare(&pair, &|| entry.target_path());
    }
}

/// Those of a directory that is complete.
pub(crate) fn directory_attributes(
    worker: &Worker,
    directory: &Directory,
    found: &Found,
    source: Option<&Object>,
    target: &Object,
) {
    if worker.options().verify {
        let pair = Pair {
            worker,
            source: &found.source,
            origin: source.map(|source| (&found.names, source)),
            target,
        };
        compare(&pair, &|| directory.target_path());
    }
}

/// A symbolic link, FIFO, socket or device: also whether it is the same thing.
pub(crate) async fn named(worker: &Worker, entry: &Entry, source: &Metadata) {
    if !worker.options().verify {
        return;
    }
    let target = Object::Named(entry.target());
    let same = match status(worker, &target) {
        Err(_) => false,
        Ok(there) if source.is_symlink() => {
            there.is_symlink() && say_the_same(worker, entry, source)
        }
        Ok(there) => {
            there.file_type() == source.file_type()
                && there.represented_device() == source.represented_device()
        }
    };
    if !same {
        count(&worker.counters().unverified);
        let (from, to) = (entry.quoted_source(), entry.quoted_target());
        let failure = Failure::because(format!("{to} is not what {from} is"));
        return worker.shared.fail(&failure);
    }
    count(&worker.counters().verified);
    let origin = Object::Named(entry.source());
    let Ok(names) = attributes::names(worker, &origin) else {
        return;
    };
    let pair = Pair {
        worker,
        source,
        origin: Some((&names, &origin)),
        target: &target,
    };
    compare(&pair, &|| entry.target_path());
}

/// Whether two symbolic links lead to the same.
pub(crate) fn say_the_same(worker: &Worker, entry: &Entry, source: &Metadata) -> bool {
    let text = |name| worker.plainly(ReadLink::new(name)).ok();
    let texts = (text(entry.source()), text(entry.target()));
    let options = worker.options();
    if options.preserve.timestamps && !options.dry_run {
        // That it has been read is not to be seen. If it cannot be set, that has been told already.
        let _ = Object::Named(entry.target()).set_times(worker, source);
    }
    matches!(texts, (Some(text), Some(there)) if text == there)
}

fn compare(pair: &Pair<'_>, path: &dyn Fn() -> PathBuf) {
    let worker = pair.worker;
    let failure = match status(worker, pair.target) {
        Ok(there) => match difference(pair, &there) {
            None => return,
            Some(what) => Failure::because(format!(
                "{} has not the attributes of its source: {what}",
                quote(path())
            )),
        },
        Err(error) => Failure::of(
            error,
            format!("cannot verify attributes of {}", quote(path())),
        ),
    };
    count(&worker.counters().unverified);
    worker.shared.fail(&failure);
}

/// The first that differs, for people. What could not be set, and need not, has been told already.
fn difference(pair: &Pair<'_>, there: &Metadata) -> Option<String> {
    let preserve = pair.worker.options().preserve;
    let source = pair.source;
    let owner = |status: &Metadata| (status.user(), status.group());
    let is_owned = owner(source) == owner(there);
    if preserve.ownership && pair.worker.shared.process.is_privileged() && !is_owned {
        let ((user, group), (is_user, is_group)) = (owner(source), owner(there));
        return Some(format!("owner {is_user}:{is_group}, not {user}:{group}"));
    }
    // Who may not give a file away does not give away its special bits.
    let bits = if is_owned { 0o7777 } else { 0o777 };
    let (wanted, mode) = (source.mode() & bits, there.mode() & bits);
    if preserve.mode && !source.is_symlink() && wanted != mode {
        return Some(format!("mode {mode:04o}, not {wanted:04o}"));
    }
    let (wanted, time) = (source.modified(), there.modified());
    if preserve.timestamps && !is_same_time(wanted, time) {
        return Some(format!("changed at {time:?}, not {wanted:?}"));
    }
    let (names, origin) = pair.origin?;
    names.differing(pair.worker, origin, pair.target)
}

/// As far as the destination keeps times.
fn is_same_time(wanted: Timestamp, there: Timestamp) -> bool {
    wanted == there || is_coarser(wanted, there)
}

/// Whether a file system that keeps times less precisely would have made one of the other.
pub(crate) fn is_coarser(wanted: Timestamp, there: Timestamp) -> bool {
    let round = [1_000_000_000, 1_000_000, 1_000, 100];
    let rounded = |by: &u32| there.nanoseconds == wanted.nanoseconds / by * by;
    let same_second = there.seconds == wanted.seconds && round.iter().any(rounded);
    // FAT keeps even seconds, and some round up.
    let even = there.nanoseconds == 0 && there.seconds.abs_diff(wanted.seconds) <= 1;
    same_second || even
}

fn status(worker: &Worker, object: &Object) -> io::Result<Metadata> {
    match object {
        Object::Open(file) => worker.plainly(StatFile::new(file.clone())),
        Object::Named(name) => worker.plainly(StatPath::new(name.clone()).no_follow()),
    }
}
