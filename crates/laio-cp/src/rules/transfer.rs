//! Moves ranges of bytes: in the kernel by `copy_file_range`, or through a buffer.

use crate::rules::pair::{CopyError, OpenPair};
use crate::rules::{queued, sparse};
use laio::Errno;
use laio::ops::{Allocate, CopyRange, Limit, Read, ReadAt};
use std::io;

/// Bytes per `copy_file_range` call: between calls a stop is checked and progress is shown.
const RANGE_MAX: u64 = 128 << 20;

/// Copies the bytes from `start` to `end` by `copy_file_range`. Returns the end of what was copied,
/// and why the rest must go through a buffer. Without a reason the file ends there; or its file
/// system, such as procfs, returns 0 although there is data.
pub(crate) async fn in_kernel(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
) -> Result<(u64, Option<Fallback>), CopyError> {
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        let count = (end - at).min(RANGE_MAX).min(pair.piece_size() as u64) as usize;
        let copy = CopyRange::new(pair.source.clone(), at, pair.target.clone(), at, count);
        match pair.io.call_target(copy).await {
            Ok(0) => break,
            Ok(count) => {
                at += count as u64;
                pair.count_and_throttle(count).await;
            }
            Err(error) => match fallback(&error) {
                None => return Err(CopyError::Copy(error)),
                reason => return Ok((at, reason)),
            },
        }
    }
    Ok((at, None))
}

/// For what a failed `copy_file_range` is replaced by a copy through a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// For this file.
    Once,
    /// For all files on this pair of devices.
    Always,
}

/// Whether an error means that `copy_file_range` does not work here.
fn fallback(error: &io::Error) -> Option<Fallback> {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => Some(Fallback::Always),
        // EPERM: a seccomp filter or an immutable file; ENOENT: CIFS; ETXTBSY: a swap file; EBADF:
        // append-only.
        Some(
            Errno::INVAL | Errno::PERM | Errno::NOENT | Errno::TXTBSY | Errno::BADF | Errno::FBIG,
        ) => Some(Fallback::Once),
        _ => None,
    }
}

/// What is done with blocks of zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zeros {
    Written,
    /// They become holes.
    Skipped,
}

/// Copies through a buffer. Returns the number of bytes read; fewer if the source was truncated.
pub(crate) async fn through_memory(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
    zeros: Zeros,
) -> Result<u64, CopyError> {
    let (io, session) = (pair.io, pair.session);
    let options = &session.options;
    let is_queued = options.direct || (options.queue() > 1 && end - start > options.buffer as u64);
    // Hashing needs the bytes in order, and `--resume` needs a file that grows in order.
    let in_order = options.resume || pair.hashing.is_some() || zeros == Zeros::Skipped;
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
        if zeros == Zeros::Written {
            buffer = pair.write_at(buffer, 0..count, at).await?;
        } else {
            for range in sparse::nonzero_ranges(&buffer, at) {
                buffer = pair.write_at(buffer, range, at).await?;
            }
        }
        at += count as u64;
        pair.count_and_throttle(count).await;
    }
    io.recycle_buffer(buffer);
    Ok(at - start)
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

/// Copies a file without positions: a pipe, a terminal, a device.
pub(crate) async fn stream(pair: &OpenPair<'_>) -> Result<u64, CopyError> {
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
        buffer = pair.write(buffer, 0..count).await?;
        bytes += count as u64;
        pair.count_and_throttle(count).await;
    }
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
