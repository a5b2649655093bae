//! Calls on open files.

use crate::answer::{self, Answer, Outcome, Value};
use crate::attributes::{id, timestamp};
use crate::engine::{Memory, engine, nothing};
use laio::ops::{
    Close, Fsync, Limit, OpenFile, Read, ReadAt, SetMode, SetOwner, SetTimes, StatFile, Truncate,
    Write, WriteAt,
};
use napi::bindgen_prelude::{BufferSlice, Either3};
use napi::{Env, Result};
use napi_derive::napi;
use std::io;

/// Fills `memory` from `position` on, or where the file stands if it is negative.
#[napi]
pub fn read(env: Env, fd: i32, mut memory: BufferSlice<'_>, position: f64) -> Result<Answer> {
    let engine = engine()?;
    let (length, file) = (memory.len(), engine.file(fd));
    // A read of all bytes needs no copy. After another one, the whole read has the result of the kernel.
    if position >= 0.0
        && let Ok(file) = &file
        && let Some(Ok(count)) = engine
            .proactor
            .try_read_at(file, &mut memory, position as u64)
        && count == length
    {
        return Ok(Either3::A(count as f64));
    }
    let spare = Limit::new(engine.memory(length), length);
    let memory = Memory::Given(&mut memory);
    if position < 0.0 {
        let read = file.map(|file| Read::new(file, spare));
        engine.submit(env, memory, read, bytes)
    } else {
        let read = file.map(|file| ReadAt::new(file, spare, position as u64));
        engine.submit(env, memory, read, bytes)
    }
}

fn bytes((result, bytes): (io::Result<usize>, Limit<Vec<u8>>)) -> Outcome {
    result.map(|_| Value::Bytes(bytes.into_inner()))
}

/// Reads as `read` what is there: `EAGAIN` if it would block.
#[napi]
pub fn try_read(fd: i32, mut memory: BufferSlice<'_>, position: f64) -> Result<Answer> {
    let engine = engine()?;
    let read = |file: OpenFile| {
        let done = if position < 0.0 {
            engine.proactor.try_read(&file, &mut memory)
        } else {
            engine
                .proactor
                .try_read_at(&file, &mut memory, position as u64)
        };
        done.unwrap_or_else(|| Err(io::Error::from_raw_os_error(libc::EAGAIN)))
    };
    Ok(match engine.file(fd).and_then(read) {
        Ok(count) => Either3::A(count as f64),
        Err(error) => answer::failed(&error),
    })
}

/// Writes the bytes at `position`, or where the file stands if it is negative. They are copied, because
/// the program may change or transfer its memory before the kernel has written them.
#[napi]
pub fn write(env: Env, fd: i32, bytes: BufferSlice<'_>, position: f64) -> Result<Answer> {
    let engine = engine()?;
    let file = engine.file(fd);
    let mut copy = engine.memory(bytes.len());
    copy.extend_from_slice(&bytes);
    let owner = engine.clone();
    let count = move |(result, copy): (io::Result<usize>, Vec<u8>)| {
        owner.recycle(copy);
        result.map(|count| Value::Number(count as f64))
    };
    if position < 0.0 {
        let write = file.map(|file| Write::new(file, copy));
        engine.submit(env, Memory::New, write, count)
    } else {
        let write = file.map(|file| WriteAt::new(file, copy, position as u64));
        engine.submit(env, Memory::New, write, count)
    }
}

/// Reads the status.
#[napi]
pub fn stat_file(env: Env, fd: i32) -> Result<Answer> {
    let engine = engine()?;
    let stat = engine.file(fd).map(StatFile::new);
    engine.submit_status(env, stat)
}

/// Closes a file. Calls in the background end first.
#[napi]
pub fn close(env: Env, fd: i32) -> Result<Answer> {
    let engine = engine()?;
    match engine.take_file(fd).map(OpenFile::try_into_owned) {
        Some(Ok(descriptor)) => {
            let close = Close::new(descriptor);
            engine.submit(env, Memory::New, Ok(close), nothing)
        }
        Some(Err(_)) | None => Ok(Either3::A(0.0)),
    }
}

/// Functions for calls on an open file that return nothing; the expression makes the operation.
macro_rules! calls {
    ($(
        $(#[$doc:meta])+
        $call:ident($file:ident $(, $more:ident: $type:ident)*) => $operation:expr;
    )+) => {
        $(
            $(#[$doc])+
            #[napi]
            pub fn $call(env: Env, fd: i32 $(, $more: $type)*) -> Result<Answer> {
                let engine = engine()?;
                let operation = engine.file(fd).map(|$file| $operation);
                engine.submit(env, Memory::New, operation, nothing)
            }
        )+
    };
}

calls! {
    /// Sets the length in bytes.
    truncate(file, length: f64) => Truncate::new(file, length as u64);

    /// Writes everything to the device.
    sync(file) => Fsync::new(file);

    /// Writes the data to the device.
    datasync(file) => Fsync::data(file);

    /// Sets the permissions.
    chmod_file(file, mode: u32) => SetMode::new(file, mode);

    /// Sets the owner. -1 leaves a part as it is.
    chown_file(file, user: f64, group: f64) => SetOwner::new(file, id(user), id(group));

    /// Sets the times, in seconds.
    utimes_file(file, accessed: f64, modified: f64) => {
        SetTimes::new(file, Some(timestamp(accessed)), Some(timestamp(modified)))
    };
}
