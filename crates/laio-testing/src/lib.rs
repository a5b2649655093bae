//! For the tests of the other crates.
pub mod child;
pub mod fault_fs;
pub mod forbid;
pub mod limit;
pub mod oracle;
pub mod process;
pub mod random;
mod skip;
pub mod temp;

pub use fault_fs::FaultFs;
pub use random::Random;
pub use skip::{NO_SKIP, Skip, or_skip};
