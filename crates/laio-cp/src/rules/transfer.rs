//! Copies a range of bytes: by `copy_file_range`, or through a buffer.

use crate::options::{Method, Reflink, Sparse};
use crate::outcome::{DebugDetail, Done};
use crate::rules::pair::{CopyError, OpenPair};
use crate::rules::queued;
use laio::Errno;
use laio::ops::{Allocate, CopyRange, Limit, ReadAt};
use std::io;

/// Files up to this size are copied by one read and one write: as many calls as `copy_file_range`
/// needs, and the read shows whether the data is cached.
const ONE_PIECE_MAX: u64 = 256 << 10;
/// Bytes per `copy_file_range` call: between calls a stop is checked and progress is shown.
const RANGE_MAX: u64 = 128 << 20;

/// Copies the bytes from `start` to `end`, or to the end of the file, by `copy_file_range` or
/// through a buffer.
pub(crate) async fn copy_range(
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
    let allowed = options.reflink != Reflink::Never && options.sparse != Sparse::Never;
    let is_unsupported = pair.device_limits().copy_range_unsupported;
    if !by_range || !allowed || is_unsupported {
        let tries = by_range && allowed;
        detail.offload = if tries { "unsupported" } else { "avoided" };
        let bytes = through_memory(pair, start, end).await?;
        return Ok((Done::ReadWrite, bytes));
    }
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        let count = (end - at).min(RANGE_MAX).min(pair.piece_size() as u64) as usize;
        let copy = CopyRange::new(pair.source.clone(), at, pair.target.clone(), at, count);
        match pair.io.call_target(copy).await {
            // The end of the file; or a file system such as procfs, where `copy_file_range` returns
            // 0 although there is data.
            Ok(0) => {
                let more = through_memory(pair, at, end).await?;
                let done = if at == start {
                    Done::ReadWrite
                } else {
                    Done::CopyRange
                };
                return Ok((done, at - start + more));
            }
            Ok(count) => {
                at += count as u64;
                detail.offload = "yes";
                pair.count_and_throttle(count).await;
            }
            Err(error) => match fallback(&error) {
                Fallback::None => return Err(CopyError::Copy(error)),
                kind => {
                    detail.offload = "unsupported";
                    if kind == Fallback::Always {
                        pair.note_limit(|limit| limit.copy_range_unsupported = true);
                    }
                    let more = through_memory(pair, at, end).await?;
                    return Ok((Done::ReadWrite, at - start + more));
                }
            },
        }
    }
    Ok((Done::CopyRange, at - start))
}

/// Whether a failed `copy_file_range` is replaced by a copy through a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fallback {
    None,
    /// For this file.
    Once,
    /// For all files on this pair of devices.
    Always,
}

/// Whether an error means that `copy_file_range` does not work here.
fn fallback(error: &io::Error) -> Fallback {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => Fallback::Always,
        // EPERM: a seccomp filter or an immutable file; ENOENT: CIFS; ETXTBSY: a swap file; EBADF:
        // append-only.
        Some(
            Errno::INVAL | Errno::PERM | Errno::NOENT | Errno::TXTBSY | Errno::BADF | Errno::FBIG,
        ) => Fallback::Once,
        _ => Fallback::None,
    }
}

/// Copies through a buffer.
pub(crate) async fn through_memory(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
) -> Result<u64, CopyError> {
    let (io, session) = (pair.io, pair.session);
    let options = &session.options;
    let is_queued = options.direct || (options.queue() > 1 && end - start > options.buffer as u64);
    // Hashing needs the bytes in order, and `--resume` needs a file that grows in order.
    let in_order = options.resume || pair.hashing.is_some();
    if pair.is_regular && end != u64::MAX && is_queued && !in_order {
        return queued::copy(pair, start, end).await;
    }
    let mut buffer = io.take_buffer();
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        buffer.clear();
        let count = (end - at)
            .min(buffer.capacity() as u64)
            .min(pair.piece_size() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.read(read, at == start).await;
        buffer = filled.into_inner();
        // The file was truncated since it was opened.
        if result.map_err(CopyError::Read)? == 0 {
            break;
        }
        let count = buffer.len();
        pair.hash(at, &buffer)?;
        buffer = pair.write_at(buffer, at).await?;
        at += count as u64;
        pair.count_and_throttle(count).await;
    }
    io.recycle_buffer(buffer);
    Ok(at - start)
}

/// Reserves disk space for data that begins at `start`, if `--fallocate` asks for it.
pub(crate) fn preallocate(pair: &OpenPair<'_>, start: u64, length: u64) -> Result<(), CopyError> {
    if !pair.session.options.preallocate || length == 0 {
        return Ok(());
    }
    let allocate =
        Allocate::new(pair.target.clone(), start, length).mode(libc::FALLOC_FL_KEEP_SIZE);
    match pair.io.call_blocking(allocate) {
        Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw()) => {
            Err(CopyError::Write(error))
        }
        // Preallocation is an optimization; other errors are ignored.
        _ => Ok(()),
    }
}
