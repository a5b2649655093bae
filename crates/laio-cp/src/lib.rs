#![forbid(unsafe_code)]
//! A recursive copy, as `cp` does it, that resolves each name once and keeps working while the disk
//! is slow.
//!
//! Each worker is a thread with its own runtime. A worker takes a directory, reads it, creates its
//! copy, and copies several of its files at a time, by names relative to the open directories.
//! Subdirectories become work items, for this worker or for an idle one. When the last entry below
//! a directory is finished, the worker sets the attributes of its copy.
//!
//! Calls on the source are lazy: cached data is read inline; for uncached data the file waits in
//! the background and the worker continues with other files. Calls on the destination block;
//! [`Writes`] explains why.
//!
//! ```
//! use laio_cp::{Operands, Options, Stop};
//! # let scratch = std::env::temp_dir().join(format!("laio-cp-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(scratch.join("from"))?;
//! # std::fs::write(scratch.join("from/file"), "text")?;
//! let options = Options { recursive: true, follow: laio_cp::Follow::Never, ..Options::default() };
//! let operands = Operands { files: vec![scratch.join("from"), scratch.join("to")], ..Operands::default() };
//! let summary = laio_cp::copy(options, operands, Stop::new()).unwrap();
//! assert_eq!((summary.files, summary.bytes, summary.failures), (1, 4, 0));
//! # std::fs::remove_dir_all(scratch)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod arguments;
mod budget;
mod console;
mod copy;
mod digest;
mod filter;
mod io;
mod lock;
mod manifest;
mod options;
mod outcome;
pub mod plan;
mod progress;
mod quote;
mod rate;
mod rules;
mod run;
mod schedule;
mod session;
mod sink;
mod stop;
mod tree;
mod workers;

pub use arguments::{Misuse, Operands};
pub use budget::has_memory_to_begin;
pub use digest::Digest;
pub use filter::Filter;
pub use options::{
    Backup, Existing, Follow, Make, Method, Options, Preserve, Reflink, Sparse, Writes,
};
pub use outcome::{Done, Failure, FileResult, Observer, Summary};
pub use run::copy;
pub use stop::Stop;
pub use tree::temporary::PREFIX as TEMPORARY_PREFIX;

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
