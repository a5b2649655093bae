//! Files below the root of a site: from a path to an opened file and its bytes.

pub mod cache;
pub mod contents;
pub(crate) mod file_system;
pub mod fill;
pub mod read;
pub mod resolve;
pub mod temporary_name;
pub mod uncached;
