//! The crate's tests, in one program. The oracle is `tokio::fs`: the same program runs with both.

#![forbid(unsafe_code)]

mod cancelled;
mod direct_ranges;
mod direct_reader;
mod dropped;
mod failing_calls;
mod lifecycle;
mod names;
mod oracle;
mod owned_paths;
mod ranges;
mod rights;
mod ring;
mod sandboxes;
mod short_writes;
mod slow_disk;
mod stalls;
mod standard;
mod streams;
mod support;
