//! Regular files: opened, made, filled, given their attributes, closed.

use crate::attributes::{self, Failures, Names, Object, Present, Setting};
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
use crate::{private, resume, temporary, verify};
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
    /// It was made.
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
    /// With this mode, for the time being.
    mode: u32,
    /// Through a symbolic link, in another directory than that of the name.
    elsewhere: bool,
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
    let mut failures = Failures::new(worker);
    let given = target.get();
    set_attributes(
        worker,
        entry,
        &source.status,
        given,
        (&names, &origin),
        &mut failures,
    )
    .await;
    let synced = sync(worker, entry, &given.file).await;
    if synced.is_err() {
        given.spoilt.set(true);
        failures.note(synced);
        failures.result()?;
    }
    // From here on it is complete, and stays whatever else fails.
    let Some(given) = target.target.take() else {
        unreachable!("taken only here");
    };
    place_it(worker, entry, given, &mut failures).await?;
    if let Object::Open(file) = origin
        && let Some(file) = Arc::into_inner(file)
    {
        // Nothing was written to it: there is nothing to be told of.
        let _ = worker.lazily(Close::new(file)).await;
    }
    failures.result().map_err(Failure::of_attributes)?;
    Ok(copied)
}

/// Closes a file that is complete, and gives it its name.
async fn place_it(
    worker: &Worker,
    entry: &Entry,
    target: Target,
    failures: &mut Failures<'_>,
) -> Result<(), Failure> {
    let Target {
        file,
        temporary,
        lock,
        replaces,
        ..
    } = target;
    let closed = match Arc::into_inner(file) {
        Some(file) => worker.write(Close::new(file)).await,
        None => Ok(()),
    };
    let closed = closed.map_err(entry.target_failure("failed to close"));
    let placed = match (closed, temporary) {
        (Err(failure), Some(name)) => {
            // Some of its data may be lost.
            temporary::discard(worker, entry, &name);
            Err(failure)
        }
        (Ok(()), Some(name)) => temporary::put(worker, entry, &name, replaces.is_some()).await,
        (closed, None) => closed,
    };
    // Not before it has its name: another run would take it for left over.
    drop(lock);
    if placed.is_ok() {
        return Ok(());
    }
    failures.note(placed);
    failures.result()
}

/// Makes the data reach the device, if that is wanted.
async fn sync(worker: &Worker, entry: &Entry, file: &Handle) -> Result<(), Failure> {
    if !worker.options().fsync {
        return Ok(());
    }
    let synced = worker.lazily(Fsync::new(file.clone())).await;
    synced.map_err(entry.target_failure("cannot bring to the device"))
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
    let target = Target {
        present: Present::of(&status, true, false),
        device: status.device(),
        is_regular: true,
        made: Some(Made {
            mode: REGION_MODE,
            elsewhere: false,
        }),
        temporary: Some(temporary.to_owned()),
        start: 0,
        lock: None,
        spoilt: Cell::default(),
        replaces: there.await.ok(),
        file,
    };
    let mut failures = Failures::new(worker);
    set_attributes(
        worker,
        entry,
        &source.status,
        &target,
        (&names, &origin),
        &mut failures,
    )
    .await;
    if let Err(failure) = sync(worker, entry, &target.file).await {
        failures.note(Err(failure));
        return failures.result();
    }
    place_it(worker, entry, target, &mut failures).await?;
    failures.result().map_err(Failure::of_attributes)
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

/// The mode of a file that is filled in regions.
pub(crate) const REGION_MODE: u32 = 0o600;

/// Makes the destination, for its owner alone.
async fn create(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    names: &Names,
    atomic: bool,
) -> Result<Target, Failure> {
    let process = &worker.shared.process;
    let mut present = Present::new(process, &entry.directory, None);
    // Without it no extended attribute could be set.
    let extra = if names.is_empty() { 0 } else { 0o200 };
    let mode = (source.mode() & private::OWNER) | extra;
    let open_with = async |flags: i32, name: &OsStr| {
        let flags = flags | access(worker.options()) | libc::O_NOFOLLOW | libc::O_NOCTTY;
        worker
            .write(Open::new(entry.beside(name), flags).mode(mode))
            .await
    };
    let open = async |name: &OsStr| open_with(libc::O_CREAT | libc::O_EXCL, name).await;
    let (mut start, mut lock, mut found, mut elsewhere) = (0, None, None, false);
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
            elsewhere = true;
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
        let narrowed = found.mode() & private::OWNER;
        if found.mode() & 0o7777 != narrowed {
            let set = Object::Open(file.clone()).set_mode(worker, narrowed);
            set.map_err(entry.target_failure("preserving permissions for"))?;
            present.mode = Some(narrowed);
        }
    }
    Ok(Target {
        present,
        device,
        is_regular: true,
        made: Some(Made { mode, elsewhere }),
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
        let is_just_made = |link: &Metadata| existing::is_just_made_link(worker, link);
        if entry.argument.is_some() && status.as_ref().is_ok_and(is_just_made) {
            return existing::through_just_made_link(entry);
        }
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

/// Sets the attributes of a file whose data is complete.
async fn set_attributes(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    target: &Target,
    (names, origin): (&Names, &Object),
    failures: &mut Failures<'_>,
) {
    let preserve = worker.options().preserve;
    let object = Object::Open(target.file.clone());
    let setting = Setting {
        source,
        target: &object,
        path: &|| entry.target_path(),
        names: Some((names, origin)),
        present: target.present,
        is_link: false,
    };
    let is_owned = attributes::set(worker, &setting, failures);
    if let Some(there) = &target.replaces
        && !preserve.ownership
    {
        // Who may not give files away keeps them.
        let _ = object.set_owner(worker, Some(there.user()), Some(there.group()));
    }
    if let Some(made) = target.made
        && !preserve.mode
        && is_owned
    {
        let mode = mode_in_the_end(worker, entry, source, target, made).await;
        let present = target.present;
        let may_differ = present.is_old || (present.may_have_acl && preserve.default_mode);
        if may_differ || present.mode != Some(mode) {
            let modes = (made.mode, mode);
            failures.note(private::widen(worker, entry, &object, modes));
        }
    }
    verify::file_attributes(worker, entry, source, (names, origin), &object).await;
}

/// The mode of a file that does not get that of its source.
async fn mode_in_the_end(
    worker: &Worker,
    entry: &Entry,
    source: &Metadata,
    target: &Target,
    made: Made,
) -> u32 {
    let preserve = worker.options().preserve;
    if let Some(there) = &target.replaces {
        return there.mode() & 0o7777;
    }
    if preserve.default_mode {
        return 0o666 & !worker.shared.process.umask;
    }
    let bits = source.mode() & 0o777;
    if made.elsewhere {
        return private::elsewhere(worker, &target.file, bits).await;
    }
    // GNU's cp adds them in the end, and all others once more.
    let by_umask = bits & !worker.shared.process.umask;
    if preserve.ownership && (by_umask & 0o077 | (made.mode & !bits)) != 0 {
        return by_umask;
    }
    private::in_the_end(worker, entry, bits, 0).await
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
