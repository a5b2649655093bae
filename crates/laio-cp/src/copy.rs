//! Copies one [`Entry`]: opens its directories ([`copy`]), examines source and destination
//! ([`copy_unless_skipped`]), announces the copy ([`create_copy`]), links it to another name of the
//! file ([`make_unless_linked`]) or copies its content ([`copy_content`]), and counts the result
//! ([`count_result`]).

use crate::digest::Digest;
use crate::options::{Backup, Make};
use crate::outcome::{Copied, Done, Failure, FileResult, count, failure};
use crate::rules::conflict::{self, Resolution};
use crate::rules::links::{DeferredLink, LinkAction, has_other_names, names_to_expect};
use crate::rules::source::{self, OpenedSource};
use crate::rules::{link, regular, special, verify};
use crate::schedule::walk;
use crate::schedule::worker::Worker;
use crate::session::Session;
use crate::sink::Sink;
use crate::tree::{Entry, identity};
use laio_rt::fs::{FileType, Metadata};

/// Copies a file, and counts the result.
pub(crate) async fn copy(worker: &Worker, entry: &mut Entry) {
    if let Err(failure) = walk::open_entry(worker, entry) {
        return count_result(worker, entry, Err(&failure));
    }
    if !entry.has_parents() {
        return copy_here(worker, entry).await;
    }
    match walk::enter_parents(worker, entry).await {
        Ok(inner) => {
            copy_here(worker, &inner).await;
            walk::end_entry(worker, &inner.directory);
        }
        Err(failure) => count_result(worker, entry, Err(&failure)),
    }
}

async fn copy_here(worker: &Worker, entry: &Entry) {
    match copy_unless_skipped(worker, entry).await {
        Ok(Some(copied)) => count_result(worker, entry, Ok(&copied)),
        // A pushed directory, a deferred link or a recorded file has no result yet; it has a pending
        // count of its own.
        Ok(None) => {}
        Err(failure) => count_result(worker, entry, Err(&failure)),
    }
}

async fn copy_unless_skipped(worker: &Worker, entry: &Entry) -> Result<Option<Copied>, Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let options = &session.options;
    // Nothing can exist at the destination, so skip `stat` and take the status from the open file.
    let needs_no_stat = entry.kind == FileType::Regular
        && entry.directory.is_new
        && entry.argument.is_none()
        && options.make == Make::Copies
        && matches!(worker.schedule.sink, Sink::Copy);
    if needs_no_stat {
        return create_copy(worker, entry, None, Resolution::Free).await;
    }
    let status = source::stat(io, entry, session.follows(entry)).await?;
    if status.is_dir() {
        if session.options.recursive && session.seen_targets.is_repeated_source(entry, &status) {
            conflict::examine_directory(io, session, entry, &status).await?;
            return Ok(Some(skip_repeated(session, entry, "directory")));
        }
        return push_directory(worker, entry).map(|()| None);
    }
    if options.backup == Backup::None && session.seen_targets.is_repeated_source(entry, &status) {
        return Ok(Some(skip_repeated(session, entry, "file")));
    }
    if let Sink::Plan(recorder) = &worker.schedule.sink {
        let recorded = recorder.record(io, session, entry, &status);
        return recorded.await.map(|()| None);
    }
    let nothing_there = entry.directory.is_new && entry.argument.is_none();
    let mut resolution = if nothing_there || entry.has_no_target_directory() {
        Resolution::Free
    } else {
        conflict::examine(io, session, entry, &status).await?
    };
    if let Sink::Copy = worker.schedule.sink {
        let made = conflict::make_way(io, session, entry, &status, resolution);
        resolution = made.await?;
    }
    if let Resolution::UpToDate(digest) = resolution {
        return keep_existing(worker, entry, &status, digest).await;
    }
    if resolution == Resolution::Skip {
        return Ok(Some(skip(session, entry, None)));
    }
    create_copy(worker, entry, Some(&status), resolution).await
}

/// An earlier argument had the same source.
fn skip_repeated(session: &Session, entry: &Entry, kind: &str) -> Copied {
    let name = entry.quoted_source();
    let warning = format!("warning: source {kind} {name} specified more than once");
    session.console.warn(warning);
    Copied::without_data(Done::Skipped)
}

/// The existing destination is kept; further hard links of the source are linked to it.
async fn keep_existing(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    digest: Option<Digest>,
) -> Result<Option<Copied>, Failure> {
    let session = &*worker.session;
    let options = &session.options;
    if options.make == Make::Copies && has_other_names(session, entry, status) && !options.dry_run {
        let resolution = Resolution::Existing(Box::new(*status));
        match register_name(worker, entry, status, &resolution).await? {
            Name::First => make_deferred_links(worker, entry, status, digest).await,
            Name::Other(linked) => return Ok(linked),
        }
    }
    Ok(Some(skip(session, entry, digest)))
}

/// The destination is kept.
fn skip(session: &Session, entry: &Entry, digest: Option<Digest>) -> Copied {
    if session.options.debug {
        let name = entry.quoted_target();
        session.console.print(&format!("skipped {name}"));
    }
    Copied {
        digest,
        ..Copied::without_data(Done::Skipped)
    }
}

/// A name of a file that has several.
enum Name {
    /// The first name: its data is copied.
    First,
    /// The name was linked to the first copy; `None` if it will be, when that is finished.
    Other(Option<Copied>),
}

async fn register_name(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    resolution: &Resolution,
) -> Result<Name, Failure> {
    let (links, names) = (
        &worker.schedule.links,
        names_to_expect(&worker.session, status),
    );
    match links.register(identity(status), names, entry, resolution) {
        LinkAction::CopyData => Ok(Name::First),
        LinkAction::Deferred => Ok(Name::Other(None)),
        LinkAction::LinkTo(first) => {
            let linked =
                link::to_first_copy(&worker.io, &worker.session, entry, &first, resolution).await?;
            Ok(Name::Other(Some(linked)))
        }
    }
}

/// Pushes a directory as a work item of its own.
fn push_directory(worker: &Worker, entry: &Entry) -> Result<(), Failure> {
    if !worker.session.options.recursive && !worker.session.is_listed {
        let name = entry.quoted_source();
        return Err(failure!("-r not specified; omitting directory {name}"));
    }
    worker.push_directory(Entry {
        kind: FileType::Directory,
        ..entry.without_handles()
    });
    Ok(())
}

/// Creates the copy, after conflicts are resolved.
async fn create_copy(
    worker: &Worker,
    entry: &Entry,
    status: Option<&Metadata>,
    resolution: Resolution,
) -> Result<Option<Copied>, Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let options = &session.options;
    let announcement = announcement(session, entry, &resolution);
    if !options.debug {
        print_line(session, announcement.as_deref());
    }
    if options.dry_run {
        return Ok(Some(Copied::without_data(Done::Created)));
    }
    let result = make_unless_linked(worker, entry, status, &resolution).await;
    if options.debug {
        let detail = match &result {
            Ok(Some(copied)) => copied.detail.as_ref(),
            _ => None,
        };
        let lines = match (announcement, detail) {
            (Some(line), Some(detail)) => Some(format!("{line}\n{detail}")),
            (line, _) => line,
        };
        print_line(session, lines.as_deref());
    }
    if let (Err(failure), Resolution::BackedUp(backup)) = (&result, &resolution)
        && !failure.only_attributes_failed()
    {
        conflict::restore_backup(io, session, entry, backup).await;
    }
    result
}

async fn make_unless_linked(
    worker: &Worker,
    entry: &Entry,
    status: Option<&Metadata>,
    resolution: &Resolution,
) -> Result<Option<Copied>, Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    match session.options.make {
        Make::HardLinks => {
            let made = link::to_source(io, session, entry, resolution).await;
            return made.map(Some);
        }
        Make::SymbolicLinks => {
            let made = link::symlink_to_source(io, session, entry, status, resolution).await;
            return made.map(Some);
        }
        Make::Copies => {}
    }
    let opened = match status {
        Some(status) if !reads_data(session, status) => None,
        expected => Some(source::open(io, session, entry, expected).await?),
    };
    let status = match (&opened, status) {
        (Some(opened), _) => opened.status,
        (None, Some(status)) => *status,
        (None, None) => unreachable!("without a status the file was opened"),
    };
    if !has_other_names(session, entry, &status) {
        let copied = copy_content(worker, entry, opened, &status, resolution).await;
        return copied.map(Some);
    }
    if let Name::Other(linked) = register_name(worker, entry, &status, resolution).await? {
        return Ok(linked);
    }
    let result = copy_content(worker, entry, opened, &status, resolution).await;
    match &result {
        Ok(copied) => make_deferred_links(worker, entry, &status, copied.digest).await,
        Err(_) => {
            for mut deferred in worker.schedule.links.first_failed(identity(&status)) {
                if let Err(failure) = walk::open_entry(worker, &mut deferred.entry) {
                    finish_deferred(worker, deferred, Err(failure)).await;
                    continue;
                }
                // The first of them takes over the role of the failed one.
                let (entry, resolution) = (&deferred.entry, &deferred.resolution);
                let again = make_unless_linked(worker, entry, Some(&status), resolution);
                let result = Box::pin(again).await;
                finish_deferred(worker, deferred, result).await;
            }
        }
    }
    result.map(Some)
}

/// Links the names to the first copy that have waited for it.
async fn make_deferred_links(
    worker: &Worker,
    entry: &Entry,
    status: &Metadata,
    digest: Option<Digest>,
) {
    let links = &worker.schedule.links;
    let (first, all_deferred) = links.first_copied(identity(status), entry, digest);
    for mut deferred in all_deferred {
        let result = match walk::open_entry(worker, &mut deferred.entry) {
            Ok(()) => {
                let (entry, resolution) = (&deferred.entry, &deferred.resolution);
                link::to_first_copy(&worker.io, &worker.session, entry, &first, resolution).await
            }
            Err(failure) => Err(failure),
        };
        finish_deferred(worker, deferred, result.map(Some)).await;
    }
}

async fn finish_deferred(
    worker: &Worker,
    deferred: DeferredLink,
    result: Result<Option<Copied>, Failure>,
) {
    match result {
        Ok(Some(copied)) => count_result(worker, &deferred.entry, Ok(&copied)),
        Ok(None) => {}
        Err(failure) => {
            if let (Resolution::BackedUp(backup), Some(_)) =
                (&deferred.resolution, &deferred.entry.handles)
                && !failure.only_attributes_failed()
            {
                conflict::restore_backup(&worker.io, &worker.session, &deferred.entry, backup)
                    .await;
            }
            count_result(worker, &deferred.entry, Err(&failure));
        }
    }
    walk::end_entry(worker, &deferred.entry.directory);
}

/// Whether the file's data is copied, as opposed to creating a file of the same type.
fn reads_data(session: &Session, status: &Metadata) -> bool {
    status.is_file() || (session.options.contents_of_special && !status.is_symlink())
}

async fn copy_content(
    worker: &Worker,
    entry: &Entry,
    opened: Option<OpenedSource>,
    status: &Metadata,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let copied = match opened {
        Some(opened) => {
            return regular::copy(io, session, entry, opened, resolution).await;
        }
        None if status.is_symlink() => {
            special::symlink(io, session, entry, status, resolution).await?
        }
        None => special::node(io, session, entry, status, resolution).await?,
    };
    verify::verify_special(io, session, entry, status).await;
    Ok(copied)
}

/// The line `'a' -> 'b'`, if `--verbose` or `--dry-run` asks for it.
fn announcement(session: &Session, entry: &Entry, resolution: &Resolution) -> Option<String> {
    let options = &session.options;
    if !options.verbose && !options.dry_run {
        return None;
    }
    let mut line = format!("{} -> {}", entry.quoted_source(), entry.quoted_target());
    if let Resolution::BackedUp(backup) = resolution {
        let backup = crate::quote::quote(entry.directory.target_path().join(backup));
        line.push_str(&format!(" (backup: {backup})"));
    }
    Some(line)
}

fn print_line(session: &Session, line: Option<&str>) {
    if let Some(line) = line {
        session.console.print(line);
    }
}

/// Counts the result of a file, prints a failure, and calls the observer.
fn count_result(worker: &Worker, entry: &Entry, result: Result<&Copied, &Failure>) {
    let (session, counters) = (&worker.session, &worker.io.counters());
    match result {
        Ok(copied) => {
            match copied.done {
                Done::ReadWrite => count(&counters.by_memory),
                Done::CopyRange => count(&counters.by_range),
                Done::Reflink => count(&counters.by_reflink),
                Done::Linked => count(&counters.linked),
                Done::Skipped => count(&counters.skipped),
                Done::Created => {}
            }
            match (copied.done, entry.kind) {
                (Done::Linked | Done::Skipped, _) => {}
                (Done::Created, kind) if kind != FileType::Regular && entry.argument.is_none() => {
                    count(&counters.others);
                }
                _ => count(&counters.files),
            }
            if let (Some(manifest), Some(digest)) = (&session.manifest, &copied.digest) {
                manifest.add(digest, &entry.target_path());
            }
            // With `--resume`, a skipped file may be a copy that an earlier run has made.
            if copied.done != Done::Skipped || session.options.resume {
                session.seen_targets.insert(entry);
            }
        }
        Err(failure) => {
            session.report_failure(failure);
            if !failure.only_attributes_failed() {
                session.record_lost(entry);
            }
        }
    }
    if let Some(observer) = &worker.session.options.observer {
        let (source, target) = (entry.source_path(), entry.target_path());
        observer.done(&FileResult {
            source: &source,
            target: &target,
            kind: entry.kind,
            bytes: result.map_or(0, |copied| copied.bytes),
            digest: result.ok().and_then(|copied| copied.digest),
            result: result.map(|copied| copied.done),
        });
    }
}
