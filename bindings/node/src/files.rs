//! Calls on open files.

use crate::answer::{self, Answer, Value};
use crate::attributes::{id, timestamp};
use crate::engine::{Engine, nothing};
use laio::Operation;
use laio::ops::{
    Close, Fsync, Limit, OpenFile, Read, ReadAt, SetMode, SetOwner, SetTimes, StatFile, Truncate,
    Write, WriteAt,
};
use napi::bindgen_prelude::{BufferSlice, Either3};
use napi::{Env, Result};
use napi_derive::napi;
use std::io;

#[napi]
impl Engine {
    /// Fills `memory` from `position` on, or where the file stands if it is negative.
    #[napi]
    pub fn read(
        &self,
        env: Env,
        fd: i32,
        mut memory: BufferSlice<'_>,
        position: f64,
    ) -> Result<Answer> {
        let (proactor, length) = (self.0.proactor, memory.len());
        let file = self.0.file(fd);
        // A read of all bytes needs no copy. After another one, the whole read has the result of the kernel.
        if position >= 0.0
            && let Ok(file) = &file
            && let Some(Ok(count)) = proactor.try_read_at(file, &mut memory, position as u64)
            && count == length
        {
            return Ok(Either3::A(count as f64));
        }
        let spare = Limit::new(self.0.memory(length), length);
        self.0.run(env, Some(&mut memory), async move {
            let (result, bytes) = if position < 0.0 {
                proactor.submit(Read::new(file?, spare)).await
            } else {
                let read = ReadAt::new(file?, spare, position as u64);
                proactor.submit(read).await
            };
            result?;
            Ok(Value::Bytes(bytes.into_inner()))
        })
    }

    /// Reads as `read` what is there: `EAGAIN` if it would block.
    #[napi]
    pub fn try_read(&self, fd: i32, mut memory: BufferSlice<'_>, position: f64) -> Answer {
        let proactor = self.0.proactor;
        let read = |file: OpenFile| {
            let done = if position < 0.0 {
                proactor.try_read(&file, &mut memory)
            } else {
                proactor.try_read_at(&file, &mut memory, position as u64)
            };
            done.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::EAGAIN)))
        };
        match self.0.file(fd).and_then(read) {
            Ok(count) => Either3::A(count as f64),
            Err(error) => answer::failed(&error),
        }
    }

    /// Writes the bytes at `position`, or where the file stands if it is negative. They are copied, because
    /// the program may change or transfer its memory before the kernel has written them.
    #[napi]
    pub fn write(
        &self,
        env: Env,
        fd: i32,
        bytes: BufferSlice<'_>,
        position: f64,
    ) -> Result<Answer> {
        let (proactor, inner) = (self.0.proactor, self.0.clone());
        let file = self.0.file(fd);
        let mut copy = self.0.memory(bytes.len());
        copy.extend_from_slice(&bytes);
        self.0.run(env, None, async move {
            let (result, copy) = if position < 0.0 {
                proactor.submit(Write::new(file?, copy)).await
            } else {
                let write = WriteAt::new(file?, copy, position as u64);
                proactor.submit(write).await
            };
            inner.recycle(copy);
            Ok(Value::Number(result? as f64))
        })
    }

    /// Reads the status.
    #[napi]
    pub fn stat_file(&self, env: Env, fd: i32, mut memory: BufferSlice<'_>) -> Result<Answer> {
        let (proactor, file) = (self.0.proactor, self.0.file(fd));
        self.0.run(env, Some(&mut memory), async move {
            let status = proactor.submit(StatFile::new(file?)).await?;
            Ok(Value::Status(Box::new(status)))
        })
    }

    /// Sets the length in bytes.
    #[napi]
    pub fn truncate(&self, env: Env, fd: i32, length: f64) -> Result<Answer> {
        self.make_on(env, fd, |file| Truncate::new(file, length as u64))
    }

    /// Writes everything to the device.
    #[napi]
    pub fn sync(&self, env: Env, fd: i32) -> Result<Answer> {
        self.make_on(env, fd, Fsync::new)
    }

    /// Writes the data to the device.
    #[napi]
    pub fn datasync(&self, env: Env, fd: i32) -> Result<Answer> {
        self.make_on(env, fd, Fsync::data)
    }

    /// Sets the permissions.
    #[napi]
    pub fn chmod_file(&self, env: Env, fd: i32, mode: u32) -> Result<Answer> {
        self.make_on(env, fd, |file| SetMode::new(file, mode))
    }

    /// Sets the owner. -1 leaves a part as it is.
    #[napi]
    pub fn chown_file(&self, env: Env, fd: i32, user: f64, group: f64) -> Result<Answer> {
        self.make_on(env, fd, |file| SetOwner::new(file, id(user), id(group)))
    }

    /// Sets the times, in seconds.
    #[napi]
    pub fn utimes_file(&self, env: Env, fd: i32, accessed: f64, modified: f64) -> Result<Answer> {
        let (accessed, modified) = (timestamp(accessed), timestamp(modified));
        self.make_on(env, fd, |file| {
            SetTimes::new(file, Some(accessed), Some(modified))
        })
    }

    /// Closes a file. Calls in the background end first.
    #[napi]
    pub fn close(&self, env: Env, fd: i32) -> Result<Answer> {
        let Some(file) = self.0.take_file(fd) else {
            return Ok(Either3::A(0.0));
        };
        let proactor = self.0.proactor;
        match file.try_into_owned() {
            Ok(descriptor) => {
                let close = nothing(proactor, Close::new(descriptor));
                self.0.run(env, None, close)
            }
            Err(_shared) => Ok(Either3::A(0.0)),
        }
    }

    fn make_on<O>(&self, env: Env, fd: i32, operation: impl FnOnce(OpenFile) -> O) -> Result<Answer>
    where
        O: Operation<Output = io::Result<()>> + Send,
    {
        let proactor = self.0.proactor;
        let operation = self.0.file(fd).map(operation);
        self.0.run(
            env,
            None,
            async move { nothing(proactor, operation?).await },
        )
    }
}
