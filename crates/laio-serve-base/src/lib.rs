#![forbid(unsafe_code)]
//! The lowest layer of the server: its options, and what all of its parts use.
//!
//! This crate is a part of `laio-serve`, and has no stable interface of its own.

pub mod addresses;
pub mod clients;
pub mod cpu_pool;
pub mod descriptors;
pub mod field_names;
pub mod inherited;
pub mod messages;
pub mod observe;
pub mod options;
pub mod server_name;
pub mod stop;
pub mod trace;
pub mod transfer_pools;
