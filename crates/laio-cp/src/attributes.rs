//! Attributes: owner, extended attributes and ACLs, mode, times, in this order. A new owner clears
//! capabilities (which are extended attributes) and the set-user-ID bit; a mode without write permission
//! forbids to set extended attributes.

mod acl;
mod extended;
mod failures;
mod object;

pub(crate) use acl::default_permissions;
use extended::ACL_DEFAULT;
pub(crate) use extended::{ACL_ACCESS, Names, names};
pub(crate) use failures::Failures;
pub(crate) use object::Object;

use crate::directory::{Directory, Found, Handle};
use crate::outcome::Failure;
use crate::quote::quote;
use crate::shared::Process;
use crate::worker::Worker;
use laio::Errno;
use laio_rt::fs::Metadata;
use std::io;
use std::path::PathBuf;

/// Whose attributes are set, and to what.
pub(crate) struct Setting<'a> {
    pub(crate) source: &'a Metadata,
    pub(crate) target: &'a Object,
    /// As in messages.
    pub(crate) path: &'a dyn Fn() -> PathBuf,
    /// Attributes of the source, and where their values are.
    pub(crate) names: Option<(&'a Names, &'a Object)>,
    /// The owner and mode that the destination has now.
    pub(crate) present: Present,
    pub(crate) is_link: bool,
}

/// What a destination has before its attributes are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// None if it is not known for certain.
    pub(crate) mode: Option<u32>,
    /// It may have an ACL that the source does not have.
    pub(crate) may_have_acl: bool,
    /// It was there before.
    pub(crate) is_old: bool,
}

impl Present {
    pub(crate) fn of(status: &Metadata, may_have_acl: bool, is_old: bool) -> Present {
        Present {
            user: status.user(),
            group: status.group(),
            mode: Some(status.mode() & 0o7777),
            may_have_acl,
            is_old,
        }
    }

    /// Of a file just made in a directory.
    pub(crate) fn new(process: &Process, directory: &Directory, mode: Option<u32>) -> Present {
        let found = directory.found.as_ref();
        let inherits = found.is_some_and(|found| found.target.mode() & libc::S_ISGID != 0);
        let group = match found {
            Some(found) if inherits => found.target.group(),
            Some(_) => process.group,
            // The directory was not looked at.
            None => u32::MAX,
        };
        let may_have_acl = found.is_none_or(|found| found.default_acl.is_some());
        Present {
            user: process.user,
            group,
            mode: mode.filter(|_| !may_have_acl),
            may_have_acl,
            is_old: false,
        }
    }
}

/// Sets those that are to be preserved. What cannot be set keeps no others from being set, except that a file whose owner is
/// wrong gets no permissions. False for such a file.
pub(crate) fn set(worker: &Worker, setting: &Setting<'_>, failures: &mut Failures<'_>) -> bool {
    let bits = set_owner_first(worker, setting, failures);
    if let Some(bits) = bits {
        set_permissions(worker, setting, bits, failures);
    }
    // A later run takes what has the times of its source for complete.
    if failures.are_none() || !worker.options().resume {
        failures.note(set_times(
            worker,
            setting.target,
            setting.source,
            setting.path,
        ));
    }
    bits.is_some()
}

/// The permissions that the destination may now have, and those that it has, if they are known; none if it must not have any
/// but those that it has.
fn set_owner_first(
    worker: &Worker,
    setting: &Setting<'_>,
    failures: &mut Failures<'_>,
) -> Option<(u32, Option<u32>)> {
    let preserve = worker.options().preserve;
    let source = setting.source;
    let mut bits = source.mode() & 0o7777;
    let mut mode_now = setting.present.mode;
    if preserve.ownership
        && (source.user(), source.group()) != (setting.present.user, setting.present.group)
    {
        if setting.present.is_old && preserve.mode && !setting.is_link {
            // The new owner must not get more than the old mode and the new one both allow.
            let now = mode_now.unwrap_or(0);
            let restricted = now & bits & 0o700;
            if restricted != now {
                let _ = setting.target.set_mode(worker, restricted);
                mode_now = Some(restricted);
            }
        }
        match set_owner(worker, setting) {
            Ok(true) => {
                // It may have taken special bits away.
                mode_now = mode_now.filter(|mode| mode & 0o7000 == 0);
            }
            Ok(false) => bits &= 0o777,
            Err(failure) => {
                failures.note(Err(failure));
                return None;
            }
        }
    }
    Some((bits, mode_now))
}

/// Extended attributes, ACLs among them, and then the mode.
fn set_permissions(
    worker: &Worker,
    setting: &Setting<'_>,
    (mut bits, mode_now): (u32, Option<u32>),
    failures: &mut Failures<'_>,
) {
    let preserve = worker.options().preserve;
    if let Some((names, from)) = setting.names {
        let lost = extended::copy_attributes(worker, setting, names, from, failures);
        if let Some(group) = lost {
            // Without the ACL these bits are not its mask, but what the owning group may do.
            bits = (bits & !0o070) | group << 3;
        }
    }
    if setting.present.may_have_acl
        && preserve.default_mode
        && !setting.present.is_old
        && !setting.is_link
    {
        // The permissions are those of the umask, and nobody else's.
        let _ = setting.target.remove_attribute(worker, ACL_ACCESS);
    }
    if preserve.mode && !setting.is_link {
        failures.note(set_mode(worker, setting, bits, mode_now));
    }
}

/// Whether the source has the owner's rights now.
fn set_owner(worker: &Worker, setting: &Setting<'_>) -> Result<bool, Failure> {
    let (user, group) = (setting.source.user(), setting.source.group());
    let Err(error) = setting.target.set_owner(worker, Some(user), Some(group)) else {
        return Ok(true);
    };
    let refused = matches!(errno(&error), Some(Errno::PERM | Errno::INVAL));
    if refused {
        // The group may be one of ours.
        let _ = setting.target.set_owner(worker, None, Some(group));
    }
    if !refused || worker.shared.process.is_privileged() {
        tolerate(
            worker,
            setting.path,
            Err(error),
            "failed to preserve ownership for",
        )?;
    }
    Ok(false)
}

fn set_mode(
    worker: &Worker,
    setting: &Setting<'_>,
    bits: u32,
    mode_now: Option<u32>,
) -> Result<(), Failure> {
    let target = setting.target;
    let has = |name| setting.names.is_some_and(|(names, _)| names.has(name));
    if setting.present.may_have_acl {
        for acl in [ACL_ACCESS, ACL_DEFAULT] {
            let wanted = acl == ACL_ACCESS || setting.source.is_dir();
            if wanted && !has(acl) {
                // It has none, or the file system knows of none.
                let _ = target.remove_attribute(worker, acl);
            }
        }
    }
    // An ACL has set the mode anew.
    if mode_now == Some(bits) && !has(ACL_ACCESS) {
        return Ok(());
    }
    let set = target.set_mode(worker, bits);
    tolerate(worker, setting.path, set, "preserving permissions for")
}

/// Sets the times, if they are to be preserved.
pub(crate) fn set_times(
    worker: &Worker,
    target: &Object,
    source: &Metadata,
    path: &dyn Fn() -> PathBuf,
) -> Result<(), Failure> {
    if !worker.options().preserve.timestamps {
        return Ok(());
    }
    let set = target.set_times(worker, source);
    tolerate(worker, path, set, "preserving times for")
}

/// Reports what could not be set; an error only if it must be.
fn tolerate(
    worker: &Worker,
    path: &dyn Fn() -> PathBuf,
    set: io::Result<()>,
    what: &str,
) -> Result<(), Failure> {
    let Err(error) = set else { return Ok(()) };
    let failure = Failure::of(error, format!("{what} {}", quote(path())));
    if worker.options().preserve.required {
        return Err(failure);
    }
    worker.shared.console.complain(&failure);
    Ok(())
}

/// Those of a directory, when all in it is done.
pub(crate) fn of_directory(
    worker: &Worker,
    directory: &Directory,
    found: &Found,
    source: Option<Object>,
    target: Handle,
) -> Result<(), Failure> {
    let target = Object::Open(target);
    let path = || directory.target_path();
    let mut failures = Failures::new(worker);
    if let Some(mode) = found.mode
        && !worker.options().preserve.mode
        && let Err(error) = target.set_mode(worker, mode)
    {
        let text = format!("setting permissions for {}", quote(path()));
        failures.note(Err(Failure::of(error, text)));
    }
    let setting = Setting {
        source: &found.source,
        target: &target,
        path: &path,
        names: source.as_ref().map(|source| (&found.names, source)),
        present: Present::of(
            &found.target,
            found.default_acl.is_some() || !directory.is_new,
            !directory.is_new,
        ),
        is_link: false,
    };
    set(worker, &setting, &mut failures);
    failures.result()
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}
