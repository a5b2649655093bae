//! What direct reads have read a short time ago: a table of marks, without locks, in which new marks
//! replace old ones.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of a file that have one mark.
const UNIT: u64 = 64 * 1024;

/// The number of marks in the whole process: with one for each 64 KiB, they remember about one GiB.
const MARKS: usize = 16 * 1024;

static TABLE: Table = Table([const { AtomicU64::new(0) }; MARKS]);

struct Table([AtomicU64; MARKS]);

/// Whether all of these bytes of a file were marked before. Marks them.
pub(super) fn mark(file: (u64, u64), bytes: &Range<u64>) -> bool {
    TABLE.mark(file, bytes)
}

impl Table {
    fn mark(&self, file: (u64, u64), bytes: &Range<u64>) -> bool {
        let units = bytes.start / UNIT..bytes.end.div_ceil(UNIT);
        let mut all = true;
        for unit in units {
            let mark = spread(spread(spread(file.0) ^ file.1) ^ unit) | 1;
            let place = &self.0[(mark >> 32) as usize % MARKS];
            all &= place.swap(mark, Relaxed) == mark;
        }
        all
    }
}

/// Spreads the bits of a number (the finalizer of SplitMix64).
fn spread(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_marked_is_found_until_others_replace_it() {
        let table = Table([const { AtomicU64::new(0) }; MARKS]);
        let (file, other) = ((1, 2), (2, 1));
        assert!(!table.mark(file, &(0..200_000)));
        assert!(table.mark(file, &(0..200_000)));
        assert!(table.mark(file, &(70_000..80_000)));
        assert!(!table.mark(file, &(0..300_000)));
        assert!(!table.mark(other, &(0..1)));
        assert!(table.mark(file, &(5..5)));
        for unit in 0..10 * MARKS as u64 {
            table.mark(other, &(unit * UNIT..unit * UNIT + 1));
        }
        assert!(!table.mark(file, &(0..200_000)));
    }
}
