//! Copying a file, in the steps of libuv.

use crate::answer::{Outcome, Value};
use laio::Proactor;
use laio::ops::{
    CopyRange, FileStatus, Name, Open, OpenFile, Reflink, SendFile, SetMode, StatFile,
    StatFileSystem, Truncate, Unlink,
};
use std::ffi::CString;
use std::io;

/// `COPYFILE_EXCL`: the destination must not exist.
const EXCLUSIVE: u32 = 1;
/// The files may share their blocks.
const CLONE: u32 = 2;
/// They must.
const CLONE_ONLY: u32 = 4;

/// What `statfs` says of CIFS.
const CIFS: u64 = 0xff53_4d42;

/// The most that a call copies, in bytes.
const PIECE: usize = 1 << 30;

/// Copies a file.
pub(crate) async fn copy(
    proactor: &'static Proactor,
    from: io::Result<Name>,
    to: io::Result<CString>,
    flags: u32,
) -> Outcome {
    let (from, to) = (from?, to?);
    let open = Open::new(from, libc::O_RDONLY | libc::O_CLOEXEC);
    let source = OpenFile::from(proactor.submit(open).await?);
    let status = proactor.submit(StatFile::new(source.clone())).await?;
    let exclusive = if flags & EXCLUSIVE != 0 {
        libc::O_EXCL
    } else {
        0
    };
    let create = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | exclusive;
    let open = Open::new(Name::new(to.clone()), create).mode(status.mode());
    let target = OpenFile::from(proactor.submit(open).await?);
    let filled = fill(proactor, &source, &status, &target, flags).await;
    if filled.is_err() {
        // The error that is reported is the first one.
        let _ = proactor.submit(Unlink::new(Name::new(to))).await;
    }
    filled.map(|()| Value::Number(0.0))
}

async fn fill(
    proactor: &'static Proactor,
    source: &OpenFile,
    status: &FileStatus,
    target: &OpenFile,
    flags: u32,
) -> io::Result<()> {
    let found = proactor.submit(StatFile::new(target.clone())).await?;
    if (found.device(), found.inode()) == (status.device(), status.inode()) {
        return Ok(());
    }
    let truncated = proactor.submit(Truncate::new(target.clone(), 0)).await;
    // As libuv: ceph-fuse refuses it for a new file that may only be read.
    let is_new = is(&truncated, libc::EACCES) && found.size() == 0;
    if !is_new {
        truncated?;
    }
    let mode = status.mode() & !libc::S_IFMT;
    let set = proactor.submit(SetMode::new(target.clone(), mode)).await;
    // As libuv: CIFS always refuses it.
    if !(is(&set, libc::EPERM) && is_cifs(proactor, target).await) {
        set?;
    }
    if flags & (CLONE | CLONE_ONLY) != 0 {
        let clone = Reflink::new(source.clone(), target.clone());
        let cloned = proactor.submit(clone).await;
        if cloned.is_ok() || flags & CLONE_ONLY != 0 {
            return cloned;
        }
    }
    copy_bytes(proactor, source, target, status.size()).await
}

fn is(result: &io::Result<()>, errno: i32) -> bool {
    matches!(result, Err(error) if error.raw_os_error() == Some(errno))
}

async fn is_cifs(proactor: &'static Proactor, file: &OpenFile) -> bool {
    let status = proactor.submit(StatFileSystem::new(file.clone())).await;
    status.is_ok_and(|status| status.magic() == CIFS)
}

async fn copy_bytes(
    proactor: &'static Proactor,
    source: &OpenFile,
    target: &OpenFile,
    size: u64,
) -> io::Result<()> {
    let (mut done, mut in_kernel) = (0, true);
    while done < size {
        let count = usize::try_from(size - done).map_or(PIECE, |left| left.min(PIECE));
        let copied = if in_kernel {
            let copy = CopyRange::new(source.clone(), done, target.clone(), done, count);
            proactor.submit(copy).await
        } else {
            // It writes at the position of the target, which is then the same.
            let send = SendFile::new(target.clone(), source.clone(), Some(done), count);
            proactor.submit(send).await
        };
        match copied {
            Ok(count @ 1..) => done += count as u64,
            Ok(0) if !in_kernel || done > 0 => break,
            Ok(0) => in_kernel = false,
            Err(error) if in_kernel && done == 0 && is_unsupported(&error) => in_kernel = false,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether `copy_file_range` may be the wrong call for these files.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EXDEV
                | libc::EINVAL
                | libc::EOPNOTSUPP
                | libc::ENOSYS
                | libc::EPERM
                | libc::EACCES
                | libc::EBADF
        )
    )
}
