//! Calls on names.

use crate::answer::{Answer, Outcome, Value};
use crate::attributes::{id, timestamp};
use crate::engine::{Engine, nothing};
use crate::path::{self, Path};
use crate::{copy, directory, whole};
use laio::ops::{
    Access, Link, Mkdir, Open, ReadLink, Rename, SetMode, SetOwner, SetTimes, StatPath, Symlink,
    Unlink,
};
use laio::{Operation, Proactor};
use napi::bindgen_prelude::BufferSlice;
use napi::{Env, Result};
use napi_derive::napi;
use std::io;
use std::os::unix::ffi::OsStringExt;

#[napi]
impl Engine {
    /// Opens a file.
    #[napi]
    pub fn open(&self, env: Env, path: Path<'_>, flags: i32, mode: u32) -> Result<Answer> {
        let name = path::name(&path);
        let proactor = self.0.proactor;
        self.0.run(env, None, async move {
            let open = Open::new(name?, flags | libc::O_CLOEXEC).mode(mode);
            let file = proactor.submit(open).await?;
            Ok(Value::File(file.into()))
        })
    }

    /// Reads a whole file. Of one that does not fit into `memory`, or whose size is not known, the answer is
    /// the open file.
    #[napi]
    pub fn read_file(
        &self,
        env: Env,
        path: Path<'_>,
        mut memory: BufferSlice<'_>,
    ) -> Result<Answer> {
        let (name, spare) = (path::name(&path), self.0.memory(0));
        let call = whole::read(self.0.proactor, name, memory.len(), spare);
        self.0.run(env, Some(&mut memory), call)
    }

    /// As `read_file`, for any size, but `EAGAIN` if a call would block.
    #[napi]
    pub fn try_read_file(
        &self,
        env: Env,
        path: Path<'_>,
        mut memory: BufferSlice<'_>,
    ) -> Result<Answer> {
        let (name, spare) = (path::name(&path), self.0.memory(0));
        let call = whole::read(self.0.proactor, name, usize::MAX, spare);
        self.0.run_now(env, &mut memory, call)
    }

    /// Reads the status of a file, or of a symbolic link itself.
    #[napi]
    pub fn stat(
        &self,
        env: Env,
        path: Path<'_>,
        follow: bool,
        mut memory: BufferSlice<'_>,
    ) -> Result<Answer> {
        let call = stat(self.0.proactor, path::name(&path), follow);
        self.0.run(env, Some(&mut memory), call)
    }

    /// As `stat`, but `EAGAIN` if it would block.
    #[napi]
    pub fn try_stat(
        &self,
        env: Env,
        path: Path<'_>,
        mut memory: BufferSlice<'_>,
    ) -> Result<Answer> {
        let call = stat(self.0.proactor, path::name(&path), true);
        self.0.run_now(env, &mut memory, call)
    }

    /// Reads a directory; see `directory.rs` for the form of the answer.
    #[napi]
    pub fn readdir(&self, env: Env, path: Path<'_>, mut memory: BufferSlice<'_>) -> Result<Answer> {
        let call = directory::read(self.0.proactor, path::name(&path));
        self.0.run(env, Some(&mut memory), call)
    }

    /// Reads the target of a symbolic link.
    #[napi]
    pub fn readlink(
        &self,
        env: Env,
        path: Path<'_>,
        mut memory: BufferSlice<'_>,
    ) -> Result<Answer> {
        let (name, proactor) = (path::name(&path), self.0.proactor);
        self.0.run(env, Some(&mut memory), async move {
            let target = proactor.submit(ReadLink::new(name?)).await?;
            Ok(Value::Bytes(target.into_os_string().into_vec()))
        })
    }

    /// Copies a file; `flags` are `COPYFILE_*`.
    #[napi]
    pub fn copy_file(&self, env: Env, from: Path<'_>, to: Path<'_>, flags: u32) -> Result<Answer> {
        let to = [path::name(&to), path::name(&to)];
        let call = copy::copy(self.0.proactor, path::name(&from), to, flags);
        self.0.run(env, None, call)
    }
}

/// Methods for calls on one name or two that return nothing. Each name has the function of `path.rs` that
/// reads it; the expression makes the operation.
macro_rules! calls {
    ($(
        $(#[$doc:meta])+
        $method:ident($($name:ident: $read:ident),+ $(; $($more:ident: $type:ident),+)?) => $operation:expr;
    )+) => {
        #[napi]
        impl Engine {
            $(
                $(#[$doc])+
                #[napi]
                pub fn $method(&self, env: Env, $($name: Path<'_>,)+ $($($more: $type,)+)?) -> Result<Answer> {
                    let operation = || {
                        $(let $name = path::$read(&$name)?;)+
                        io::Result::Ok($operation)
                    };
                    self.make(env, operation())
                }
            )+
        }
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

impl Engine {
    fn make<O>(&self, env: Env, operation: io::Result<O>) -> Result<Answer>
    where
        O: Operation<Output = io::Result<()>> + Send,
    {
        let proactor = self.0.proactor;
        self.0.run(
            env,
            None,
            async move { nothing(proactor, operation?).await },
        )
    }
}

async fn stat(
    proactor: &'static Proactor,
    name: io::Result<laio::ops::Name>,
    follow: bool,
) -> Outcome {
    let stat = StatPath::new(name?);
    let stat = if follow { stat } else { stat.no_follow() };
    let status = proactor.submit(stat).await?;
    Ok(Value::Status(Box::new(status)))
}
