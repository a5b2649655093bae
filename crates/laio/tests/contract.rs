//! The contract (rules 1 to 12 of `DESIGN.md`), held against every back end and every mode.
//!
//! One file per rule or subject; see [`harness`] for what they share.

#[macro_use]
#[path = "contract/harness.rs"]
mod harness;

#[path = "contract/results.rs"]
mod results;
