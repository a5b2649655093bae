#![forbid(unsafe_code)]
//! Builds, installs and removes the command and the C library: the code of `cargo xtask`, for its `main` and
//! for the tests.
//!
//! It needs a Rust toolchain and a C compiler with its binutils, and runs no other programs. The modules, in
//! the order in which an installation uses them:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`programs`] | runs other programs, and reports their errors |
//! | [`compile`] | finds the C compiler and its binutils |
//! | [`library`] | builds `liblaio.so` and `liblaio.a` from the crate |
//! | [`program`] | builds the command, and completions for shells |
//! | [`install`] | installs files, and removes them |
//! | [`files`] | writes files atomically |
//! | [`advice`] | prints how to use the installed files |
//! | [`kernels`] | runs the suites under other kernels, in virtual machines |
//! | [`targets`] | runs the suites on other processors and C libraries |
//! | [`skips`] | summarizes the skips of a test run |
//! | [`workspace`] | the packages and dependencies, as cargo describes them |
//! | [`links`] | finds links that lead nowhere |
//! | [`tidy`] | checks the structure of the tree |
//! | [`book`] | makes the book of the documentation |
//! | [`package`] | makes the packages for distributions |
//! | [`release`] | checks that a version can be released, and releases it |

pub mod advice;
pub mod book;
pub mod compile;
pub mod files;
pub mod install;
pub mod kernels;
pub mod library;
pub mod links;
pub mod package;
pub mod program;
pub mod programs;
pub mod release;
pub mod skips;
pub mod targets;
pub mod tidy;
pub mod workspace;

use std::path::{Path, PathBuf};

/// The message of a failure: what was tried, on what, and what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The version of all crates of the repository.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the root of the repository: the parent of the package for which Cargo runs this program, so that a
/// moved or copied repository finds itself.
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
