//! What a call returns to JavaScript.

use crate::status;
use laio::ops::{FileStatus, OpenFile};
use napi::bindgen_prelude::{Buffer, BufferSlice, Either3};
use napi::{Env, Result};
use napi_derive::napi;
use std::io;

/// A number from 0 is the value, one down to -4095 an error number, and one below the number of a call that
/// goes on in the background. Other values are bytes and open files.
pub(crate) type Answer = Either3<f64, Buffer, Opened>;

/// A file that was opened: the number of its descriptor.
#[napi(object)]
pub struct Opened {
    pub fd: i32,
}

/// The first number of a call in the background is below this.
pub(crate) const LOWEST_ERROR: i64 = -4095;

/// The value of a call.
pub(crate) enum Value {
    Number(f64),
    Bytes(Vec<u8>),
    Status(Box<status::Bytes>),
    File(OpenFile),
}

pub(crate) type Outcome = io::Result<Value>;

/// The outcome of an operation that reads a status.
pub(crate) fn of_status(status: io::Result<FileStatus>) -> Outcome {
    status.map(|status| Value::Status(Box::new(status::to_bytes(&status))))
}

/// The answer of a call that has failed.
pub(crate) fn failed(error: &io::Error) -> Answer {
    // Of errors without a number there are only paths with a zero byte.
    Either3::A(-f64::from(error.raw_os_error().unwrap_or(libc::EINVAL)))
}

/// The answer for bytes. If they fit into `memory`, they go there, and the answer is their number.
pub(crate) fn bytes(env: Env, bytes: &[u8], memory: Option<&mut [u8]>) -> Result<Answer> {
    match memory.and_then(|memory| memory.get_mut(..bytes.len())) {
        Some(memory) => {
            memory.copy_from_slice(bytes);
            Ok(Either3::A(bytes.len() as f64))
        }
        // JavaScript's own memory, which a program may transfer.
        None => {
            let copy = BufferSlice::copy_from(&env, bytes)?;
            Ok(Either3::B(copy.into_buffer(&env)?))
        }
    }
}
