//! Reading a whole file for its hash.

use super::{Digest, Hashing};
use crate::directory::Handle;
use crate::outcome::Failure;
use crate::worker::Worker;
use laio::ops::{Advice, Advise, Fsync, Limit, ReadAt};

/// Reads a copy back, from the device where that can be had: its data is brought there (`fdatasync`), then
/// the kernel is asked to forget what it has in memory. A file system that is memory (tmpfs) has nothing
/// else to read from; and a device, or a server, may answer from a memory of its own.
///
/// Returns the digest, and how many bytes there are.
pub(crate) async fn read_back(
    worker: &Worker,
    file: &Handle,
    name: String,
) -> Result<(Digest, u64), Failure> {
    let synced = worker.call_lazy(Fsync::data(file.clone())).await;
    synced.map_err(|error| Failure::of(error, format!("cannot bring {name} to the device")))?;
    // It is an advice: pages that others have mapped stay.
    let _ = worker.call_blocking(Advise::new(file.clone(), 0, 0, Advice::DontNeed));
    let read = digest_of(worker, file, format!("error reading back {name}")).await;
    // What was read back is not what will be read next.
    let _ = worker.call_blocking(Advise::new(file.clone(), 0, 0, Advice::DontNeed));
    read
}

/// Reads a file to its end; `failed` is what is said if that fails. While it waits for the device, other files go on.
pub(crate) async fn digest_of(
    worker: &Worker,
    file: &Handle,
    failed: String,
) -> Result<(Digest, u64), Failure> {
    let mut hashing = Hashing::default();
    let mut buffer = worker.take_buffer();
    loop {
        if worker.session.stop.is_requested() {
            return Err(Failure::because(format!("{failed}: interrupted")));
        }
        buffer.clear();
        let capacity = buffer.capacity();
        let read = ReadAt::new(file.clone(), Limit::new(buffer, capacity), hashing.at());
        let (result, filled) = worker.call_lazy(read).await;
        buffer = filled.into_inner();
        match result {
            Ok(0) => break,
            Ok(_) => hashing.update(&buffer),
            Err(error) => return Err(Failure::of(error, failed)),
        }
    }
    worker.recycle_buffer(buffer);
    let length = hashing.at();
    Ok((hashing.finish(), length))
}
