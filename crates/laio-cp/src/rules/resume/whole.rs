//! Detects files that an earlier run has copied completely.

use super::partial::was_stable_before;
use crate::digest::Digest;
use crate::io::Io;
use crate::options::Make;
use crate::outcome::{Failure, count};
use crate::rules::attributes::{self, AttributeCopy, CurrentAttributes, Failures, FileRef};
use crate::rules::source;
use crate::rules::verify::{self, digest_of, is_coarser, links_match};
use crate::session::Session;
use crate::tree::{Entry, Handle, identity};
use laio::ops::{Open, StatFile};
use laio_rt::fs::Metadata;
use std::sync::Arc;

/// A file that needs no copy.
pub(crate) struct CompleteCopy {
    pub(crate) digest: Option<Digest>,
}

/// Checks whether the destination is a complete copy of the source. Equal size and time prove it if
/// the source did not change since; otherwise, or if hashes are wanted, the contents are compared.
pub(crate) async fn check(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    existing: &Metadata,
) -> Result<Option<CompleteCopy>, Failure> {
    let options = &session.options;
    if options.make != Make::Copies
        || options.attributes_only
        || source.file_type() != existing.file_type()
    {
        return Ok(None);
    }
    let (wanted, time) = (source.modified(), existing.modified());
    if wanted != time && !(source.is_file() && is_coarser(wanted, time)) {
        return Ok(None);
    }
    let whole = if source.is_file() {
        check_file(io, session, entry, source, existing).await?
    } else {
        check_special(io, session, entry, source, existing)
    };
    if whole.is_some() {
        count(&io.counters().whole);
    }
    Ok(whole)
}

async fn check_file(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    existing: &Metadata,
) -> Result<Option<CompleteCopy>, Failure> {
    if source.size() != existing.size() {
        return Ok(None);
    }
    // A file in procfs has size 0, but contents.
    let is_proven = source.size() > 0
        && source.modified() == existing.modified()
        && was_stable_before(source, existing.changed().seconds);
    if is_proven && !session.options.hashes() && has_owner_and_mode(session, source, existing) {
        return Ok(Some(CompleteCopy { digest: None }));
    }
    let opened = source::open(io, session, entry, Some(source)).await?;
    // It may be behind a symbolic link.
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY;
    let Ok(target) = io.call_target(Open::new(entry.target(), flags)).await else {
        return Ok(None);
    };
    let target = Arc::new(target);
    let status = io.call_target(StatFile::new(target.clone())).await;
    let is_it = |status: &Metadata| identity(status) == identity(existing);
    if !status.as_ref().is_ok_and(is_it) {
        return Ok(None);
    }
    let mut digest = None;
    if !is_proven || session.options.hashes() {
        let failed = format!("error reading {}", entry.quoted_source());
        let wanted = digest_of(io, session, &opened.file, failed).await?.0;
        if (!is_proven || session.options.verify)
            && !is_same(io, session, entry, &target, wanted).await
        {
            return Ok(None);
        }
        digest = Some(wanted);
    }
    if !session.options.dry_run {
        set_attributes(io, session, entry, source, existing, (opened.file, target)).await?;
    }
    Ok(Some(CompleteCopy { digest }))
}

/// Compares the contents. A destination that cannot be read is copied again.
async fn is_same(
    io: &Io,
    session: &Session,
    entry: &Entry,
    target: &Handle,
    wanted: Digest,
) -> bool {
    let name = entry.quoted_target();
    let existing = if session.options.verify {
        verify::read_back(io, session, target, name).await
    } else {
        digest_of(io, session, target, name).await
    };
    let is_same = existing.is_ok_and(|(existing, _)| existing == wanted);
    if is_same && session.options.verify {
        count(&io.counters().verified);
    }
    is_same
}

fn has_owner_and_mode(session: &Session, source: &Metadata, existing: &Metadata) -> bool {
    let preserve = session.options.preserve;
    let is_privileged = session.process.is_privileged();
    let owner = |status: &Metadata| (status.user(), status.group());
    let is_owned = owner(source) == owner(existing);
    let bits = if is_owned { 0o7777 } else { 0o777 };
    (is_owned || !preserve.ownership || !is_privileged)
        && (!preserve.mode || (source.mode() ^ existing.mode()) & bits == 0)
}

/// Sets the attributes again: they may have changed even if the contents have not.
async fn set_attributes(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    existing: &Metadata,
    (origin, target): (Handle, Handle),
) -> Result<(), Failure> {
    let (origin, target) = (FileRef::Open(origin), FileRef::Open(target));
    let names = attributes::list_names(io, session, &origin);
    let names = names.map_err(entry.source_failure("cannot list attributes of", ""))?;
    let attribute_copy = AttributeCopy {
        io,
        session,
        source,
        target: &target,
        path: &|| entry.target_path(),
        names: Some((&names, &origin)),
        current: CurrentAttributes::from_status(existing, true, true),
        is_link: false,
    };
    let mut failures = Failures::new(session);
    attributes::set(&attribute_copy, &mut failures);
    failures.result().map_err(Failure::attributes_only)?;
    verify::file_attributes(io, session, entry, source, (&names, &origin), &target).await;
    Ok(())
}

/// Checks a symbolic link or a device. Their times are set last, too.
fn check_special(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    existing: &Metadata,
) -> Option<CompleteCopy> {
    let is_same = if source.is_symlink() {
        links_match(io, session, entry, source)
    } else {
        source.represented_device() == existing.represented_device()
    };
    let has_attributes = source.is_symlink() || has_owner_and_mode(session, source, existing);
    (is_same && has_attributes).then_some(CompleteCopy { digest: None })
}
