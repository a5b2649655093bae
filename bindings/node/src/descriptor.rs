//! An open file.

use crate::answer::{Answer, Value};
use crate::engine::Inner;
use crate::names::{id, nothing, timestamp};
use laio::Operation;
use laio::ops::{
    Close, Fsync, Limit, OpenFile, Read, ReadAt, SetMode, SetOwner, SetTimes, StatFile, Truncate,
    Write, WriteAt,
};
use napi::bindgen_prelude::{BufferSlice, Either3};
use napi::{Env, Result};
use napi_derive::napi;
use std::cell::RefCell;
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

/// A file descriptor, which is closed with the object.
#[napi]
pub struct Descriptor {
    inner: Rc<Inner>,
    /// `None` when it was closed.
    file: RefCell<Option<OpenFile>>,
}

#[napi]
impl Descriptor {
    pub(crate) fn new(inner: Rc<Inner>, file: OpenFile) -> Descriptor {
        let file = RefCell::new(Some(file));
        Descriptor { inner, file }
    }

    /// The number of the descriptor; -1 when it was closed.
    #[napi(getter)]
    pub fn fd(&self) -> i32 {
        self.file.borrow().as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// Fills `memory` from `position` on, or where the file stands if it is negative.
    #[napi]
    pub fn read(&self, env: Env, mut memory: BufferSlice<'_>, position: f64) -> Result<Answer> {
        let (proactor, length) = (self.inner.proactor, memory.len());
        let file = self.file();
        let spare = Limit::new(self.inner.memory(length), length);
        self.inner.run(env, Some(&mut memory), async move {
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
    pub fn try_read(&self, mut memory: BufferSlice<'_>, position: f64) -> Answer {
        let proactor = self.inner.proactor;
        let read = |file: OpenFile| {
            let done = if position < 0.0 {
                proactor.try_read(&file, &mut memory)
            } else {
                proactor.try_read_at(&file, &mut memory, position as u64)
            };
            done.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::EAGAIN)))
        };
        match self.file().and_then(read) {
            Ok(count) => Either3::A(count as f64),
            Err(error) => Either3::A(-f64::from(crate::answer::number_of(&error))),
        }
    }

    /// Writes the bytes at `position`, or where the file stands if it is negative. They are copied, because
    /// the program may change or transfer its memory before the kernel has written them.
    #[napi]
    pub fn write(&self, env: Env, bytes: BufferSlice<'_>, position: f64) -> Result<Answer> {
        let (proactor, inner) = (self.inner.proactor, self.inner.clone());
        let file = self.file();
        let mut copy = self.inner.memory(bytes.len());
        copy.extend_from_slice(&bytes);
        self.inner.run(env, None, async move {
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
    pub fn stat(&self, env: Env, mut memory: BufferSlice<'_>) -> Result<Answer> {
        let (proactor, file) = (self.inner.proactor, self.file());
        self.inner.run(env, Some(&mut memory), async move {
            let status = proactor.submit(StatFile::new(file?)).await?;
            Ok(Value::Status(Box::new(status)))
        })
    }

    /// Sets the length in bytes.
    #[napi]
    pub fn truncate(&self, env: Env, length: f64) -> Result<Answer> {
        self.make(env, |file| Truncate::new(file, length as u64))
    }

    /// Writes everything to the device.
    #[napi]
    pub fn sync(&self, env: Env) -> Result<Answer> {
        self.make(env, Fsync::new)
    }

    /// Writes the data to the device.
    #[napi]
    pub fn datasync(&self, env: Env) -> Result<Answer> {
        self.make(env, Fsync::data)
    }

    /// Sets the permissions.
    #[napi]
    pub fn chmod(&self, env: Env, mode: u32) -> Result<Answer> {
        self.make(env, |file| SetMode::new(file, mode))
    }

    /// Sets the owner. -1 leaves a part as it is.
    #[napi]
    pub fn chown(&self, env: Env, user: f64, group: f64) -> Result<Answer> {
        self.make(env, |file| SetOwner::new(file, id(user), id(group)))
    }

    /// Sets the times, in seconds.
    #[napi]
    pub fn utimes(&self, env: Env, accessed: f64, modified: f64) -> Result<Answer> {
        let (accessed, modified) = (timestamp(accessed), timestamp(modified));
        self.make(env, |file| {
            SetTimes::new(file, Some(accessed), Some(modified))
        })
    }

    /// Closes the file. Calls in the background end first.
    #[napi]
    pub fn close(&self, env: Env) -> Result<Answer> {
        let Some(file) = self.file.take() else {
            return Ok(Either3::A(0.0));
        };
        let proactor = self.inner.proactor;
        match file.try_into_owned() {
            Ok(descriptor) => {
                let close = nothing(proactor, Close::new(descriptor));
                self.inner.run(env, None, close)
            }
            Err(_shared) => Ok(Either3::A(0.0)),
        }
    }

    fn file(&self) -> io::Result<OpenFile> {
        let file = self.file.borrow().clone();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn make<O>(&self, env: Env, operation: impl FnOnce(OpenFile) -> O) -> Result<Answer>
    where
        O: Operation<Output = io::Result<()>> + Send,
    {
        let proactor = self.inner.proactor;
        let operation = self.file().map(operation);
        self.inner.run(
            env,
            None,
            async move { nothing(proactor, operation?).await },
        )
    }
}
