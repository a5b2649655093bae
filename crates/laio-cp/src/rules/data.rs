//! Copies the data of a file, and chooses how: by reflink, by `copy_file_range`, or through a buffer,
//! with or without the holes.
//!
//! A file is written from its beginning to its end, and never beyond the data that is complete:
//! `--resume` takes the size of a partial file for its progress.

use crate::options::{Method, Options, Reflink as Wanted, Sparse};
use crate::outcome::{Copied, DebugDetail, Done};
use crate::rules::pair::{CopyError, OpenPair, has_holes};
use crate::rules::sparse::{self, Extent};
use crate::rules::transfer::{self, Fallback, Zeros, preallocate};
use laio::Errno;
use laio::ops::{Advice, Advise, Reflink, StatFile, Truncate};

/// Files up to this size are copied by one read and one write: as many calls as `copy_file_range`
/// needs, and the read shows whether the data is cached.
const ONE_PIECE_MAX: u64 = Options::BUFFER as u64;

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

async fn move_data(
    pair: &OpenPair<'_>,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let options = &pair.session.options;
    detail.sparse = "no";
    if !pair.is_regular {
        detail.offload = "unsupported";
        let bytes = transfer::stream(pair).await?;
        return Ok((Done::ReadWrite, bytes));
    }
    let size = pair.status.size();
    let by_default = (size > ONE_PIECE_MAX).then_some(Advice::Sequential);
    let advice = options.advise.or(by_default);
    if let Some(advice) = advice.filter(|advice| *advice != Advice::DontNeed) {
        advise(pair, advice);
    }
    if looks_for_holes(pair) {
        return copy_with_holes(pair, detail).await;
    }
    preallocate(pair, 0, size)?;
    let end = if size == 0 { u64::MAX } else { size };
    let copied = copy_range(pair, pair.start, end, detail).await;
    if options.advise == Some(Advice::DontNeed) {
        advise(pair, Advice::DontNeed);
    }
    copied
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

/// Copies the bytes from `start` to `end`, or to the end of the file, by `copy_file_range` or
/// through a buffer.
async fn copy_range(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let options = &pair.session.options;
    let by_range = match options.method {
        Method::ReadWrite => false,
        Method::CopyRange => true,
        // Data can only be hashed in memory.
        _ if pair.hashing.is_some() => false,
        Method::Auto if options.through_memory() => false,
        Method::Auto | Method::Reflink => end - start > ONE_PIECE_MAX && end != u64::MAX,
    };
    let allowed = options.reflink != Wanted::Never && options.sparse != Sparse::Never;
    let is_unsupported = pair.device_limits().copy_range_unsupported;
    if !by_range || !allowed || is_unsupported {
        let tries = by_range && allowed;
        detail.offload = if tries { "unsupported" } else { "avoided" };
        let bytes = transfer::through_memory(pair, start, end, Zeros::Written).await?;
        return Ok((Done::ReadWrite, bytes));
    }
    let (at, refused) = transfer::in_kernel(pair, start, end).await?;
    let has_moved = at > start;
    match refused {
        None if has_moved => detail.offload = "yes",
        None => {}
        Some(fallback) => {
            detail.offload = "unsupported";
            if fallback == Fallback::Always {
                pair.note_limit(|limit| limit.copy_range_unsupported = true);
            }
        }
    }
    if at == end {
        return Ok((Done::CopyRange, end - start));
    }
    let more = transfer::through_memory(pair, at, end, Zeros::Written).await?;
    let done = if refused.is_none() && has_moved {
        Done::CopyRange
    } else {
        Done::ReadWrite
    };
    Ok((done, at - start + more))
}

/// Copies one region of a file; other processes copy the other regions. The destination has its
/// final length already.
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
    if looks_for_holes(pair) {
        copy_extents(pair, start, end, &mut detail).await.map(drop)
    } else {
        copy_range(pair, start, end, &mut detail).await.map(drop)
    }
}

fn looks_for_holes(pair: &OpenPair<'_>) -> bool {
    match pair.session.options.sparse {
        Sparse::Always => true,
        Sparse::Auto => has_holes(pair.status),
        Sparse::Never => false,
    }
}

/// Copies the data and keeps the holes, up to the size that the file had when it was opened.
async fn copy_with_holes(
    pair: &OpenPair<'_>,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let size = pair.status.size();
    if size == 0 {
        if pair.session.options.sparse == Sparse::Always {
            (detail.sparse, detail.offload) = ("zeros", "avoided");
        }
        // The file is empty, or has an unknown size (procfs).
        let bytes = transfer::through_memory(pair, 0, u64::MAX, Zeros::Skipped).await?;
        return set_length(pair, Done::ReadWrite, bytes, bytes).await;
    }
    let moved = copy_extents(pair, pair.start, size, detail).await?;
    if moved.is_short {
        return set_length(pair, moved.done, moved.bytes, moved.at).await;
    }
    let stat = StatFile::new(pair.source.clone());
    let now = pair.io.call_backend(stat).await;
    let now = now.map_err(CopyError::Read)?.size();
    set_length(pair, moved.done, moved.bytes, moved.at.max(size.min(now))).await
}

/// What was copied of a range.
struct CopiedExtents {
    done: Done,
    bytes: u64,
    /// The end of the copied data.
    at: u64,
    /// The rest of the file is unknown; `at` may be its end.
    is_short: bool,
}

async fn copy_extents(
    pair: &OpenPair<'_>,
    start: u64,
    size: u64,
    detail: &mut DebugDetail,
) -> Result<CopiedExtents, CopyError> {
    let zeros = pair.session.options.sparse == Sparse::Always;
    let mut copied = CopiedExtents {
        done: Done::ReadWrite,
        bytes: 0,
        at: start,
        is_short: false,
    };
    let seeks = !zeros || has_holes(pair.status);
    detail.sparse = if seeks { "SEEK_HOLE" } else { "zeros" };
    while copied.at < size {
        pair.check_stop()?;
        let extent = if seeks {
            sparse::next_extent(pair, copied.at, size).await
        } else {
            Extent::Data(start, size)
        };
        let (data, hole) = match extent {
            Extent::None => break,
            Extent::Data(data, hole) => {
                if seeks && zeros {
                    detail.sparse = "SEEK_HOLE + zeros";
                }
                (data, hole)
            }
            Extent::Unknown => {
                if copied.at == start {
                    detail.sparse = if zeros { "zeros" } else { "no" };
                }
                copied.is_short = true;
                (copied.at, size)
            }
        };
        let (done, bytes) = if zeros {
            detail.offload = "avoided";
            let bytes = transfer::through_memory(pair, data, hole, Zeros::Skipped).await?;
            (Done::ReadWrite, bytes)
        } else {
            preallocate(pair, data, hole - data)?;
            copy_range(pair, data, hole, detail).await?
        };
        copied.done = done;
        copied.bytes += bytes;
        copied.at = data + bytes;
        // The file was truncated.
        copied.is_short |= copied.at < hole;
        if copied.is_short {
            break;
        }
    }
    Ok(copied)
}

/// Extends the destination to its final length: a hole at the end is not written.
async fn set_length(
    pair: &OpenPair<'_>,
    done: Done,
    bytes: u64,
    length: u64,
) -> Result<(Done, u64), CopyError> {
    let truncate = Truncate::new(pair.target.clone(), length);
    let set = pair.io.call_target(truncate).await;
    set.map_err(CopyError::Extend)?;
    pair.hash(length, &[])?;
    Ok((done, bytes))
}

fn advise(pair: &OpenPair<'_>, advice: Advice) {
    let advise = Advise::new(pair.source.clone(), 0, 0, advice);
    // Advice may be ignored.
    let _ = pair.io.call_blocking(advise);
}
