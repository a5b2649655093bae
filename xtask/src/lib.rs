#![forbid(unsafe_code)]
//! Builds the command and the C library, installs them, and removes them again: what the command `cargo xtask` does, for its
//! `main` and for the tests.
//!
//! Needed are a Rust toolchain and a C compiler with its binutils; nothing else is run. In the order in
//! which an installation goes through them:
//!
//! | room | purpose |
//! | --- | --- |
//! | [`programs`] | running other programs, and saying what went wrong |
//! | [`compile`] | the C compiler and the tools that belong to it |
//! | [`library`] | from the crate to `liblaio.so` and `liblaio.a` |
//! | [`program`] | the command, and completions for shells |
//! | [`install`] | what goes where; putting it there and taking it away |
//! | [`files`] | files that are either complete or not there |
//! | [`advice`] | how to use what was installed |
//! | [`kernels`] | the suites under other kernels, in virtual machines |
//! | [`skips`] | what a run of the tests has skipped |

pub mod advice;
pub mod compile;
pub mod files;
pub mod install;
pub mod kernels;
pub mod library;
pub mod program;
pub mod programs;
pub mod skips;

use std::path::{Path, PathBuf};

/// Why something failed, for people: what was tried, on what, and what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The version of everything in the repository.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The root of the repository: above the package for which Cargo runs this program, so that a repository
/// that was moved or copied together with its target directory finds itself.
pub fn root() -> PathBuf {
    let package = std::env::var("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let mut above = Path::new(&package).ancestors();
    let root = above.find(|directory| directory.join("crates/laio-capi").is_dir());
    root.expect("xtask belongs to the repository").to_owned()
}

/// The crate of the C library.
pub fn capi() -> PathBuf {
    root().join("crates/laio-capi")
}
