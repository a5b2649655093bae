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

    /// Checks whether a file may be used.
    #[napi]
    pub fn access(&self, env: Env, path: Path<'_>, mode: u32) -> Result<Answer> {
        self.make(env, path::name(&path).map(|name| Access::new(name, mode)))
    }

    /// Makes a directory.
    #[napi]
    pub fn mkdir(&self, env: Env, path: Path<'_>, mode: u32) -> Result<Answer> {
        self.make(env, path::name(&path).map(|name| Mkdir::new(name, mode)))
    }

    /// Removes an empty directory.
    #[napi]
    pub fn rmdir(&self, env: Env, path: Path<'_>) -> Result<Answer> {
        self.make(env, path::name(&path).map(Unlink::directory))
    }

    /// Removes the name of a file.
    #[napi]
    pub fn unlink(&self, env: Env, path: Path<'_>) -> Result<Answer> {
        self.make(env, path::name(&path).map(Unlink::new))
    }

    /// Renames a file.
    #[napi]
    pub fn rename(&self, env: Env, from: Path<'_>, to: Path<'_>) -> Result<Answer> {
        let names = path::name(&from).and_then(|from| Ok((from, path::name(&to)?)));
        self.make(env, names.map(|(from, to)| Rename::new(from, to)))
    }

    /// Gives a file a further name.
    #[napi]
    pub fn link(&self, env: Env, file: Path<'_>, path: Path<'_>) -> Result<Answer> {
        let names = path::name(&file).and_then(|file| Ok((file, path::name(&path)?)));
        self.make(env, names.map(|(file, name)| Link::new(file, name)))
    }

    /// Makes a symbolic link.
    #[napi]
    pub fn symlink(&self, env: Env, target: Path<'_>, path: Path<'_>) -> Result<Answer> {
        let both = path::text(&target).and_then(|text| Ok((text, path::name(&path)?)));
        self.make(env, both.map(|(text, name)| Symlink::new(text, name)))
    }

    /// Sets the permissions of a file.
    #[napi]
    pub fn chmod(&self, env: Env, path: Path<'_>, mode: u32) -> Result<Answer> {
        let set = path::name(&path).map(|name| SetMode::named(name, mode).follow());
        self.make(env, set)
    }

    /// Sets the owner of a file, or of a symbolic link itself. -1 leaves a part as it is.
    #[napi]
    pub fn chown(
        &self,
        env: Env,
        path: Path<'_>,
        user: f64,
        group: f64,
        follow: bool,
    ) -> Result<Answer> {
        let set = path::name(&path).map(|name| SetOwner::named(name, id(user), id(group)));
        self.make(env, set.map(|set| if follow { set.follow() } else { set }))
    }

    /// Sets the times of a file, or of a symbolic link itself, in seconds.
    #[napi]
    pub fn utimes(
        &self,
        env: Env,
        path: Path<'_>,
        accessed: f64,
        modified: f64,
        follow: bool,
    ) -> Result<Answer> {
        let (accessed, modified) = (Some(timestamp(accessed)), Some(timestamp(modified)));
        let set = path::name(&path).map(|name| SetTimes::named(name, accessed, modified));
        self.make(env, set.map(|set| if follow { set.follow() } else { set }))
    }

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
