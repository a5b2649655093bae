//! Servers and programs behind this one: `target` chooses the upstream of a path, `pool` provides a
//! connection, `link` carries its bytes, `resolver` looks up names.

mod encryption;
pub(crate) mod error;
pub(crate) mod link;
pub(crate) mod pool;
pub(crate) mod resolver;
pub(crate) mod spool_files;
pub(crate) mod target;
