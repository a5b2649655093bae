//! Large files: the planner creates them under a temporary name, workers copy regions, and
//! `--finish` sets attributes and renames them. Each region has one writer; copied twice, it gets
//! the same bytes.

use super::opener::Opener;
use super::records::{FileRecord, LargeFile};
use crate::io::Io;
use crate::outcome::{Failure, failure};
use crate::rules::pair::OpenPair;
use crate::rules::{data, regular, source};
use crate::schedule::worker::Worker;
use crate::tree::{Entry, temporary};
use laio::ops::{Open, StatFile, StatPath, Truncate};
use laio_rt::fs::Metadata;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// Creates the temporary file with its final length, as one hole.
pub(crate) async fn make(io: &Io, entry: &Entry, name: &OsStr, size: u64) -> Result<(), Failure> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let open = Open::new(entry.sibling(name), flags).mode(regular::REGION_MODE);
    let opened = io.call_target(open).await;
    let file = Arc::new(opened.map_err(entry.target_failure("cannot create regular file"))?);
    let set = io.call_target(Truncate::new(file.clone(), size)).await;
    let made = match set.map_err(entry.target_failure("failed to extend")) {
        Ok(()) => regular::close(io, entry, file).await,
        Err(failure) => Err(failure),
    };
    made.inspect_err(|_| temporary::remove(io, entry, name))
}

/// Copies a region.
pub(crate) async fn copy(
    worker: &Worker,
    opener: &Opener,
    (file, large): (&FileRecord<'_>, &LargeFile<'_>),
    (start, end): (u64, u64),
) -> Result<(), Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let entry = opener.find(worker, file).await?;
    let source = source::open(io, session, &entry, None).await?;
    require_unchanged(&entry, &source.status, large)?;
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let open = || Open::new(entry.sibling(large.temporary), flags);
    let target = opener
        .retry_until_visible(async || io.call_target(open()).await.map(Arc::new))
        .await;
    let failed = |error: io::Error| {
        let (name, size) = (entry.quoted_target(), large.size);
        let text = format!(
            "cannot open the temporary file that the planner made for {name} ({size} bytes)"
        );
        Failure::from_error(error, text)
    };
    let target = target.map_err(failed)?;
    let status = io.call_target(StatFile::new(target.clone())).await;
    let status = status.map_err(failed)?;
    if !status.is_file() || status.size() != large.size {
        return Err(replaced(&entry));
    }
    let pair = OpenPair {
        io,
        session,
        source: &source.file,
        status: &source.status,
        target: &target,
        target_device: status.device(),
        is_regular: true,
        start: 0,
        hashing: None,
        storage_class: entry.storage_class(),
    };
    let moved = data::copy_region(&pair, start, end).await;
    moved.map_err(|error| regular::copy_failure(&entry, error))?;
    let now = io.call_backend(StatFile::new(source.file.clone())).await;
    require_unchanged(
        &entry,
        &now.map_err(entry.source_failure("cannot fstat", ""))?,
        large,
    )?;
    regular::sync(io, session, &entry, &target).await?;
    regular::close(io, &entry, target).await
}

/// Fails if the source has changed: regions of different versions would make a file that never
/// existed.
fn require_unchanged(
    entry: &Entry,
    status: &Metadata,
    large: &LargeFile<'_>,
) -> Result<(), Failure> {
    if status.size() == large.size && status.modified() == large.modified {
        return Ok(());
    }
    let name = entry.quoted_source();
    Err(failure!(
        "{name} has changed since the plan was made; copy it with a new plan"
    ))
}

fn replaced(entry: &Entry) -> Failure {
    let name = entry.quoted_target();
    failure!("not writing {name}: its temporary file was replaced")
}

/// Sets the attributes of a file with all its regions, and renames it. `None` if that was done
/// before.
pub(crate) async fn complete(
    worker: &Worker,
    opener: &Opener,
    file: &FileRecord<'_>,
    large: &LargeFile<'_>,
) -> Result<Option<()>, Failure> {
    let (io, session) = (&worker.io, &*worker.session);
    let entry = opener.find(worker, file).await?;
    let temporary = StatPath::new(entry.sibling(large.temporary)).no_follow();
    match io.call_target(temporary).await {
        Ok(status) if status.is_file() && status.size() == large.size => {}
        Ok(_) => return Err(replaced(&entry)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let stat = StatPath::new(entry.target()).no_follow();
            let existing = io.call_target(stat).await;
            let is_whole =
                |existing: &Metadata| existing.is_file() && existing.size() == large.size;
            if existing.as_ref().is_ok_and(is_whole) {
                return Ok(None);
            }
            return Err(entry.target_failure("cannot find the temporary file of")(
                error,
            ));
        }
        Err(error) => {
            return Err(entry.target_failure("cannot stat the temporary file of")(
                error,
            ));
        }
    }
    let source = source::open(io, session, &entry, None).await?;
    require_unchanged(&entry, &source.status, large)?;
    regular::complete_temporary(io, session, &entry, source, large.temporary).await?;
    Ok(Some(()))
}

/// The temporary name of the large file with this number.
pub(crate) fn temporary_name(plan: &str, number: u64) -> OsString {
    format!("{}plan-{plan}-{number:x}", temporary::PREFIX).into()
}
