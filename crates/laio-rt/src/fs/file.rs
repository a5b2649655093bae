//! An open file.

use super::{Metadata, OpenOptions};
use crate::Descriptor;
use crate::pipe;
use crate::submission::submit;
use crate::write::write_all;
use laio::ops::{
    Advice, Advise, Allocate, Fsync, Read, ReadAt, Reflink, Seek, Sink, Source, Splice, StatFile,
    Truncate, Whence, Write, WriteAt,
};
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// An open file. Any number of operations may be in flight on it.
///
/// Dropping it closes it as soon as no operation needs it any more, without waiting;
/// [`File::close`] waits and tells of errors.
///
/// ```
/// use laio_rt::fs::File;
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let file = File::open("/proc/self/comm").await?;
///     let (result, buffer) = file.read_at(Vec::with_capacity(64), 0).await;
///     assert_eq!(result?, buffer.len());
///     file.close().await
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct File(Descriptor);

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Makes a file, or empties the one that is there, for writing.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Options for other ways to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Reads at byte `offset` into the room of the buffer, and fills it unless the file ends before.
    /// Gives the bytes read, and the buffer with them appended.
    pub fn read_at<B: Sink>(
        &self,
        buffer: B,
        offset: u64,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(ReadAt::new(self.0.clone(), buffer, offset))
    }

    /// Writes all of the buffer at byte `offset`.
    pub fn write_all_at<B: Source>(
        &self,
        buffer: B,
        offset: u64,
    ) -> impl Future<Output = (io::Result<()>, B)> {
        let end = offset.wrapping_add(buffer.bytes().len() as u64);
        write_all(buffer, move |part| {
            // What is left ends where all of it would.
            let offset = end.wrapping_sub(part.bytes().len() as u64);
            WriteAt::new(self.0.clone(), part, offset)
        })
    }

    /// Reads at the file's position, which moves, into the room of the buffer. Gives the bytes read (0
    /// at the end of the file), and the buffer with them appended.
    pub fn read<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Read::new(self.0.clone(), buffer))
    }

    /// Reads from the file's position to its end. Gives the bytes read, and the buffer with them
    /// appended.
    pub async fn read_to_end(&self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let before = buffer.len();
        loop {
            if buffer.len() == buffer.capacity() {
                buffer.reserve(READ_TO_END_MIN);
            }
            let (result, filled) = self.read(buffer).await;
            buffer = filled;
            match result {
                Ok(0) => return (Ok(buffer.len() - before), buffer),
                Ok(_) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    /// Writes all of the buffer at the file's position, which moves.
    pub fn write_all<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        write_all(buffer, |part| Write::new(self.0.clone(), part))
    }

    /// The file's metadata.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        submit(StatFile::new(self.0.clone()))
    }

    /// Waits until contents and metadata have reached the device.
    ///
    /// # Errors
    /// They may be about an earlier write, and are reported once.
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> {
        submit(Fsync::new(self.0.clone()))
    }

    /// Waits until the contents have reached the device.
    ///
    /// # Errors
    /// As for [`File::sync_all`].
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> {
        submit(Fsync::data(self.0.clone()))
    }

    /// Sets the length: cuts the file off, or extends it by a hole.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not open for writing.
    pub fn set_len(&self, length: u64) -> impl Future<Output = io::Result<()>> {
        submit(Truncate::new(self.0.clone(), length))
    }

    /// Reserves room for `length` bytes from byte `offset` on.
    ///
    /// # Errors
    /// `StorageFull` if there is none; `EOPNOTSUPP` if the file system cannot reserve.
    pub fn allocate(&self, offset: u64, length: u64) -> impl Future<Output = io::Result<()>> {
        submit(Allocate::new(self.0.clone(), offset, length))
    }

    /// Moves the position, or asks for it; gives the new one.
    ///
    /// # Errors
    /// `ENXIO` if no data, or no hole, is there; `InvalidInput` before the start of the file.
    pub fn seek(&self, whence: Whence) -> impl Future<Output = io::Result<u64>> {
        submit(Seek::new(self.0.clone(), whence))
    }

    /// Tells the kernel how `length` bytes from byte `offset` on (0: all to the end) will be used.
    ///
    /// # Errors
    /// `ESPIPE` if it is a pipe.
    pub fn advise(
        &self,
        offset: u64,
        length: u64,
        advice: Advice,
    ) -> impl Future<Output = io::Result<()>> {
        submit(Advise::new(self.0.clone(), offset, length, advice))
    }

    /// Makes this file share the blocks of all of `source`, where the file system can.
    ///
    /// # Errors
    /// `EOPNOTSUPP` (and of some file systems `ENOTTY`) if it cannot, `CrossesDevices` if they are on
    /// different ones.
    pub fn reflink(&self, source: &File) -> impl Future<Output = io::Result<()>> {
        submit(Reflink::new(source.0.clone(), self.0.clone()))
    }

    /// Moves up to `count` bytes at byte `offset` to a pipe, as it has room, without a copy to user space.
    /// Gives their number: 0 at the end of the file.
    ///
    /// # Errors
    /// `InvalidInput` if the file is of a kind that cannot.
    pub fn splice_to(
        &self,
        offset: u64,
        pipe: &pipe::Writer,
        count: usize,
    ) -> impl Future<Output = io::Result<usize>> {
        let splice = Splice::new(self.0.clone(), pipe.descriptor().clone(), count);
        submit(splice.from_offset(offset))
    }

    /// Moves up to `count` bytes from a pipe, as it has them, to byte `offset`. Gives their number: 0 at
    /// the end of the pipe.
    ///
    /// # Errors
    /// As for [`File::splice_to`], and those of writing.
    pub fn splice_from(
        &self,
        pipe: &pipe::Reader,
        offset: u64,
        count: usize,
    ) -> impl Future<Output = io::Result<usize>> {
        let splice = Splice::new(pipe.descriptor().clone(), self.0.clone(), count);
        submit(splice.to_offset(offset))
    }

    /// Closes the file, after the operations on it that were abandoned have come to their end.
    ///
    /// # Errors
    /// The file is closed in any case; an error is about earlier writes.
    pub async fn close(self) -> io::Result<()> {
        self.0.close().await
    }

    /// The descriptor, for operations of other kinds.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }
}

/// Bytes of room that `read_to_end` makes when there is none.
const READ_TO_END_MIN: usize = 16 << 10;

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File(descriptor.into())
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        OwnedFd::from(file).into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
