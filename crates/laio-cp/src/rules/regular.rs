//! Copies a regular file: opens the source, creates the destination, copies data and attributes,
//! and gives the copy its name.

use crate::io::Io;
use crate::options::Options;
use crate::outcome::{Copied, Done, Failure, failure};
use crate::rules::attributes::{self, AttributeCopy, CurrentAttributes, Failures, FileRef};
use crate::rules::conflict::{self, Resolution};
use crate::rules::new_file_mode::{self, NewFile};
use crate::rules::pair::{CopyError, OpenPair};
use crate::rules::source::OpenedSource;
use crate::rules::{behind_link, data, durable, resume, transfer, verify};
use crate::session::Session;
use crate::tree::{AttributeNames, Entry, Handle, identity, temporary};
use laio::Errno;
use laio::ops::{Close, Fsync, Open, StatFile, StatPath, Truncate, Unlink};
use laio_rt::fs::Metadata;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// An open destination.
struct OpenTarget {
    file: Handle,
    current: CurrentAttributes,
    device: u64,
    is_regular: bool,
    /// How this copy created the file; `None` if it existed.
    creation: Option<Creation>,
    /// The temporary name, until the file is complete.
    temporary: Option<OsString>,
    /// The number of bytes that an earlier run has copied.
    start: u64,
    /// Keeps other runs from using the temporary file.
    lock: Option<resume::Lock>,
    /// The data may be wrong: a later run must not continue the file.
    not_resumable: Cell<bool>,
    /// Whether the file takes the name of an existing one.
    replaces: bool,
    /// The status of the file that it replaces, and whose attributes it takes over.
    kept: Option<Metadata>,
}

/// How a file was created.
#[derive(Clone, Copy)]
struct Creation {
    /// The mode at creation.
    mode: u32,
    /// The file was created through a symbolic link, in another directory.
    through_link: bool,
}

impl OpenTarget {
    /// A regular file that this copy did not create.
    fn new(file: Handle, current: CurrentAttributes, device: u64) -> OpenTarget {
        OpenTarget {
            file,
            current,
            device,
            is_regular: true,
            creation: None,
            temporary: None,
            start: 0,
            lock: None,
            not_resumable: Cell::default(),
            replaces: false,
            kept: None,
        }
    }
}

/// Copies an opened file.
pub(crate) async fn copy(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: OpenedSource,
    resolution: &Resolution,
) -> Result<Copied, Failure> {
    let origin = FileRef::Open(source.file);
    let names = attributes::list_names(io, session, &origin);
    let names = names.map_err(entry.source_failure("cannot list attributes of", ""))?;
    let FileRef::Open(file) = &origin else {
        unreachable!("just made");
    };
    let behind = behind_link(io, session, entry, resolution).await?;
    let entry = behind.as_ref().unwrap_or(entry);
    let target = open_target(io, session, entry, &source.status, &names, resolution).await?;
    // The guard also removes the file if this future is dropped.
    let mut target = IncompleteTarget {
        io,
        session,
        entry,
        target: Some(target),
    };
    let copied = copy_data(io, session, entry, file, &source.status, target.get()).await?;
    verify::report_if_source_changed(io, session, entry, file, &source.status).await;
    let mut failures = Failures::new(session);
    let open_target = target.get();
    set_attributes(
        io,
        session,
        entry,
        &source.status,
        open_target,
        (&names, &origin),
        &mut failures,
    )
    .await?;
    let synced = sync(io, session, entry, &open_target.file).await;
    if synced.is_err() {
        open_target.not_resumable.set(true);
        failures.add(synced);
        failures.result()?;
    }
    // The data is complete: the file stays, even if attributes fail.
    let Some(open_target) = target.target.take() else {
        unreachable!("taken only here");
    };
    publish(io, entry, open_target, &mut failures).await?;
    if let FileRef::Open(file) = origin
        && let Some(file) = Arc::into_inner(file)
    {
        let closed = io.call_backend(Close::new(file)).await;
        if let Err(error) = closed.map_err(entry.source_failure("failed to close", "")) {
            failures.add(Err(error));
            failures.result()?;
        }
    }
    if behind.is_some() {
        // This directory is none of those that are synced when they are finished.
        failures.add(durable::sync_directory_of(session, entry));
    }
    failures.result().map_err(Failure::attributes_only)?;
    Ok(copied)
}

/// The entry with the file behind a symbolic link as its destination, if the copy takes the name of a file and leaves the
/// link.
async fn behind_link(
    io: &Io,
    session: &Session,
    entry: &Entry,
    resolution: &Resolution,
) -> Result<Option<Entry>, Failure> {
    let options = &session.options;
    if !options.atomic || options.attributes_only {
        return Ok(None);
    }
    match resolution {
        Resolution::Existing(existing) if existing.is_file() => {
            behind_link::entry_behind(io, entry, Some(existing)).await
        }
        Resolution::Free if options.through_dangling => {
            behind_link::entry_behind(io, entry, None).await
        }
        _ => Ok(None),
    }
}

/// Creates or opens the destination.
async fn open_target(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    names: &AttributeNames,
    resolution: &Resolution,
) -> Result<OpenTarget, Failure> {
    let options = &session.options;
    let existing = match resolution {
        Resolution::Existing(existing) => existing,
        Resolution::Replaced(_) => {
            let created = create(io, session, entry, source, names, (true, true)).await?;
            return Ok(OpenTarget {
                replaces: true,
                ..created
            });
        }
        _ => return create(io, session, entry, source, names, (options.atomic, false)).await,
    };
    // Data for a device, a FIFO or a socket is written into it. Attributes alone are set on the existing file.
    let is_link_loop = existing.is_symlink();
    let is_written_into = !existing.is_file() && !is_link_loop;
    if !options.atomic || options.attributes_only || is_written_into {
        return open_existing(io, session, entry, source, names, existing).await;
    }
    let created = create(io, session, entry, source, names, (true, true)).await?;
    Ok(OpenTarget {
        replaces: true,
        kept: existing.is_file().then_some(**existing),
        ..created
    })
}

/// Closes a complete file and renames it to its final name.
async fn publish(
    io: &Io,
    entry: &Entry,
    target: OpenTarget,
    failures: &mut Failures<'_>,
) -> Result<(), Failure> {
    let OpenTarget {
        file,
        temporary,
        lock,
        replaces,
        ..
    } = target;
    let closed = close(io, entry, file).await;
    let placed = match (closed, temporary) {
        (Err(failure), Some(name)) => {
            // The file may have lost data.
            temporary::remove(io, entry, &name);
            Err(failure)
        }
        (Ok(()), Some(name)) => temporary::rename_into_place(io, entry, &name, replaces).await,
        (closed, None) => closed,
    };
    // Only after the rename: otherwise another run would treat the file as a leftover.
    drop(lock);
    if placed.is_ok() {
        return Ok(());
    }
    failures.add(placed);
    failures.result()
}

/// Closes a destination. A file system with a server, or with quotas, may report only now that data
/// was lost.
pub(crate) async fn close(io: &Io, entry: &Entry, file: Handle) -> Result<(), Failure> {
    let closed = match Arc::into_inner(file) {
        Some(file) => io.call_target(Close::new(file)).await,
        None => Ok(()),
    };
    closed.map_err(entry.target_failure("failed to close"))
}

/// Syncs the data to the device, if `--fsync` is set.
pub(crate) async fn sync(
    io: &Io,
    session: &Session,
    entry: &Entry,
    file: &Handle,
) -> Result<(), Failure> {
    if !session.options.fsync {
        return Ok(());
    }
    let synced = io.call_backend(Fsync::new(file.clone())).await;
    synced.map_err(entry.target_failure("cannot sync"))
}

/// The access mode: verification also reads the destination.
fn access_mode(options: &Options) -> i32 {
    if options.verify {
        libc::O_RDWR
    } else {
        libc::O_WRONLY
    }
}

/// Sets the attributes of a file whose data is complete, and renames it from its temporary name.
pub(crate) async fn complete_temporary(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: OpenedSource,
    temporary: &OsStr,
) -> Result<(), Failure> {
    let origin = FileRef::Open(source.file);
    let names = attributes::list_names(io, session, &origin);
    let names = names.map_err(entry.source_failure("cannot list attributes of", ""))?;
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let open = Open::new(entry.sibling(temporary), flags);
    let opened = io.call_target(open).await;
    let file = Arc::new(opened.map_err(entry.target_failure("cannot open the temporary file of"))?);
    let status = io.call_target(StatFile::new(file.clone())).await;
    let status = status.map_err(entry.target_failure("cannot fstat"))?;
    let existing = io.call_target(StatPath::new(entry.target()).no_follow());
    let existing = existing.await.ok();
    if existing.is_some_and(|existing| !existing.is_file()) && !session.options.remove_destination {
        let name = entry.quoted_target();
        return Err(failure!(
            "not replacing {name}, which is no regular file any more; copy it with a new plan"
        ));
    }
    let current = CurrentAttributes::from_status(&status, true, false);
    let mut target = OpenTarget::new(file, current, status.device());
    target.creation = Some(Creation {
        mode: REGION_MODE,
        through_link: false,
    });
    target.temporary = Some(temporary.to_owned());
    target.replaces = existing.is_some();
    target.kept = existing.filter(|existing| !conflict::takes_name(session, existing));
    let mut failures = Failures::new(session);
    set_attributes(
        io,
        session,
        entry,
        &source.status,
        &target,
        (&names, &origin),
        &mut failures,
    )
    .await?;
    if let Err(failure) = sync(io, session, entry, &target.file).await {
        failures.add(Err(failure));
        return failures.result();
    }
    publish(io, entry, target, &mut failures).await?;
    failures.result().map_err(Failure::attributes_only)
}

/// Opens an existing destination to overwrite it.
async fn open_existing(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    names: &AttributeNames,
    existing: &Metadata,
) -> Result<OpenTarget, Failure> {
    let options = &session.options;
    // Without O_TRUNC: another process may have replaced the destination by the source.
    let opened = io
        .call_target(Open::new(
            entry.target(),
            access_mode(options) | libc::O_NOCTTY,
        ))
        .await;
    let file = match opened {
        Ok(file) => Arc::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return create(io, session, entry, source, names, (false, false)).await;
        }
        // `--atomic` does not replace what it would write into.
        Err(_) if options.force && (existing.is_file() || !options.atomic) => {
            conflict::remove(io, session, entry).await?;
            return create(io, session, entry, source, names, (false, false)).await;
        }
        Err(error) => return Err(entry.target_failure("cannot create regular file")(error)),
    };
    let status = io.call_target(StatFile::new(file.clone())).await;
    let status = status.map_err(entry.target_failure("cannot fstat"))?;
    if identity(&status) == identity(source) {
        let (source, target) = (entry.quoted_source(), entry.quoted_target());
        return Err(failure!("{source} and {target} are the same file"));
    }
    if identity(&status) != identity(existing) {
        return Err(entry.replaced_failure());
    }
    // Truncate an empty file too, because that updates its times.
    if status.is_file() && !options.attributes_only {
        let cut = io.call_target(Truncate::new(file.clone(), 0)).await;
        cut.map_err(entry.target_failure("cannot truncate"))?;
    }
    let current = CurrentAttributes::from_status(&status, true, true);
    Ok(OpenTarget {
        is_regular: status.is_file(),
        ..OpenTarget::new(file, current, status.device())
    })
}

/// The mode of a file while its regions are copied.
pub(crate) const REGION_MODE: u32 = 0o600;

/// Creates the destination, accessible by its owner only; or with its final permissions, if this copy
/// sets none. `atomic`: under a temporary name; `replaces`: that of an existing file later.
async fn create(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    names: &AttributeNames,
    (atomic, replaces): (bool, bool),
) -> Result<OpenTarget, Failure> {
    let process = &session.process;
    let mut current = CurrentAttributes::new(process, &entry.directory, None);
    let mode = if new_file_mode::is_final_at_creation(&session.options) && !atomic {
        source.mode() & new_file_mode::PERMISSION_BITS
    } else {
        // `setxattr` needs write permission.

        let extra = if names.is_empty() && !replaces {
            0
        } else {
            0o200
        };
        (source.mode() & new_file_mode::OWNER_BITS) | extra
    };
    let open_with = async |flags: i32, name: &OsStr| {
        let flags = flags | access_mode(&session.options) | libc::O_NOFOLLOW | libc::O_NOCTTY;
        io.call_target(Open::new(entry.sibling(name), flags).mode(mode))
            .await
    };
    let open = async |name: &OsStr| open_with(libc::O_CREAT | libc::O_EXCL, name).await;
    let (mut start, mut lock, mut partial_status, mut through_link) = (0, None, None, false);
    let made = match atomic {
        true if session.options.resume && !session.options.attributes_only => {
            match resume::open_target(io, session, entry, source, open_with).await {
                Ok(resumable) => {
                    let resumable = resumable?;
                    (start, lock, partial_status) =
                        (resumable.start, resumable.lock, resumable.partial_status);
                    Ok((resumable.file, Some(resumable.name)))
                }
                Err(error) => Err(error),
            }
        }
        true => temporary::create(|| session.temporary_names.next(), open)
            .await
            .map(|(file, name)| (Arc::new(file), Some(name))),
        false => open(entry.new_name())
            .await
            .map(|file| (Arc::new(file), None)),
    };
    let (file, temporary) = match made {
        Ok(made) => made,
        Err(error)
            if session.options.through_dangling
                && !atomic
                && error.kind() == io::ErrorKind::AlreadyExists =>
        {
            let flags = access_mode(&session.options) | libc::O_CREAT | libc::O_NOCTTY;
            let opened = io.call_target(Open::new(entry.target(), flags).mode(mode));
            let opened = opened.await;
            let opened = opened.map_err(entry.target_failure("cannot create regular file"))?;
            through_link = true;
            (Arc::new(opened), None)
        }
        Err(error) => return Err(cannot_create(io, session, entry, error).await),
    };
    if !current.may_have_acl {
        current.mode = Some(mode & !process.umask);
    }
    let device = match &entry.directory.info {
        Some(directory) if !through_link => directory.target.device(),
        // The status of the directory that contains the file is unknown.
        _ => {
            let status = io.call_target(StatFile::new(file.clone())).await;
            let status = status.map_err(entry.target_failure("cannot fstat"))?;
            current = CurrentAttributes::from_status(&status, true, false);
            status.device()
        }
    };
    if let Some(partial) = partial_status {
        // An earlier run may have set some attributes.
        current = CurrentAttributes::from_status(&partial, true, true);
        let narrowed = partial.mode() & new_file_mode::OWNER_BITS;
        if partial.mode() & 0o7777 != narrowed {
            let set = FileRef::Open(file.clone()).set_mode(io, narrowed);
            set.map_err(entry.target_failure("preserving permissions for"))?;
            current.mode = Some(narrowed);
        }
    }
    Ok(OpenTarget {
        creation: Some(Creation { mode, through_link }),
        temporary,
        start,
        lock,
        ..OpenTarget::new(file, current, device)
    })
}

async fn cannot_create(io: &Io, session: &Session, entry: &Entry, error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let stat = StatPath::new(entry.target()).no_follow();
        let status = io.call_target(stat).await;
        let is_just_created = |link: &Metadata| conflict::is_just_created_link(session, link);
        if entry.argument.is_some() && status.as_ref().is_ok_and(is_just_created) {
            return conflict::just_created_link_failure(entry);
        }
        if status.is_ok_and(|status| status.is_symlink()) {
            return conflict::dangling_link_failure(entry);
        }
    }
    let slash = entry.new_name().as_encoded_bytes().ends_with(b"/");
    let error = match error.raw_os_error() {
        // The kernel says EISDIR; GNU cp reports ENOTDIR.
        Some(number) if slash && number == Errno::ISDIR.raw() => Errno::NOTDIR.into(),
        _ => error,
    };
    entry.target_failure("cannot create regular file")(error)
}

/// Copies and verifies the data.
async fn copy_data(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Handle,
    status: &Metadata,
    target: &OpenTarget,
) -> Result<Copied, Failure> {
    if session.options.attributes_only {
        return Ok(Copied::without_data(Done::Created));
    }
    let hashing = session.options.hashes_on_the_way();
    let pair = OpenPair {
        io,
        session,
        source,
        status,
        target: &target.file,
        target_device: target.device,
        is_regular: target.is_regular && status.is_file(),
        start: target.start,
        hashing: hashing.then(RefCell::default),
        storage_class: entry.storage_class(),
    };
    let result = match transfer::hash_existing_prefix(&pair).await {
        Ok(()) => data::copy(&pair).await,
        Err(error) => Err(error),
    };
    let mut copied = result.map_err(|error| {
        target
            .not_resumable
            .set(!matches!(error, CopyError::Stopped));
        copy_failure(entry, error)
    })?;
    let digest = verify::verify_data(entry, pair, copied.done).await;
    copied.digest = digest.inspect_err(|_| target.not_resumable.set(true))?;
    Ok(copied)
}

/// The message of a failed data copy, as GNU cp words it.
pub(crate) fn copy_failure(entry: &Entry, error: CopyError) -> Failure {
    let (source, target) = (entry.quoted_source(), entry.quoted_target());
    match error {
        CopyError::Read(error) => Failure::from_error(error, format!("error reading {source}")),
        CopyError::Write(error) => Failure::from_error(error, format!("error writing {target}")),
        CopyError::Copy(error) => {
            Failure::from_error(error, format!("error copying {source} to {target}"))
        }
        CopyError::Reflink(error) => {
            Failure::from_error(error, format!("failed to clone {target} from {source}"))
        }
        CopyError::Extend(error) => {
            Failure::from_error(error, format!("failed to extend {target}"))
        }
        CopyError::Stopped if laio::process::is_memory_exhausted() => {
            failure!("memory exhausted while copying {source} to {target}")
        }
        CopyError::Stopped => failure!("interrupted while copying {source} to {target}"),
    }
}

/// Sets the attributes of a file whose data is complete.
async fn set_attributes(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    target: &OpenTarget,
    (names, origin): (&AttributeNames, &FileRef),
    failures: &mut Failures<'_>,
) -> Result<(), Failure> {
    let preserve = session.options.preserve;
    let object = FileRef::Open(target.file.clone());
    let attribute_copy = AttributeCopy {
        io,
        session,
        source,
        target: &object,
        path: &|| entry.target_path(),
        names: Some((names, origin)),
        current: CurrentAttributes {
            is_old: target.current.is_old || target.kept.is_some(),
            ..target.current
        },
        is_link: false,
    };
    let kept_mode = match &target.kept {
        Some(existing) => Some(attributes::take_over(
            io, session, entry, existing, &object,
        )?),
        None => None,
    };
    let is_owned = attributes::set(&attribute_copy, failures);
    if let Some(creation) = target.creation
        && !preserve.mode
        && is_owned
    {
        let new = NewFile {
            file: &target.file,
            through_link: creation.through_link,
            kept_mode,
        };
        let mode = new_file_mode::of_file(io, session, entry, source, new).await;
        let current = target.current;
        let may_differ = current.is_old
            || kept_mode.is_some()
            || (current.may_have_acl && preserve.default_mode);
        if may_differ || current.mode != Some(mode) {
            let modes = (creation.mode, mode);
            failures.add(new_file_mode::set_final(io, session, entry, &object, modes));
        }
    }
    verify::file_attributes(io, session, entry, source, (names, origin), &object).await;
    Ok(())
}

/// A destination whose data is not complete; emptied before the file is published. Dropping it
/// removes a file that this copy created, so that no incomplete file looks complete. If the copy is
/// interrupted, `--resume` keeps a partial file that the next run can continue.
struct IncompleteTarget<'a> {
    io: &'a Io,
    session: &'a Session,
    entry: &'a Entry,
    target: Option<OpenTarget>,
}

impl IncompleteTarget<'_> {
    fn get(&self) -> &OpenTarget {
        self.target.as_ref().expect("taken only when complete")
    }
}

impl Drop for IncompleteTarget<'_> {
    fn drop(&mut self) {
        let Some(target) = &self.target else { return };
        let (io, session, entry) = (self.io, self.session, self.entry);
        if target.creation.is_none() {
            if session.stop.is_requested() && target.is_regular && !session.options.attributes_only
            {
                // If it was not cut short by the error of a call, no message names it.
                let name = entry.quoted_target();
                session.console.warn(format!("{name} is incomplete"));
            }
            return;
        }
        if let Some(name) = &target.temporary {
            let kept = target.lock.is_some() && !target.not_resumable.get();
            if kept && session.stop.is_requested() {
                // The next run continues the file.
                return;
            }
            return temporary::remove(io, entry, name);
        }
        let ours = io.call_blocking(StatFile::new(target.file.clone()));
        let existing = io.call_blocking(StatPath::new(entry.target()).no_follow());
        // Only if the name still refers to this file.
        if let (Ok(ours), Ok(existing)) = (ours, existing)
            && identity(&ours) == identity(&existing)
            && io.call_blocking(Unlink::new(entry.target())).is_ok()
        {
            let name = entry.quoted_target();
            session.console.warn(format!("removed incomplete {name}"));
        }
    }
}
