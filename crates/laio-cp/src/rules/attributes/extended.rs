//! Extended attributes, including ACLs.

use super::acl;
use super::attribute_copy::AttributeCopy;
use super::failures::Failures;
use super::file_ref::{FileRef, call_on, errno};
use crate::io::Io;
use crate::outcome::{Failure, error_text};
use crate::quote::quote;
use crate::session::Session;
use crate::tree::AttributeNames;
use laio::Errno;
use laio::ops::{
    ATTRIBUTE_MAX, AlignedBuffer, GetAttribute, Limit, ListAttributes, SetAttribute,
    attribute_names,
};
use std::ffi::{CStr, CString};
use std::io;

/// The extended attribute that holds the access ACL.
pub(crate) const ACL_ACCESS: &CStr = c"system.posix_acl_access";
/// The extended attribute that holds a directory's default ACL.
pub(crate) const ACL_DEFAULT: &CStr = c"system.posix_acl_default";
/// Not defined in `laio::Errno`.
const NODATA: Errno = Errno::from_raw(libc::ENODATA);
const RANGE: Errno = Errno::from_raw(libc::ERANGE);
const SELINUX_CONTEXT: &CStr = c"security.selinux";
/// The first buffer size for a list of names; enough for most files. The kernel allocates as much
/// as the caller offers.
const NAMES_BYTES: usize = 1 << 10;

/// Describes the attributes whose values differ in the destination, or that are missing there; and an ACL that the source
/// does not have, since it grants access. Other attributes that only the destination has are no difference: `cp` keeps them.
pub(crate) fn differences(
    io: &Io,
    session: &Session,
    names: &AttributeNames,
    from: &FileRef,
    to: &FileRef,
) -> Vec<String> {
    let preserve = session.options.preserve;
    let is_compared = |name: &&CString| {
        // A security module gives a file the label that its directory asks for.
        ***name != *SELINUX_CONTEXT || preserve.context_required || preserve.attributes_required
    };
    let compared = names.0.iter().filter(is_compared);
    let mut found: Vec<String> = compared
        .filter_map(|name| difference_of(io, name, from, to))
        .collect();
    if preserve.mode {
        for acl in [ACL_ACCESS, ACL_DEFAULT] {
            if !names.has(acl) && read(io, acl, to).is_ok_and(|value| !value.is_empty()) {
                found.push(format!("{}, which the source does not have", shown(acl)));
            }
        }
    }
    found
}

fn difference_of(io: &Io, name: &CStr, from: &FileRef, to: &FileRef) -> Option<String> {
    let shown = shown(name);
    let value = match read(io, name, from) {
        Ok(value) => value,
        // The attribute was removed from the source meanwhile.
        Err(error) if errno(&error) == Some(NODATA) => return None,
        Err(error) => return Some(format!("{shown} of the source: {}", error_text(&error))),
    };
    match read(io, name, to) {
        Ok(existing) if existing[..] == value[..] => None,
        Ok(_) => Some(shown),
        Err(error) if is_unsupported(&error) => Some(format!("{shown} is missing")),
        Err(error) => Some(format!("{shown}: {}", error_text(&error))),
    }
}

fn shown(name: &CStr) -> String {
    match name {
        name if name == ACL_ACCESS => "access control list".to_owned(),
        name if name == ACL_DEFAULT => "default access control list".to_owned(),
        name => format!("attribute '{}'", name.to_string_lossy()),
    }
}

/// Whether the error means that the file or file system has no such attributes.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::OPNOTSUPP | NODATA | Errno::NOSYS))
}

/// Lists the names of the source's extended attributes to copy.
pub(crate) fn list_names(
    io: &Io,
    session: &Session,
    source: &FileRef,
) -> io::Result<AttributeNames> {
    let preserve = session.options.preserve;
    if !preserve.mode && !preserve.attributes && !preserve.context {
        return Ok(AttributeNames::default());
    }
    list(io, source, |name| is_wanted(session, name))
}

/// Lists the names of all extended attributes of a file.
pub(super) fn list_all(io: &Io, source: &FileRef) -> io::Result<AttributeNames> {
    list(io, source, |_| true)
}

fn list(io: &Io, source: &FileRef, wanted: impl Fn(&CStr) -> bool) -> io::Result<AttributeNames> {
    let mut capacity = NAMES_BYTES;
    let list = loop {
        let buffer = Limit::new(io.take_buffer(), capacity);
        let (result, buffer) = call_on!(io, source, ListAttributes, buffer);
        let buffer = buffer.into_inner();
        match result {
            Ok(0) => {
                io.recycle_buffer(buffer);
                return Ok(AttributeNames::default());
            }
            Ok(_) => break buffer,
            Err(error) => {
                io.recycle_buffer(buffer);
                match errno(&error) {
                    Some(RANGE) if capacity < ATTRIBUTE_MAX => capacity = ATTRIBUTE_MAX,
                    _ if is_unsupported(&error) => return Ok(AttributeNames::default()),
                    _ => return Err(error),
                }
            }
        }
    };
    let names = attribute_names(&list)
        .filter(|name| wanted(name))
        .map(CStr::to_owned)
        .collect();
    io.recycle_buffer(list);
    Ok(AttributeNames(names))
}

/// Whether an attribute is copied. ACLs belong to the mode; some other attributes describe
/// the file itself and would be wrong on a copy.
fn is_wanted(session: &Session, name: &CStr) -> bool {
    let preserve = session.options.preserve;
    if name == ACL_ACCESS || name == ACL_DEFAULT {
        return preserve.mode;
    }
    if name == SELINUX_CONTEXT {
        return preserve.context || preserve.attributes;
    }
    let bytes = name.to_bytes();
    preserve.attributes
        && !bytes.starts_with(b"system.nfs4")
        && !bytes.starts_with(b"trusted.SGI_")
        && !bytes.starts_with(b"trusted.overlay.")
        && name != c"security.evm"
}

/// Copies all attributes. If the source's access ACL cannot be set, returns the permissions that it
/// grants to the owning group.
pub(super) fn copy_attributes(
    copy: &AttributeCopy<'_>,
    names: &AttributeNames,
    from: &FileRef,
    failures: &mut Failures<'_>,
) -> Option<u32> {
    let (io, session) = (copy.io, copy.session);
    let preserve = session.options.preserve;
    let (mut group, mut has_none) = (None, false);
    for name in &names.0 {
        let Err(error) = copy_attribute(io, name, from, copy.target) else {
            continue;
        };
        let is_acl = name.as_c_str() == ACL_ACCESS || name.as_c_str() == ACL_DEFAULT;
        if name.as_c_str() == ACL_ACCESS {
            let value = read(io, name, from);
            group = value.map_or(Some(0), |value| acl::owning_group_permissions(&value));
        }
        let unsupported = is_unsupported(&error);
        // Report once that the file system does not support extended attributes.
        if unsupported && !is_acl && std::mem::replace(&mut has_none, true) {
            continue;
        }
        let quoted = quote((copy.path)());
        let failure = if is_acl {
            Failure::from_error(error, format!("preserving permissions for {quoted}"))
        } else if unsupported {
            Failure::from_error(error, format!("setting attributes for {quoted}"))
        } else {
            let attribute = name.to_string_lossy();
            Failure::from_error(
                error,
                format!("setting attribute '{attribute}' for {quoted}"),
            )
        };
        let required = if is_acl {
            preserve.required
        } else {
            preserve.attributes_required
                || (preserve.context_required && **name == *SELINUX_CONTEXT)
        };
        if required {
            failures.add(Err(failure));
        } else if !unsupported && !preserve.attributes_quiet {
            session.console.warn(&failure);
        }
    }
    group
}

/// Reads the value of an attribute.
pub(super) fn read(io: &Io, name: &CStr, from: &FileRef) -> io::Result<AlignedBuffer> {
    let buffer = Limit::new(io.take_buffer(), ATTRIBUTE_MAX);
    let (result, buffer) = call_on!(io, from, GetAttribute, name, buffer);
    result.map(|_| buffer.into_inner())
}

pub(super) fn copy_attribute(io: &Io, name: &CStr, from: &FileRef, to: &FileRef) -> io::Result<()> {
    let value = match read(io, name, from) {
        Ok(value) => value,
        // The attribute was removed meanwhile.
        Err(error) if errno(&error) == Some(NODATA) => return Ok(()),
        Err(error) => return Err(error),
    };
    let (result, value) = call_on!(io, to, SetAttribute, name, value);
    io.recycle_buffer(value);
    result
}

/// Returns the permissions that a directory's default ACL allows to new files; `None` without such
/// an ACL.
pub(crate) async fn default_permissions(io: &Io, directory: &FileRef) -> Option<u32> {
    // Few directories have one, and asking for the length alone needs no buffer.
    let none = Vec::new();
    let (length, _) = match directory {
        FileRef::Open(file) => {
            let ask = GetAttribute::new(file.clone(), ACL_DEFAULT, none);
            io.call_target(ask).await
        }
        FileRef::Named(name) => {
            let ask = GetAttribute::named(name.clone(), ACL_DEFAULT, none);
            io.call_target(ask).await
        }
    };
    length.ok().filter(|length| *length > 0)?;
    acl::class_permissions(&read(io, ACL_DEFAULT, directory).ok()?)
}
