//! The mode of new files. Until data, owner and ACL are in place, only the owner has permissions:
//! the group bits of a source with an ACL are the ACL's mask, which may allow more than the ACL
//! grants the group.

use crate::io::Io;
use crate::outcome::Failure;
use crate::rules::attributes::{self, ACL_ACCESS, FileRef};
use crate::session::Session;
use crate::tree::{Entry, Handle};
use laio::Errno;
use laio::ops::{GetAttribute, StatFile};
use std::ffi::OsStr;
use std::io;

/// The permissions of a file that is not complete.
pub(crate) const OWNER_BITS: u32 = 0o700;
/// The permission bits of a mode.
const PERMISSION_BITS: u32 = 0o777;

/// The final mode of a new file if the mode is not preserved: the mode that the kernel gives to a
/// file created with `bits`. The bits in `added`, which GNU cp sets after creation, are subject to
/// the umask even if a default ACL replaces it.
pub(crate) async fn final_mode(
    io: &Io,
    session: &Session,
    entry: &Entry,
    bits: u32,
    added: u32,
) -> u32 {
    let default_acl = match &entry.directory.info {
        Some(info) => info.default_acl,
        // The directory was not examined.
        None => {
            let here = FileRef::Named(entry.sibling(OsStr::new(".")));
            attributes::default_permissions(io, &here).await
        }
    };
    final_mode_under(session, default_acl, bits, added)
}

/// The final mode in a directory with this default ACL, or none.
pub(crate) fn final_mode_under(
    session: &Session,
    default_acl: Option<u32>,
    bits: u32,
    added: u32,
) -> u32 {
    let by_umask = PERMISSION_BITS & !session.process.umask;
    let allowed = default_acl.unwrap_or(by_umask);
    (bits & !PERMISSION_BITS) | (bits & !added & allowed) | (bits & added & by_umask)
}

/// The final mode of a file that was created through a symbolic link, in another directory.
pub(crate) async fn final_mode_through_link(
    io: &Io,
    session: &Session,
    file: &Handle,
    bits: u32,
) -> u32 {
    let ask = GetAttribute::new(file.clone(), ACL_ACCESS, Vec::new());
    match io.call_target(ask).await.0 {
        // The file inherited this ACL from the directory; it limits all users.
        Ok(_) => bits & OWNER_BITS,
        Err(_) => bits & !session.process.umask,
    }
}

/// Sets the final mode of a new file that was created with `made`.
pub(crate) fn set_final(
    io: &Io,
    session: &Session,
    entry: &Entry,
    target: &FileRef,
    (made, mode): (u32, u32),
) -> Result<(), Failure> {
    let Err(error) = target.set_mode(io, mode) else {
        return Ok(());
    };
    if is_refused(&error) && stores_no_modes(io, session, entry, target, made) {
        return Ok(());
    }
    Err(entry.target_failure("preserving permissions for")(error))
}

fn is_refused(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Whether the file system stores no modes, and shows the same mount option for all files: then a
/// file has the only mode that it can have.
fn stores_no_modes(io: &Io, session: &Session, entry: &Entry, target: &FileRef, made: u32) -> bool {
    let file = match target {
        FileRef::Open(file) => Some(file),
        FileRef::Named(_) => entry.handles().target.as_ref(),
    };
    let Some(file) = file else { return false };
    let status = io.call_blocking(StatFile::new(file.clone()));
    let asked = made & !session.process.umask;
    let is_other = |mode: u32| mode & PERMISSION_BITS != asked;
    (matches!(target, FileRef::Open(_)) && status.is_ok_and(|status| is_other(status.mode())))
        || rustix::fs::fstatfs(file).is_ok_and(|info| WITHOUT_MODES.contains(&(info.f_type as u32)))
}

/// FAT, exFAT, NTFS (two drivers), SMB (three), HFS, 9P, VirtualBox shared folders, and FUSE.
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
