//! The repository: where it is, its version, and how a task on it fails.

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
