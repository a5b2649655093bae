//! Permissions of what is made. Until its data, its owner and its ACL are in place, only its owner has any: the group bits
//! of a source with an ACL are the ACL's mask, which may allow more than the ACL allows the group.

use crate::attributes::{self, ACL_ACCESS, Object};
use crate::directory::{Entry, Handle};
use crate::outcome::Failure;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{GetAttribute, StatFile};
use std::ffi::OsStr;
use std::io;

/// What is left of a mode until everything else is in place.
pub(crate) const OWNER: u32 = 0o700;
/// The bits of a mode that decide who may do what.
const ALL: u32 = 0o777;

/// The mode of a new file, if those of the source are not to be preserved. It is the one that the kernel would have given to a
/// file made with all of `bits`, but for those that GNU's cp adds in the end (`added`): these are subject to the umask also
/// where a default ACL stands for it.
pub(crate) async fn in_the_end(worker: &Worker, entry: &Entry, bits: u32, added: u32) -> u32 {
    let default_acl = match &entry.directory.found {
        Some(found) => found.default_acl,
        // No check has seen it.
        None => {
            let here = Object::Named(entry.beside(OsStr::new(".")));
            attributes::default_permissions(worker, &here).await
        }
    };
    below(worker, default_acl, bits, added)
}

/// The same in a directory with this default ACL, or none.
pub(crate) fn below(worker: &Worker, default_acl: Option<u32>, bits: u32, added: u32) -> u32 {
    let by_umask = ALL & !worker.shared.process.umask;
    let allowed = default_acl.unwrap_or(by_umask);
    (bits & !ALL) | (bits & !added & allowed) | (bits & added & by_umask)
}

/// The same for a file that was made through a symbolic link, in whichever directory that leads to.
pub(crate) async fn elsewhere(worker: &Worker, file: &Handle, bits: u32) -> u32 {
    let ask = GetAttribute::new(file.clone(), ACL_ACCESS, Vec::new());
    match worker.write(ask).await.0 {
        // The directory has given the file this ACL, which limits all users.
        Ok(_) => bits & OWNER,
        Err(_) => bits & !worker.shared.process.umask,
    }
}

/// Gives a new file, which has `made` now, the mode that it is to have.
pub(crate) fn widen(
    worker: &Worker,
    entry: &Entry,
    target: &Object,
    (made, mode): (u32, u32),
) -> Result<(), Failure> {
    let Err(error) = target.set_mode(worker, mode) else {
        return Ok(());
    };
    if is_refused(&error) && has_modes_of_its_own(worker, entry, target, made) {
        return Ok(());
    }
    Err(entry.target_failure("preserving permissions for")(error))
}

fn is_refused(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether the file system keeps no modes, and shows for all files what it was mounted with: then a file has the mode that it
/// would have got in any case.
fn has_modes_of_its_own(worker: &Worker, entry: &Entry, target: &Object, made: u32) -> bool {
    let file = match target {
        Object::Open(file) => Some(file),
        Object::Named(_) => entry.at().target.as_ref(),
    };
    let Some(file) = file else { return false };
    let status = worker.plainly(StatFile::new(file.clone()));
    let asked = made & !worker.shared.process.umask;
    let is_other = |mode: u32| mode & ALL != asked;
    (matches!(target, Object::Open(_)) && status.is_ok_and(|status| is_other(status.mode())))
        || rustix::fs::fstatfs(file)
            .is_ok_and(|found| WITHOUT_MODES.contains(&(found.f_type as u32)))
}

/// FAT, exFAT, NTFS (by two drivers), SMB (by three), HFS, 9P, shared folders of VirtualBox, and FUSE.
const WITHOUT_MODES: [u32; 11] = [
    0x4d44,
    0x2011_bab0,
    0x5346_544e,
    0x7366_746e,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x4244,
    0x0102_1997,
    0x786f_4256,
    0x6573_5546,
];
