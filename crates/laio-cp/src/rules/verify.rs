//! Verifies that a copy equals its source: hashes the source while it is copied, reads the copy
//! back, and compares.
//!
//! The hash is SHA-256, because `sha256sum` is installed everywhere. It is computed on bytes in the
//! copy buffer. Data that was not in a buffer (reflinks, and `copy_file_range` if requested) is
//! read again from the source.

mod attributes;
mod reading;

pub(crate) use attributes::{
    directory_attributes, file_attributes, is_coarser, links_match, verify_special,
};
pub(crate) use reading::{digest_of, read_back};

use crate::digest::Digest;
use crate::io::Io;
use crate::outcome::{Done, Failure, count, failure};
use crate::rules::pair::OpenPair;
use crate::session::Session;
use crate::tree::{Entry, Handle};
use laio::ops::StatFile;
use laio_rt::fs::Metadata;

/// Returns the digest of the copied data, if one is wanted. With `--verify`, compares it with the
/// data read back.
pub(crate) async fn verify_data(
    entry: &Entry,
    pair: OpenPair<'_>,
    done: Done,
) -> Result<Option<Digest>, Failure> {
    let (io, session) = (pair.io, pair.session);
    if !session.options.hashes() {
        return Ok(None);
    }
    let bypassed_memory = matches!(done, Done::Reflink | Done::CopyRange);
    let digest = match pair.hashing {
        Some(hashing) if !bypassed_memory => hashing.into_inner().finish(),
        _ => {
            let failed = format!("error reading {}", entry.quoted_source());
            digest_of(io, session, pair.source, failed).await?.0
        }
    };
    if !session.options.verify {
        return Ok(Some(digest));
    }
    let name = entry.quoted_target();
    if !pair.is_regular && !is_file(io, pair.target).await {
        return Err(failure!(
            "cannot verify {name}: it is not a regular file, so it cannot be read back"
        ));
    }
    let (existing, length) = read_back(io, session, pair.target, name.clone()).await?;
    if existing != digest {
        if bypassed_memory && has_changed(io, pair.source, pair.status).await {
            // The source was read twice and changed between, so the copied version is unknown.
            return Err(source_changed_failure(entry));
        }
        count(&io.counters().unverified);
        let source = entry.quoted_source();
        return Err(failure!(
            "{name} differs from {source}: {length} bytes read back have the SHA-256 {existing}, not {digest}"
        ));
    }
    count(&io.counters().verified);
    Ok(Some(digest))
}

async fn is_file(io: &Io, file: &Handle) -> bool {
    let status = io.call_target(StatFile::new(file.clone())).await;
    status.is_ok_and(|status| status.is_file())
}

/// Reports a source that was modified while it was copied: the copy may mix two versions. This is
/// not an error of the destination, and the message says so.
pub(crate) async fn report_if_source_changed(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Handle,
    before: &Metadata,
) {
    if !session.options.verify {
        return;
    }
    if has_changed(io, source, before).await {
        session.report_failure(&source_changed_failure(entry));
    }
}

fn source_changed_failure(entry: &Entry) -> Failure {
    let (from, to) = (entry.quoted_source(), entry.quoted_target());
    failure!("{from} changed while it was copied: {to} may mix old and new data")
}

async fn has_changed(io: &Io, source: &Handle, before: &Metadata) -> bool {
    let now = io.call_backend(StatFile::new(source.clone())).await;
    let state = |status: &Metadata| (status.size(), status.modified());
    before.is_file() && now.is_ok_and(|now| state(&now) != state(before))
}
