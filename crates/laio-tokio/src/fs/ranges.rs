//! Positioned reads and writes with owned buffers, and many ranges of one file at a time: what
//! `tokio::fs` has not.

use super::File;
use crate::{proactor, submit_to};
use laio::ops::{Limit, ReadAt, Sink, Source, WriteAt};
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
        let reads = merge(ranges)?;
        let operations = reads.iter().map(|read| {
            let length = (read.range.end - read.range.start) as usize;
            let buffer = Limit::new(Vec::with_capacity(length), length);
            ReadAt::new(self.open.clone(), buffer, read.range.start)
        });
        let batch = proactor()?.submit_all(operations);
        tokio::task::coop::consume_budget().await;
        let mut outputs = vec![Vec::new(); ranges.len()];
        for (read, (count, buffer)) in reads.iter().zip(batch.await) {
            count?;
            read.distribute(ranges, buffer.into_inner(), &mut outputs);
        }
        Ok(outputs)
    }

    /// Bytes between two ranges up to which [`File::read_ranges`] reads them together: to read some pages more
    /// costs less than a further read.
    pub const GAP: u64 = 16 * 1024;

    /// Bytes above which [`File::read_ranges`] adds no further range to a read.
    pub const MERGED_MAX: u64 = 1024 * 1024;
}

/// One read for several ranges.
struct Merged {
    range: Range<u64>,
    /// The indices of the ranges.
    of: Vec<usize>,
}

/// The reads for all ranges, by offset.
fn merge(ranges: &[Range<u64>]) -> io::Result<Vec<Merged>> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&index| ranges[index].start);
    let mut reads: Vec<Merged> = Vec::new();
    for index in order {
        let range = ranges[index].clone();
        if range.end < range.start {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(last) = reads.last_mut()
            && range.start.saturating_sub(last.range.end) <= File::GAP
            && range.end.saturating_sub(last.range.start) <= File::MERGED_MAX
        {
            last.range.end = last.range.end.max(range.end);
            last.of.push(index);
            continue;
        }
        let of = vec![index];
        reads.push(Merged { range, of });
    }
    Ok(reads)
}

impl Merged {
    fn distribute(&self, ranges: &[Range<u64>], bytes: Vec<u8>, outputs: &mut [Vec<u8>]) {
        if let [only] = self.of[..] {
            outputs[only] = bytes;
            return;
        }
        for &index in &self.of {
            let within = |offset: u64| ((offset - self.range.start) as usize).min(bytes.len());
            let range = &ranges[index];
            outputs[index] = bytes[within(range.start)..within(range.end)].to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_read_together() {
        let far = 10 * File::MERGED_MAX;
        let ranges = [far..far + 10, 0..10, 20..30, 5..8, 7..7];
        let reads = merge(&ranges).unwrap();
        let found: Vec<_> = reads
            .iter()
            .map(|read| (read.range.clone(), read.of.clone()))
            .collect();
        assert_eq!(found, [(0..30, vec![1, 3, 4, 2]), (far..far + 10, vec![0])]);
        let mut outputs = vec![Vec::new(); 5];
        // The file ends at 25.
        reads[0].distribute(&ranges, (0..25).collect(), &mut outputs);
        assert_eq!(outputs[1], (0..10).collect::<Vec<u8>>());
        assert_eq!(
            (&outputs[2][..], &outputs[3][..]),
            (&[20, 21, 22, 23, 24][..], &[5, 6, 7][..])
        );
        assert!(outputs[4].is_empty());
        let backwards = Range { start: 2, end: 1 };
        assert!(merge(&[backwards]).is_err());
    }
}
