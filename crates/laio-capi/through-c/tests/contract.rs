//! The contract suite of `laio`, through the C API.
//!
//! The files are those of `crates/laio/tests/contract`. One is left out, `rust_only.rs`: it is about what C does
//! not have, and says why.

extern crate laio_through_c as laio;

#[macro_use]
#[path = "../../../laio/tests/contract/harness.rs"]
mod harness;

#[path = "../../../laio/tests/contract/closing.rs"]
mod closing;
#[path = "../../../laio/tests/contract/complete.rs"]
mod complete;
#[path = "../../../laio/tests/contract/completions.rs"]
mod completions;
#[path = "../../../laio/tests/contract/environments.rs"]
mod environments;
#[path = "../../../laio/tests/contract/forks.rs"]
mod forks;
#[path = "../../../laio/tests/contract/interruptions.rs"]
mod interruptions;
#[path = "../../../laio/tests/contract/limits.rs"]
mod limits;
#[path = "../../../laio/tests/contract/ordering.rs"]
mod ordering;
#[path = "../../../laio/tests/contract/received_whole.rs"]
mod received_whole;
#[path = "../../../laio/tests/contract/results_arguments.rs"]
mod results_arguments;
#[path = "../../../laio/tests/contract/results_connections.rs"]
mod results_connections;
#[path = "../../../laio/tests/contract/results_datagrams.rs"]
mod results_datagrams;
#[path = "../../../laio/tests/contract/results_files.rs"]
mod results_files;
#[path = "../../../laio/tests/contract/results_kinds.rs"]
mod results_kinds;
#[path = "../../../laio/tests/contract/results_locks.rs"]
mod results_locks;
#[path = "../../../laio/tests/contract/results_names.rs"]
mod results_names;
#[path = "../../../laio/tests/contract/results_opens.rs"]
mod results_opens;
#[path = "../../../laio/tests/contract/results_queues.rs"]
mod results_queues;
#[path = "../../../laio/tests/contract/results_streams.rs"]
mod results_streams;
#[path = "../../../laio/tests/contract/results_transfers.rs"]
mod results_transfers;
#[path = "../../../laio/tests/contract/results_waiting.rs"]
mod results_waiting;
#[path = "../../../laio/tests/contract/starvation.rs"]
mod starvation;
#[path = "../../../laio/tests/contract/statistics.rs"]
mod statistics;
#[path = "../../../laio/tests/contract/threads.rs"]
mod threads;
