//! Regular files: opened, made, filled, given their attributes, closed.

use crate::attributes::{self, Names, Object, Present, Setting};
use crate::data::{self, Broken, Pair};
use crate::directory::{Entry, Handle};
use crate::entry::Copied;
use crate::existing::{self, Place};
use crate::made::identity;
use crate::medium::Medium;
use crate::options::Options;
use crate::outcome::{Done, Failure};
use crate::verify::Filled;
use crate::worker::Worker;
use crate::{resume, temporary, verify};
use laio::Errno;
use laio::ops::{Close, Fsync, Open, StatFile, StatPath, Truncate, Unlink};
use laio_rt::fs::Metadata;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// A source that has been opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: Handle,
    pub(crate) status: Metadata,
}

/// A destination that has been opened.
struct Target {
    file: Handle,
    present: Present,
    device: u64,
    is_regular: bool,
    /// It was made, with these permissions left out for the time being, and these added.
    made: Option<Made>,
    /// The name that it has until it is complete.
    temporary: Option<OsString>,
    /// How much of it an earlier run has made.
    start: u64,
    /// Keeps other runs off it.
    lock: Option<resume::Lock>,
    /// Something went wrong with it: nobody should go on with it.
    spoilt: Cell<bool>,
    /// The file whose name it is going to have: what is not taken from the source stays as it was.
    replaces: Option<Metadata>,
}

#[derive(Clone, Copy)]
struct Made {
    omitted: u32,
    extra: u32,
}

/// Opens the source and makes sure that it is what was expected: the file that has been looked at, or
/// else a regular file.
pub(crate) async fn open(
    worker: &Worker,
    entry: &Entry,
    expected: Option<&Metadata>,
) -> Result<Opened, Failure> {
    let mut flags = libc::O_RDONLY | libc::O_NOCTTY;
    if !worker.shared.follows(entry.argument.is_some()) {
        flags |= libc::O_NOFOLLOW;
    }
    let failed = entry.source_failure("cannot open", " for reading");
    let waits = expected.is_some_and(|expected| !expected.is_file());
    let opened = if waits {
        // A FIFO whose contents are wanted: there is nothing to copy before its peer comes.
        worker.plainly(Open::new(entry.source(), flags))
    } else {
        worker.open_source(entry, flags | libc::O_NONBLOCK).await.0
    };
    let file = Arc::new(opened.map_err(failed)?);
    let status = StatFile::new(file.clone());
    // What a device has of an open file is in memory.
    let is_local = entry.medium() != Medium::Unknown;
    let status = worker.perhaps(status, is_local).await;
    let status = status.map_err(entry.source_failure("cannot fstat", ""))?;
    let is_it = match expected {
        Some(expected) => identity(expected) == identity(&status),
        None => status.is_file(),
    };
    if !is_it {
        let name = entry.quoted_source();
        return Err(Failure::because(format!(
            "skipping file {name}, as it was replaced while being copied"
        )));
    }
    Ok(Opened { file, status })
}

/// Copies an opened file.
pub(crate) async fn copy(
    worker: &Worker,
    entry: &Entry,
    source: Opened,
    place: &Place,
) -> Result<Copied, Failure> {
    let origin = Object::Open(source.file);
    let names = attributes::names(worker, &origin);
    let names = names.map_err(entry.source_failure("cannot list attributes of", ""))?;
    let Object::Open(file) = &origin else {
        unreachable!("just made");
    };
    let target = match (place, worker.options().atomic) {
        (Place::Existing(there), false) => {
            open_existing(worker, entry, &source.status, &names, there).await?
        }
        (Place::Existing(there), true) => {
            let mut target = create(worker, entry, &source.status, &names, true).await?;
            target.replaces = Some(**there);
            target
        }
        (_, atomic) => create(worker, entry, &source.status, &names, atomic).await?,
    };
    // Also if this future is dropped half-way.
    let mut target = Incomplete {
        worker,
        entry,
        target: Some(target),
    };
    let copied = fill(worker, entry, file, &source.status, target.get()).await?;
    verify::tell_if_changed(worker, entry, file, &source.status).await;
    let finished = finish(worker, entry, &source.status, target.get(), &names, &origin).await;
    finished.inspect_err(|_| target.get().spoilt.set(true))?;
    let Some(Target {
        file,
        temporary,
        lock,
        ..
    }) = target.target.take()
    else {
        unreachable!("taken only here");
    };
    if let Some(file) = Arc::into_inner(file) {
        let closed = worker.write(Close::new(file)).await;
        closed.map_err(entry.target_failure("failed to close"))?;
    }
    if let Some(name) = temporary {
        let replaces = matches!(place, Place::Existing(_));
        temporary::put(worker, entry, &name, replaces).await?;
    }
    // Not before it has its name: another run would take it for left over.
    drop(lock);
    if let Object::Open(file) = origin
        && let Some(file) = Arc::into_inner(file)
    {
        // Nothing was written to it: there is nothing to be told of.
        let _ = worker.lazily(Close::new(file)).await;
    }
    Ok(copied)
}

/// What is to be verified is read, too.
fn access(options: &Options) -> i32 {
    match options.verify {
        true => libc::O_RDWR,
        false => libc::O_WRONLY,
    }
}

/// Gives a file whose data is there, under a temporary name, its attributes and its name.
pub(crate) async fn complete(
    worker: &Worker,
    entry: &Entry,
    source: Opened,
    temporary: &OsStr,
) -> Result<(), Failure> {
    let origin = Object::Open(source.file);
    let names = attributes::names(worker, &origin);
    let names = names.map_err(entry.source_failure("cannot list attributes of", ""))?;
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let opened = worker
        .write(Open::new(entry.beside(temporary), flags))
        .await;
    let file = Arc::new(opened.map_err(entry.target_failure("cannot open what was copied for"))?);
    let status = worker.write(StatFile::new(file.clone())).await;
    let status = status.map_err(entry.target_failure("cannot fstat"))?;
    let there = worker.write(StatPath::new(entry.target()).no_follow());
    let bits = source.status.mode() & 0o777;
    let target = Target {
        present: Present::of(&status, true, false),
        device: status.device(),
        is_regular: true,
        // It was made for nobody but its owner.
        made: Some(Made {
            omitted: bits & !0o600,
            extra: 0o600 & !bits,
        }),
        temporary: None,
        start: 0,
        lock: None,
        spoilt: Cell::default(),
        replaces: there.await.ok(),
        file,
    };
    finish(worker, entry, &source.status, &target, &names, &origin).await?;
    if let Some(file) = Arc::into_inner(target.file) {
        let closed = worker.write(Close::new(file)).await;
        closed.map_err(entry.target_failure("failed to close"))?;
    }
    temporary::put(worker, entry, temporary, target.replaces.is_some()).await
}

/// Opens what is there, to be overwritten.
async fn open_existing(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    names: &Names,
    there: &Metadata,
) -> Result<Target, Failure> {
    let options = worker.options();
    // Not O_TRUNC: it might be the source by now.
    let opened = worker
        .write(Open::new(entry.target(), access(options) | libc::O_NOCTTY))
        .await;
    let file = match opened {
        Ok(file) => Arc::new(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return create(worker, entry, source, names, false).await;
        }
        Err(_) if options.force => {
            existing::remove(worker, entry).await?;
            return create(worker, entry, source, names, false).await;
        }
        Err(error) => return Err(entry.target_failure("cannot create regular file")(error)),
    };
    let status = worker.write(StatFile::new(file.clone())).await;
    let status = status.map_err(entry.target_failure("cannot fstat"))?;
    if identity(&status) == identity(source) {
        let (source, target) = (entry.quoted_source(), entry.quoted_target());
        return Err(Failure::because(format!(
            "{source} and {target} are the same file"
        )));
    }
    if identity(&status) != identity(there) {
        let name = entry.quoted_target();
        return Err(Failure::because(format!(
            "not overwriting {name}, as it was replaced while being copied"
        )));
    }
    // Also if it is empty: it is changed now.
    if status.is_file() && !options.attributes_only {
        let cut = worker.write(Truncate::new(file.clone(), 0)).await;
        cut.map_err(entry.target_failure("cannot truncate"))?;
    }
    Ok(Target {
        present: Present::of(&status, true, true),
        device: status.device(),
        is_regular: status.is_file(),
        made: None,
        temporary: None,
        start: 0,
        lock: None,
        spoilt: Cell::default(),
        replaces: None,
        file,
    })
}

/// Makes the destination. Until it has its owner it is for ours only.
async fn create(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    names: &Names,
    atomic: bool,
) -> Result<Target, Failure> {
    let (preserve, process) = (worker.options().preserve, &worker.shared.process);
    let bits = source.mode() & 0o777;
    let mut present = Present::new(process, &entry.directory, None);
    let is_ours = (present.user, present.group) == (source.user(), source.group());
    let omitted = if preserve.ownership && !is_ours {
        bits & 0o077
    } else {
        0
    };
    let extra = if names.is_empty() { 0 } else { 0o200 & !bits };
    let mode = (bits & !omitted) | extra;
    let open_with = async |flags: i32, name: &OsStr| {
        let flags = flags | access(worker.options()) | libc::O_NOFOLLOW | libc::O_NOCTTY;
        worker
            .write(Open::new(entry.beside(name), flags).mode(mode))
            .await
    };
    let open = async |name: &OsStr| open_with(libc::O_CREAT | libc::O_EXCL, name).await;
    let (mut start, mut lock, mut found) = (0, None, None);
    let made = match atomic {
        true if worker.options().resume && !worker.options().attributes_only => {
            match resume::begin(worker, entry, source, open_with).await {
                Ok(begun) => {
                    let begun = begun?;
                    (start, lock, found) = (begun.start, begun.lock, begun.found);
                    Ok((begun.file, Some(begun.name)))
                }
                Err(error) => Err(error),
            }
        }
        true => temporary::make(open)
            .await
            .map(|(file, name)| (Arc::new(file), Some(name))),
        false => open(entry.new_name())
            .await
            .map(|file| (Arc::new(file), None)),
    };
    let (file, temporary) = match made {
        Ok(made) => made,
        Err(error)
            if worker.options().through_dangling
                && !atomic
                && error.kind() == io::ErrorKind::AlreadyExists =>
        {
            let flags = access(worker.options()) | libc::O_CREAT | libc::O_NOCTTY;
            let opened = worker.write(Open::new(entry.target(), flags).mode(mode));
            let opened = opened.await;
            let opened = opened.map_err(entry.target_failure("cannot create regular file"))?;
            (Arc::new(opened), None)
        }
        Err(error) => return Err(cannot_create(worker, entry, error).await),
    };
    if !present.may_have_acl {
        present.mode = Some(mode & !process.umask);
    }
    let device = match &entry.directory.found {
        Some(found) => found.target.device(),
        None => {
            let status = worker.write(StatFile::new(file.clone())).await;
            let status = status.map_err(entry.target_failure("cannot fstat"))?;
            present = Present::of(&status, true, false);
            status.device()
        }
    };
    if let Some(found) = found {
        // An earlier run may have given it some of its attributes.
        present = Present::of(&found, true, true);
    }
    Ok(Target {
        present,
        device,
        is_regular: true,
        made: Some(Made { omitted, extra }),
        temporary,
        start,
        lock,
        spoilt: Cell::default(),
        replaces: None,
        file,
    })
}

async fn cannot_create(worker: &Worker, entry: &Entry, error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::AlreadyExists {
        let status = worker
            .write(StatPath::new(entry.target()).no_follow())
            .await;
        if status.is_ok_and(|status| status.is_symlink()) {
            let name = entry.quoted_target();
            return Failure::because(format!("not writing through dangling symlink {name}"));
        }
    }
    let slash = entry.new_name().as_encoded_bytes().ends_with(b"/");
    let error = match error.raw_os_error() {
        // The name says that it is a directory, and there is none.
        Some(number) if slash && number == Errno::ISDIR.raw() => Errno::NOTDIR.into(),
        _ => error,
    };
    entry.target_failure("cannot create regular file")(error)
}

/// Copies the data.
async fn fill(
    worker: &Worker,
    entry: &Entry,
    source: &Handle,
    status: &Metadata,
    target: &Target,
) -> Result<Copied, Failure> {
    if worker.options().attributes_only {
        return Ok(Copied::without_data(Done::Made));
    }
    let seen = worker.options().hashes_on_the_way();
    let pair = Pair {
        worker,
        source,
        status,
        target: &target.file,
        target_device: target.device,
        is_regular: target.is_regular && status.is_file(),
        start: target.start,
        seen: seen.then(RefCell::default),
        medium: entry.medium(),
    };
    let result = match data::see_start(&pair).await {
        Ok(()) => data::copy(&pair).await,
        Err(broken) => Err(broken),
    };
    let mut copied = result.map_err(|broken| {
        target.spoilt.set(!matches!(broken, Broken::Stopped));
        describe(entry, broken)
    })?;
    let filled = Filled {
        worker,
        entry,
        source,
        status,
        target: &target.file,
        is_regular: pair.is_regular,
        done: copied.done,
        seen: pair.seen.map(RefCell::into_inner),
    };
    let digest = verify::filled(filled).await;
    copied.digest = digest.inspect_err(|_| target.spoilt.set(true))?;
    Ok(copied)
}

pub(crate) fn describe(entry: &Entry, broken: Broken) -> Failure {
    let (source, target) = (entry.quoted_source(), entry.quoted_target());
    match broken {
        Broken::Read(error) => Failure::of(error, format!("error reading {source}")),
        Broken::Write(error) => Failure::of(error, format!("error writing {target}")),
        Broken::Copy(error) => Failure::of(error, format!("error copying {source} to {target}")),
        Broken::Reflink(error) => {
            Failure::of(error, format!("failed to clone {target} from {source}"))
        }
        Broken::Extend(error) => Failure::of(error, format!("failed to extend {target}")),
        Broken::Stopped => {
            Failure::because(format!("interrupted while copying {source} to {target}"))
        }
    }
}

/// Sets the attributes; then the data is made to reach the device, if that is wanted.
async fn finish(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    target: &Target,
    names: &Names,
    origin: &Object,
) -> Result<(), Failure> {
    let (preserve, umask) = (worker.options().preserve, worker.shared.process.umask);
    let object = Object::Open(target.file.clone());
    attributes::set(
        worker,
        &Setting {
            source,
            target: &object,
            path: &|| entry.target_path(),
            names: Some((names, origin)),
            present: target.present,
            is_link: false,
        },
    )?;
    if let Some(there) = &target.replaces
        && !preserve.ownership
    {
        // Who may not give files away keeps them.
        let _ = object.set_owner(worker, Some(there.user()), Some(there.group()));
    }
    if !preserve.mode
        && let Some(made) = target.made
    {
        let bits = source.mode() & 0o777;
        let mode = match preserve.default_mode {
            _ if target.replaces.is_some() => target.replaces.map(|there| there.mode() & 0o7777),
            true => Some(0o666 & !umask),
            false if (made.omitted & !umask) | made.extra != 0 => Some(bits & !umask),
            false => None,
        };
        if let Some(mode) = mode {
            let set = object.set_mode(worker, mode);
            set.map_err(entry.target_failure("preserving permissions for"))?;
        }
    }
    verify::file_attributes(worker, entry, source, (names, origin), &object).await;
    if worker.options().fsync {
        let synced = worker.lazily(Fsync::new(target.file.clone())).await;
        synced.map_err(entry.target_failure("cannot bring to the device"))?;
    }
    Ok(())
}

/// A destination until it is complete. Dropped before, it is removed if it was made: it must not look as if
/// it were whole.
struct Incomplete<'a> {
    worker: &'a Worker,
    entry: &'a Entry,
    target: Option<Target>,
}

impl Opened {
    pub(crate) fn handle(&self) -> &Handle {
        &self.file
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.file
    }
}

impl Incomplete<'_> {
    fn get(&self) -> &Target {
        self.target.as_ref().expect("taken only when complete")
    }
}

impl Drop for Incomplete<'_> {
    fn drop(&mut self) {
        let Some(target) = &self.target else { return };
        let (worker, entry) = (self.worker, self.entry);
        if target.made.is_none() {
            return;
        }
        if let Some(name) = &target.temporary {
            let kept = target.lock.is_some() && !target.spoilt.get();
            if kept && worker.shared.stop.is_asked() {
                // The next run goes on with it.
                return;
            }
            return temporary::discard(worker, entry, name);
        }
        let ours = worker.plainly(StatFile::new(target.file.clone()));
        let there = worker.plainly(StatPath::new(entry.target()).no_follow());
        // Unless somebody else has taken the name meanwhile.
        if let (Ok(ours), Ok(there)) = (ours, there)
            && identity(&ours) == identity(&there)
            && worker.plainly(Unlink::new(entry.target())).is_ok()
        {
            let name = entry.quoted_target();
            worker
                .shared
                .console
                .complain(format!("removed incomplete {name}"));
        }
    }
}
