//! A request to copy attributes.

use super::file_ref::FileRef;
use crate::io::Io;
use crate::session::{Process, Session};
use crate::tree::{AttributeNames, Directory};
use laio_rt::fs::Metadata;
use std::path::PathBuf;

/// A request to copy the attributes of a source to a target.
pub(crate) struct AttributeCopy<'a> {
    pub(crate) io: &'a Io,
    pub(crate) session: &'a Session,
    pub(crate) source: &'a Metadata,
    pub(crate) target: &'a FileRef,
    /// The target's path, for messages.
    pub(crate) path: &'a dyn Fn() -> PathBuf,
    /// The names of the source's extended attributes, and the file to read their values from.
    pub(crate) names: Option<(&'a AttributeNames, &'a FileRef)>,
    /// The attributes that the destination has now.
    pub(crate) current: CurrentAttributes,
    pub(crate) is_link: bool,
}

/// The attributes of a destination before they are changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentAttributes {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// `None` if unknown.
    pub(crate) mode: Option<u32>,
    /// The destination may have an ACL that the source does not have.
    pub(crate) may_have_acl: bool,
    /// The destination existed before this copy.
    pub(crate) is_old: bool,
}

impl CurrentAttributes {
    /// The attributes in a status.
    pub(crate) fn from_status(
        status: &Metadata,
        may_have_acl: bool,
        is_old: bool,
    ) -> CurrentAttributes {
        CurrentAttributes {
            user: status.user(),
            group: status.group(),
            mode: Some(status.mode() & 0o7777),
            may_have_acl,
            is_old,
        }
    }

    /// The attributes of a file that was just created in `directory`.
    pub(crate) fn new(
        process: &Process,
        directory: &Directory,
        mode: Option<u32>,
    ) -> CurrentAttributes {
        let info = directory.info.as_ref();
        let inherits = info.is_some_and(|info| info.target.mode() & libc::S_ISGID != 0);
        let group = match info {
            Some(info) if inherits => info.target.group(),
            Some(_) => process.group,
            // The directory's status is unknown.
            None => u32::MAX,
        };
        let may_have_acl = info.is_none_or(|info| info.default_acl.is_some());
        CurrentAttributes {
            user: process.user,
            group,
            mode: mode.filter(|_| !may_have_acl),
            may_have_acl,
            is_old: false,
        }
    }
}
