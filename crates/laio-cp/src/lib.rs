#![forbid(unsafe_code)]
//! A recursive copy that trusts no name twice and waits for no disk that it need not wait for.
//!
//! Workers, each a thread with a runtime of its own, take directories: each reads one, makes its copy, and
//! copies the files in it, several at a time, by names relative to open directories. Directories in it
//! become tasks, for itself or for workers with nothing to do. When the last file below a directory is
//! done, the directory gets its attributes.
//!
//! Calls on the source are lazy: what is in memory is read on the spot, and only what is not makes a file
//! wait, while others go on. Calls on the destination are made plainly ([`Writes`] says why).
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
mod attributes;
mod backup;
mod console;
mod data;
mod descriptors;
mod directory;
mod entry;
mod existing;
mod filter;
mod link;
mod links;
mod listing;
mod made;
mod medium;
mod options;
mod outcome;
pub mod plan;
mod pool;
mod private;
mod progress;
mod queued;
mod quote;
mod rate;
mod regular;
mod resume;
mod room;
mod run;
mod same;
mod shared;
mod sparse;
mod special;
mod stop;
mod temporary;
mod verify;
mod waits;
mod walk;
mod worker;

pub use arguments::{Misuse, Operands};
pub use filter::Filter;
pub use options::{
    Backup, Existing, Follow, Make, Method, Options, Preserve, Reflink, Sparse, Writes,
};
pub use outcome::{Done, Failure, Observer, Outcome, Summary};
pub use room::has_memory_to_begin;
pub use run::copy;
pub use stop::Stop;
pub use temporary::PREFIX as TEMPORARY_PREFIX;
pub use verify::Digest;
