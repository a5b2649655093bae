//! Directories: begun before what is in them, finished after it.

use crate::attributes::{self, Names, Object};
use crate::directory::{Directory, Entry, Found, Handle};
use crate::existing::{self, Place};
use crate::listing::Listing;
use crate::made::identity;
use crate::options::Follow;
use crate::outcome::{Failure, count};
use crate::quote::quote;
use crate::worker::Worker;
use crate::{resume, verify};
use laio::ops::{GetAttribute, Mkdir, Open, StatFile, StatPath};
use laio_rt::fs::{FileType, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The permissions that directories need while they are filled.
const NEEDED: u32 = 0o700;
/// What `mkdir` takes of a mode.
const MKDIR_BITS: u32 = 0o1777;

/// Makes the destination of a directory, and opens both. None if there is nothing to be listed; it has then
/// been left already, as is its parent's count of it.
pub(crate) async fn enter(worker: &Worker, entry: Entry) -> Result<Option<Listing>, Failure> {
    let (shared, options) = (&worker.shared, worker.options());
    let follow = shared.follows(entry.argument.is_some());
    let (opened, status, at_once) = open_source(worker, &entry, follow).await?;
    if entry
        .directory
        .chain()
        .any(|above| above.is_copy_of(&status))
    {
        let name = entry.quoted_source();
        return Err(Failure::because(format!(
            "cannot copy cyclic symbolic link {name}"
        )));
    }
    if shared.made.contains(&status) {
        return Err(into_itself(&entry));
    }
    let place = match entry.directory.is_new {
        true => Place::New,
        false => existing::examine_directory(worker, &entry, &status).await?,
    };
    let is_new = place == Place::New;
    if is_new && options.verbose {
        let (from, to) = (entry.quoted_source(), entry.quoted_target());
        shared.console.tell(&format!("{from} -> {to}"));
    }
    count(&shared.counters.directories);
    let (target, found) = if options.dry_run && is_new {
        (None, None)
    } else {
        let (handle, found) =
            make_target(worker, &entry, opened.as_ref().ok(), status, is_new).await?;
        (Some(handle), Some(found))
    };
    let argument = entry
        .argument
        .clone()
        .or_else(|| entry.directory.argument.clone());
    if let (true, Some(argument), Some(found)) = (is_new, &argument, &found) {
        let first = !argument.has_made.swap(true, Ordering::Relaxed);
        if first || argument.nested || options.follow == Follow::Always {
            shared.made.insert(&found.target);
        }
    }
    let crosses = options.one_file_system
        && entry.argument.is_none()
        && entry
            .directory
            .found
            .as_ref()
            .is_some_and(|above| above.source.device() != status.device());
    let source = match opened {
        Ok(handle) => Some(handle),
        Err(error) => {
            shared.fail(&entry.source_failure("cannot access", "")(error));
            None
        }
    };
    let lists = source.is_some() && !crosses && options.recursive;
    let directory = Directory::new(
        Some(entry.directory.clone()),
        (source, target),
        (entry.source_path(), entry.target_path()),
        found,
        is_new,
        argument,
    );
    if lists {
        return Ok(Some(Listing::new(directory, at_once)));
    }
    // Nothing is in it, but it is to be finished.
    worker.end(&directory);
    Ok(None)
}

/// Makes the directories that an argument's name leads through (`--parents`). Returns the argument as an entry
/// of the last of them, which is to be ended when it is done.
pub(crate) async fn enter_parents(worker: &Worker, entry: &Entry) -> Result<Entry, Failure> {
    let path = Path::new(&entry.name);
    let (above, Some(last)) = (path.parent().unwrap_or(Path::new("")), path.file_name()) else {
        let name = entry.quoted_source();
        return Err(Failure::because(format!(
            "with --parents, {name} has no name to be kept"
        )));
    };
    let mut inner = entry.directory.clone();
    inner.begin();
    let mut prefix = PathBuf::new();
    for component in above.components() {
        prefix.push(component);
        if matches!(component, Component::RootDir | Component::CurDir) {
            continue;
        }
        let part = Entry {
            directory: inner.clone(),
            name: std::mem::take(&mut prefix).into_os_string(),
            new_name: Some(component.as_os_str().to_owned()),
            kind: FileType::Directory,
            argument: None,
        };
        match enter_parent(worker, &part).await {
            Ok(directory) => inner = directory,
            Err(failure) => {
                worker.end(&inner);
                return Err(failure);
            }
        }
    }
    let mut name = prefix;
    name.push(last);
    Ok(Entry {
        directory: inner,
        name: name.into_os_string(),
        new_name: Some(last.to_owned()),
        kind: entry.kind,
        argument: entry.argument.clone(),
    })
}

async fn enter_parent(worker: &Worker, part: &Entry) -> Result<Arc<Directory>, Failure> {
    let options = worker.options();
    let (opened, status, _) = open_source(worker, part, true).await?;
    let handle = opened.map_err(part.source_failure("cannot access", ""))?;
    let place = existing::examine_parent(worker, part).await?;
    let mut is_new = place == Place::New;
    if is_new && options.verbose {
        let (from, to) = (part.source_path(), part.target_path());
        worker
            .shared
            .console
            .tell(&format!("{} -> {}", from.display(), to.display()));
    }
    let (target, found) = if options.dry_run && is_new {
        (None, None)
    } else {
        let mut made = make_target(worker, part, Some(&handle), status, is_new).await;
        let exists = |failure: &Failure| {
            failure.error().map(io::Error::kind) == Some(io::ErrorKind::AlreadyExists)
        };
        if is_new && made.as_ref().is_err_and(exists) {
            // Another argument has the same directory in its name.
            is_new = false;
            made = make_target(worker, part, Some(&handle), status, is_new).await;
        }
        let (target, found) = made?;
        (Some(target), Some(found))
    };
    Ok(Directory::new(
        Some(part.directory.clone()),
        (Some(handle), target),
        (part.source_path(), part.target_path()),
        found,
        is_new,
        None,
    ))
}

/// The source, or why it cannot be read; its status; and whether it was opened without waiting.
async fn open_source(
    worker: &Worker,
    entry: &Entry,
    follow: bool,
) -> Result<(io::Result<Handle>, Metadata, bool), Failure> {
    let mut flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NONBLOCK;
    if !follow {
        flags |= libc::O_NOFOLLOW;
    }
    let (opened, at_once) = worker.attempt(Open::new(entry.source(), flags)).await;
    match opened {
        Ok(opened) => {
            let handle = Arc::new(opened);
            let status = worker.lazily(StatFile::new(handle.clone())).await;
            let status = status.map_err(entry.source_failure("cannot stat", ""))?;
            Ok((Ok(handle), status, at_once))
        }
        Err(error) => {
            let mut stat = StatPath::new(entry.source());
            if !follow {
                stat = stat.no_follow();
            }
            let status = worker.lazily(stat).await;
            let status = status.map_err(entry.source_failure("cannot stat", ""))?;
            if !status.is_dir() {
                let name = entry.quoted_source();
                return Err(Failure::because(format!(
                    "skipping {name}, as it was replaced while being copied"
                )));
            }
            Ok((Err(error), status, at_once))
        }
    }
}

fn into_itself(entry: &Entry) -> Failure {
    let argument = entry
        .argument
        .as_ref()
        .or(entry.directory.argument.as_ref());
    let (source, target) = match argument {
        Some(argument) => (quote(&argument.source), quote(&argument.target)),
        None => (entry.quoted_source(), entry.quoted_target()),
    };
    Failure::because(format!(
        "cannot copy a directory, {source}, into itself, {target}"
    ))
}

async fn make_target(
    worker: &Worker,
    entry: &Entry,
    opened: Option<&Handle>,
    source: Metadata,
    is_new: bool,
) -> Result<(Handle, Found), Failure> {
    let options = worker.options();
    let bits = source.mode() & 0o7777;
    let omitted = bits
        & match (options.preserve.ownership, options.resume) {
            (true, _) => 0o077,
            // A run that goes on cannot tell directories that were begun from others.
            (false, true) => 0,
            (false, false) => 0o022,
        };
    if is_new {
        let mode = (bits & !omitted & MKDIR_BITS) | NEEDED;
        let made = worker.write(Mkdir::new(entry.target(), mode)).await;
        made.map_err(entry.target_failure("cannot create directory"))?;
    }
    let mut flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let is_parent = entry.argument.is_none() && entry.directory.found.is_none();
    if is_new || !(options.keep_directory_symlink || is_parent) {
        flags |= libc::O_NOFOLLOW;
    }
    let mut target = worker.write(Open::new(entry.target(), flags)).await;
    if is_new && worker.shared.process.umask & NEEDED != 0 {
        // It has been made without the permissions that it needs.
        let set = Object::Named(entry.target()).set_mode(worker, NEEDED);
        set.map_err(entry.target_failure("setting permissions for"))?;
        target = worker.write(Open::new(entry.target(), flags)).await;
    }
    let handle = Arc::new(target.map_err(entry.target_failure("cannot open directory"))?);
    let target = worker.write(StatFile::new(handle.clone())).await;
    let target = target.map_err(entry.target_failure("cannot stat"))?;
    let made = target.mode() & 0o7777;
    let umask = worker.shared.process.umask;
    let mode = match (is_new, options.preserve.default_mode) {
        (false, _) => None,
        (true, true) => Some((made & 0o2000) | (0o777 & !umask)),
        (true, false) if umask & NEEDED != 0 => {
            Some((made & 0o2000) | (bits & MKDIR_BITS & !umask))
        }
        (true, false) => Some((made & !(NEEDED & !bits)) | (omitted & !umask)),
    };
    // A new directory has what its parent has.
    let inherits = is_new
        && entry
            .directory
            .found
            .as_ref()
            .is_some_and(|above| !above.default_acl);
    let default_acl = !inherits && has_default_acl(worker, &handle).await;
    let names = match opened {
        Some(opened) => {
            let names = attributes::names(worker, &Object::Open(opened.clone()));
            names.map_err(entry.source_failure("cannot list attributes of", ""))?
        }
        None => Names::default(),
    };
    let found = Found {
        source,
        target,
        mode: mode.filter(|mode| *mode != made),
        default_acl,
        names,
    };
    Ok((handle, found))
}

async fn has_default_acl(worker: &Worker, handle: &Handle) -> bool {
    let ask = GetAttribute::new(handle.clone(), attributes::ACL_DEFAULT, Vec::new());
    worker.write(ask).await.0.is_ok()
}

/// Sets the attributes of a directory that is complete.
pub(crate) fn leave(worker: &Worker, directory: &Directory) {
    let (Some(found), Some(target)) = (&directory.found, &directory.target) else {
        return;
    };
    if worker.options().dry_run {
        return;
    }
    let source = directory.source.clone().map(Object::Open);
    if worker.options().resume && !directory.is_new {
        resume::remove_leftovers(worker, directory, target);
    }
    let set = attributes::of_directory(worker, directory, found, source.clone(), target.clone());
    let target = Object::Open(target.clone());
    match set {
        Ok(()) => verify::directory_attributes(worker, directory, found, source.as_ref(), &target),
        Err(failure) => worker.shared.fail(&failure),
    }
}

impl Directory {
    fn is_copy_of(&self, status: &Metadata) -> bool {
        self.found
            .as_ref()
            .is_some_and(|found| identity(&found.source) == identity(status))
    }
}
