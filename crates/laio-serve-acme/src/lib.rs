#![forbid(unsafe_code)]
//! Certificates of an authority (ACME): ordering and renewing them, and answering challenges.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures.
#![allow(missing_debug_implementations)]

mod acme;

pub use acme::*;
