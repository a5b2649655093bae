//! Copies the data of a file: by reflink, by `copy_file_range`, or through a buffer.
//!
//! A file is written from its beginning to its end, and never beyond the data that is complete:
//! `--resume` takes the size of a partial file for its progress.

use crate::options::{Method, Reflink as Wanted, Sparse};
use crate::outcome::{Copied, DebugDetail, Done};
use crate::rules::pair::{CopyError, OpenPair, has_holes};
use crate::rules::sparse;
use crate::rules::transfer::{copy_range, preallocate};
use laio::Errno;
use laio::ops::{Advice, Advise, Limit, Read, ReadAt, Reflink};

/// Copies the data of a file.
pub(crate) async fn copy(pair: &OpenPair<'_>) -> Result<Copied, CopyError> {
    let options = &pair.session.options;
    // Reflinks share holes, too; `--sparse=never` forbids holes.
    let never = options.reflink == Wanted::Never || options.sparse == Sparse::Never;
    let mut detail = DebugDetail {
        offload: "unknown",
        reflink: if never { "no" } else { "unknown" },
        sparse: "unknown",
    };
    if reflink(pair, &mut detail)? {
        let bytes = pair.status.size();
        pair.count_bytes(bytes);
        return Ok(Copied {
            done: Done::Reflink,
            bytes,
            detail: Some(detail),
            digest: None,
        });
    }
    let (done, bytes) = move_data(pair, &mut detail).await?;
    Ok(Copied {
        done,
        bytes,
        detail: Some(detail),
        digest: None,
    })
}

/// Hashes the part of the source that an earlier run has copied.
pub(crate) async fn hash_existing_prefix(pair: &OpenPair<'_>) -> Result<(), CopyError> {
    let Some(hashing) = pair.hashing.as_ref().filter(|_| pair.start > 0) else {
        return Ok(());
    };
    let mut buffer = pair.io.take_buffer();
    loop {
        pair.check_stop()?;
        let at = hashing.borrow().at();
        buffer.clear();
        let count = (pair.start - at).min(buffer.capacity() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.io.call_backend(read).await;
        buffer = filled.into_inner();
        if result.map_err(CopyError::Read)? == 0 {
            break;
        }
        pair.hash(at, &buffer)?;
    }
    pair.io.recycle_buffer(buffer);
    Ok(())
}

async fn move_data(
    pair: &OpenPair<'_>,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let options = &pair.session.options;
    detail.sparse = "no";
    if !pair.is_regular {
        detail.offload = "unsupported";
        return stream(pair).await.map(|bytes| (Done::ReadWrite, bytes));
    }
    let size = pair.status.size();
    if options.advise != Some(Advice::DontNeed) {
        advise(pair);
    }
    if looks_for_holes(pair) {
        return sparse::copy(pair, detail).await;
    }
    preallocate(pair, 0, size)?;
    let end = if size == 0 { u64::MAX } else { size };
    let copied = copy_range(pair, pair.start, end, detail).await;
    if options.advise == Some(Advice::DontNeed) {
        advise(pair);
    }
    copied
}

fn advise(pair: &OpenPair<'_>) {
    if let Some(advice) = pair.session.options.advise {
        let advise = Advise::new(pair.source.clone(), 0, 0, advice);
        // Advice may be ignored.
        let _ = pair.io.call_blocking(advise);
    }
}

/// Copies one region of a file; other processes copy the other regions.
pub(crate) async fn copy_region(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
) -> Result<(), CopyError> {
    let mut detail = DebugDetail {
        offload: "unknown",
        reflink: "no",
        sparse: "no",
    };
    match looks_for_holes(pair) {
        true => sparse::copy_region(pair, start, end, &mut detail).await,
        false => copy_range(pair, start, end, &mut detail).await.map(drop),
    }
}

fn looks_for_holes(pair: &OpenPair<'_>) -> bool {
    match pair.session.options.sparse {
        Sparse::Always => true,
        Sparse::Auto => has_holes(pair.status),
        Sparse::Never => false,
    }
}

/// Tries a reflink.
fn reflink(pair: &OpenPair<'_>, detail: &mut DebugDetail) -> Result<bool, CopyError> {
    let options = &pair.session.options;
    let wanted = match (options.reflink, options.method) {
        (Wanted::Always, _) => true,
        (Wanted::Never, _) => false,
        (Wanted::Auto, Method::Auto) if options.through_memory() => false,
        (Wanted::Auto, Method::Auto | Method::Reflink) => options.sparse == Sparse::Auto,
        (Wanted::Auto, _) => false,
    };
    let must = options.reflink == Wanted::Always;
    let known_unsupported = pair.device_limits().reflink_unsupported;
    if !wanted || !pair.is_regular || pair.start > 0 || (known_unsupported && !must) {
        if known_unsupported {
            detail.reflink = "unsupported";
        }
        return Ok(false);
    }
    match pair
        .io
        .call_blocking(Reflink::new(pair.source.clone(), pair.target.clone()))
    {
        Ok(()) => {
            detail.reflink = "yes";
            detail.offload = "unknown";
            Ok(true)
        }
        Err(error) if must => Err(CopyError::Reflink(error)),
        Err(error) => {
            detail.reflink = "unsupported";
            let errno = error.raw_os_error().map(Errno::from_raw);
            if matches!(
                errno,
                Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS)
            ) {
                pair.note_limit(|limit| limit.reflink_unsupported = true);
            }
            Ok(false)
        }
    }
}

/// Copies a file without positions: a pipe, a terminal, a device.
async fn stream(pair: &OpenPair<'_>) -> Result<u64, CopyError> {
    let io = pair.io;
    let mut buffer = io.take_buffer();
    let mut bytes = 0;
    loop {
        pair.check_stop()?;
        buffer.clear();
        let capacity = buffer.capacity().min(pair.piece_size());
        let read = Read::new(pair.source.clone(), Limit::new(buffer, capacity));
        let (result, filled) = io.call_backend(read).await;
        buffer = filled.into_inner();
        let count = result.map_err(CopyError::Read)?;
        if count == 0 {
            io.recycle_buffer(buffer);
            return Ok(bytes);
        }
        pair.hash(bytes, &buffer)?;
        buffer = pair.write(buffer, 0).await?;
        bytes += count as u64;
        pair.count_and_throttle(count).await;
    }
}
