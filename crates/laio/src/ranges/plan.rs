//! Which reads serve a set of ranges: near ranges are read together, reads begin and end on blocks, and
//! large ones are split into pieces.

use std::io;
use std::ops::Range;

/// Bytes between two ranges up to which they are read together: to read some pages more costs less than a
/// further read.
pub const GAP: u64 = 16 * 1024;

/// Bytes above which no further range is added to a read.
pub const JOINED_MAX: u64 = 1024 * 1024;

/// Bytes of the largest piece of a direct read: a multiple of every block.
pub(super) const PIECE: u64 = 1024 * 1024;

/// One read for several ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedRange {
    /// From the first byte of the ranges to the last.
    pub bytes: Range<u64>,
    /// The indices of the ranges.
    pub of: Vec<usize>,
}

/// Joins ranges with gaps of at most [`GAP`] between them, as long as the read has at most [`JOINED_MAX`]
/// bytes. The reads are in the order of their first bytes. An empty range needs no read.
///
/// ```
/// let reads = laio::ranges::join(&[100..200, 0..10, 1_000_000..2_000_000])?;
/// assert_eq!(reads[0].bytes, 0..200);
/// assert_eq!((&reads[0].of[..], &reads[1].of[..]), (&[1, 0][..], &[2][..]));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` for a range that ends before it begins.
pub fn join(ranges: &[Range<u64>]) -> io::Result<Vec<JoinedRange>> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&index| ranges[index].start);
    let mut reads: Vec<JoinedRange> = Vec::new();
    for index in order {
        let bytes = ranges[index].clone();
        if bytes.end < bytes.start {
            let text = format!(
                "range {index} ends at byte {}, before it begins, at byte {}",
                bytes.end, bytes.start
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if bytes.is_empty() {
            continue;
        }
        if let Some(last) = reads.last_mut()
            && bytes.start.saturating_sub(last.bytes.end) <= GAP
            && bytes.end.max(last.bytes.end) - last.bytes.start <= JOINED_MAX
        {
            last.bytes.end = last.bytes.end.max(bytes.end);
            last.of.push(index);
            continue;
        }
        let of = vec![index];
        reads.push(JoinedRange { bytes, of });
    }
    Ok(reads)
}

/// Extends a range to whole blocks.
pub(super) fn aligned(bytes: &Range<u64>, block: u64) -> Range<u64> {
    let start = bytes.start / block * block;
    start
        ..bytes
            .end
            .checked_next_multiple_of(block)
            .unwrap_or(bytes.end)
}

/// Splits a range into pieces of at most [`PIECE`] bytes, which begin at multiples of it from the start of
/// the range.
pub(super) fn pieces(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let count = (bytes.end - bytes.start).div_ceil(PIECE);
    (0..count).map(move |number| {
        let start = bytes.start + number * PIECE;
        start..bytes.end.min(start.saturating_add(PIECE))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_testing::random::Random;

    fn bytes_and_indices(ranges: &[Range<u64>]) -> Vec<(Range<u64>, Vec<usize>)> {
        let reads = join(ranges).unwrap().into_iter();
        reads.map(|read| (read.bytes, read.of)).collect()
    }

    #[test]
    fn near_ranges_are_read_together() {
        let far = 10 * JOINED_MAX;
        let ranges = [far..far + 10, 0..10, 20..30, 5..8, 7..7];
        assert_eq!(
            bytes_and_indices(&ranges),
            [(0..30, vec![1, 3, 2]), (far..far + 10, vec![0])]
        );
        let (a, b) = (0..1, GAP + 1..GAP + 2);
        assert_eq!(bytes_and_indices(&[a.clone(), b]).len(), 1);
        assert_eq!(bytes_and_indices(&[a, GAP + 2..GAP + 3]).len(), 2);
        let (a, b) = (0..JOINED_MAX - 1, JOINED_MAX - 1..JOINED_MAX + 1);
        assert_eq!(bytes_and_indices(&[a, b]).len(), 2);
        let backwards = Range { start: 9, end: 3 };
        assert!(join(&[backwards]).is_err());
        // An earlier range may reach farther than a later one.
        assert_eq!(bytes_and_indices(&[0..5 * JOINED_MAX, 1..2]).len(), 2);
    }

    #[test]
    fn blocks_and_pieces_at_the_ends_of_the_numbers() {
        assert_eq!(aligned(&(1..4097), 4096), 0..8192);
        assert_eq!(aligned(&(4096..8192), 4096), 4096..8192);
        let last = u64::MAX - 1..u64::MAX;
        assert_eq!(aligned(&last, 4096), u64::MAX - 4095..u64::MAX);
        assert_eq!(pieces(0..0).count(), 0);
        assert_eq!(pieces(u64::MAX - 5..u64::MAX).count(), 1);
        let found: Vec<_> = pieces(4096..4096 + PIECE + 512).collect();
        let middle = 4096 + PIECE;
        assert_eq!(found, [4096..middle, middle..middle + 512]);
    }

    /// Random ranges: each is within the read that has its index, and the pieces of a read are without gaps,
    /// without overlaps, and on blocks.
    #[test]
    fn every_range_is_within_its_read_and_every_read_is_in_pieces() {
        let mut random = Random::for_test();
        for _ in 0..2000 {
            let space = 1 << (10 + random.below(20));
            let ranges: Vec<Range<u64>> = (0..random.below(40))
                .map(|_| {
                    let start = random.below(space) as u64;
                    let longest = 1 << random.below(22);
                    start..start + random.below(longest) as u64
                })
                .collect();
            let reads = join(&ranges).unwrap();
            let mut seen = vec![0; ranges.len()];
            for read in &reads {
                for &index in &read.of {
                    seen[index] += 1;
                    assert!(read.bytes.start <= ranges[index].start);
                    assert!(ranges[index].end <= read.bytes.end);
                }
                let length = read.bytes.end - read.bytes.start;
                assert!(length <= JOINED_MAX || read.of.len() == 1, "{read:?}");
                let block = 1 << (9 + random.below(8));
                let wide = aligned(&read.bytes, block);
                let mut at = wide.start;
                for piece in pieces(wide.clone()) {
                    assert_eq!(piece.start, at);
                    assert!(piece.start < piece.end && piece.end - piece.start <= PIECE);
                    assert!(piece.start % block == 0 && piece.end % block == 0);
                    at = piece.end;
                }
                assert_eq!(at, wide.end);
            }
            for (range, count) in ranges.iter().zip(seen) {
                assert_eq!(count, i32::from(!range.is_empty()));
            }
        }
    }
}
