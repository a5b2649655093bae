//! Files below the root of a site: from a path to an opened file and its bytes.

pub(crate) mod cache;
pub(crate) mod contents;
pub(crate) mod file_system;
pub(crate) mod fill;
pub(crate) mod read;
pub(crate) mod resolve;
pub(crate) mod temporary_name;
pub(crate) mod uncached;
