//! The contract suite of `laio`, through the C API.
//!
//! The files are those of `crates/laio/tests/suite/contract`, and the random programs of `environment`. One is left out,
//! `rust_only.rs`: it is about what C does not have, and says why.

extern crate laio_through_c as laio;

#[macro_use]
#[path = "../../../laio/tests/suite/harness/mod.rs"]
mod harness;

/// The C API has no logic of its own, so the faults that change the way of a call within the engine are left to the
/// suite of `laio`. Short transfers remain, because results then differ from the lengths that C passes.
const MODES: [harness::Mode; 2] = [harness::Mode::Natural, harness::Mode::ShortTransfer];

/// By default one scenario in so many runs in each environment: what an environment forbids, the engine meets
/// below C.
const ENVIRONMENTS_SHARE: usize = 16;

#[path = "../../../laio/tests/suite/contract/closing.rs"]
mod closing;
#[path = "../../../laio/tests/suite/contract/complete.rs"]
mod complete;
#[path = "../../../laio/tests/suite/contract/completions.rs"]
mod completions;
#[path = "../../../laio/tests/suite/environment/differential.rs"]
mod differential;
#[path = "../../../laio/tests/suite/contract/environments.rs"]
mod environments;
#[path = "../../../laio/tests/suite/contract/failing_calls.rs"]
mod failing_calls;
#[path = "../../../laio/tests/suite/contract/forks.rs"]
mod forks;
#[path = "../../../laio/tests/suite/contract/hung_mounts.rs"]
mod hung_mounts;
#[path = "../../../laio/tests/suite/contract/interruptions.rs"]
mod interruptions;
#[path = "../../../laio/tests/suite/contract/limits.rs"]
mod limits;
#[path = "../../../laio/tests/suite/contract/ordering.rs"]
mod ordering;
#[path = "../../../laio/tests/suite/contract/received_whole.rs"]
mod received_whole;
#[path = "../../../laio/tests/suite/contract/results_arguments.rs"]
mod results_arguments;
#[path = "../../../laio/tests/suite/contract/results_connections.rs"]
mod results_connections;
#[path = "../../../laio/tests/suite/contract/results_datagrams.rs"]
mod results_datagrams;
#[path = "../../../laio/tests/suite/contract/results_files.rs"]
mod results_files;
#[path = "../../../laio/tests/suite/contract/results_kinds.rs"]
mod results_kinds;
#[path = "../../../laio/tests/suite/contract/results_locks.rs"]
mod results_locks;
#[path = "../../../laio/tests/suite/contract/results_names.rs"]
mod results_names;
#[path = "../../../laio/tests/suite/contract/results_opens.rs"]
mod results_opens;
#[path = "../../../laio/tests/suite/contract/results_queues.rs"]
mod results_queues;
#[path = "../../../laio/tests/suite/contract/results_streams.rs"]
mod results_streams;
#[path = "../../../laio/tests/suite/contract/results_transfers.rs"]
mod results_transfers;
#[path = "../../../laio/tests/suite/contract/results_waiting.rs"]
mod results_waiting;
#[path = "../../../laio/tests/suite/contract/starvation.rs"]
mod starvation;
#[path = "../../../laio/tests/suite/contract/statistics.rs"]
mod statistics;
// For `differential`; the other tests of `environment` use more of it.
#[allow(dead_code)]
#[path = "../../../laio/tests/suite/environment/support.rs"]
mod support;
#[path = "../../../laio/tests/suite/contract/threads.rs"]
mod threads;
