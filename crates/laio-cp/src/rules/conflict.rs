//! What happens if the destination of a copy exists: the rules of `cp`.

use crate::digest::Digest;
use crate::io::Io;
use crate::options::{Backup, Existing, Follow, Make, Options};
use crate::outcome::{Failure, failure};
use crate::rules::same_file::{self, SameFile};
use crate::rules::{backup, resume};
use crate::session::{Phase, Session};
use crate::tree::Entry;
use laio::Errno;
use laio::ops::{Access, Rename, StatPath, Unlink};
use laio_rt::fs::{Metadata, Timestamp};
use std::ffi::OsString;
use std::io;

/// What to do with the destination of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Resolution {
    /// Nothing exists under the name.
    Free,
    /// A file exists and is overwritten, or a directory exists and is filled.
    Existing(Box<Metadata>),
    /// A file exists, and the copy takes its name: a new file is created and renamed to it.
    Replaced(Box<Metadata>),
    /// The existing file was renamed to this backup name.
    BackedUp(OsString),
    /// The existing file stays.
    Skip,
    /// The existing file stays and is as good as a copy (with this digest, if known): further hard
    /// links of the source are linked to it.
    UpToDate(Option<Digest>),
}

impl PartialEq for Resolution {
    fn eq(&self, other: &Resolution) -> bool {
        matches!(
            (self, other),
            (Resolution::Free, Resolution::Free)
                | (Resolution::Skip, Resolution::Skip)
                | (Resolution::UpToDate(_), Resolution::UpToDate(_))
        )
    }
}

impl Resolution {
    /// The status of the existing file, if it is still there.
    pub(crate) fn existing(&self) -> Option<&Metadata> {
        match self {
            Resolution::Existing(existing) | Resolution::Replaced(existing) => Some(existing),
            _ => None,
        }
    }

    /// Whether a link or a special file takes the name of the existing file. `may_replace`: also of one that the options
    /// do not ask to be replaced.
    pub(crate) fn is_replaced(&self, may_replace: bool) -> bool {
        match self {
            Resolution::Existing(_) => may_replace,
            Resolution::Replaced(_) => true,
            _ => false,
        }
    }
}

/// Applies the rules to the destination of a directory.
pub(crate) async fn examine_directory(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
) -> Result<Resolution, Failure> {
    let options = &session.options;
    let existing = match look_up(io, session, entry, !options.keep_directory_symlink).await? {
        Lookup::Missing => return Ok(Resolution::Free),
        Lookup::Found(existing) | Lookup::LinkLoop(existing) => existing,
    };
    if overwrites(options)
        && same_file::check(io, session, entry, source, &existing).await == SameFile::Refuse
    {
        return Err(same_file_failure(entry));
    }
    if !existing.is_dir() {
        return Err(failure!(
            "cannot overwrite non-directory {} with directory {}",
            entry.quoted_target(),
            entry.quoted_source()
        ));
    }
    Ok(Resolution::Existing(Box::new(existing)))
}

/// Looks for a parent directory of an argument's name (`--parents`).
pub(crate) async fn examine_parent(
    io: &Io,
    session: &Session,
    part: &Entry,
) -> Result<Resolution, Failure> {
    if part.has_no_target_directory() {
        return Ok(Resolution::Free);
    }
    match look_up(io, session, part, false).await? {
        Lookup::Missing => Ok(Resolution::Free),
        Lookup::Found(existing) if existing.is_dir() => {
            Ok(Resolution::Existing(Box::new(existing)))
        }
        Lookup::Found(_) | Lookup::LinkLoop(_) => {
            let name = part.quoted_target();
            Err(failure!("{name} exists but is not a directory"))
        }
    }
}

/// Applies the rules to the destination of a file that is not a directory.
pub(crate) async fn examine(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
) -> Result<Resolution, Failure> {
    let options = &session.options;
    let at_link = is_about_link(options, source);
    let existing = match look_up(io, session, entry, at_link).await? {
        Lookup::Missing => {
            if options.atomic && !at_link {
                refuse_dangling_link(io, session, entry).await?;
            }
            return Ok(Resolution::Free);
        }
        Lookup::Found(existing) => existing,
        Lookup::LinkLoop(_) if options.existing == Existing::Skip => return Ok(Resolution::Skip),
        Lookup::LinkLoop(link) => return Ok(Resolution::Existing(Box::new(link))),
    };
    if overwrites(options) {
        match same_file::check(io, session, entry, source, &existing).await {
            SameFile::Refuse => return Err(same_file_failure(entry)),
            SameFile::NothingToDo => return Ok(Resolution::Skip),
            SameFile::Proceed => {}
        }
    }
    if options.update && !is_older(options, &existing, source) {
        return Ok(Resolution::UpToDate(None));
    }
    if options.resume
        && let Some(whole) = resume::check(io, session, entry, source, &existing).await?
    {
        return Ok(Resolution::UpToDate(whole.digest));
    }
    match options.existing {
        Existing::Replace => {}
        Existing::Skip => return Ok(Resolution::Skip),
        Existing::Fail => {
            let name = entry.quoted_target();
            return Err(failure!("not replacing {name}"));
        }
        Existing::Ask => {
            if !may_overwrite(io, session, entry, &existing).await {
                return Ok(Resolution::Skip);
            }
        }
    }
    if existing.is_dir() {
        let name = entry.quoted_target();
        return Err(failure!(
            "cannot overwrite directory {name} with non-directory"
        ));
    }
    if session.seen_targets.has_duplicates() && !existing.is_symlink() {
        let stat = StatPath::new(entry.target()).no_follow();
        let link = io.call_target(stat).await;
        if link.is_ok_and(|link| is_just_created_link(session, &link)) {
            return Err(just_created_link_failure(entry));
        }
    }
    if options.backup != Backup::Numbered && session.seen_targets.contains(entry) {
        return Err(failure!(
            "will not overwrite just-created {} with {}",
            entry.quoted_target(),
            entry.quoted_source()
        ));
    }
    Ok(Resolution::Existing(Box::new(existing)))
}

/// Whether another argument created this symbolic link.
pub(crate) fn is_just_created_link(session: &Session, link: &Metadata) -> bool {
    link.is_symlink() && session.created.contains(link)
}

/// The failure of copying through a symbolic link that another argument created.
pub(crate) fn just_created_link_failure(entry: &Entry) -> Failure {
    failure!(
        "will not copy {} through just-created symlink {}",
        entry.quoted_source(),
        entry.quoted_target()
    )
}

/// Moves or removes an existing file that must not be written to.
pub(crate) async fn make_way(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    resolution: Resolution,
) -> Result<Resolution, Failure> {
    let Resolution::Existing(existing) = &resolution else {
        return Ok(resolution);
    };
    if existing.is_symlink() && !is_about_link(&session.options, source) {
        // A link in a loop: `--force` replaces it later, after the source was opened.
        return Ok(resolution);
    }
    let options = &session.options;
    let rule = session.follow_rule(entry);
    // With a plan, an earlier attempt at the part may have created it.
    let replaces_kind =
        (rule == Follow::Never || session.phase == Phase::Planned) && !source.is_file();
    // A file of the source's type is created: no data is copied.
    let is_node = !source.is_file() && (source.is_symlink() || !options.contents_of_special);
    if options.backup != Backup::None && !is_dot(entry) {
        if options.backup != Backup::Numbered
            && backup::is_backup_of(io, session, entry, source).await
        {
            return Err(failure!(
                "backing up {} might destroy source;  {} not copied",
                entry.quoted_target(),
                entry.quoted_source()
            ));
        }
        let made = backup::create(io, session, entry).await;
        return match made.map_err(entry.target_failure("cannot backup"))? {
            Some(name) => Ok(Resolution::BackedUp(name)),
            None => Ok(Resolution::Free),
        };
    }
    let wants_data = !options.attributes_only;
    if !(takes_name(session, existing) || (wants_data && replaces_kind)) {
        return Ok(resolution);
    }
    // With `--atomic` a file of that name exists at any moment. So it does where GNU cp first removes a file, and then may
    // find that it cannot create or read the link that replaces it.
    if options.atomic || (is_node && options.make == Make::Copies) {
        print_removed(session, entry);
        return Ok(Resolution::Replaced(existing.clone()));
    }
    remove(io, session, entry).await?;
    Ok(Resolution::Free)
}

/// Whether a regular file that is copied takes the name of this existing file, instead of its contents: the file may have
/// other names, whose contents stay.
pub(crate) fn takes_name(session: &Session, existing: &Metadata) -> bool {
    let options = &session.options;
    let has_other_names = options.preserve.links && existing.links() > 1;
    options.remove_destination || (!options.attributes_only && has_other_names)
}

/// Fails if the name of the copy is a symbolic link without a target. GNU cp finds out when it creates the file; with
/// `--atomic` that has another name.
async fn refuse_dangling_link(io: &Io, session: &Session, entry: &Entry) -> Result<(), Failure> {
    if session.options.through_dangling {
        return Ok(());
    }
    let link = io.call_target(StatPath::new(entry.target()).no_follow());
    match link.await {
        Ok(link) if link.is_symlink() => Err(dangling_link_failure(entry)),
        _ => Ok(()),
    }
}

/// The failure of copying to a symbolic link without a target.
pub(crate) fn dangling_link_failure(entry: &Entry) -> Failure {
    let name = entry.quoted_target();
    failure!("not writing through dangling symlink {name}")
}

/// Removes the destination.
pub(crate) async fn remove(io: &Io, session: &Session, entry: &Entry) -> Result<(), Failure> {
    match io.call_target(Unlink::new(entry.target())).await {
        Ok(()) => {
            print_removed(session, entry);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(entry.target_failure("cannot remove")(error)),
    }
}

fn print_removed(session: &Session, entry: &Entry) {
    if session.options.verbose {
        let name = entry.quoted_target();
        session.console.print(&format!("removed {name}"));
    }
}

/// Renames the backup to the destination again, after the copy failed.
pub(crate) async fn restore_backup(io: &Io, session: &Session, entry: &Entry, backup: &OsString) {
    let rename = Rename::new(entry.sibling(backup), entry.target());
    let renamed = io.call_target(rename).await;
    match renamed {
        Err(error) => {
            let failure = entry.target_failure("cannot un-backup")(error);
            session.console.warn(failure);
        }
        Ok(()) if session.options.verbose => {
            let from = crate::quote::quote(entry.directory.target_path().join(backup));
            let to = entry.quoted_target();
            session.console.print(&format!("{from} -> {to} (unbackup)"));
        }
        Ok(()) => {}
    }
}

/// Whether the options allow overwriting. Otherwise the destination may be the source itself.
fn overwrites(options: &Options) -> bool {
    matches!(options.existing, Existing::Replace | Existing::Ask)
}

fn same_file_failure(entry: &Entry) -> Failure {
    let (source, target) = (entry.quoted_source(), entry.quoted_target());
    failure!("{source} and {target} are the same file")
}

/// Whether the name ends in `.` or `..`, which cannot be renamed.
fn is_dot(entry: &Entry) -> bool {
    let path = entry.source_path();
    path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/.")
}

/// Whether a symbolic link at the destination is what GNU cp examines, rather than its target.
fn is_about_link(options: &Options, source: &Metadata) -> bool {
    let written_through = source.is_file()
        || (options.contents_of_special && !source.is_symlink() && !source.is_dir());
    !written_through
        || options.make != Make::Copies
        || options.backup != Backup::None
        || options.remove_destination
}

/// The result of looking up the destination.
enum Lookup {
    Missing,
    Found(Metadata),
    /// A symbolic link in a loop (`ELOOP`), which `--force` replaces.
    LinkLoop(Metadata),
}

async fn look_up(
    io: &Io,
    session: &Session,
    entry: &Entry,
    at_link: bool,
) -> Result<Lookup, Failure> {
    let mut stat = StatPath::new(entry.target());
    if at_link {
        stat = stat.no_follow();
    }
    match io.call_target(stat).await {
        Ok(status) => Ok(Lookup::Found(status)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lookup::Missing),
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw()) && session.options.force => {
            let link = io.call_target(StatPath::new(entry.target()).no_follow());
            let link = link.await.map_err(entry.target_failure("cannot stat"))?;
            Ok(Lookup::LinkLoop(link))
        }
        Err(error) => Err(entry.target_failure("cannot stat")(error)),
    }
}

/// Whether the destination is older than the source. If times are preserved, a destination on a
/// file system with coarse times must not look older on every run. The kernel sets the change time,
/// so its precision shows the file system's.
fn is_older(options: &Options, existing: &Metadata, source: &Metadata) -> bool {
    let (changed, existing, source) = (existing.changed(), existing.modified(), source.modified());
    if existing >= source {
        return false;
    }
    let cut = |time: Timestamp, resolution: u32| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds - time.nanoseconds % resolution,
    };
    let coarse = [1_000, 1_000_000, 1_000_000_000]
        .into_iter()
        .filter(|resolution| changed.nanoseconds % resolution == 0)
        .any(|resolution| {
            cut(existing, resolution) == existing && cut(source, resolution) == existing
        });
    // FAT stores even seconds.
    let is_even = |time: Timestamp| time.nanoseconds == 0 && time.seconds % 2 == 0;
    let even = is_even(changed) && is_even(existing) && source.seconds - 1 == existing.seconds;
    !(options.preserve.timestamps && (coarse || even))
}

async fn may_overwrite(io: &Io, session: &Session, entry: &Entry, existing: &Metadata) -> bool {
    let (options, console) = (&session.options, &session.console);
    let name = entry.quoted_target();
    let writable = existing.is_symlink()
        || io
            .call_target(Access::new(entry.target(), <Access>::WRITE).effective())
            .await
            .is_ok();
    if writable {
        return console.ask(&format!("overwrite {name}? "));
    }
    let mode = existing.mode() & 0o7777;
    let letters = letters(existing);
    if options.force || options.remove_destination {
        return console.ask(&format!(
            "replace {name}, overriding mode {mode:04o} ({letters})? "
        ));
    }
    console.ask(&format!(
        "unwritable {name} (mode {mode:04o}, {letters}); try anyway? "
    ))
}

/// The permissions in the format of `ls`.
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
