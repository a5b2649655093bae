//! Tests the contract (rules 1 to 12 of the crate's documentation) with every back end and every mode.
//!
//! Each file has one rule or subject; [`harness`] has the shared helpers.

mod closing;
mod complete;
mod completions;
mod environments;
mod failing_calls;
mod forks;
mod hung_mounts;
mod interruptions;
mod limits;
mod ordering;
mod received_whole;
mod results_arguments;
mod results_connections;
mod results_datagrams;
mod results_files;
mod results_kinds;
mod results_locks;
mod results_names;
mod results_opens;
mod results_queues;
mod results_streams;
mod results_transfers;
mod results_waiting;
mod rust_only;
mod starvation;
mod statistics;
mod threads;
