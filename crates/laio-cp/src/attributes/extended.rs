//! Extended attributes, ACLs among them.

use super::object::Object;
use super::{Failures, Setting, acl, errno};
use crate::outcome::Failure;
use crate::quote::quote;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{
    ATTRIBUTE_MAX, GetAttribute, Limit, ListAttributes, SetAttribute, attribute_names,
};
use std::ffi::{CStr, CString};
use std::io;

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

/// The names of the extended attributes that are to be copied.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<CString>);

impl Names {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, name: &CStr) -> bool {
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

/// Sets all of them. Where the ACL of the source cannot be set: what it allows the owning group.
pub(super) fn copy_attributes(
    worker: &Worker,
    setting: &Setting<'_>,
    names: &Names,
    from: &Object,
    failures: &mut Failures<'_>,
) -> Option<u32> {
    let preserve = worker.options().preserve;
    let (mut group, mut has_none) = (None, false);
    for name in &names.0 {
        let Err(error) = copy_attribute(worker, name, from, setting.target) else {
            continue;
        };
        let is_acl = *name == *ACL_ACCESS || *name == *ACL_DEFAULT;
        if *name == *ACL_ACCESS {
            let value = read(worker, name, from);
            group = value.map_or(Some(0), |value| acl::of_owning_group(&value));
        }
        let unsupported = is_unsupported(&error);
        // That the file system has none at all is said once.
        if unsupported && !is_acl && std::mem::replace(&mut has_none, true) {
            continue;
        }
        let quoted = quote((setting.path)());
        let failure = match is_acl {
            true => Failure::of(error, format!("preserving permissions for {quoted}")),
            false if unsupported => Failure::of(error, format!("setting attributes for {quoted}")),
            false => {
                let attribute = name.to_string_lossy();
                Failure::of(
                    error,
                    format!("setting attribute '{attribute}' for {quoted}"),
                )
            }
        };
        let required = match is_acl {
            true => preserve.required,
            false => {
                preserve.attributes_required || (preserve.context_required && **name == *CONTEXT)
            }
        };
        if required {
            failures.note(Err(failure));
        } else if !unsupported && !preserve.attributes_quiet {
            worker.shared.console.complain(&failure);
        }
    }
    group
}

pub(super) fn read(worker: &Worker, name: &CStr, from: &Object) -> io::Result<Vec<u8>> {
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
