//! Where a file is (its path, its file system), and removing a directory with all that it has.

use crate::answer::{Answer, Outcome, Value};
use crate::engine::{Memory, engine, nothing};
use crate::path::{self, Path};
use laio::Proactor;
use laio::ops::{Name, Open, OpenFile, StatFileSystem};
use napi::{Env, Result};
use napi_derive::napi;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

/// Finds the path of a file without symbolic links: the kernel's own path of what the name leads to.
#[napi]
pub fn realpath(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    engine.run(
        env,
        Memory::Scratch,
        resolve(engine.proactor, path::name(path)),
    )
}

async fn resolve(proactor: &'static Proactor, name: io::Result<Name>) -> Outcome {
    let file = locate(proactor, name).await?;
    // Reading it asks no file system.
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let path = path.into_os_string().into_vec();
    // The kernel writes "(deleted)" behind a name that was removed meanwhile, and no "/" before one that
    // cannot be reached from the root directory.
    let is_removed = path.ends_with(b" (deleted)") && file.as_std().metadata()?.nlink() == 0;
    if is_removed || !path.starts_with(b"/") {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    Ok(Value::Bytes(path))
}

/// Reads the status of a file system: eight numbers of 64 bits, in the order of `statfs`.
#[napi]
pub fn statfs(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    engine.run(
        env,
        Memory::Scratch,
        measure(engine.proactor, path::name(path)),
    )
}

async fn measure(proactor: &'static Proactor, name: io::Result<Name>) -> Outcome {
    // Of an open file the call is attempted, by name it is not.
    let file = locate(proactor, name).await?;
    let status = proactor.submit(StatFileSystem::new(file)).await?;
    let fields = [
        status.magic(),
        status.block_size(),
        status.fragment_size(),
        status.blocks(),
        status.free_blocks(),
        status.available_blocks(),
        status.inodes(),
        status.free_inodes(),
    ];
    Ok(Value::Bytes(fields.map(u64::to_ne_bytes).concat()))
}

async fn locate(proactor: &'static Proactor, name: io::Result<Name>) -> io::Result<OpenFile> {
    let open = Open::new(name?, libc::O_PATH | libc::O_CLOEXEC);
    Ok(proactor.submit(open).await?.into())
}

/// Removes a directory with everything in it: one function on a helper thread, because none of its calls can
/// be attempted. After an error some files are gone.
#[napi]
pub fn remove_tree(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    let (proactor, path) = (engine.proactor, path::text(path));
    engine.run(env, Memory::New, async move {
        let path = OsString::from_vec(path?.into_bytes());
        nothing(proactor.blocking(|_| fs::remove_dir_all(path)).await?)
    })
}
