//! What is there already under the name of a copy, and the rules of `cp` about it.

use crate::backup;
use crate::directory::Entry;
use crate::options::{Backup, Existing, Follow, Make, Options};
use crate::outcome::Failure;
use crate::resume;
use crate::same::{self, Same};
use crate::verify::Digest;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Access, Rename, StatPath, Unlink};
use laio_rt::fs::{Metadata, Timestamp};
use std::ffi::OsString;
use std::io;

/// Where a copy goes.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Nothing is there.
    New,
    /// This is there, and is to be overwritten.
    Existing(Box<Metadata>),
    /// What was there has this name now.
    BackedUp(OsString),
    /// What is there stays.
    Kept,
    /// What is there stays, as good as a copy (of these contents, if that is known): other names of the
    /// source may be linked to it.
    NotOlder(Option<Digest>),
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        matches!(
            (self, other),
            (Place::New, Place::New)
                | (Place::Kept, Place::Kept)
                | (Place::NotOlder(_), Place::NotOlder(_))
        )
    }
}

/// Applies the rules to the destination of a directory.
pub(crate) async fn examine_directory(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
) -> Result<Place, Failure> {
    let options = worker.options();
    let there = match look(worker, entry, !options.keep_directory_symlink).await? {
        There::Nothing => return Ok(Place::New),
        There::File(there) | There::EndlessLink(there) => there,
    };
    if overwrites(options) && same::check(worker, entry, source, &there).await == Same::Refused {
        return Err(same_file(entry));
    }
    if !there.is_dir() {
        return Err(Failure::because(format!(
            "cannot overwrite non-directory {} with directory {}",
            entry.quoted_target(),
            entry.quoted_source()
        )));
    }
    Ok(Place::Existing(Box::new(there)))
}

/// Looks for a directory that an argument's name leads through.
pub(crate) async fn examine_parent(worker: &Worker, part: &Entry) -> Result<Place, Failure> {
    if part.is_nowhere() {
        return Ok(Place::New);
    }
    match look(worker, part, false).await? {
        There::Nothing => Ok(Place::New),
        There::File(there) if there.is_dir() => Ok(Place::Existing(Box::new(there))),
        There::File(_) | There::EndlessLink(_) => {
            let name = part.quoted_target();
            Err(Failure::because(format!(
                "{name} exists but is not a directory"
            )))
        }
    }
}

/// Applies the rules to the destination of any other file.
pub(crate) async fn examine(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
) -> Result<Place, Failure> {
    let options = worker.options();
    let there = match look(worker, entry, looks_at_link(options, source)).await? {
        There::Nothing => return Ok(Place::New),
        There::File(there) => there,
        There::EndlessLink(_) if options.existing == Existing::Skip => return Ok(Place::Kept),
        // Replaced by force, once the source is known to be there to be read.
        There::EndlessLink(link) => return Ok(Place::Existing(Box::new(link))),
    };
    if overwrites(options) {
        match same::check(worker, entry, source, &there).await {
            Same::Refused => return Err(same_file(entry)),
            Same::Done => return Ok(Place::Kept),
            Same::Fine => {}
        }
    }
    if options.update && !is_older(options, &there, source) {
        return Ok(Place::NotOlder(None));
    }
    if options.resume
        && let Some(whole) = resume::check(worker, entry, source, &there).await?
    {
        return Ok(Place::NotOlder(whole.digest));
    }
    match options.existing {
        Existing::Replace => {}
        Existing::Skip => return Ok(Place::Kept),
        Existing::Fail => {
            let name = entry.quoted_target();
            return Err(Failure::because(format!("not replacing {name}")));
        }
        Existing::Ask => {
            if !may_overwrite(worker, entry, &there).await {
                return Ok(Place::Kept);
            }
        }
    }
    if there.is_dir() {
        let name = entry.quoted_target();
        return Err(Failure::because(format!(
            "cannot overwrite directory {name} with non-directory"
        )));
    }
    if worker.shared.just_made.is_needed() && !there.is_symlink() {
        let link = worker
            .write(StatPath::new(entry.target()).no_follow())
            .await;
        if link.is_ok_and(|link| is_just_made_link(worker, &link)) {
            return Err(through_just_made_link(entry));
        }
    }
    if options.backup != Backup::Numbered && worker.shared.just_made.has(entry) {
        return Err(Failure::because(format!(
            "will not overwrite just-created {} with {}",
            entry.quoted_target(),
            entry.quoted_source()
        )));
    }
    if options.dry_run || worker.shared.stage.planner().is_some() {
        return Ok(Place::Existing(Box::new(there)));
    }
    clear(worker, entry, source, there).await
}

/// Whether another argument has made this symbolic link.
pub(crate) fn is_just_made_link(worker: &Worker, link: &Metadata) -> bool {
    link.is_symlink() && worker.shared.made.contains(link)
}

pub(crate) fn through_just_made_link(entry: &Entry) -> Failure {
    Failure::because(format!(
        "will not copy {} through just-created symlink {}",
        entry.quoted_source(),
        entry.quoted_target()
    ))
}

/// Moves out of the way, or removes, what must not be written to.
async fn clear(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    there: Metadata,
) -> Result<Place, Failure> {
    let options = worker.options();
    let replaces_link = options.preserve.links && there.links() > 1;
    let rule = worker.shared.rule(entry.argument.is_some());
    // In a plan, it may be from an attempt before.
    let replaces_kind =
        (rule == Follow::Never || worker.shared.stage.is_planned()) && !source.is_file();
    if options.backup != Backup::None && !is_dot(entry) {
        if options.backup != Backup::Numbered && backup::is_backup_of(worker, entry, source).await {
            return Err(Failure::because(format!(
                "backing up {} might destroy source;  {} not copied",
                entry.quoted_target(),
                entry.quoted_source()
            )));
        }
        let made = backup::make(worker, entry).await;
        return match made.map_err(entry.target_failure("cannot backup"))? {
            Some(name) => Ok(Place::BackedUp(name)),
            None => Ok(Place::New),
        };
    }
    let wants_data = !options.attributes_only;
    if options.remove_destination || (wants_data && (replaces_link || replaces_kind)) {
        remove(worker, entry).await?;
        return Ok(Place::New);
    }
    Ok(Place::Existing(Box::new(there)))
}

/// Removes what has the name of a copy.
pub(crate) async fn remove(worker: &Worker, entry: &Entry) -> Result<(), Failure> {
    match worker.write(Unlink::new(entry.target())).await {
        Ok(()) => {
            if worker.options().verbose {
                let name = entry.quoted_target();
                worker.shared.console.tell(&format!("removed {name}"));
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(entry.target_failure("cannot remove")(error)),
    }
}

/// Gives a copy that failed its name back to what had it before.
pub(crate) async fn undo_backup(worker: &Worker, entry: &Entry, backup: &OsString) {
    let renamed = worker
        .write(Rename::new(entry.beside(backup), entry.target()))
        .await;
    match renamed {
        Err(error) => {
            let failure = entry.target_failure("cannot un-backup")(error);
            worker.shared.console.complain(failure);
        }
        Ok(()) if worker.options().verbose => {
            let from = crate::quote::quote(entry.directory.target_path().join(backup));
            let to = entry.quoted_target();
            worker
                .shared
                .console
                .tell(&format!("{from} -> {to} (unbackup)"));
        }
        Ok(()) => {}
    }
}

/// What is never overwritten may be the source itself.
fn overwrites(options: &Options) -> bool {
    matches!(options.existing, Existing::Replace | Existing::Ask)
}

fn same_file(entry: &Entry) -> Failure {
    let (source, target) = (entry.quoted_source(), entry.quoted_target());
    Failure::because(format!("{source} and {target} are the same file"))
}

/// `.` and `..` cannot be renamed.
fn is_dot(entry: &Entry) -> bool {
    let path = entry.source_path();
    path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/.")
}

/// A regular file is written through a symbolic link; anything else takes its place.
fn looks_at_link(options: &Options, source: &Metadata) -> bool {
    let written_through = source.is_file()
        || (options.contents_of_special && !source.is_symlink() && !source.is_dir());
    !written_through
        || options.make != Make::Copies
        || options.backup != Backup::None
        || options.remove_destination
        || options.atomic
}

/// What has the name of a copy.
enum There {
    Nothing,
    File(Metadata),
    /// A symbolic link that leads nowhere but to links (`ELOOP`), where it may be replaced.
    EndlessLink(Metadata),
}

async fn look(worker: &Worker, entry: &Entry, at_link: bool) -> Result<There, Failure> {
    let mut stat = StatPath::new(entry.target());
    if at_link {
        stat = stat.no_follow();
    }
    match worker.write(stat).await {
        Ok(status) => Ok(There::File(status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(There::Nothing),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw()) && worker.options().force => {
            let link = worker.write(StatPath::new(entry.target()).no_follow());
            let link = link.await.map_err(entry.target_failure("cannot stat"))?;
            Ok(There::EndlessLink(link))
        }
        Err(error) => Err(entry.target_failure("cannot stat")(error)),
    }
}

/// Whether the destination is older than the source. Where times are preserved, a file system that keeps
/// them less precisely must not make the destination seem older for ever. The kernel sets the time of the last change:
/// if that is precise, the others are.
fn is_older(options: &Options, there: &Metadata, source: &Metadata) -> bool {
    let (changed, there, source) = (there.changed(), there.modified(), source.modified());
    if there >= source {
        return false;
    }
    let cut = |time: Timestamp, resolution: u32| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds - time.nanoseconds % resolution,
    };
    let coarse = [1_000, 1_000_000, 1_000_000_000]
        .into_iter()
        .filter(|resolution| changed.nanoseconds % resolution == 0)
        .any(|resolution| cut(there, resolution) == there && cut(source, resolution) == there);
    // FAT keeps even seconds.
    let is_even = |time: Timestamp| time.nanoseconds == 0 && time.seconds % 2 == 0;
    let even = is_even(changed) && is_even(there) && source.seconds - 1 == there.seconds;
    !(options.preserve.timestamps && (coarse || even))
}

async fn may_overwrite(worker: &Worker, entry: &Entry, there: &Metadata) -> bool {
    let (options, console) = (worker.options(), &worker.shared.console);
    let name = entry.quoted_target();
    let writable = there.is_symlink()
        || worker
            .write(Access::new(entry.target(), <Access>::WRITE).effective())
            .await
            .is_ok();
    if writable {
        return console.ask(&format!("overwrite {name}? "));
    }
    let mode = there.mode() & 0o7777;
    let letters = letters(there);
    if options.force || options.remove_destination {
        return console.ask(&format!(
            "replace {name}, overriding mode {mode:04o} ({letters})? "
        ));
    }
    console.ask(&format!(
        "unwritable {name} (mode {mode:04o}, {letters}); try anyway? "
    ))
}

/// The permissions as `ls` shows them.
fn letters(status: &Metadata) -> String {
    let mode = status.mode();
    let special = [(0o4000, 's', 'S'), (0o2000, 's', 'S'), (0o1000, 't', 'T')];
    let mut letters = String::with_capacity(9);
    for (index, (bit, with, without)) in special.into_iter().enumerate() {
        let three = mode >> (6 - 3 * index);
        letters.push(if three & 4 != 0 { 'r' } else { '-' });
        letters.push(if three & 2 != 0 { 'w' } else { '-' });
        letters.push(match (three & 1 != 0, mode & bit != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => with,
            (false, true) => without,
        });
    }
    letters
}
