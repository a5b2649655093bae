//! Finds holes and zeros.

use crate::rules::pair::OpenPair;
use laio::Errno;
use laio::ops::{Seek, Whence};
use std::io;
use std::ops::Range;

/// The size and alignment of blocks of zeros that become holes.
const BLOCK: usize = 4 << 10;

/// A range of data between holes.
pub(crate) enum Extent {
    /// The next data, up to the next hole.
    Data(u64, u64),
    /// A hole up to the end, or a truncated file.
    None,
    /// The file system does not support SEEK_DATA, or returns a wrong offset.
    Unknown,
}

/// Finds the next data at or after `at`.
pub(crate) async fn next_extent(pair: &OpenPair<'_>, at: u64, size: u64) -> Extent {
    let data = match seek(pair, Whence::Data(at)).await {
        Ok(data) if data >= at => data,
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw()) => return Extent::None,
        _ => return Extent::Unknown,
    };
    if data >= size {
        return Extent::None;
    }
    match seek(pair, Whence::Hole(data)).await {
        // In a file that is being changed, a hole may replace the data just found.
        Ok(hole) if hole > data => Extent::Data(data, hole.min(size)),
        _ => Extent::Data(data, size),
    }
}

async fn seek(pair: &OpenPair<'_>, whence: Whence) -> io::Result<u64> {
    pair.io
        .call_backend(Seek::new(pair.source.clone(), whence))
        .await
}

/// The ranges of the buffer without blocks of zeros. `at` is the buffer's offset in the file.
pub(crate) fn nonzero_ranges(buffer: &[u8], at: u64) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    while start < buffer.len() {
        let into = (at as usize + start) % BLOCK;
        let end = (start + BLOCK - into).min(buffer.len());
        if buffer[start..end].iter().any(|byte| *byte != 0) {
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
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
            [BLOCK..3 * BLOCK, 4 * BLOCK..4 * BLOCK + 10]
        );
        assert!(nonzero_ranges(&buffer[..BLOCK], 0).is_empty());
        // Blocks are aligned in the file, not in the buffer.
        assert_eq!(
            nonzero_ranges(&buffer[BLOCK..2 * BLOCK], 100)[0],
            0..BLOCK - 100
        );
    }
}
