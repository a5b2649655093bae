//! `write_all`, for all kinds of descriptors.

use crate::submission::submit;
use laio::Operation;
use laio::ops::{Part, Source};
use std::io;

/// Writes all of a buffer. One operation writes everything, unless an error interrupts it: then it returns the
/// number of bytes written, and a second operation for the rest returns the error.
pub(crate) async fn write_all<B, O>(
    buffer: B,
    mut operation: impl FnMut(Part<B>) -> O,
) -> (io::Result<()>, B)
where
    B: Source,
    O: Operation<Output = (io::Result<usize>, Part<B>)>,
{
    let length = buffer.bytes().len();
    let mut buffer = buffer;
    let mut done = 0;
    loop {
        let (result, part) = submit(operation(Part::new(buffer, done..))).await;
        buffer = part.into_inner();
        match result {
            Ok(0) if done < length => return (Err(io::ErrorKind::WriteZero.into()), buffer),
            Ok(count) => done += count,
            Err(error) => return (Err(error), buffer),
        }
        if done >= length {
            return (Ok(()), buffer);
        }
    }
}
