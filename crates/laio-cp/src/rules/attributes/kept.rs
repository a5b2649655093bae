//! The attributes that a new file takes over from the file whose name it gets (`--atomic`): those that stay as they are if
//! `cp` writes into that file.

use super::extended::{ACL_ACCESS, copy_attribute, list_all, read};
use super::file_ref::{FileRef, errno};
use crate::io::Io;
use crate::outcome::{Failure, failure};
use crate::session::Session;
use crate::tree::{Entry, identity};
use laio::Errno;
use laio::ops::{Open, StatFile};
use laio_rt::fs::Metadata;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

/// Gives a new file with complete data the owner, the ACL and the extended attributes of the file that it replaces, unless
/// those of the source are preserved. Returns the mode that it gets if that is not preserved.
///
/// # Errors
/// If an attribute cannot be taken over: the file would be accessible to others than before, or would have lost it.
pub(crate) fn take_over(
    io: &Io,
    session: &Session,
    entry: &Entry,
    existing: &Metadata,
    target: &FileRef,
) -> Result<u32, Failure> {
    let preserve = session.options.preserve;
    let from = open(io, entry, existing)?;
    let names = list_all(io, &from).map_err(|error| {
        let text = "cannot list the attributes of the existing";
        entry.target_failure(text)(error)
    })?;
    let has_acl = names.has(ACL_ACCESS);
    // First, because `chown` clears set-ID bits and file capabilities.
    let keeps_group = preserve.ownership || set_owner(io, existing, target);
    if !preserve.mode {
        if has_acl && !keeps_group {
            let name = entry.quoted_target();
            return Err(failure!(
                "not replacing {name}: the new file cannot get its group, to which its access control list refers; copy \
                 without --atomic"
            ));
        }
        if !has_acl {
            remove_inherited_acl(io, entry, target)?;
        }
    }
    for name in &names.0 {
        let is_acl = name.as_c_str() == ACL_ACCESS;
        if (is_acl && preserve.mode) || !stays(name) {
            continue;
        }
        let Err(error) = copy_attribute(io, name, &from, target) else {
            continue;
        };
        let value = |file| read(io, name, file).ok();
        let (wanted, has) = (value(&from), value(target));
        // A security module may have given the new file the same label, and refuse to set it.
        if wanted.is_some() && wanted.as_deref() == has.as_deref() {
            continue;
        }
        let what = if is_acl {
            "access control list".to_owned()
        } else {
            format!("attribute '{}'", name.to_string_lossy())
        };
        let text = format!("cannot keep the {what} of the existing");
        return Err(entry.target_failure(&text)(error));
    }
    Ok(kept_mode(session, existing, keeps_group))
}

/// The replaced file, by descriptor if it can be read: then it is certainly the examined one.
fn open(io: &Io, entry: &Entry, existing: &Metadata) -> Result<FileRef, Failure> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = match io.call_blocking(Open::new(entry.target(), flags)) {
        Ok(file) => Arc::new(file),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(FileRef::Named(entry.target()));
        }
        Err(error) => return Err(entry.target_failure("cannot open the existing")(error)),
    };
    let status = io.call_blocking(StatFile::new(opened.clone()));
    match status {
        Ok(status) if identity(&status) == identity(existing) => Ok(FileRef::Open(opened)),
        Ok(_) => Err(entry.replaced_failure()),
        Err(error) => Err(entry.target_failure("cannot fstat")(error)),
    }
}

/// Gives the new file the owner of the replaced one, or its group alone. Returns whether it has that group.
fn set_owner(io: &Io, existing: &Metadata, target: &FileRef) -> bool {
    let (user, group) = (existing.user(), existing.group());
    target.set_owner(io, Some(user), Some(group)).is_ok()
        // If that fails too, the file belongs to the process's user and group.
        || target.set_owner(io, None, Some(group)).is_ok()
}

/// Removes the ACL that a new file has inherited from its directory: the replaced file has none.
fn remove_inherited_acl(io: &Io, entry: &Entry, target: &FileRef) -> Result<(), Failure> {
    match target.remove_attribute(io, ACL_ACCESS) {
        Err(error)
            if !matches!(
                errno(&error).map(Errno::raw),
                Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOSYS)
            ) =>
        {
            let text = "cannot remove the inherited access control list of the new";
            Err(entry.target_failure(text)(error))
        }
        _ => Ok(()),
    }
}

/// Whether an attribute stays if data is written into a file: the kernel removes capabilities, and some attributes describe
/// the file itself.
fn stays(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    name != c"security.capability"
        && name != c"security.ima"
        && name != c"security.evm"
        && !bytes.starts_with(b"trusted.SGI_")
        && !bytes.starts_with(b"trusted.overlay.")
}

/// The mode of the replaced file, as after a write by this process: one by an unprivileged process clears the set-ID bits.
/// The file may also have another owner than the one that it replaces. Its group must not get more than all others do, if it
/// is another one.
fn kept_mode(session: &Session, existing: &Metadata, keeps_group: bool) -> u32 {
    let kept = if session.process.is_privileged() {
        0o7777
    } else {
        0o1777
    };
    let mode = existing.mode() & kept;
    if keeps_group {
        mode
    } else {
        mode & !0o070 | mode & (mode & 0o007) << 3
    }
}
