//! Reads a whole file to hash it.

use crate::digest::{Digest, Hashing};
use crate::io::Io;
use crate::outcome::{Failure, failure};
use crate::session::Session;
use crate::tree::Handle;
use laio::ops::{Advice, Advise, Fsync, Limit, ReadAt};

/// Reads a copy back, from the device if possible: syncs the data (`fdatasync`), then asks the
/// kernel to drop it from the page cache. tmpfs has only memory; and a device or a server may
/// answer from its own cache.
///
/// Returns the digest and the number of bytes.
pub(crate) async fn read_back(
    io: &Io,
    session: &Session,
    file: &Handle,
    name: String,
) -> Result<(Digest, u64), Failure> {
    let synced = io.call_backend(Fsync::data(file.clone())).await;
    synced.map_err(|error| Failure::from_error(error, format!("cannot sync {name}")))?;
    // Advice: pages that another process has mapped stay cached.
    let _ = io.call_blocking(Advise::new(file.clone(), 0, 0, Advice::DontNeed));
    let read = digest_of(io, session, file, format!("error reading back {name}")).await;
    // The data is not needed again soon.
    let _ = io.call_blocking(Advise::new(file.clone(), 0, 0, Advice::DontNeed));
    read
}

/// Hashes a file up to its end; `failed` is the message of a failure. While a read waits for the
/// device, other files continue.
pub(crate) async fn digest_of(
    io: &Io,
    session: &Session,
    file: &Handle,
    failed: String,
) -> Result<(Digest, u64), Failure> {
    let mut hashing = Hashing::default();
    let mut buffer = io.take_buffer();
    loop {
        if session.stop.is_requested() {
            return Err(failure!("{failed}: interrupted"));
        }
        buffer.clear();
        let capacity = buffer.capacity();
        let read = ReadAt::new(file.clone(), Limit::new(buffer, capacity), hashing.at());
        let (result, filled) = io.call_backend(read).await;
        buffer = filled.into_inner();
        match result {
            Ok(0) => break,
            Ok(_) => hashing.update(&buffer),
            Err(error) => return Err(Failure::from_error(error, failed)),
        }
    }
    io.recycle_buffer(buffer);
    let length = hashing.at();
    Ok((hashing.finish(), length))
}
