//! Sets attributes in this order: owner, extended attributes and ACLs, mode, times. `chown` clears
//! file capabilities (an extended attribute) and the set-user-ID bit, so it is first; a mode
//! without write permission makes `setxattr` fail, so the mode comes after.

mod acl;
mod attribute_copy;
mod extended;
mod failures;
mod file_ref;
mod kept;

pub(crate) use attribute_copy::{AttributeCopy, CurrentAttributes};
use extended::ACL_DEFAULT;
pub(crate) use extended::{ACL_ACCESS, default_permissions, differences, list_names};
pub(crate) use failures::Failures;
pub(crate) use file_ref::FileRef;
use file_ref::errno;
pub(crate) use kept::take_over;

use crate::io::Io;
use crate::outcome::Failure;
use crate::quote::quote;
use crate::session::Session;
use crate::tree::{Directory, DirectoryInfo, Handle};
use laio::Errno;
use laio_rt::fs::Metadata;
use std::io;
use std::path::PathBuf;

/// Sets the preserved attributes. A failure does not prevent the following steps,
/// with one exception: if the owner cannot be set, the file gets no permissions, and `false` is
/// returned.
pub(crate) fn set(copy: &AttributeCopy<'_>, failures: &mut Failures<'_>) -> bool {
    let bits = set_owner_first(copy, failures);
    if let Some(bits) = bits {
        set_permissions(copy, bits, failures);
    }
    // With `--resume`, a later run treats a file with the times of its source as complete.
    if failures.is_empty() || !copy.session.options.resume {
        failures.add(set_times(
            copy.io,
            copy.session,
            copy.target,
            copy.source,
            copy.path,
        ));
    }
    bits.is_some()
}

/// Sets the owner. Returns the permissions that the destination may now get and, if known, those
/// that it has; `None` if the mode must not be changed.
fn set_owner_first(
    copy: &AttributeCopy<'_>,
    failures: &mut Failures<'_>,
) -> Option<(u32, Option<u32>)> {
    let preserve = copy.session.options.preserve;
    let source = copy.source;
    let mut bits = source.mode() & 0o7777;
    let mut mode_now = copy.current.mode;
    if preserve.ownership
        && (source.user(), source.group()) != (copy.current.user, copy.current.group)
    {
        if copy.current.is_old && preserve.mode && !copy.is_link {
            // The new owner must not get more than both the old and the new mode allow.
            let now = mode_now.unwrap_or(0);
            let restricted = now & bits & 0o700;
            if restricted != now {
                let _ = copy.target.set_mode(copy.io, restricted);
                mode_now = Some(restricted);
            }
        }
        match set_owner(copy) {
            Ok(true) => {
                // `chown` may have cleared special bits.
                mode_now = mode_now.filter(|mode| mode & 0o7000 == 0);
            }
            Ok(false) => bits &= 0o777,
            Err(failure) => {
                failures.add(Err(failure));
                return None;
            }
        }
    }
    Some((bits, mode_now))
}

/// Sets extended attributes, including ACLs, then the mode.
fn set_permissions(
    copy: &AttributeCopy<'_>,
    (mut bits, mode_now): (u32, Option<u32>),
    failures: &mut Failures<'_>,
) {
    let preserve = copy.session.options.preserve;
    if let Some((names, from)) = copy.names {
        let lost = extended::copy_attributes(copy, names, from, failures);
        if let Some(group) = lost {
            // Without the ACL the group bits are not its mask, but the permissions of the owning
            // group.
            bits = (bits & !0o070) | group << 3;
        }
    }
    if copy.current.may_have_acl && preserve.default_mode && !copy.current.is_old && !copy.is_link {
        // The mode follows the umask; an inherited ACL must not grant more.
        let _ = copy.target.remove_attribute(copy.io, ACL_ACCESS);
    }
    if preserve.mode && !copy.is_link {
        failures.add(set_mode(copy, bits, mode_now));
    }
}

/// Whether the copy has the owner of the source now.
fn set_owner(copy: &AttributeCopy<'_>) -> Result<bool, Failure> {
    let (user, group) = (copy.source.user(), copy.source.group());
    let Err(error) = copy.target.set_owner(copy.io, Some(user), Some(group)) else {
        return Ok(true);
    };
    let refused = matches!(errno(&error), Some(Errno::PERM | Errno::INVAL));
    if refused {
        // The process may be a member of the group.
        let _ = copy.target.set_owner(copy.io, None, Some(group));
    }
    if !refused || copy.session.process.is_privileged() {
        warn_or_fail(
            copy.session,
            copy.path,
            Err(error),
            "failed to preserve ownership for",
        )?;
    }
    Ok(false)
}

fn set_mode(copy: &AttributeCopy<'_>, bits: u32, mode_now: Option<u32>) -> Result<(), Failure> {
    let target = copy.target;
    let has = |name| copy.names.is_some_and(|(names, _)| names.has(name));
    if copy.current.may_have_acl {
        for acl in [ACL_ACCESS, ACL_DEFAULT] {
            let wanted = acl == ACL_ACCESS || copy.source.is_dir();
            if wanted && !has(acl) {
                // The ACL is absent, or the file system does not support ACLs.
                let _ = target.remove_attribute(copy.io, acl);
            }
        }
    }
    // Setting an ACL changes the mode.
    if mode_now == Some(bits) && !has(ACL_ACCESS) {
        return Ok(());
    }
    let set = target.set_mode(copy.io, bits);
    warn_or_fail(copy.session, copy.path, set, "preserving permissions for")
}

/// Sets the times, if the options preserve them.
pub(crate) fn set_times(
    io: &Io,
    session: &Session,
    target: &FileRef,
    source: &Metadata,
    path: &dyn Fn() -> PathBuf,
) -> Result<(), Failure> {
    if !session.options.preserve.timestamps {
        return Ok(());
    }
    let set = target.set_times(io, source);
    warn_or_fail(session, path, set, "preserving times for")
}

/// Turns a failed call into an error if the attribute is required, else into a warning.
fn warn_or_fail(
    session: &Session,
    path: &dyn Fn() -> PathBuf,
    set: io::Result<()>,
    what: &str,
) -> Result<(), Failure> {
    let Err(error) = set else { return Ok(()) };
    let failure = Failure::from_error(error, format!("{what} {}", quote(path())));
    if session.options.preserve.required {
        return Err(failure);
    }
    session.console.warn(&failure);
    Ok(())
}

/// Sets the attributes of a directory whose entries are all finished.
pub(crate) fn set_on_directory(
    io: &Io,
    session: &Session,
    directory: &Directory,
    info: &DirectoryInfo,
    source: Option<FileRef>,
    target: Handle,
) -> Result<(), Failure> {
    let target = FileRef::Open(target);
    let path = || directory.target_path();
    let mut failures = Failures::new(session);
    if let Some(mode) = info.mode
        && !session.options.preserve.mode
        && let Err(error) = target.set_mode(io, mode)
    {
        let text = format!("setting permissions for {}", quote(path()));
        failures.add(Err(Failure::from_error(error, text)));
    }
    let copy = AttributeCopy {
        io,
        session,
        source: &info.source,
        target: &target,
        path: &path,
        names: source.as_ref().map(|source| (&info.names, source)),
        current: CurrentAttributes::from_status(
            &info.target,
            info.default_acl.is_some() || !directory.is_new,
            !directory.is_new,
        ),
        is_link: false,
    };
    set(&copy, &mut failures);
    failures.result()
}
