//! Copies files with holes.

use crate::options::Sparse;
use crate::outcome::{DebugDetail, Done};
use crate::rules::pair::{CopyError, OpenPair, has_holes};
use crate::rules::transfer::{copy_range, preallocate};
use laio::Errno;
use laio::ops::{Limit, Part, ReadAt, Seek, StatFile, Truncate, Whence, WriteAt};
use std::io;

/// The size and alignment of blocks of zeros that become holes.
const BLOCK: usize = 4 << 10;

/// Copies the data and keeps the holes, up to the size that the file had when it was opened.
pub(crate) async fn copy(
    pair: &OpenPair<'_>,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let size = pair.status.size();
    let zeros = pair.session.options.sparse == Sparse::Always;
    if size == 0 {
        if zeros {
            (detail.sparse, detail.offload) = ("zeros", "avoided");
        }
        // The file is empty, or has an unknown size (procfs).
        let bytes = copy_nonzero(pair, 0, u64::MAX).await?;
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

/// Copies one region. The destination has its final length already.
pub(crate) async fn copy_region(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
    detail: &mut DebugDetail,
) -> Result<(), CopyError> {
    copy_extents(pair, start, end, detail).await.map(drop)
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
    if zeros && !has_holes(pair.status) {
        detail.sparse = "zeros";
        let (done, bytes) = copy_extent(pair, start, size, zeros, detail).await?;
        return Ok(CopiedExtents {
            done,
            bytes,
            at: start + bytes,
            is_short: start + bytes < size,
        });
    }
    detail.sparse = "SEEK_HOLE";
    let mut done = Done::ReadWrite;
    let (mut at, mut bytes) = (start, 0);
    while at < size {
        pair.check_stop()?;
        let data = match seek(pair, Whence::Data(at)).await {
            Ok(data) if data >= at => data.min(size),
            // A hole up to the end, or a truncated file.
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw()) => break,
            // The file system does not support SEEK_DATA, or returns a wrong offset.
            _ => {
                if at == start {
                    detail.sparse = if zeros { "zeros" } else { "no" };
                }
                let moved = copy_extent(pair, at, size, zeros, detail).await?;
                return Ok(CopiedExtents {
                    done,
                    bytes: bytes + moved.1,
                    at: at + moved.1,
                    is_short: true,
                });
            }
        };
        if data == size {
            break;
        }
        let hole = match seek(pair, Whence::Hole(data)).await {
            // In a file that is being changed, a hole may replace the data just found.
            Ok(hole) if hole > data => hole.min(size),
            _ => size,
        };
        if zeros {
            detail.sparse = "SEEK_HOLE + zeros";
        }
        let (how, moved) = copy_extent(pair, data, hole, zeros, detail).await?;
        done = how;
        bytes += moved;
        at = data + moved;
        if at < hole {
            // The file was truncated.
            return Ok(CopiedExtents {
                done,
                bytes,
                at,
                is_short: true,
            });
        }
    }
    Ok(CopiedExtents {
        done,
        bytes,
        at,
        is_short: false,
    })
}

async fn seek(pair: &OpenPair<'_>, whence: Whence) -> io::Result<u64> {
    pair.io
        .call_backend(Seek::new(pair.source.clone(), whence))
        .await
}

async fn copy_extent(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
    zeros: bool,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    if zeros {
        detail.offload = "avoided";
        return copy_nonzero(pair, start, end)
            .await
            .map(|bytes| (Done::ReadWrite, bytes));
    }
    preallocate(pair, start, end - start)?;
    copy_range(pair, start, end, detail).await
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

/// Copies the blocks that are not zero. Returns the number of bytes read.
async fn copy_nonzero(pair: &OpenPair<'_>, start: u64, end: u64) -> Result<u64, CopyError> {
    let io = pair.io;
    let mut buffer = io.take_buffer();
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        buffer.clear();
        let count = (end - at)
            .min(buffer.capacity() as u64)
            .min(pair.piece_size() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = io.call_backend(read).await;
        buffer = filled.into_inner();
        let count = result.map_err(CopyError::Read)?;
        if count == 0 {
            break;
        }
        pair.hash(at, &buffer)?;
        for (from, to) in nonzero_ranges(&buffer, at) {
            let mut done = from;
            while done < to {
                let part = Part::new(buffer, done..to);
                let write = WriteAt::new(pair.target.clone(), part, at + done as u64);
                let (result, part) = io.call_target(write).await;
                buffer = part.into_inner();
                match result.map_err(CopyError::Write)? {
                    0 => return Err(CopyError::Write(Errno::NOSPC.into())),
                    written => done += written,
                }
            }
        }
        at += count as u64;
        pair.count_and_throttle(count).await;
    }
    io.recycle_buffer(buffer);
    Ok(at - start)
}

/// The ranges of the buffer without blocks of zeros. `at` is the buffer's offset in the file.
fn nonzero_ranges(buffer: &[u8], at: u64) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut start = 0;
    while start < buffer.len() {
        let into = (at as usize + start) % BLOCK;
        let end = (start + BLOCK - into).min(buffer.len());
        if buffer[start..end].iter().any(|byte| *byte != 0) {
            match runs.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => runs.push((start, end)),
            }
        }
        start = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut buffer = vec![0; 4 * BLOCK + 10];
        buffer[BLOCK] = 1;
        buffer[2 * BLOCK + 5] = 1;
        buffer[4 * BLOCK + 9] = 1;
        assert_eq!(
            nonzero_ranges(&buffer, 0),
            [(BLOCK, 3 * BLOCK), (4 * BLOCK, 4 * BLOCK + 10)]
        );
        assert_eq!(nonzero_ranges(&buffer[..BLOCK], 0), []);
        // Blocks are aligned in the file, not in the buffer.
        assert_eq!(
            nonzero_ranges(&buffer[BLOCK..2 * BLOCK], 100)[0],
            (0, BLOCK - 100)
        );
    }
}
