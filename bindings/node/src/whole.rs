//! Reading a whole file.

use crate::answer::{Outcome, Value};
use laio::Proactor;
use laio::ops::{Close, Limit, Name, OpenFile, OpenStat, ReadAt};
use std::io;

/// Opens a file, and reads it into `spare` if it is known to have less than `limit` bytes. Otherwise, or if a
/// read fails, the value is the open file.
pub(crate) async fn read(
    proactor: &'static Proactor,
    name: io::Result<Name>,
    limit: usize,
    mut spare: Vec<u8>,
) -> Outcome {
    let open = OpenStat::new(name?, libc::O_RDONLY | libc::O_CLOEXEC);
    let opened = proactor.submit(open.load_whole()).await?;
    let status = opened.status().filter(|_| opened.is_stored());
    let size = status
        .filter(|status| status.is_file())
        .map(|status| status.size())
        .filter(|&size| size < limit as u64);
    let Some(size) = size else {
        return Ok(Value::File(opened.into_descriptor()?.into()));
    };
    let file = OpenFile::from(opened.into_own_descriptor());
    // As Node, which asks no further when it has as many bytes as the status says.
    let length = size as usize;
    spare.reserve(length);
    let read = ReadAt::new(file.clone(), Limit::new(spare, length), 0);
    let (result, bytes) = proactor.submit(read).await;
    if result.is_err() {
        return Ok(Value::File(file));
    }
    if let Ok(descriptor) = file.try_into_owned() {
        // Where files are stored, closing one that was read reports nothing.
        let _ = proactor.submit(Close::new(descriptor)).await;
    }
    Ok(Value::Bytes(bytes.into_inner()))
}
