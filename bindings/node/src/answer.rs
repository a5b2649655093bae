//! What a call returns to JavaScript.

use crate::descriptor::Descriptor;
use crate::engine::Inner;
use crate::status;
use laio::ops::{FileStatus, OpenFile};
use napi::bindgen_prelude::{Buffer, BufferSlice, Either3};
use napi::{Env, Result};
use std::io;
use std::rc::Rc;

/// A number from 0 is the value, one down to -4095 an error number, and one below the number of a call that
/// goes on in the background. Other values are bytes and open files.
pub(crate) type Answer = Either3<f64, Buffer, Descriptor>;

/// The first number of a call in the background is below this.
pub(crate) const LOWEST_ERROR: i64 = -4095;

/// The value of a call.
pub(crate) enum Value {
    Number(f64),
    Bytes(Vec<u8>),
    Status(Box<FileStatus>),
    File(OpenFile),
}

pub(crate) type Outcome = io::Result<Value>;

/// Makes the answer of a call that is over. Bytes that fit into `memory` go there, and the answer is their
/// number.
pub(crate) fn make(
    env: Env,
    inner: &Rc<Inner>,
    outcome: Outcome,
    memory: Option<&mut [u8]>,
) -> Result<Answer> {
    match outcome {
        Ok(Value::Number(number)) => Ok(Either3::A(number)),
        Ok(Value::Bytes(bytes)) => {
            let answer = deliver(env, &bytes, memory);
            inner.recycle(bytes);
            answer
        }
        Ok(Value::Status(status)) => deliver(env, &status::to_bytes(&status), memory),
        Ok(Value::File(file)) => Ok(Either3::C(Descriptor::new(inner.clone(), file))),
        Err(error) => Ok(Either3::A(-f64::from(number_of(&error)))),
    }
}

fn deliver(env: Env, bytes: &[u8], memory: Option<&mut [u8]>) -> Result<Answer> {
    match memory.and_then(|memory| memory.get_mut(..bytes.len())) {
        Some(memory) => {
            memory.copy_from_slice(bytes);
            Ok(Either3::A(bytes.len() as f64))
        }
        // JavaScript's own memory, which a program may transfer.
        None => Ok(Either3::B(
            BufferSlice::copy_from(&env, bytes)?.into_buffer(&env)?,
        )),
    }
}

/// The error number. Of errors without one there are only paths with a zero byte.
pub(crate) fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}
