//! The engine's tests, in one program, because linking one program is much faster than linking five.
//!
//! Tests that would affect others (signal handlers, limits of the process, filters, forks, counts of descriptors) run
//! in a process of their own: `laio_testing::child`.

#[macro_use]
mod harness;

mod activations;
mod contract;
mod environment;
mod operations;
mod proactor;
mod table;

/// By default one scenario in so many runs in each environment, another part in each.
const ENVIRONMENTS_SHARE: usize = 4;

/// The faults under which the contract is tested.
const MODES: [harness::Mode; 6] = [
    harness::Mode::Natural,
    harness::Mode::ForceInline,
    harness::Mode::ForceBlock,
    harness::Mode::ShortTransfer,
    harness::Mode::FalseEof,
    harness::Mode::AttemptsFail,
];
