//! Whether a copy is what its source was: hashed while it is copied, read back, compared.
//!
//! The hash is SHA-256: the tool that checks a list of them is installed everywhere. It is taken of the
//! bytes on their way through memory. Where they do not come by (blocks that are shared, or that the
//! kernel copies because it was told to), the source is read once more.

mod attributes;
mod digest;
mod manifest;
mod reading;

pub(crate) use attributes::{
    directory_attributes, file_attributes, is_coarser, links_match, verify_special,
};
pub use digest::Digest;
pub(crate) use digest::Hashing;
pub(crate) use manifest::Manifest;
pub(crate) use reading::{digest_of, read_back};

use crate::directory::{Entry, Handle};
use crate::options::{Method, Options};
use crate::outcome::{Done, Failure, count};
use crate::worker::Worker;
use laio::ops::StatFile;
use laio_rt::fs::Metadata;

/// A regular file whose data has been copied.
pub(crate) struct CopiedData<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) entry: &'a Entry,
    pub(crate) source: &'a Handle,
    /// When it was opened.
    pub(crate) status: &'a Metadata,
    pub(crate) target: &'a Handle,
    /// Both are regular files.
    pub(crate) is_regular: bool,
    pub(crate) done: Done,
    /// What was hashed on the way.
    pub(crate) hashing: Option<Hashing>,
}

/// The digest of what was copied, if one is wanted; compared with what the device gives back, if that is.
pub(crate) async fn verify_data(copied: CopiedData<'_>) -> Result<Option<Digest>, Failure> {
    let CopiedData { worker, entry, .. } = copied;
    if !worker.options().hashes() {
        return Ok(None);
    }
    let bypassed_memory = matches!(copied.done, Done::Reflink | Done::CopyRange);
    let digest = match copied.hashing {
        Some(hashing) if !bypassed_memory => hashing.finish(),
        _ => {
            let failed = format!("error reading {}", entry.quoted_source());
            digest_of(worker, copied.source, failed).await?.0
        }
    };
    if !worker.options().verify {
        return Ok(Some(digest));
    }
    let name = entry.quoted_target();
    if !copied.is_regular && !is_file(worker, copied.target).await {
        return Err(Failure::because(format!(
            "cannot verify {name}: it is no regular file, so it cannot be read back"
        )));
    }
    let (there, length) = read_back(worker, copied.target, name.clone()).await?;
    if there != digest {
        if bypassed_memory && has_changed(worker, copied.source, copied.status).await {
            // It was read twice: who knows what was copied?
            return Err(source_changed_failure(entry));
        }
        count(&worker.counters().unverified);
        let source = entry.quoted_source();
        return Err(Failure::because(format!(
            "{name} is not what was read from {source}: SHA-256 {there} of {length} bytes read back, not {digest}"
        )));
    }
    count(&worker.counters().verified);
    Ok(Some(digest))
}

async fn is_file(worker: &Worker, file: &Handle) -> bool {
    let status = worker.call_target(StatFile::new(file.clone())).await;
    status.is_ok_and(|status| status.is_file())
}

/// A source that was written to while it was copied: the copy is what was read, which may be something
/// between what it was and what it is. That is no fault of the destination, and is told as what it is.
pub(crate) async fn report_if_source_changed(
    worker: &Worker,
    entry: &Entry,
    source: &Handle,
    before: &Metadata,
) {
    if !worker.options().verify {
        return;
    }
    if has_changed(worker, source, before).await {
        worker.session.fail(&source_changed_failure(entry));
    }
}

fn source_changed_failure(entry: &Entry) -> Failure {
    let (from, to) = (entry.quoted_source(), entry.quoted_target());
    Failure::because(format!(
        "{from} changed while it was copied: {to} is what was read of it"
    ))
}

async fn has_changed(worker: &Worker, source: &Handle, before: &Metadata) -> bool {
    let now = worker.call_lazy(StatFile::new(source.clone())).await;
    let state = |status: &Metadata| (status.size(), status.modified());
    before.is_file() && now.is_ok_and(|now| state(&now) != state(before))
}

impl Options {
    /// Whether digests are wanted.
    pub(crate) fn hashes(&self) -> bool {
        self.verify || self.manifest.is_some()
    }

    /// Whether bytes are hashed on their way, so that they must come through memory.
    pub(crate) fn hashes_on_the_way(&self) -> bool {
        self.hashes() && self.method != Method::CopyRange
    }
}
