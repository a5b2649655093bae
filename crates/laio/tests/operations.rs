//! The life of operations: complete, once, in order, bounded, cancelled, delivered; in every back end.
//!
//! `contract.rs` compares results with those of plain calls; this is about what a plain call does not have.

#[allow(dead_code, unused_macros)]
#[macro_use]
#[path = "contract/harness.rs"]
mod harness;

#[path = "operations/parked.rs"]
mod parked;

#[path = "operations/aio.rs"]
mod aio;
#[path = "operations/attributes.rs"]
mod attributes;
#[path = "operations/cancelling.rs"]
mod cancelling;
#[path = "operations/closing.rs"]
mod closing;
#[path = "operations/completeness.rs"]
mod completeness;
#[path = "operations/copying.rs"]
mod copying;
#[path = "operations/interruptions.rs"]
mod interruptions;
#[path = "operations/limits.rs"]
mod limits;
#[path = "operations/ordering.rs"]
mod ordering;
#[path = "operations/ownership.rs"]
mod ownership;
#[path = "operations/polling.rs"]
mod polling;
#[path = "operations/signalling.rs"]
mod signalling;
#[path = "operations/storm.rs"]
mod storm;
#[path = "operations/timeouts.rs"]
mod timeouts;
#[path = "operations/watching.rs"]
mod watching;
#[path = "operations/zero_copy.rs"]
mod zero_copy;
