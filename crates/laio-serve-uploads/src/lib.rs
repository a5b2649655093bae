#![forbid(unsafe_code)]
//! Requests that change the files of a site: uploads and WebDAV.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures.
#![allow(missing_debug_implementations)]
// Only a feature makes some of the values.
#![cfg_attr(not(feature = "webdav"), allow(dead_code))]

mod uploads;

pub use uploads::*;
