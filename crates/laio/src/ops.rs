//! The typed operations: files, names, streams, sockets, processes, time.
//!
//! Each is a struct with public constructors; [`Context::submit`](crate::Context::submit) starts it.
//! Descriptors are held as `F: AsFd + 'static` (an `OwnedFd`, or an `Rc<OwnedFd>` that several
//! operations share), buffers as [`Source`] and [`Sink`].

mod buffer;
mod file;

pub use buffer::{Sink, Source};
pub use file::{ReadAt, WriteAt};
