#![forbid(unsafe_code)]
//! Connections as bytes (`net`), and what they hold: memory, buffers, slots and descriptors.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures.
#![allow(missing_debug_implementations)]

pub mod buffers;
pub mod idle_eviction;
pub mod io_contexts;
pub mod memory;
mod net;
pub mod resource_exhaustion;

pub use net::*;
