//! The proactor: operations of many threads, as futures.

mod futures;
mod helpers;
mod loops;
mod mounts;
mod processes;
mod rights;
pub(crate) mod support;
mod threads;
