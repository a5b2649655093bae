//! The environment of calls: stalls, threads, forks, filters, file systems, in every back end.
//!
//! Rules 9 to 12 of `DESIGN.md`, calls that must never stall the caller, and random programs compared
//! with the plain calls. What the tests share is in [`harness`], and in [`support`].

mod support;

mod counts;
mod credentials;
mod descriptors;
mod devices;
mod differential;
mod fifos;
mod filters;
mod forks;
mod namespaces;
mod rights;
mod servers;
mod terminals;
mod threads;
