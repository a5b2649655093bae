//! How one file is copied, step by step: each rule is a function of an entry, or of its open
//! pair of files.

pub(crate) mod attributes;
pub(crate) mod backup;
pub(crate) mod behind_link;
pub(crate) mod conflict;
pub(crate) mod data;
pub(crate) mod durable;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod new_file_mode;
pub(crate) mod pair;
pub(crate) mod queued;
pub(crate) mod regular;
pub(crate) mod resume;
pub(crate) mod same_file;
pub(crate) mod source;
pub(crate) mod sparse;
pub(crate) mod special;
pub(crate) mod transfer;
pub(crate) mod verify;
