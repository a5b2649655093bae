//! Arguments for owners and times.

use laio::ops::Timestamp;

/// A user or group; `None` for -1.
pub(crate) fn id(number: f64) -> Option<u32> {
    (number >= 0.0).then_some(number as u32)
}

/// A time in seconds, with the resolution that libuv gives it: microseconds.
pub(crate) fn timestamp(time: f64) -> Timestamp {
    let whole = time.trunc();
    let mut nanoseconds = ((time - whole) * 1e9) as i64;
    nanoseconds -= nanoseconds % 1000;
    let before = nanoseconds < 0;
    Timestamp {
        seconds: whole as i64 - i64::from(before),
        nanoseconds: (nanoseconds + if before { 1_000_000_000 } else { 0 }) as u32,
    }
}
