//! Positioned reads and writes with owned buffers, and many ranges of one file at a time: what
//! `tokio::fs` has not.

use super::File;
use crate::{proactor, submit_to};
use laio::ops::{Limit, ReadAt, Sink, Source, WriteAt};
use laio::ranges::{JoinedRange, join};
use std::io;
use std::ops::Range;

impl File {
    /// Reads from byte `offset` into the free capacity of a buffer, which is returned with the number of
    /// bytes: 0 at the end of the file. The position of the file is neither used nor moved, and any number
    /// of these may be in flight on one file.
    ///
    /// If the future is dropped, the read is cancelled, and the buffer is freed when the kernel no longer
    /// uses it.
    pub async fn read_at<B: Sink + Send>(&self, buffer: B, offset: u64) -> (io::Result<usize>, B) {
        match proactor() {
            Ok(proactor) => {
                submit_to(proactor, ReadAt::new(self.open.clone(), buffer, offset)).await
            }
            Err(error) => (Err(error), buffer),
        }
    }

    /// Writes all of a buffer at byte `offset`, and returns it with the number of bytes: fewer than all
    /// only if an error came in between. The position of the file is neither used nor moved.
    pub async fn write_at<B: Source + Send>(
        &self,
        buffer: B,
        offset: u64,
    ) -> (io::Result<usize>, B) {
        match proactor() {
            Ok(proactor) => {
                submit_to(proactor, WriteAt::new(self.open.clone(), buffer, offset)).await
            }
            Err(error) => (Err(error), buffer),
        }
    }

    /// Reads ranges of the file, in any order, and returns their bytes in the order of `ranges`: fewer than
    /// the range has only at the end of the file.
    ///
    /// Ranges with gaps of at most [`File::GAP`] between them are read together. All reads that would
    /// block go to the background at once, and wake the task once.
    ///
    /// # Errors
    /// The first error of a read; `InvalidInput` for a range that ends before it begins.
    pub async fn read_ranges(&self, ranges: &[Range<u64>]) -> io::Result<Vec<Vec<u8>>> {
        let reads = join(ranges)?;
        let mut operations = Vec::with_capacity(reads.len());
        for read in &reads {
            let mut buffer = Vec::new();
            let length = usize::try_from(read.bytes.end - read.bytes.start);
            let length = length.map_err(|_| io::ErrorKind::OutOfMemory)?;
            buffer.try_reserve_exact(length)?;
            let buffer = Limit::new(buffer, length);
            operations.push(ReadAt::new(self.open.clone(), buffer, read.bytes.start));
        }
        let batch = crate::batch(proactor()?, operations);
        tokio::task::coop::consume_budget().await;
        let mut outputs = vec![Vec::new(); ranges.len()];
        for (read, (count, buffer)) in reads.iter().zip(batch.await) {
            count?;
            distribute(read, ranges, buffer.into_inner(), &mut outputs);
        }
        Ok(outputs)
    }

    /// Bytes between two ranges up to which [`File::read_ranges`] reads them together: to read some pages more
    /// costs less than a further read.
    pub const GAP: u64 = laio::ranges::GAP;

    /// Bytes above which [`File::read_ranges`] adds no further range to a read.
    pub const MERGED_MAX: u64 = laio::ranges::JOINED_MAX;
}

/// Gives the bytes of a read to its ranges.
fn distribute(read: &JoinedRange, ranges: &[Range<u64>], bytes: Vec<u8>, outputs: &mut [Vec<u8>]) {
    if let [only] = read.of[..] {
        outputs[only] = bytes;
        return;
    }
    for &index in &read.of {
        let within = |offset: u64| ((offset - read.bytes.start) as usize).min(bytes.len());
        let range = &ranges[index];
        outputs[index] = bytes[within(range.start)..within(range.end)].to_vec();
    }
}
