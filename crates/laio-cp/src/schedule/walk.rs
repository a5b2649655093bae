//! Enters directories before their entries are copied, and leaves them after the last one.

use crate::options::Follow;
use crate::outcome::{Failure, count, failure};
use crate::quote::quote;
use crate::rules::attributes::{self, FileRef};
use crate::rules::conflict::{self, Resolution};
use crate::rules::new_file_mode::{self, FILLING_BITS};
use crate::rules::{durable, resume, source, verify};
use crate::schedule::listing::Listing;
use crate::schedule::worker::Worker;
use crate::session::{Phase, Session};
use crate::tree::{
    AttributeNames, Directory, DirectoryInfo, Entry, Handle, Handles, Side, StorageClass, identity,
};
use laio::ops::{Mkdir, Open, StatFile, StatPath};
use laio_rt::fs::{FileType, Metadata};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Creates the destination of a directory, and opens both sides. Returns `None` if there is nothing
/// to list: the directory is then finished, and no longer pending in its parent.
pub(crate) async fn enter(worker: &Worker, mut entry: Entry) -> Result<Option<Listing>, Failure> {
    open_entry(worker, &mut entry)?;
    let (io, session) = (&worker.io, &*worker.session);
    let options = &session.options;
    let found = source::open_directory(io, &entry, session.follows(&entry)).await?;
    let (opened, status) = (found.opened, found.status);
    let resolution = if entry.directory.is_new {
        Resolution::Free
    } else {
        conflict::examine_directory(io, session, &entry, &status).await?
    };
    if entry
        .directory
        .self_and_ancestors()
        .any(|above| above.is_copy_of(&status))
    {
        let name = entry.quoted_source();
        return Err(failure!("cannot copy cyclic symbolic link {name}"));
    }
    if session.created.contains(&status) {
        return report_self_copy(worker, &entry).map(|()| None);
    }
    let recorder = worker.schedule.sink.recorder();
    if recorder.is_some_and(|recorder| recorder.is_plan_directory(&status)) {
        let name = entry.quoted_source();
        return Err(failure!("skipping {name}: it is the directory of the plan"));
    }
    let is_new = resolution == Resolution::Free;
    count(&io.counters().directories);
    let (target, info) = if options.dry_run && is_new {
        (None, None)
    } else {
        let (handle, info) = make_target(
            worker,
            &entry,
            opened.as_ref().ok(),
            status,
            TargetState {
                is_new,
                is_parent: false,
            },
        )
        .await?;
        (Some(handle), Some(info))
    };
    if is_new && (options.verbose || options.dry_run) {
        let (from, to) = (entry.quoted_source(), entry.quoted_target());
        session.console.print(&format!("{from} -> {to}"));
    }
    let argument = entry
        .argument
        .clone()
        .or_else(|| entry.directory.argument.clone());
    if let (true, Some(argument), Some(info)) = (is_new, &argument, &info) {
        // One directory per argument suffices to detect self-copies, unless the source contains the
        // destination, or symbolic links may lead into it.
        let first = !argument.has_created_directory.swap(true, Ordering::Relaxed);
        if first || argument.nested || options.follow == Follow::Always {
            session.created.insert(&info.target);
        }
    }
    let crosses = options.one_file_system
        && entry.argument.is_none()
        && entry
            .directory
            .info
            .as_ref()
            .is_some_and(|above| above.source.device() != status.device());
    let source = match opened {
        Ok(handle) => Some(handle),
        Err(error) => {
            session.report_failure(&entry.source_failure("cannot access", "")(error));
            None
        }
    };
    let lists = source.is_some() && !crosses && options.recursive;
    let handles = Handles { source, target };
    let sides = sides(session, &entry, &status, &handles, info.as_ref());
    let directory = Directory::child(entry.directory.clone(), sides, info, is_new, argument);
    worker.open_directories.keep_open(&directory, handles);
    if let Some(recorder) = recorder {
        recorder.enter(&directory);
    }
    if lists {
        return Ok(Some(Listing::new(directory, found.inline)));
    }
    // Its entries are not listed (another file system, unreadable, or not recursive), but the
    // directory must be finished.
    end_entry(worker, &directory);
    Ok(None)
}

/// Creates the parent directories of an argument's name (`--parents`). Returns the argument as an
/// entry of the innermost directory, which the caller ends when the argument is copied.
pub(crate) async fn enter_parents(worker: &Worker, entry: &Entry) -> Result<Entry, Failure> {
    let Some((above, last, behind)) = split_parents(&entry.name) else {
        let name = entry.quoted_source();
        return Err(failure!("with --parents, {name} has no name to keep"));
    };
    let mut inner = entry.directory.clone();
    let mut handles = entry.handles().clone();
    inner.add_pending();
    let existing = StatPath::new(entry.path_in_target(above));
    // Then none of them gets attributes.
    let all_parents_existed = worker
        .io
        .call_target(existing)
        .await
        .is_ok_and(|existing| existing.is_dir());
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
            handles: Some(handles.clone()),
        };
        match enter_parent(worker, &part, all_parents_existed).await {
            Ok(entered) => (inner, handles) = entered,
            Err(failure) => {
                end_entry(worker, &inner);
                return Err(failure);
            }
        }
    }
    let mut name = prefix.join(last).into_os_string();
    name.push(behind);
    Ok(Entry {
        directory: inner,
        name,
        new_name: Some(last.to_owned()),
        kind: entry.kind,
        argument: entry.argument.clone(),
        handles: Some(handles),
    })
}

/// Splits a name into its directories, its last component, and a trailing `/` or `/.`, which makes
/// a symbolic link refer to its target.
fn split_parents(name: &OsStr) -> Option<(&Path, &OsStr, &OsStr)> {
    let bytes = name.as_bytes();
    let mut end = bytes.len();
    while bytes[..end].ends_with(b"/") || bytes[..end].ends_with(b"/.") {
        end -= 1;
    }
    let (bytes, behind) = bytes.split_at(end);
    let path = Path::new(OsStr::from_bytes(bytes));
    Some((path.parent()?, path.file_name()?, OsStr::from_bytes(behind)))
}

/// Enters one parent directory. If all parent directories of the argument existed, none of them
/// gets attributes.
async fn enter_parent(
    worker: &Worker,
    part: &Entry,
    all_parents_existed: bool,
) -> Result<(Arc<Directory>, Handles), Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let options = &session.options;
    let found = source::open_directory(io, part, true).await?;
    let (opened, status) = (found.opened, found.status);
    // A parent that cannot be read is still usable: O_PATH needs no permission on the directory
    // itself.
    let handle = match &opened {
        Ok(handle) => handle.clone(),
        Err(_) => {
            let open = Open::new(part.source(), libc::O_PATH | libc::O_DIRECTORY);
            let opened = io.call_backend(open).await;
            Arc::new(opened.map_err(part.source_failure("cannot access", ""))?)
        }
    };
    let resolution = conflict::examine_parent(io, session, part).await?;
    let mut is_new = resolution == Resolution::Free;
    if is_new && options.verbose {
        let (from, to) = (part.source_path(), part.target_path());
        session
            .console
            .print(&format!("{} -> {}", from.display(), to.display()));
    }
    let (target, info) = if options.dry_run && is_new {
        (None, None)
    } else {
        let source = opened.as_ref().ok();
        let mut state = TargetState {
            is_new,
            is_parent: true,
        };
        let mut made = make_target(worker, part, source, status, state).await;
        let exists = |failure: &Failure| {
            failure.error().map(io::Error::kind) == Some(io::ErrorKind::AlreadyExists)
        };
        if is_new && made.as_ref().is_err_and(exists) {
            // Another argument has created the same parent directory.
            is_new = false;
            state.is_new = false;
            made = make_target(worker, part, source, status, state).await;
        }
        let (target, info) = made?;
        if is_new {
            worker.schedule.created_parents.insert(&info.target);
        }
        (
            Some(target),
            Some(DirectoryInfo {
                keeps_attributes: all_parents_existed,
                ..info
            }),
        )
    };
    let handles = Handles {
        source: Some(handle),
        target,
    };
    let (mut source, mut target) = sides(session, part, &status, &handles, info.as_ref());
    (source.follows, target.follows) = (true, !is_new);
    let sides = (source, target);
    let directory = Directory::child(part.directory.clone(), sides, info, is_new, None);
    worker
        .open_directories
        .keep_open(&directory, handles.clone());
    if let Some(recorder) = worker.schedule.sink.recorder() {
        recorder.enter(&directory);
    }
    Ok((directory, handles))
}

/// Describes how both sides are reopened: the source and the destination.
fn sides(
    session: &Session,
    entry: &Entry,
    status: &Metadata,
    handles: &Handles,
    info: Option<&DirectoryInfo>,
) -> (Side, Side) {
    let source = Side {
        name: entry.name.clone(),
        identity: handles.source.as_ref().map(|_| identity(status)),
        follows: session.follows(entry),
    };
    let target = Side {
        name: entry.new_name().to_owned(),
        identity: info.map(|info| identity(&info.target)),
        follows: session.options.keep_directory_symlink,
    };
    (source, target)
}

/// Opens the directories of an entry.
pub(crate) fn open_entry(worker: &Worker, entry: &mut Entry) -> Result<(), Failure> {
    let opened = worker.open_directories.open_entry(&worker.io, entry);
    opened.map_err(|error| {
        let (source, target) = (entry.quoted_source(), entry.quoted_target());
        let text =
            format!("cannot copy {source} to {target}, of which a directory cannot be found again");
        Failure::from_error(error, text)
    })
}

/// Reports that the walk has met a directory that this copy created. The message is printed once
/// per argument.
fn report_self_copy(worker: &Worker, entry: &Entry) -> Result<(), Failure> {
    let argument = entry
        .argument
        .as_ref()
        .or(entry.directory.argument.as_ref());
    if argument.is_some_and(|argument| argument.reported_self_copy.swap(true, Ordering::Relaxed)) {
        count(&worker.io.counters().failures);
        end_entry(worker, &entry.directory);
        return Ok(());
    }
    let (source, target) = match argument {
        Some(argument) => (quote(&argument.source), quote(&argument.target)),
        None => (entry.quoted_source(), entry.quoted_target()),
    };
    Err(failure!(
        "cannot copy a directory, {source}, into itself, {target}"
    ))
}

/// A destination directory before [`make_target`].
#[derive(Clone, Copy)]
struct TargetState {
    /// It does not exist.
    is_new: bool,
    /// It is a parent directory of an argument (`--parents`).
    is_parent: bool,
}

/// Creates the destination of a directory if it is new, and opens it.
async fn make_target(
    worker: &Worker,
    entry: &Entry,
    opened: Option<&Handle>,
    source: Metadata,
    TargetState { is_new, is_parent }: TargetState,
) -> Result<(Handle, DirectoryInfo), Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let options = &session.options;
    if is_new {
        let mode = new_file_mode::of_unfinished_directory(session, &source);
        let made = io.call_target(Mkdir::new(entry.target(), mode)).await;
        made.map_err(entry.target_failure("cannot create directory"))?;
    }
    let mut flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let is_outermost_parent = entry.argument.is_none() && entry.directory.info.is_none();
    if is_new || !(options.keep_directory_symlink || is_outermost_parent) {
        flags |= libc::O_NOFOLLOW;
    }
    let mut target = io.call_target(Open::new(entry.target(), flags)).await;
    if is_new && session.process.umask & FILLING_BITS != 0 {
        // The umask has removed permissions that filling the directory needs.
        let set =
            FileRef::Named(entry.target()).set_mode(io, (source.mode() & 0o1000) | FILLING_BITS);
        set.map_err(entry.target_failure("setting permissions for"))?;
        target = io.call_target(Open::new(entry.target(), flags)).await;
    }
    let handle = Arc::new(target.map_err(entry.target_failure("cannot open directory"))?);
    let target = io.call_target(StatFile::new(handle.clone())).await;
    let target = target.map_err(entry.target_failure("cannot stat"))?;
    let made = target.mode() & 0o7777;
    // A new directory inherits the default ACL of its parent.
    let above = entry.directory.info.as_ref();
    let inherits = is_new && above.is_some_and(|above| above.default_acl.is_none());
    let default_acl = if inherits {
        None
    } else {
        let directory = FileRef::Open(handle.clone());
        attributes::default_permissions(io, &directory).await
    };
    let mode =
        is_new.then(|| new_file_mode::of_directory(session, &source, default_acl, made, is_parent));
    let names = match opened {
        Some(opened) => {
            let names = attributes::list_names(io, session, &FileRef::Open(opened.clone()));
            names.map_err(entry.source_failure("cannot list attributes of", ""))?
        }
        None => AttributeNames::default(),
    };
    let info = DirectoryInfo {
        source,
        target,
        keeps_attributes: false,
        mode: mode.filter(|mode| *mode != made),
        default_acl,
        names,
        // One `fstatfs` per file system.
        storage_class: match &entry.directory.info {
            Some(above) if above.source.device() == source.device() => above.storage_class,
            _ => opened.map_or_else(StorageClass::default, StorageClass::for_directory),
        },
    };
    Ok((handle, info))
}

/// Counts a finished entry. After the last entry, leaves the directory, and then its ancestors
/// as they finish.
pub(crate) fn end_entry(worker: &Worker, directory: &Arc<Directory>) {
    let mut directory = Some(directory);
    while let Some(ending) = directory.filter(|directory| directory.finish_one()) {
        leave(worker, ending);
        if ending.parent.is_none() {
            worker.schedule.pool.stop();
        }
        directory = ending.parent.as_ref();
    }
}

/// Sets the attributes of a finished directory, and closes it.
fn leave(worker: &Worker, directory: &Arc<Directory>) {
    let (io, session) = (&worker.io, &*worker.session);
    if directory.parent.is_none() {
        return;
    }
    match worker.open_directories.handles_of(io, directory) {
        Ok(handles) => {
            // Before the attributes: without search permission `..` cannot be opened.
            worker
                .open_directories
                .reopen_parent(io, directory, &handles);
            let target = handles.target.clone();
            set_final_attributes(worker, directory, handles);
            if let (Some(target), Phase::WholeCopy) = (target, session.phase) {
                durable::sync_directory(session, directory, &target);
            }
        }
        Err(error) => {
            session.report_failure(&reopen_failure(directory, error));
        }
    }
    directory.open.close();
}

/// Makes the failure of reopening a directory.
pub(crate) fn reopen_failure(directory: &Directory, error: io::Error) -> Failure {
    let name = quote(directory.target_path());
    Failure::from_error(error, format!("cannot open directory {name} again"))
}

fn set_final_attributes(worker: &Worker, directory: &Directory, handles: Handles) {
    let (io, session) = (&worker.io, &*worker.session);
    let (Some(info), Some(target)) = (&directory.info, handles.target) else {
        return;
    };
    // An existing parent keeps its attributes, except if another argument of this copy created it.
    if info.keeps_attributes && !worker.schedule.created_parents.contains(&info.target) {
        return;
    }
    if session.options.dry_run || session.phase != Phase::WholeCopy {
        return;
    }
    if session.options.resume && !directory.is_new {
        resume::remove_leftovers(io, session, directory, &target);
    }
    let source = handles.source.map(FileRef::Open);
    let set =
        attributes::set_on_directory(io, session, directory, info, source.clone(), target.clone());
    let target = FileRef::Open(target);
    match set {
        Ok(()) => {
            verify::directory_attributes(io, session, directory, info, source.as_ref(), &target)
        }
        Err(failure) => session.report_failure(&failure),
    }
}

impl Directory {
    fn is_copy_of(&self, status: &Metadata) -> bool {
        self.info
            .as_ref()
            .is_some_and(|info| identity(&info.source) == identity(status))
    }
}
