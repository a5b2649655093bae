#![forbid(unsafe_code)]
//! Sites, files, and the steps of a request, from its head to the response.
//!
//! `request` has the steps, which are functions of a request and of the services of its worker
//! (`services`). `site` compiles the configuration of a site, `files` finds, opens and caches files,
//! `log` writes the access log.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

// Nothing prints these types, and many of them contain functions and futures. Types and names of
// fields and variants say what documentation would repeat.
#![allow(missing_debug_implementations, missing_docs)]

pub mod files;
pub mod log;
pub mod request;
pub mod services;
pub mod site;
