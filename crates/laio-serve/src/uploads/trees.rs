//! Removing and copying directories with all that is in them. The work left is a stack of open directories, not
//! recursion, so that its memory has a limit.

use super::disk::Disk;
use super::problem::{Problem, of_own};
use super::target::Target;
use super::temporary::{claim, is};
use crate::files::resolve::enter;
use crate::files::temporary_name::{is_locked, is_temporary};
use crate::files::uncached::{FLAGS, open_below};
use crate::options::{IoStep, UploadSync};
use crate::request::listing::served_status;
use crate::site::Site;
use crate::site::quota::{Quota, Reservation};
use crate::site::upload_rules::UploadRules;
use laio::ops::{
    CopyRange, FileType, Fsync, Mkdir, Name, Open, ReadAt, ReadDir, Reflink, StatFile, StatPath,
    Unlink,
};
use laio_http::Status;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Directories below each other that a copy or a removal enters.
const DEPTH_MAX: usize = 64;
/// Files and directories that one request copies.
const COPIED_MAX: usize = 100_000;
/// Files that could not be removed, of which a response tells.
const FAILURES_MAX: usize = 100;
/// Bytes that one operation copies, so that one given up ends soon.
const COPY_BYTES: usize = 16 << 20;
/// How often a directory is read again that other programs fill while it is removed.
const READS_MAX: usize = 3;

/// A name that could not be removed, below the removed directory, and why.
pub(super) type Failure = (Vec<u8>, Problem);

/// A directory that is being removed or copied.
struct Level {
    directory: Descriptor,
    /// Its name below the tree's root; empty for that itself.
    name: Vec<u8>,
    pending: Vec<(CString, FileType)>,
    /// Names that could not be removed.
    failures: usize,
    reads: usize,
    /// The copy of the directory.
    copy: Option<Descriptor>,
}

impl Level {
    fn new(directory: Descriptor, name: Vec<u8>) -> Level {
        Level {
            directory,
            name,
            pending: Vec::new(),
            failures: 0,
            reads: 1,
            copy: None,
        }
    }

    /// Reads further entries if there are none pending. Returns the next one, or none at the end.
    async fn next(&mut self, disk: Disk<'_>) -> io::Result<Option<(CString, FileType)>> {
        while self.pending.is_empty() {
            let entries = disk.names(ReadDir::new(self.directory.clone())).await?;
            if entries.is_empty() {
                return Ok(None);
            }
            for entry in entries.iter() {
                let name = CString::new(entry.name().as_bytes())?;
                self.pending.push((name, entry.file_type()));
            }
        }
        Ok(self.pending.pop())
    }

    fn name_of(&self, entry: &CStr) -> Vec<u8> {
        let mut name = self.name.clone();
        enter(&mut name, entry.to_bytes());
        name
    }
}

async fn open_directory(
    disk: Disk<'_>,
    parent: &Descriptor,
    name: &CStr,
) -> io::Result<Descriptor> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = Name::at(parent.clone(), name);
    let opened = disk.names(Open::new(at, flags.bits() as i32)).await?;
    Ok(opened.into())
}

/// Removes a directory and all that is in it, also names that the site does not serve. Follows no links. Returns the
/// names that could not be removed; then the directory stays.
pub(super) async fn remove(
    disk: Disk<'_>,
    parent: &Descriptor,
    leaf: &CStr,
    quota: Option<&Quota>,
) -> Result<Vec<Failure>, Problem> {
    let directory = open_directory(disk, parent, leaf).await?;
    let mut levels = vec![Level::new(directory, Vec::new())];
    let mut failures = Vec::new();
    let note = |failures: &mut Vec<Failure>, name: Vec<u8>, problem: Problem| {
        if failures.len() < FAILURES_MAX {
            failures.push((name, problem));
        }
    };
    while let Some(level) = levels.last_mut() {
        if let Some((entry, kind)) = level.next(disk).await? {
            let at = Name::at(level.directory.clone(), entry.clone());
            let removed = match kind {
                FileType::Directory => Err(Errno::ISDIR.into()),
                _ => unlink(disk, at, quota).await,
            };
            let name = level.name_of(&entry);
            match removed {
                Ok(()) => {}
                Err(error) if is(&error, Errno::NOENT) => {}
                Err(error) if is(&error, Errno::ISDIR) => {
                    let deep = levels.len() >= DEPTH_MAX;
                    let level = levels.last_mut().expect("it is not empty");
                    let opened = if deep {
                        Err(Problem::TOO_DEEP)
                    } else {
                        open_directory(disk, &level.directory, &entry)
                            .await
                            .map_err(Problem::from)
                    };
                    match opened {
                        Ok(directory) => levels.push(Level::new(directory, name)),
                        Err(problem) if problem.status == Status::NOT_FOUND => {}
                        Err(problem) => {
                            level.failures += 1;
                            note(&mut failures, name, problem);
                        }
                    }
                }
                Err(error) => {
                    level.failures += 1;
                    note(&mut failures, name, error.into());
                }
            }
            laio_rt::give_way().await;
            continue;
        }
        let done = levels.pop().expect("it is not empty");
        let (above, entry) = match levels.last() {
            Some(above) => (&above.directory, leaf_of(&done.name)?),
            None => (parent, leaf.to_owned()),
        };
        let removed = match done.failures {
            0 => {
                let at = Name::at(above.clone(), entry.clone());
                disk.names(Unlink::directory(at)).await
            }
            _ => Err(Errno::NOTEMPTY.into()),
        };
        match removed {
            Ok(()) => quota.iter().for_each(|quota| quota.release(0, 1)),
            Err(error) if is(&error, Errno::NOENT) => {}
            Err(error)
                if is(&error, Errno::NOTEMPTY) && done.failures == 0 && done.reads < READS_MAX =>
            {
                let again = open_directory(disk, above, &entry).await?;
                levels.push(Level {
                    reads: done.reads + 1,
                    ..Level::new(again, done.name)
                });
            }
            Err(error) => {
                // The names in it explain why a directory is not empty.
                if done.failures == 0 {
                    note(&mut failures, done.name, error.into());
                }
                if let Some(above) = levels.last_mut() {
                    above.failures += 1;
                }
            }
        }
    }
    Ok(failures)
}

/// Removes a file, and counts it as removed.
pub(super) async fn unlink(
    disk: Disk<'_>,
    at: Name<Descriptor>,
    quota: Option<&Quota>,
) -> io::Result<()> {
    let Some(quota) = quota else {
        return disk.names(Unlink::new(at)).await;
    };
    let status = disk.names(StatPath::new(at.clone()).no_follow()).await?;
    disk.names(Unlink::new(at)).await?;
    let bytes = if status.is_file() { status.size() } else { 0 };
    quota.release(bytes, 1);
    Ok(())
}

fn leaf_of(name: &[u8]) -> io::Result<CString> {
    let leaf = name.rsplit(|&byte| byte == b'/').next();
    Ok(CString::new(leaf.unwrap_or_default())?)
}

/// How much of a directory is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The directory without what is in it.
    Itself,
    /// What the site serves: links to files become files, and links to directories are left out.
    Served,
    /// All, because what was not copied is lost.
    All,
}

/// Copies what is in a directory, which has this name below the root, into an empty one.
pub(super) async fn copy(
    disk: Disk<'_>,
    site: &Site,
    from: &[u8],
    to: Descriptor,
    extent: Extent,
    rules: &UploadRules,
) -> Result<(), Problem> {
    let source = open_served(disk, site, from, OFlags::RDONLY | OFlags::DIRECTORY).await?;
    if extent == Extent::Itself {
        return Ok(());
    }
    let mut levels = vec![Level {
        copy: Some(to),
        ..Level::new(source, from.to_vec())
    }];
    let mut copied = 0;
    while let Some(level) = levels.last_mut() {
        let Some(entry) = level.next(disk).await? else {
            levels.pop();
            continue;
        };
        if is_temporary(entry.0.to_bytes()) {
            continue;
        }
        copied += 1;
        if copied > COPIED_MAX {
            return Err(Problem::TOO_MANY_FILES);
        }
        match copy_entry(disk, site, level, entry, rules).await? {
            Step::Copied => {}
            Step::LeftOut if extent == Extent::All => return Err(Problem::NOT_ALL_SERVED),
            Step::LeftOut => {}
            Step::Enter(_) if levels.len() >= DEPTH_MAX => return Err(Problem::TOO_DEEP),
            Step::Enter(level) => levels.push(level),
        }
        laio_rt::give_way().await;
    }
    Ok(())
}

/// What was done with an entry of a directory that is being copied.
enum Step {
    Copied,
    /// It is not served.
    LeftOut,
    /// It is a directory, of which there is an empty copy.
    Enter(Level),
}

async fn copy_entry(
    disk: Disk<'_>,
    site: &Site,
    level: &Level,
    (entry, known): (CString, FileType),
    rules: &UploadRules,
) -> Result<Step, Problem> {
    let leaf = entry.to_bytes();
    if leaf.starts_with(b".") && !site.serves_dotfiles {
        return Ok(Step::LeftOut);
    }
    let contexts = &disk.services.contexts;
    let status = served_status(contexts, site, &level.name, &level.directory, leaf, known);
    let (Some(status), Some(target)) = (status.await?, &level.copy) else {
        return Ok(Step::LeftOut);
    };
    let name = level.name_of(&entry);
    if !status.is_dir() {
        file(disk, site, &name, target, &entry, rules).await?;
        return Ok(Step::Copied);
    }
    if known == FileType::Symlink {
        return Ok(Step::LeftOut);
    }
    let directory = match open_directory(disk, &level.directory, &entry).await {
        Ok(directory) => directory,
        // A link, on a file system that does not tell.
        Err(error) if is(&error, Errno::LOOP) || is(&error, Errno::NOTDIR) => {
            return Ok(Step::LeftOut);
        }
        Err(error) => return Err(error.into()),
    };
    let copy = make(disk, target, &entry, rules).await?;
    Ok(Step::Enter(Level {
        copy: Some(copy),
        ..Level::new(directory, name)
    }))
}

/// Makes a directory with a temporary name, and locks it if its name says so. Returns `None` if a server that
/// starts has taken it for one of a server that was killed, and has removed it.
pub(super) async fn make_temporary(
    disk: Disk<'_>,
    new: &Target,
    rules: &UploadRules,
) -> Result<Option<Descriptor>, Problem> {
    let made = match make(disk, &new.directory, new.leaf(), rules).await {
        Err(problem) if problem.status == Status::NOT_FOUND => return Ok(None),
        made => made?,
    };
    let is_ours = !is_locked(new.leaf().to_bytes()) || claim(disk, &made).await?;
    if !is_ours && let Some(quota) = &rules.quota {
        quota.release(0, 1);
    }
    Ok(is_ours.then_some(made))
}

async fn make(
    disk: Disk<'_>,
    parent: &Descriptor,
    leaf: &CStr,
    rules: &UploadRules,
) -> Result<Descriptor, Problem> {
    let reservation = Reservation::of(rules.quota.as_ref(), 0, 1)?;
    disk.names(Mkdir::new(Name::at(parent.clone(), leaf), 0o777))
        .await?;
    let opened = open_directory(disk, parent, leaf).await;
    if !matches!(&opened, Err(error) if is(error, Errno::NOENT)) {
        reservation.commit(0, None);
    }
    Ok(opened?)
}

async fn file(
    disk: Disk<'_>,
    site: &Site,
    from: &[u8],
    parent: &Descriptor,
    leaf: &CStr,
    rules: &UploadRules,
) -> Result<(), Problem> {
    let source = open_served(disk, site, from, FLAGS).await;
    let source = source.map_err(|error| match Problem::from(error) {
        missing if missing.status == Status::NOT_FOUND => Problem::CHANGED,
        other => other,
    })?;
    let status = disk.names(StatFile::new(source.clone())).await?;
    if !status.is_file() {
        return Err(Problem::CHANGED);
    }
    let reservation = Reservation::of(rules.quota.as_ref(), status.size(), 1)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW;
    let at = Name::at(parent.clone(), leaf);
    let open = Open::new(at, flags.bits() as i32).mode(status.mode() & 0o777 | 0o600);
    let target = Descriptor::from(disk.names(open).await?);
    let copied = contents(disk, &source, &target).await;
    // If the copy has failed, what removes it counts the bytes that it removes.
    let length = match copied {
        Ok(()) => status.size(),
        Err(_) => {
            let part = disk.names(StatFile::new(target.clone())).await;
            part.map_or(status.size(), |part| part.size())
        }
    };
    reservation.commit(length, None);
    copied?;
    if rules.sync != UploadSync::None {
        let synced = disk.data(disk.services.limits.read_time, Fsync::new(target));
        synced.await?.map_err(of_own)?;
    }
    Ok(())
}

/// Opens a file or directory of the site by the rules of reading.
pub(super) async fn open_served(
    disk: Disk<'_>,
    site: &Site,
    name: &[u8],
    flags: OFlags,
) -> io::Result<Descriptor> {
    let contexts = &disk.services.contexts;
    let opened = disk.within(disk.services.limits.open_time, async {
        let _permit = contexts.permit(IoStep::Open).await;
        open_below(contexts, site, name, flags | OFlags::CLOEXEC, site.resolve).await
    });
    Ok(opened.await?.into())
}

/// Copies the contents of a file to an empty one: shares them, copies them inside the kernel, or through memory.
pub(super) async fn contents(disk: Disk<'_>, from: &Descriptor, to: &Descriptor) -> io::Result<()> {
    let limit = disk.services.limits.read_time;
    let share = Reflink::new(from.clone(), to.clone());
    if disk.data(limit, share).await?.is_ok() {
        return Ok(());
    }
    let mut done = 0;
    loop {
        let copy = CopyRange::new(from.clone(), done, to.clone(), done, COPY_BYTES);
        match disk.data(limit, copy).await? {
            // Some file systems return 0 although the file has contents; the read finds its end.
            Ok(0) => return through_memory(disk, from, to, done).await,
            Ok(count) => done += count as u64,
            Err(error) if copies_by_hand(&error) => {
                return through_memory(disk, from, to, done).await;
            }
            Err(error) => return Err(of_own(error)),
        }
    }
}

fn copies_by_hand(error: &io::Error) -> bool {
    [
        Errno::XDEV,
        Errno::INVAL,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::PERM,
    ]
    .iter()
    .any(|&errno| is(error, errno))
}

async fn through_memory(
    disk: Disk<'_>,
    from: &Descriptor,
    to: &Descriptor,
    mut done: u64,
) -> io::Result<()> {
    let limit = disk.services.limits.read_time;
    let mut buffer = Vec::with_capacity(super::CHUNK);
    loop {
        let (read, filled) = disk
            .data(limit, ReadAt::new(from.clone(), buffer, done))
            .await?;
        if read.map_err(of_own)? == 0 {
            return Ok(());
        }
        buffer = disk.write_all_at(limit, to, filled, done).await?;
        done += buffer.len() as u64;
    }
}

impl Problem {
    const TOO_DEEP: Problem = Problem::new(
        Status::FORBIDDEN,
        "There are too many directories inside each other.",
    );
    const NOT_ALL_SERVED: Problem = Problem::new(
        Status::FORBIDDEN,
        "The destination is on another file system, and some names in the directory are not served, which the move \
         would lose; copy the directory, and delete what is left of it.",
    );
    const CHANGED: Problem = Problem::new(
        Status::SERVICE_UNAVAILABLE,
        "The directory is changing; try again.",
    );
    const TOO_MANY_FILES: Problem = Problem::new(
        Status::INSUFFICIENT_STORAGE,
        "There are too many files for one request; copy the directories one by one.",
    );
}
