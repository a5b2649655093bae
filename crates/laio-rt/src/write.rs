//! Writing all of a buffer, or knowing why not.

use crate::submission::submit;
use laio::Operation;
use laio::ops::{Part, Source};
use std::io;

/// Makes operations of the parts of the buffer that are left, until all is written or an error says why
/// not. An operation writes everything by itself unless there is an error on the way; then it reports
/// how far it got, and the next one what stopped it.
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
