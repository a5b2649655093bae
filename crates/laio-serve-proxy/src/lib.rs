#![forbid(unsafe_code)]
//! Requests that another server or a program answers.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures.
#![allow(missing_debug_implementations)]

mod proxy;

pub use proxy::*;
