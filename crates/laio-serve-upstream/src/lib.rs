#![forbid(unsafe_code)]
//! The servers behind this one: their addresses, their health, and the connections to them.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures.
#![allow(missing_debug_implementations)]

mod upstream;

pub use upstream::*;
