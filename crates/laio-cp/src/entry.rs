//! A file in a directory, or an argument: what it is, where it goes, and what becomes of it.

use crate::directory::Entry;
use crate::existing::{self, Place};
use crate::links::{Claim, First, Waiting};
use crate::made::identity;
use crate::options::{Backup, Follow, Make};
use crate::outcome::{Done, Failure, Outcome, count};
use crate::pool::Task;
use crate::regular::{self, Opened};
use crate::verify::Digest;
use crate::worker::Worker;
use crate::{data, link, special, verify, walk};
use laio::ops::StatPath;
use laio_rt::fs::{FileType, Metadata};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What was done with a file.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) done: Done,
    pub(crate) bytes: u64,
    pub(crate) detail: Option<data::Detail>,
    pub(crate) digest: Option<Digest>,
}

impl Copied {
    pub(crate) fn without_data(done: Done) -> Copied {
        Copied {
            done,
            bytes: 0,
            detail: None,
            digest: None,
        }
    }
}

/// Copies a file, and accounts for it.
pub(crate) async fn copy(worker: &Worker, entry: &mut Entry) {
    if let Err(error) = worker.hold(entry) {
        let failure = Failure::of(error, walk::lost(entry));
        return account(worker, entry, Err(&failure));
    }
    if !entry.has_parents() || worker.shared.stage.is_planned() {
        return copy_here(worker, entry).await;
    }
    match walk::enter_parents(worker, entry).await {
        Ok(inner) => {
            copy_here(worker, &inner).await;
            worker.end(&inner.directory);
        }
        Err(failure) => account(worker, entry, Err(&failure)),
    }
}

async fn copy_here(worker: &Worker, entry: &Entry) {
    match attempt(worker, entry).await {
        Ok(Some(copied)) => account(worker, entry, Ok(&copied)),
        // Somebody else does.
        Ok(None) => {}
        Err(failure) => account(worker, entry, Err(&failure)),
    }
}

async fn attempt(worker: &Worker, entry: &Entry) -> Result<Option<Copied>, Failure> {
    let options = worker.options();
    // In a new directory nothing is there, and the status comes with the opened file.
    let is_simple = entry.kind == FileType::Regular
        && entry.directory.is_new
        && entry.argument.is_none()
        && options.make == Make::Copies
        && !options.dry_run
        && worker.shared.stage.planner().is_none();
    if is_simple {
        return make(worker, entry, None, Place::New).await;
    }
    let follow = worker.shared.follows(entry.argument.is_some());
    let mut stat = StatPath::new(entry.source());
    if !follow {
        stat = stat.no_follow();
    }
    let status = worker.lazily(stat).await;
    let status = status.map_err(entry.source_failure("cannot stat", ""))?;
    if status.is_dir() {
        if worker.options().recursive && worker.shared.just_made.is_repeated(entry, &status) {
            existing::examine_directory(worker, entry, &status).await?;
            let name = entry.quoted_source();
            let warning = format!("warning: source directory {name} specified more than once");
            worker.shared.console.complain(warning);
            return Ok(Some(Copied::without_data(Done::Skipped)));
        }
        return begin_directory(worker, entry).map(|()| None);
    }
    if options.backup == Backup::None && worker.shared.just_made.is_repeated(entry, &status) {
        let name = entry.quoted_source();
        let warning = format!("warning: source file {name} specified more than once");
        worker.shared.console.complain(warning);
        return Ok(Some(Copied::without_data(Done::Skipped)));
    }
    if let Some(planner) = worker.shared.stage.planner() {
        return planner.note(worker, entry, &status).await.map(|()| None);
    }
    let nothing_there = entry.directory.is_new && entry.argument.is_none();
    let place = match nothing_there || entry.is_nowhere() {
        true => Place::New,
        false => existing::examine(worker, entry, &status).await?,
    };
    if let Place::NotOlder(digest) = place {
        return keep(worker, entry, &status, digest).await;
    }
    if place == Place::Kept {
        if options.debug {
            let name = entry.quoted_target();
            worker.shared.console.tell(&format!("skipped {name}"));
        }
        return Ok(Some(Copied::without_data(Done::Skipped)));
    }
    make(worker, entry, Some(&status), place).await
}

/// What is there stays, in place of a copy: other names of the source become links to it.
async fn keep(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    digest: Option<Digest>,
) -> Result<Option<Copied>, Failure> {
    let options = worker.options();
    if options.make == Make::Copies && has_other_names(worker, entry, status) && !options.dry_run {
        let (file, links) = (identity(status), &worker.shared.links);
        let place = Place::Existing(Box::new(*status));
        match links.claim(file, names_of(worker, status), entry, &place) {
            Claim::Link(first) => {
                return link::to_first(worker, entry, &first, &place)
                    .await
                    .map(Some);
            }
            Claim::Later => return Ok(None),
            Claim::Copy => {
                let (first, waiting) = links.made(file, entry, digest);
                for waiting in waiting {
                    link_waiting(worker, &first, waiting).await;
                }
            }
        }
    }
    if options.debug {
        let name = entry.quoted_target();
        worker.shared.console.tell(&format!("skipped {name}"));
    }
    Ok(Some(Copied {
        digest,
        ..Copied::without_data(Done::Skipped)
    }))
}

/// How many names of a file may be met. A name that is followed is none of those that the file counts.
pub(crate) fn names_of(worker: &Worker, status: &Metadata) -> u32 {
    match worker.options().follow {
        Follow::Never => status.links(),
        _ => u32::MAX,
    }
}

/// A directory is a task of its own.
fn begin_directory(worker: &Worker, entry: &Entry) -> Result<(), Failure> {
    if !worker.options().recursive && !worker.shared.is_listed {
        let name = entry.quoted_source();
        return Err(Failure::because(format!(
            "-r not specified; omitting directory {name}"
        )));
    }
    entry.directory.begin();
    let mut entry = entry.for_later();
    entry.kind = FileType::Directory;
    worker
        .shared
        .pool
        .push(worker.index, std::iter::once(Task::Directory(entry)));
    Ok(())
}

/// Makes the copy; its place is free, or may be overwritten.
async fn make(
    worker: &Worker,
    entry: &Entry,
    status: Option<&Metadata>,
    place: Place,
) -> Result<Option<Copied>, Failure> {
    let options = worker.options();
    let announcement = announcement(worker, entry, &place);
    if !options.debug {
        tell(worker, announcement.as_deref());
    }
    if options.dry_run {
        return Ok(Some(Copied::without_data(Done::Made)));
    }
    let result = make_unless_linked(worker, entry, status, &place).await;
    if options.debug {
        let detail = match &result {
            Ok(Some(copied)) => copied.detail.as_ref(),
            _ => None,
        };
        let lines = match (announcement, detail) {
            (Some(line), Some(detail)) => Some(format!("{line}\n{detail}")),
            (line, _) => line,
        };
        tell(worker, lines.as_deref());
    }
    if let (Err(failure), Place::BackedUp(backup)) = (&result, &place)
        && !failure.is_of_attributes()
    {
        existing::undo_backup(worker, entry, backup).await;
    }
    result
}

async fn make_unless_linked(
    worker: &Worker,
    entry: &Entry,
    status: Option<&Metadata>,
    place: &Place,
) -> Result<Option<Copied>, Failure> {
    let (shared, options) = (&worker.shared, worker.options());
    match options.make {
        Make::HardLinks => return link::to_source(worker, entry, place).await.map(Some),
        Make::SymbolicLinks => {
            let made = link::symbolic(worker, entry, status, place).await;
            return made.map(Some);
        }
        Make::Copies => {}
    }
    let opened = match status {
        Some(status) if !reads_data(worker, status) => None,
        expected => Some(regular::open(worker, entry, expected).await?),
    };
    let status = match (&opened, status) {
        (Some(opened), _) => opened.status,
        (None, Some(status)) => *status,
        (None, None) => unreachable!("without a status the file was opened"),
    };
    if !has_other_names(worker, entry, &status) {
        return content(worker, entry, opened, &status, place)
            .await
            .map(Some);
    }
    let file = identity(&status);
    match shared
        .links
        .claim(file, names_of(worker, &status), entry, place)
    {
        Claim::Link(first) => return link::to_first(worker, entry, &first, place).await.map(Some),
        Claim::Later => return Ok(None),
        Claim::Copy => {}
    }
    let result = content(worker, entry, opened, &status, place).await;
    match &result {
        Ok(copied) => {
            let (first, waiting) = shared.links.made(file, entry, copied.digest);
            for waiting in waiting {
                link_waiting(worker, &first, waiting).await;
            }
        }
        Err(_) => {
            for mut waiting in shared.links.failed(file) {
                if let Err(failure) = hold_waiting(worker, &mut waiting) {
                    end_waiting(worker, waiting, Err(failure)).await;
                    continue;
                }
                // The first of them is now what this one was to be.
                let again =
                    make_unless_linked(worker, &waiting.entry, Some(&status), &waiting.place);
                let result = Box::pin(again).await;
                end_waiting(worker, waiting, result).await;
            }
        }
    }
    result.map(Some)
}

async fn link_waiting(worker: &Worker, first: &Arc<First>, mut waiting: Waiting) {
    if let Err(failure) = hold_waiting(worker, &mut waiting) {
        return end_waiting(worker, waiting, Err(failure)).await;
    }
    let linked = link::to_first(worker, &waiting.entry, first, &waiting.place).await;
    end_waiting(worker, waiting, linked.map(Some)).await;
}

fn hold_waiting(worker: &Worker, waiting: &mut Waiting) -> Result<(), Failure> {
    let held = worker.hold(&mut waiting.entry);
    held.map_err(|error| Failure::of(error, walk::lost(&waiting.entry)))
}

async fn end_waiting(worker: &Worker, waiting: Waiting, result: Result<Option<Copied>, Failure>) {
    match result {
        Ok(Some(copied)) => account(worker, &waiting.entry, Ok(&copied)),
        Ok(None) => {}
        Err(failure) => {
            if let (Place::BackedUp(backup), Some(_)) = (&waiting.place, &waiting.entry.held)
                && !failure.is_of_attributes()
            {
                existing::undo_backup(worker, &waiting.entry, backup).await;
            }
            account(worker, &waiting.entry, Err(&failure));
        }
    }
    worker.end(&waiting.entry.directory);
}

/// Whether the file is opened and read, not made anew by its kind.
fn reads_data(worker: &Worker, status: &Metadata) -> bool {
    status.is_file() || (worker.options().contents_of_special && !status.is_symlink())
}

pub(crate) fn has_other_names(worker: &Worker, entry: &Entry, status: &Metadata) -> bool {
    if worker.shared.stage.is_planned() {
        // The planner has seen all of them: what is not the first is made in the end.
        return false;
    }
    let followed = worker.shared.follows(entry.argument.is_some());
    worker.options().preserve.links && (status.links() > 1 || followed)
}

async fn content(
    worker: &Worker,
    entry: &Entry,
    opened: Option<Opened>,
    status: &Metadata,
    place: &Place,
) -> Result<Copied, Failure> {
    let copied = match opened {
        Some(opened) => return regular::copy(worker, entry, opened, place).await,
        None if status.is_symlink() => special::symlink(worker, entry, status, place).await?,
        None => special::node(worker, entry, status, place).await?,
    };
    verify::named(worker, entry, status).await;
    Ok(copied)
}

/// `'a' -> 'b'`, if it is wanted.
fn announcement(worker: &Worker, entry: &Entry, place: &Place) -> Option<String> {
    let options = worker.options();
    if !options.verbose && !options.dry_run {
        return None;
    }
    let mut line = format!("{} -> {}", entry.quoted_source(), entry.quoted_target());
    if let Place::BackedUp(backup) = place {
        let backup = crate::quote::quote(entry.directory.target_path().join(backup));
        line.push_str(&format!(" (backup: {backup})"));
    }
    Some(line)
}

fn tell(worker: &Worker, line: Option<&str>) {
    if let Some(line) = line {
        worker.shared.console.tell(line);
    }
}

/// Counts what became of a file, reports a failure, and tells the observer.
fn account(worker: &Worker, entry: &Entry, result: Result<&Copied, &Failure>) {
    let (shared, counters) = (&worker.shared, &worker.counters());
    match result {
        Ok(copied) => {
            match copied.done {
                Done::ReadWrite => count(&counters.by_memory),
                Done::CopyRange => count(&counters.by_range),
                Done::Reflink => count(&counters.by_reflink),
                Done::Linked => count(&counters.linked),
                Done::Skipped => count(&counters.skipped),
                Done::Made => {}
            }
            match (copied.done, entry.kind) {
                (Done::Linked | Done::Skipped, _) => {}
                (Done::Made, kind) if kind != FileType::Regular && entry.argument.is_none() => {
                    count(&counters.others);
                }
                _ => count(&counters.files),
            }
            if let (Some(manifest), Some(digest)) = (&shared.manifest, &copied.digest) {
                manifest.add(digest, &entry.target_path());
            }
            shared.just_made.insert(entry);
        }
        Err(failure) => {
            shared.fail(failure);
            if !failure.is_of_attributes() {
                shared.stage.lose(entry);
            }
        }
    }
    if let Some(observer) = &worker.options().observer {
        let (source, destination) = (entry.source_path(), entry.target_path());
        observer.done(&Outcome {
            source: &source,
            destination: &destination,
            kind: entry.kind,
            bytes: result.map_or(0, |copied| copied.bytes),
            digest: result.ok().and_then(|copied| copied.digest),
            result: result.map(|copied| copied.done),
        });
    }
}

/// Adds bytes to those that have been copied.
pub(crate) fn add_bytes(worker: &Worker, bytes: usize) {
    worker
        .counters()
        .bytes
        .fetch_add(bytes as u64, Ordering::Relaxed);
}
