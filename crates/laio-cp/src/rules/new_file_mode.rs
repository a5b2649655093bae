//! The modes of new files and directories if `--preserve=mode` is not set. Until data, owner and
//! ACL are in place, only the owner has permissions: the group bits of a source with an ACL are the
//! ACL's mask, which may allow more than the ACL grants the group.

use crate::io::Io;
use crate::options::Options;
use crate::outcome::Failure;
use crate::rules::attributes::{self, ACL_ACCESS, FileRef};
use crate::session::{Phase, Session};
use crate::tree::{Entry, Handle, identity};
use laio::Errno;
use laio::ops::{GetAttribute, Name, StatFile, StatPath};
use laio_rt::fs::{FileType, Metadata};
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The permissions of a file that is not complete.
pub(crate) const OWNER_BITS: u32 = 0o700;
/// The permission bits of a mode.
pub(crate) const PERMISSION_BITS: u32 = 0o777;
/// The permissions of group and others.
const OTHERS_BITS: u32 = 0o077;
/// The permissions that a directory needs while it is filled.
pub(crate) const FILLING_BITS: u32 = 0o700;
/// The mode bits that `mkdir` accepts.
const MKDIR_BITS: u32 = 0o1777;

/// A new regular file whose final mode is wanted.
pub(crate) struct NewFile<'a> {
    pub(crate) file: &'a Handle,
    /// It was created through a symbolic link, in another directory.
    pub(crate) through_link: bool,
    /// The mode that it takes over from the file that it replaces.
    pub(crate) kept_mode: Option<u32>,
}

/// Whether a new regular file gets the source's permissions, after umask or default ACL, and nothing
/// else: neither owner nor attributes are set later. Then the kernel gives it the final mode at
/// creation, as in GNU cp, and `fchmod` would change nothing.
pub(crate) fn is_final_at_creation(options: &Options) -> bool {
    let preserve = options.preserve;
    let sets = preserve.mode || preserve.ownership || preserve.attributes || preserve.context;
    !(sets || preserve.default_mode)
}

/// The final mode of a regular file if the mode is not preserved: that of the replaced file, or the
/// source's permissions after umask or default ACL.
pub(crate) async fn of_file(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
    new: NewFile<'_>,
) -> u32 {
    let (preserve, process) = (session.options.preserve, &session.process);
    if let Some(mode) = new.kept_mode {
        return mode;
    }
    if preserve.default_mode {
        return 0o666 & !process.umask;
    }
    let bits = source.mode() & PERMISSION_BITS;
    let by_umask = bits & !process.umask;
    // Where GNU cp creates a file with fewer permissions, or with one more for `setxattr`, it calls
    // `chmod(mode & ~umask)` at the end, so a default ACL has no say.
    let omits = preserve.ownership && by_umask & OTHERS_BITS != 0;
    let adds = preserve.attributes && !process.is_privileged() && bits & 0o200 == 0;
    if omits || adds {
        return by_umask;
    }
    let added = if preserve.ownership { OTHERS_BITS } else { 0 };
    if !new.through_link {
        return under(session, default_acl_of_parent(io, entry).await, bits, added);
    }
    match directory_of(io, new.file) {
        Some(directory) => {
            let default_acl = attributes::default_permissions(io, &directory).await;
            under(session, default_acl, bits, added)
        }
        // An ACL that the file inherited limits all users.
        None if has_acl(io, new.file).await => bits & OWNER_BITS,
        None => by_umask,
    }
}

/// The final mode of a FIFO, socket or device; `None` if the mode is preserved, or that at creation
/// is final.
pub(crate) async fn of_node(
    io: &Io,
    session: &Session,
    entry: &Entry,
    source: &Metadata,
) -> Option<u32> {
    let (preserve, umask) = (session.options.preserve, session.process.umask);
    let bits = source.mode() & 0o7777;
    if preserve.default_mode {
        let all = match source.file_type() {
            FileType::Socket => 0o777,
            _ => 0o666,
        };
        return Some(all & !umask);
    }
    if preserve.mode || bits & !OWNER_BITS == 0 {
        return None;
    }
    let added = if preserve.ownership { OTHERS_BITS } else { 0 };
    let default_acl = default_acl_of_parent(io, entry).await;
    Some(under(session, default_acl, bits, added))
}

/// The mode with which a directory is created.
pub(crate) fn of_unfinished_directory(session: &Session, source: &Metadata) -> u32 {
    let options = &session.options;
    let omitted = match (
        options.preserve.ownership || options.preserve.mode,
        options.resume,
    ) {
        (true, _) => OTHERS_BITS,
        // A resumed run and the workers of a plan cannot tell unfinished directories from others,
        // so these directories never get more than their final permissions.
        (false, true) => 0,
        (false, false) if session.phase == Phase::Plan => 0o022,
        (false, false) => OTHERS_BITS,
    };
    (source.mode() & !omitted & MKDIR_BITS) | FILLING_BITS
}

/// The final mode of a directory that was created with `made` if the mode is not preserved.
/// `is_parent`: of a parent directory of an argument (`--parents`).
pub(crate) fn of_directory(
    session: &Session,
    source: &Metadata,
    default_acl: Option<u32>,
    made: u32,
    is_parent: bool,
) -> u32 {
    let preserve = session.options.preserve;
    if preserve.default_mode {
        return (made & 0o3000) | (0o777 & !session.process.umask);
    }
    // The permissions that GNU cp leaves out at creation and adds at the end.
    let added = match (preserve.ownership, is_parent && !preserve.mode) {
        (true, _) => OTHERS_BITS,
        (false, true) => 0,
        (false, false) => 0o022,
    };
    let inherited = made & libc::S_ISGID;
    inherited | under(session, default_acl, source.mode() & MKDIR_BITS, added)
}

/// The mode that the kernel gives to a file created with `bits` in a directory with this default
/// ACL, or none. The bits in `added`, which GNU cp sets after creation, are subject to the umask
/// even if a default ACL replaces it.
fn under(session: &Session, default_acl: Option<u32>, bits: u32, added: u32) -> u32 {
    let by_umask = PERMISSION_BITS & !session.process.umask;
    let allowed = default_acl.unwrap_or(by_umask);
    (bits & !PERMISSION_BITS) | (bits & !added & allowed) | (bits & added & by_umask)
}

/// What the default ACL of an entry's directory allows.
async fn default_acl_of_parent(io: &Io, entry: &Entry) -> Option<u32> {
    match &entry.directory.info {
        Some(info) => info.default_acl,
        // The directory was not examined.
        None => {
            let here = FileRef::Named(entry.sibling(OsStr::new(".")));
            attributes::default_permissions(io, &here).await
        }
    }
}

async fn has_acl(io: &Io, file: &Handle) -> bool {
    let ask = GetAttribute::new(file.clone(), ACL_ACCESS, Vec::new());
    io.call_target(ask).await.0.is_ok()
}

/// The directory that contains an open file, if `/proc` shows it and the file still has its name.
fn directory_of(io: &Io, file: &Handle) -> Option<FileRef> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = std::fs::read_link(link).ok()?;
    let name = |path: &Path| Name::from_path_in(None, path).ok();
    let named = StatPath::<Handle>::new(name(&path)?).no_follow();
    let named = io.call_blocking(named).ok()?;
    let open = io.call_blocking(StatFile::new(file.clone())).ok()?;
    if identity(&named) == identity(&open) {
        Some(FileRef::Named(name(path.parent()?)?))
    } else {
        None
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
