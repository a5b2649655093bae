//! Opening a file below the root, and reading its metadata, without the cache.

use super::contents::{Contents, FileKind, OpenFile, Opened};
use super::file_system::keeps_what_was_read_by;
use crate::site::Site;
use laio::Operation;
use laio::ops::{FileStatus, Name, Open, OpenStat, StatFile};
use laio::walk::Walk;
use laio_rt::Descriptor;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_net::io_contexts::IoContexts;
use rustix::fs::{OFlags, ResolveFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The open flags. Non-blocking, so that opening a FIFO does not wait for a writer.
pub const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Opens a file without looking in the cache. `load`: see [`OpenStat::load`].
pub(crate) async fn open_uncached(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
    load: usize,
) -> io::Result<FileKind> {
    let begun = observe::begin();
    if !contexts.are_same(IoStep::Open, IoStep::Stat) {
        let file = open_below(contexts, site, name, FLAGS, site.resolve).await;
        observe::end(Stage::Open, begun);
        return examine(contexts, Descriptor::from(file?)).await;
    }
    let open = retried(contexts, site, name, FLAGS, site.resolve, |open| {
        OpenStat::from(open).load(load)
    })
    .await;
    observe::end(Stage::Open, begun);
    let opened = open?;
    let (status, is_stored) = (opened.status().copied(), opened.is_stored());
    let loaded = opened.loaded() as u64;
    let file = Descriptor::from(opened.into_own_descriptor());
    match status {
        Some(status) => {
            let kind = kind(contexts, file, status, is_stored)?;
            Ok(with_loaded(contexts, kind, loaded))
        }
        None => examine(contexts, file).await,
    }
}

/// Records how many bytes at the beginning of a file are in memory, if they stay there for a while.
fn with_loaded(contexts: &IoContexts, kind: FileKind, loaded: u64) -> FileKind {
    match kind {
        FileKind::File(Opened {
            contents: Contents::File(file),
            status,
            fields,
        }) if loaded >= Limits::SENDFILE_FROM && keeps_what_was_read_by(&status) => {
            let now = contexts.now();
            let open = OpenFile::new(file, status.size(), now);
            open.was_read(0, loaded, now);
            FileKind::File(Opened {
                contents: Contents::Open(Rc::new(open)),
                status,
                fields,
            })
        }
        kind => kind,
    }
}

/// Determines the kind of an opened file.
pub(crate) async fn examine(contexts: &IoContexts, file: Descriptor) -> io::Result<FileKind> {
    let begun = observe::begin();
    let status = contexts
        .submit(IoStep::Stat, StatFile::new(file.clone()))
        .await;
    observe::end(Stage::Stat, begun);
    kind(contexts, file, status?, false)
}

/// Whether a name is that of a regular file, which need not be readable.
pub(crate) async fn is_regular_file(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = open_below(contexts, site, name, flags, site.resolve).await?;
    let stat = StatFile::new(Descriptor::from(file));
    Ok(contexts.submit(IoStep::Stat, stat).await?.is_file())
}

/// Determines the kind of a file from its status. `ignores_mode`: O_NONBLOCK has no effect on the
/// file.
fn kind(
    contexts: &IoContexts,
    file: Descriptor,
    status: FileStatus,
    ignores_mode: bool,
) -> io::Result<FileKind> {
    if status.is_dir() {
        return Ok(FileKind::Directory(file));
    }
    if !status.is_file() {
        return Ok(FileKind::Special);
    }
    // Reads of the file itself may block: that happens in the background. Not every file system
    // supports `O_DIRECT`.
    let is_direct =
        contexts.reads_directly && rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_ok();
    if !is_direct && !ignores_mode {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    let contents = Contents::File(file);
    let status = Rc::new(status);
    Ok(FileKind::File(Opened {
        contents,
        status,
        fields: None,
    }))
}

/// Opens a name below the root of a site, or below the directory that an alias has.
pub async fn open_below(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
    flags: OFlags,
    resolve: u64,
) -> io::Result<OwnedFd> {
    retried(contexts, site, name, flags, resolve, |open| open).await
}

/// Opens a name with the operation that `operation` makes of an open: again after a race, and by a walk where
/// the kernel or a filter has no `openat2`.
async fn retried<O: Operation<Output = io::Result<T>>, T: From<OwnedFd>>(
    contexts: &IoContexts,
    site: &Site,
    name: &[u8],
    flags: OFlags,
    resolve: u64,
    operation: impl Fn(Open<Descriptor>) -> O,
) -> io::Result<T> {
    let flags = flags.bits() as i32;
    let mut races = 0;
    let (directory, name) = site.place(name);
    // Resolving the target has rejected names that contain NUL.
    let name = CString::new(if name.is_empty() { b"." } else { name })?;
    while resolve & WALKED == 0 || !contexts.walks.get() {
        let open = Open::new(Name::at(directory.clone(), name.clone()), flags).resolve(resolve);
        match contexts.submit(IoStep::Open, operation(open)).await {
            // A directory of the path was renamed concurrently (see openat2), so that the kernel
            // could not verify that the name stays below the root.
            Err(error) if is_race(&error) && races < Limits::OPEN_RACES => races += 1,
            Err(error) if Walk::replaces(&error, resolve) => contexts.walks.set(true),
            result => return result,
        }
    }
    let walk = Walk::new(directory.clone(), &name, flags, resolve);
    contexts.walk(IoStep::Open, walk).await.map(T::from)
}

/// The opens that a walk can replace.
const WALKED: u64 = ResolveFlags::BENEATH.bits();

fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error())
}
