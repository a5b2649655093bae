#![no_main]
//! Fuzzes the `Range` field, and the body made of it.

use laio_http::{ByteRange, ContentType, Multipart, RangeLimits, Ranges};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u8, u8, &[u8])| {
    let (size, count, gap, value) = input;
    let limits = RangeLimits {
        count: usize::from(count),
        gap: u64::from(gap),
    };
    match Ranges::parse_within(value, size, &limits) {
        Ranges::None | Ranges::Unsatisfiable => {}
        Ranges::Single(range) => assert!(is_within(range, size)),
        Ranges::Multiple(set) => {
            let ranges = set.as_slice();
            assert!(ranges.len() >= 2 && ranges.len() <= limits.count.min(Ranges::COUNT_MAX));
            let mut sorted = ranges.to_vec();
            sorted.sort_by_key(|range| range.start);
            assert!(sorted.iter().all(|&range| is_within(range, size)));
            let apart = |pair: &[ByteRange]| pair[1].start - pair[0].end > limits.gap;
            assert!(sorted.windows(2).all(apart), "{sorted:?}");

            let parts = Multipart::new(set, size, ContentType::TEXT, size);
            let mut framing = Vec::new();
            for number in 0..parts.ranges().len() {
                parts.push_head(number, &mut framing);
            }
            parts.push_end(&mut framing);
            let content: u64 = ranges.iter().map(ByteRange::len).sum();
            // A file of nearly 2^64 bytes does not exist, so its length need not be right.
            if content < u64::MAX / 2 {
                assert_eq!(parts.content_length(), content + framing.len() as u64);
            }
        }
    }
});

fn is_within(range: ByteRange, size: u64) -> bool {
    range.start < range.end && range.end <= size
}
