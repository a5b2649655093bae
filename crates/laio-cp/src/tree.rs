//! The directories and files that are copied: what they are called, and what is open.

pub(crate) mod attribute_names;
pub(crate) mod created;
pub(crate) mod directory;
pub(crate) mod handles;
pub(crate) mod identity;
pub(crate) mod open_directories;
pub(crate) mod seen_targets;
pub(crate) mod storage_class;
pub(crate) mod temporary;
