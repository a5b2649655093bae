//! The engine's tests, in one program: linking one is much quicker than linking five.
//!
//! What must not meet other tests (signal handlers, limits of the process, filters, forks, counts of descriptors) runs in
//! a process of its own: `laio_testing::child`.

#[macro_use]
mod harness;

mod activations;
mod contract;
mod environment;
mod operations;
mod table;
