//! What surrounds the calls: stalls, threads, forks, filters, file systems. All of it in every back end.
//!
//! Rules 9 to 12 of `DESIGN.md`, calls that must never stall the caller, and random programs compared
//! with the plain calls. What the tests share is in [`harness`], and in [`support`].

// Shared with other test programs, which use other parts of it.
#[allow(dead_code, unused_macros)]
#[macro_use]
#[path = "contract/harness.rs"]
mod harness;

#[path = "environment/support.rs"]
mod support;

#[path = "environment/counts.rs"]
mod counts;
#[path = "environment/credentials.rs"]
mod credentials;
#[path = "environment/differential.rs"]
mod differential;
#[path = "environment/fifos.rs"]
mod fifos;
#[path = "environment/filters.rs"]
mod filters;
#[path = "environment/forks.rs"]
mod forks;
#[path = "environment/rights.rs"]
mod rights;
#[path = "environment/servers.rs"]
mod servers;
#[path = "environment/threads.rs"]
mod threads;
