//! The contract (rules 1 to 12 of `DESIGN.md`), held against every back end and every mode.
//!
//! One file per rule or subject; see [`harness`] for what they share.

#[macro_use]
#[path = "contract/harness.rs"]
mod harness;

#[path = "contract/closing.rs"]
mod closing;
#[path = "contract/complete.rs"]
mod complete;
#[path = "contract/completions.rs"]
mod completions;
#[path = "contract/environments.rs"]
mod environments;
#[path = "contract/forks.rs"]
mod forks;
#[path = "contract/interruptions.rs"]
mod interruptions;
#[path = "contract/limits.rs"]
mod limits;
#[path = "contract/ordering.rs"]
mod ordering;
#[path = "contract/received_whole.rs"]
mod received_whole;
#[path = "contract/results_arguments.rs"]
mod results_arguments;
#[path = "contract/results_connections.rs"]
mod results_connections;
#[path = "contract/results_datagrams.rs"]
mod results_datagrams;
#[path = "contract/results_files.rs"]
mod results_files;
#[path = "contract/results_kinds.rs"]
mod results_kinds;
#[path = "contract/results_locks.rs"]
mod results_locks;
#[path = "contract/results_names.rs"]
mod results_names;
#[path = "contract/results_opens.rs"]
mod results_opens;
#[path = "contract/results_queues.rs"]
mod results_queues;
#[path = "contract/results_streams.rs"]
mod results_streams;
#[path = "contract/results_transfers.rs"]
mod results_transfers;
#[path = "contract/results_waiting.rs"]
mod results_waiting;
#[path = "contract/rust_only.rs"]
mod rust_only;
#[path = "contract/starvation.rs"]
mod starvation;
#[path = "contract/statistics.rs"]
mod statistics;
#[path = "contract/threads.rs"]
mod threads;
