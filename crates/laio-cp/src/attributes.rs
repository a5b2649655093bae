//! Attributes: owner, extended attributes and ACLs, mode, times, in this order. A new owner clears
//! capabilities (which are extended attributes) and the set-user-ID bit; a mode without write permission
//! forbids to set extended attributes.

use crate::directory::{Directory, Found, Handle};
use crate::outcome::Failure;
use crate::quote::quote;
use crate::shared::Process;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{
    ATTRIBUTE_MAX, GetAttribute, Limit, ListAttributes, Name, Open, RemoveAttribute, SetAttribute,
    SetMode, SetOwner, SetTimes, attribute_names,
};
use laio_rt::fs::Metadata;
use std::ffi::{CStr, CString};
use std::io;
use std::sync::Arc;

/// The ACL that decides about access, as an extended attribute.
pub(crate) const ACL_ACCESS: &CStr = c"system.posix_acl_access";
/// The ACL that new files in a directory get.
pub(crate) const ACL_DEFAULT: &CStr = c"system.posix_acl_default";
/// Not among those that the engine itself knows.
const NODATA: Errno = Errno::from_raw(libc::ENODATA);
const RANGE: Errno = Errno::from_raw(libc::ERANGE);
const CONTEXT: &CStr = c"security.selinux";
/// Room for names of attributes that is enough for most files: the kernel allocates as much as is offered.
const NAMES_ROOM: usize = 1 << 10;

/// What has attributes.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// An open file.
    Open(Handle),
    /// A name, which is not followed if it is a symbolic link.
    Named(Name<Handle>),
}

/// The names of the extended attributes that are to be copied.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<CString>);

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, name: &CStr) -> bool {
        self.0.iter().any(|known| known.as_c_str() == name)
    }

    /// The first attribute whose value is another in the destination, for people; or that is not there,
    /// though it must be.
    pub(crate) fn differing(&self, worker: &Worker, from: &Object, to: &Object) -> Option<String> {
        let required = worker.options().preserve.attributes_required;
        let differs = |name: &&CString| match (read(worker, name, from), read(worker, name, to)) {
            (Ok(value), Ok(there)) => value != there,
            (Ok(_), Err(_)) => required,
            // It was removed meanwhile.
            (Err(_), _) => false,
        };
        let name = self.0.iter().find(differs)?;
        Some(format!("attribute '{}'", name.to_string_lossy()))
    }
}

/// Whose attributes are set, and to what.
pub(crate) struct Setting<'a> {
    pub(crate) source: &'a Metadata,
    pub(crate) target: &'a Object,
    /// As in messages.
    pub(crate) path: &'a dyn Fn() -> std::path::PathBuf,
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
        let may_have_acl = found.is_none_or(|found| found.default_acl);
        Present {
            user: process.user,
            group,
            mode: mode.filter(|_| !may_have_acl),
            may_have_acl,
            is_old: false,
        }
    }
}

/// Sets those that are to be preserved.
pub(crate) fn set(worker: &Worker, setting: &Setting<'_>) -> Result<(), Failure> {
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
            Err(failure) => return Err(failure),
        }
    }
    if let Some((names, from)) = setting.names {
        copy_attributes(worker, setting, names, from)?;
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
        set_mode(worker, setting, bits, mode_now)?;
    }
    if preserve.timestamps {
        let set = setting.target.set_times(worker, source);
        tolerate(worker, setting, set, "preserving times for")?;
    }
    Ok(())
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
            setting,
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
    tolerate(worker, setting, set, "preserving permissions for")
}

/// Reports what could not be set; an error only if it must be.
fn tolerate(
    worker: &Worker,
    setting: &Setting<'_>,
    set: io::Result<()>,
    what: &str,
) -> Result<(), Failure> {
    let Err(error) = set else { return Ok(()) };
    let failure = Failure::of(error, format!("{what} {}", quote((setting.path)())));
    if worker.options().preserve.required {
        return Err(failure);
    }
    worker.shared.console.complain(&failure);
    Ok(())
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}

/// Whether it says that there are no such attributes here.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(errno(error), Some(Errno::OPNOTSUPP | NODATA | Errno::NOSYS))
}

/// The names of those attributes of a source that are to be copied.
pub(crate) fn names(worker: &Worker, source: &Object) -> io::Result<Names> {
    let preserve = worker.options().preserve;
    if !preserve.mode && !preserve.attributes && !preserve.context {
        return Ok(Names::default());
    }
    let mut room = NAMES_ROOM;
    let list = loop {
        let buffer = Limit::new(worker.buffer(), room);
        let (result, buffer) = match source {
            Object::Open(file) => worker.plainly(ListAttributes::new(file.clone(), buffer)),
            Object::Named(name) => worker.plainly(ListAttributes::named(name.clone(), buffer)),
        };
        let buffer = buffer.into_inner();
        match result {
            Ok(0) => {
                worker.keep(buffer);
                return Ok(Names::default());
            }
            Ok(_) => break buffer,
            Err(error) => {
                worker.keep(buffer);
                match errno(&error) {
                    Some(RANGE) if room < ATTRIBUTE_MAX => room = ATTRIBUTE_MAX,
                    _ if is_unsupported(&error) => return Ok(Names::default()),
                    _ => return Err(error),
                }
            }
        }
    };
    let wanted = |name: &&CStr| is_wanted(worker, name);
    let names = attribute_names(&list)
        .filter(wanted)
        .map(CStr::to_owned)
        .collect();
    worker.keep(list);
    Ok(Names(names))
}

/// ACLs are permissions. Some others are about the file itself, and would be wrong for a copy.
fn is_wanted(worker: &Worker, name: &CStr) -> bool {
    let preserve = worker.options().preserve;
    if name == ACL_ACCESS || name == ACL_DEFAULT {
        return preserve.mode;
    }
    if name == CONTEXT {
        return preserve.context || preserve.attributes;
    }
    let bytes = name.to_bytes();
    preserve.attributes
        && !bytes.starts_with(b"system.nfs4")
        && !bytes.starts_with(b"trusted.SGI_")
        && !bytes.starts_with(b"trusted.overlay.")
        && name != c"security.evm"
}

fn copy_attributes(
    worker: &Worker,
    setting: &Setting<'_>,
    names: &Names,
    from: &Object,
) -> Result<(), Failure> {
    let preserve = worker.options().preserve;
    for name in &names.0 {
        let Err(error) = copy_attribute(worker, name, from, setting.target) else {
            continue;
        };
        let is_acl = *name == *ACL_ACCESS || *name == *ACL_DEFAULT;
        let quoted = quote((setting.path)());
        let failure = match is_acl {
            true => Failure::of(error, format!("preserving permissions for {quoted}")),
            false => {
                let attribute = name.to_string_lossy();
                Failure::of(
                    error,
                    format!("setting attribute '{attribute}' for {quoted}"),
                )
            }
        };
        let unsupported = failure.error().is_some_and(is_unsupported);
        let required = match is_acl {
            true => preserve.required,
            false => {
                preserve.attributes_required || (preserve.context_required && **name == *CONTEXT)
            }
        };
        if required {
            return Err(failure);
        }
        if !unsupported && !preserve.attributes_quiet {
            worker.shared.console.complain(&failure);
        }
    }
    Ok(())
}

fn read(worker: &Worker, name: &CStr, from: &Object) -> io::Result<Vec<u8>> {
    let buffer = Limit::new(worker.buffer(), ATTRIBUTE_MAX);
    let (result, buffer) = match from {
        Object::Open(file) => worker.plainly(GetAttribute::new(file.clone(), name, buffer)),
        Object::Named(file) => worker.plainly(GetAttribute::named(file.clone(), name, buffer)),
    };
    result.map(|_| buffer.into_inner())
}

fn copy_attribute(worker: &Worker, name: &CStr, from: &Object, to: &Object) -> io::Result<()> {
    let value = match read(worker, name, from) {
        Ok(value) => value,
        // It was removed meanwhile.
        Err(error) if errno(&error) == Some(NODATA) => return Ok(()),
        Err(error) => return Err(error),
    };
    let (result, value) = match to {
        Object::Open(file) => worker.plainly(SetAttribute::new(file.clone(), name, value)),
        Object::Named(file) => worker.plainly(SetAttribute::named(file.clone(), name, value)),
    };
    worker.keep(value);
    result
}

impl Object {
    pub(crate) fn set_owner(
        &self,
        worker: &Worker,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        match self {
            Object::Open(file) => worker.plainly(SetOwner::new(file.clone(), user, group)),
            Object::Named(name) => worker.plainly(SetOwner::named(name.clone(), user, group)),
        }
    }

    pub(crate) fn set_mode(&self, worker: &Worker, mode: u32) -> io::Result<()> {
        let name = match self {
            Object::Open(file) => return worker.plainly(SetMode::new(file.clone(), mode)),
            Object::Named(name) => name,
        };
        match worker.plainly(SetMode::named(name.clone(), mode)) {
            // Before Linux 6.6.
            Err(error) if errno(&error) == Some(Errno::NOSYS) => {
                let open = Open::new(name.clone(), libc::O_PATH | libc::O_NOFOLLOW);
                let file = Arc::new(worker.plainly(open)?);
                worker.plainly(SetMode::named(Name::of_open(file), mode).follow())
            }
            result => result,
        }
    }

    pub(crate) fn set_times(&self, worker: &Worker, source: &Metadata) -> io::Result<()> {
        let (accessed, modified) = (Some(source.accessed()), Some(source.modified()));
        match self {
            Object::Open(file) => worker.plainly(SetTimes::new(file.clone(), accessed, modified)),
            Object::Named(name) => {
                worker.plainly(SetTimes::named(name.clone(), accessed, modified))
            }
        }
    }

    fn remove_attribute(&self, worker: &Worker, attribute: &CStr) -> io::Result<()> {
        match self {
            Object::Open(file) => worker.plainly(RemoveAttribute::new(file.clone(), attribute)),
            Object::Named(name) => worker.plainly(RemoveAttribute::named(name.clone(), attribute)),
        }
    }
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
    let path = || directory.target_path.clone();
    if let Some(mode) = found.mode
        && !worker.options().preserve.mode
        && let Err(error) = target.set_mode(worker, mode)
    {
        return Err(Failure::of(
            error,
            format!("setting permissions for {}", quote(path())),
        ));
    }
    let setting = Setting {
        source: &found.source,
        target: &target,
        path: &path,
        names: source.as_ref().map(|source| (&found.names, source)),
        present: Present::of(
            &found.target,
            found.default_acl || !directory.is_new,
            !directory.is_new,
        ),
        is_link: false,
    };
    set(worker, &setting)
}
