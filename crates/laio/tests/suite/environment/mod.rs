//! Tests calls in their environment (stalls, threads, forks, filters, file systems), in every back end.
//!
//! Covers rules 9 to 12 of the contract, calls that must never stall the caller, and random programs compared
//! with the plain calls. The shared helpers are in [`harness`] and [`support`].

mod support;

mod counts;
mod descriptors;
mod devices;
mod differential;
mod fifos;
mod forks;
mod namespaces;
mod no_threads;
mod queued_signals;
mod refusals;
mod rights;
mod servers;
mod terminals;
mod threads;
mod traced;
