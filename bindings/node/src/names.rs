//! Calls on names.

use crate::answer::{self, Answer, Value};
use crate::attributes::{id, timestamp};
use crate::engine::{Engine, Memory, engine, nothing};
use crate::path::{self, Path};
use crate::{copy, directory, whole};
use laio::ops::{
    Access, Link, Mkdir, Name, Open, ReadLink, Rename, SetMode, SetOwner, SetTimes, StatPath,
    Symlink, Unlink,
};
use napi::{Env, Result};
use napi_derive::napi;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Opens a file.
#[napi]
pub fn open(env: Env, path: Path<'_>, flags: i32, mode: u32) -> Result<Answer> {
    let open = |name| Open::new(name, flags | libc::O_CLOEXEC).mode(mode);
    let opened = |file: io::Result<OwnedFd>| Ok(Value::File(file?.into()));
    engine()?.submit(env, Memory::New, path::name(path).map(open), opened)
}

/// Reads a whole file. Of one that does not fit into the scratch memory, or whose size is not known, the
/// answer is the open file.
#[napi]
pub fn read_file(env: Env, path: Path<'_>) -> Result<Answer> {
    read_named(env, &*engine()?, path::name(path))
}

/// As `read_file`, for the name in the scratch memory. A function without arguments costs less, and the
/// environment counts as one.
#[napi]
pub fn read_file_placed() -> Result<Answer> {
    let engine = engine()?;
    read_named(engine.env, &engine, path::placed(&engine))
}

fn read_named(env: Env, engine: &Engine, name: io::Result<Name>) -> Result<Answer> {
    let (room, spare) = (engine.scratch().len(), engine.memory(0));
    let call = whole::read(engine.proactor, name, room, spare);
    engine.run(env, Memory::Scratch, call)
}

/// As `read_file`, for any size, but `EAGAIN` if a call would block.
#[napi]
pub fn try_read_file(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    let (name, spare) = (path::name(path), engine.memory(0));
    let call = whole::read(engine.proactor, name, usize::MAX, spare);
    engine.run_now(env, call)
}

/// Reads the status of a file, or of a symbolic link itself.
#[napi]
pub fn stat(env: Env, path: Path<'_>, follow: bool) -> Result<Answer> {
    stat_named(env, &*engine()?, path::name(path), follow)
}

/// As `stat`, for the name in the scratch memory.
#[napi]
pub fn stat_placed() -> Result<Answer> {
    let engine = engine()?;
    stat_named(engine.env, &engine, path::placed(&engine), true)
}

/// As `stat_placed`, of a symbolic link itself.
#[napi]
pub fn lstat_placed() -> Result<Answer> {
    let engine = engine()?;
    stat_named(engine.env, &engine, path::placed(&engine), false)
}

fn stat_named(env: Env, engine: &Engine, name: io::Result<Name>, follow: bool) -> Result<Answer> {
    let stat = name.map(|name| {
        let stat = StatPath::new(name);
        if follow { stat } else { stat.no_follow() }
    });
    engine.submit_status(env, stat)
}

/// As `stat`, but `EAGAIN` if it would block.
#[napi]
pub fn try_stat(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    let stat = path::name(path).map(|name| engine.proactor.submit(StatPath::new(name)));
    engine.run_now(env, async { answer::of_status(stat?.await) })
}

/// Reads a directory; see `directory.rs` for the form of the answer.
#[napi]
pub fn readdir(env: Env, path: Path<'_>) -> Result<Answer> {
    let engine = engine()?;
    let call = directory::read(engine.proactor, path::name(path));
    engine.run(env, Memory::Scratch, call)
}

/// Reads the target of a symbolic link.
#[napi]
pub fn readlink(env: Env, path: Path<'_>) -> Result<Answer> {
    let read = path::name(path).map(ReadLink::new);
    let bytes = |target: io::Result<PathBuf>| {
        let target = target?.into_os_string();
        Ok(Value::Bytes(target.into_vec()))
    };
    engine()?.submit(env, Memory::Scratch, read, bytes)
}

/// Copies a file; `flags` are `COPYFILE_*`.
#[napi]
pub fn copy_file(env: Env, from: Path<'_>, to: Path<'_>, flags: u32) -> Result<Answer> {
    let engine = engine()?;
    let call = copy::copy(engine.proactor, path::name(from), path::text(to), flags);
    engine.run(env, Memory::New, call)
}

/// Functions for calls on one name or two that return nothing. Each name has the function of `path.rs` that
/// reads it; the expression makes the operation.
macro_rules! calls {
    ($(
        $(#[$doc:meta])+
        $call:ident($($name:ident: $read:ident),+ $(; $($more:ident: $type:ident),+)?) => $operation:expr;
    )+) => {
        $(
            $(#[$doc])+
            #[napi]
            pub fn $call(env: Env, $($name: Path<'_>,)+ $($($more: $type,)+)?) -> Result<Answer> {
                let operation = || {
                    $(let $name = path::$read($name)?;)+
                    io::Result::Ok($operation)
                };
                engine()?.submit(env, Memory::New, operation(), nothing)
            }
        )+
    };
}

calls! {
    /// Checks whether a file may be used.
    access(name: name; mode: u32) => Access::new(name, mode);

    /// Makes a directory.
    mkdir(name: name; mode: u32) => Mkdir::new(name, mode);

    /// Removes an empty directory.
    rmdir(name: name) => Unlink::directory(name);

    /// Removes the name of a file.
    unlink(name: name) => Unlink::new(name);

    /// Renames a file.
    rename(from: name, to: name) => Rename::new(from, to);

    /// Gives a file a further name.
    link(file: name, name: name) => Link::new(file, name);

    /// Makes a symbolic link.
    symlink(target: text, name: name) => Symlink::new(target, name);

    /// Sets the permissions of a file.
    chmod(name: name; mode: u32) => SetMode::named(name, mode).follow();

    /// Sets the owner of a file, or of a symbolic link itself. -1 leaves a part as it is.
    chown(name: name; user: f64, group: f64, follow: bool) => {
        let set = SetOwner::named(name, id(user), id(group));
        if follow { set.follow() } else { set }
    };

    /// Sets the times of a file, or of a symbolic link itself, in seconds.
    utimes(name: name; accessed: f64, modified: f64, follow: bool) => {
        let (accessed, modified) = (Some(timestamp(accessed)), Some(timestamp(modified)));
        let set = SetTimes::named(name, accessed, modified);
        if follow { set.follow() } else { set }
    };
}
