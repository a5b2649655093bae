//! Regular files: opened, made, filled, given their attributes, closed.

use crate::attributes::{self, Names, Object, Present, Setting};
use crate::data::{self, Broken, Pair};
use crate::directory::{Entry, Handle};
use crate::entry::Copied;
use crate::existing::{self, Place};
use crate::made::identity;
use crate::outcome::{Done, Failure};
use crate::temporary;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Close, Fsync, Open, StatFile, StatPath, Truncate, Unlink};
use laio_rt::fs::Metadata;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// A source that has been opened.
#[derive(Debug)]
pub(crate) struct Opened {
    file: Handle,
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
        let open = Open::new(entry.source(), flags | libc::O_NONBLOCK);
        worker.perhaps(open, entry.is_in_memory()).await
    };
    let file = Arc::new(opened.map_err(failed)?);
    let status = StatFile::new(file.clone());
    let status = worker.perhaps(status, entry.is_in_memory()).await;
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
    finish(worker, entry, &source.status, target.get(), &names, &origin).await?;
    let Some(Target {
        file, temporary, ..
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
    if let Object::Open(file) = origin
        && let Some(file) = Arc::into_inner(file)
    {
        // Nothing was written to it: there is nothing to be told of.
        let _ = worker.lazily(Close::new(file)).await;
    }
    Ok(copied)
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
        .write(Open::new(entry.target(), libc::O_WRONLY | libc::O_NOCTTY))
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
    let open = async |name: &OsStr| {
        let flags =
            libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_NOCTTY;
        worker
            .write(Open::new(entry.beside(name), flags).mode(mode))
            .await
    };
    let made = match atomic {
        true => temporary::make(open)
            .await
            .map(|(file, name)| (file, Some(name))),
        false => open(entry.new_name()).await.map(|file| (file, None)),
    };
    let (file, temporary) = match made {
        Ok((file, temporary)) => (Arc::new(file), temporary),
        Err(error)
            if worker.options().through_dangling
                && !atomic
                && error.kind() == io::ErrorKind::AlreadyExists =>
        {
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NOCTTY;
            let opened = worker.write(Open::new(entry.target(), flags).mode(mode));
            let opened = opened.await;
            (
                Arc::new(opened.map_err(entry.target_failure("cannot create regular file"))?),
                None,
            )
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
    Ok(Target {
        present,
        device,
        is_regular: true,
        made: Some(Made { omitted, extra }),
        temporary,
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
    let pair = Pair {
        worker,
        source,
        status,
        target: &target.file,
        target_device: target.device,
        is_regular: target.is_regular && status.is_file(),
        is_in_memory: entry.is_in_memory(),
    };
    data::copy(&pair).await.map_err(|broken| {
        let (source, target) = (entry.quoted_source(), entry.quoted_target());
        match broken {
            Broken::Read(error) => Failure::of(error, format!("error reading {source}")),
            Broken::Write(error) => Failure::of(error, format!("error writing {target}")),
            Broken::Copy(error) => {
                Failure::of(error, format!("error copying {source} to {target}"))
            }
            Broken::Reflink(error) => {
                Failure::of(error, format!("failed to clone {target} from {source}"))
            }
            Broken::Extend(error) => Failure::of(error, format!("failed to extend {target}")),
            Broken::Stopped => {
                Failure::because(format!("interrupted while copying {source} to {target}"))
            }
        }
    })
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
