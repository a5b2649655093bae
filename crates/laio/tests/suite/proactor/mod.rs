//! The proactor: operations of many threads, as futures.

mod futures;
mod processes;
mod rights;
mod support;
mod threads;
