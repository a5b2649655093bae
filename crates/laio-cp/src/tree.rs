//! The directories and files that are copied: what they are called, and what is open.

mod created;
mod directory;
mod handles;
mod identity;
mod open_directories;
mod seen_targets;
mod storage_class;
pub(crate) mod temporary;

pub(crate) use created::CreatedFiles;
pub(crate) use directory::{Argument, AttributeNames, Directory, DirectoryInfo, Entry, Side};
pub(crate) use handles::{Descriptors, Handle, Handles};
pub(crate) use identity::{Identity, identity};
pub(crate) use open_directories::{OpenDirectories, target_handle_of};
pub(crate) use seen_targets::{SeenTargets, without_trailing_slashes};
pub(crate) use storage_class::StorageClass;
pub(crate) use temporary::TemporaryNames;
