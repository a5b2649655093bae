//! An open file.

use super::ranges::Devices;
use super::{Metadata, OpenOptions};
use crate::Descriptor;
use crate::pipe;
use crate::submission::submit;
use crate::write::write_all;
use laio::ops::{
    Advice, Advise, Allocate, Fsync, Opened, Read, ReadAt, Reflink, Seek, Sink, Source, Splice,
    StatFile, Truncate, Whence, Write, WriteAt,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// An open file. Any number of operations may be in flight on it.
///
/// Dropping it closes it when the last operation on it has ended, without waiting. [`File::close`] waits and
/// reports errors.
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
pub struct File {
    handle: Descriptor,
    /// Whether the descriptor is in non-blocking mode without the program having asked for it. The operations of a
    /// file do not notice; the mode is put back before the program gets the descriptor.
    has_surplus_mode: Cell<bool>,
    devices: Devices,
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file for reading, and returns its metadata, with fewer system calls than [`File::open`] and
    /// [`File::metadata`].
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn open_with_metadata(path: impl AsRef<Path>) -> io::Result<(File, Metadata)> {
        let options = OpenOptions::new().read(true);
        options.open_with_metadata(path).await
    }

    /// Opens a file for writing. Creates it, or truncates it if it exists.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Returns options for other ways to open a file.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Reads at byte `offset` into the spare capacity of the buffer, and fills it unless the file ends first.
    /// Returns the number of bytes, and the buffer with the bytes appended.
    pub fn read_at<B: Sink>(
        &self,
        buffer: B,
        offset: u64,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(ReadAt::new(self.handle.clone(), buffer, offset))
    }

    /// Writes all of the buffer at byte `offset`.
    pub fn write_all_at<B: Source>(
        &self,
        buffer: B,
        offset: u64,
    ) -> impl Future<Output = (io::Result<()>, B)> {
        let end = offset.wrapping_add(buffer.bytes().len() as u64);
        write_all(buffer, move |part| {
            // The rest of the buffer ends at the same offset as the whole buffer.
            let offset = end.wrapping_sub(part.bytes().len() as u64);
            WriteAt::new(self.handle.clone(), part, offset)
        })
    }

    /// Reads at the file position, and advances it, into the spare capacity of the buffer. Returns the number of
    /// bytes (0 at the end of the file), and the buffer with the bytes appended.
    ///
    /// If the future is dropped, the position may have moved all the same: [`File::read_at`] does not depend on it,
    /// and [`pipe::Reader`] reads FIFOs and terminals without a loss.
    pub fn read<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(Read::new(self.handle.clone(), buffer))
    }

    /// Reads from the file position to the end. Returns the number of bytes, and the buffer with the bytes
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

    /// Writes all of the buffer at the file position, and advances it.
    pub fn write_all<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        write_all(buffer, |part| Write::new(self.handle.clone(), part))
    }

    /// Returns the file's metadata.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn metadata(&self) -> impl Future<Output = io::Result<Metadata>> {
        submit(StatFile::new(self.handle.clone()))
    }

    /// Waits until contents and metadata have reached the device.
    ///
    /// # Errors
    /// Those of `fsync`. An error may come from an earlier write, and is reported once.
    pub fn sync_all(&self) -> impl Future<Output = io::Result<()>> {
        submit(Fsync::new(self.handle.clone()))
    }

    /// Waits until the contents have reached the device.
    ///
    /// # Errors
    /// As for [`File::sync_all`].
    pub fn sync_data(&self) -> impl Future<Output = io::Result<()>> {
        submit(Fsync::data(self.handle.clone()))
    }

    /// Sets the length: truncates the file, or extends it by a hole.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not open for writing.
    pub fn set_len(&self, length: u64) -> impl Future<Output = io::Result<()>> {
        submit(Truncate::new(self.handle.clone(), length))
    }

    /// Allocates disk space for `length` bytes from byte `offset` on.
    ///
    /// # Errors
    /// `StorageFull` if the disk is full; `EOPNOTSUPP` if the file system cannot preallocate.
    pub fn allocate(&self, offset: u64, length: u64) -> impl Future<Output = io::Result<()>> {
        submit(Allocate::new(self.handle.clone(), offset, length))
    }

    /// Sets the file position, and returns the new one.
    ///
    /// # Errors
    /// `ENXIO` if no data, or no hole, follows; `InvalidInput` for a position before the start of the file.
    pub fn seek(&self, whence: Whence) -> impl Future<Output = io::Result<u64>> {
        submit(Seek::new(self.handle.clone(), whence))
    }

    /// Announces to the kernel how the program will use `length` bytes from byte `offset` on (`posix_fadvise`). A
    /// length of 0 means all bytes to the end.
    ///
    /// # Errors
    /// `ESPIPE` if it is a pipe.
    pub fn advise(
        &self,
        offset: u64,
        length: u64,
        advice: Advice,
    ) -> impl Future<Output = io::Result<()>> {
        submit(Advise::new(self.handle.clone(), offset, length, advice))
    }

    /// Makes this file a reflink of `source`: both share all blocks.
    ///
    /// # Errors
    /// `EOPNOTSUPP` (on some file systems `ENOTTY`) if the file system does not support it, `CrossesDevices` if
    /// the files are on different file systems.
    pub fn reflink(&self, source: &File) -> impl Future<Output = io::Result<()>> {
        submit(Reflink::new(source.handle.clone(), self.handle.clone()))
    }

    /// Moves up to `count` bytes at byte `offset` to a pipe, as many as fit, without a copy to user space.
    /// Returns their number: 0 at the end of the file.
    ///
    /// # Errors
    /// `InvalidInput` if the file does not support `splice`.
    pub fn splice_to(
        &self,
        offset: u64,
        pipe: &pipe::Writer,
        count: usize,
    ) -> impl Future<Output = io::Result<usize>> {
        let splice = Splice::new(self.handle.clone(), pipe.descriptor().clone(), count);
        submit(splice.from_offset(offset))
    }

    /// Moves up to `count` of the bytes available in a pipe to byte `offset`. Returns their number: 0 at the end
    /// of the pipe.
    ///
    /// # Errors
    /// As for [`File::splice_to`], and those of writing.
    pub fn splice_from(
        &self,
        pipe: &pipe::Reader,
        offset: u64,
        count: usize,
    ) -> impl Future<Output = io::Result<usize>> {
        let splice = Splice::new(pipe.descriptor().clone(), self.handle.clone(), count);
        submit(splice.to_offset(offset))
    }

    /// Closes the file, after the abandoned operations on it have ended.
    ///
    /// # Errors
    /// The file is closed in any case; an error comes from earlier writes.
    pub async fn close(self) -> io::Result<()> {
        self.handle.close().await
    }

    /// Returns the descriptor, for operations without a method here. Its mode is the one for which the file was
    /// opened.
    pub fn descriptor(&self) -> &Descriptor {
        if self.has_surplus_mode.take() {
            // Removing O_NONBLOCK from a file cannot fail.
            let flags = fcntl_getfl(&self.handle).unwrap_or(OFlags::empty());
            let _ = fcntl_setfl(&self.handle, flags & !OFlags::NONBLOCK);
        }
        &self.handle
    }

    /// Returns the descriptor in the mode that it has, for operations that do not return it to the program.
    pub(crate) fn handle(&self) -> &Descriptor {
        &self.handle
    }

    /// Returns the descriptors for direct reads.
    pub(super) fn devices(&self) -> &Devices {
        &self.devices
    }
}

/// The capacity in bytes that `read_to_end` adds to a full buffer.
const READ_TO_END_MIN: usize = 16 << 10;

impl From<Opened> for File {
    fn from(opened: Opened) -> File {
        File {
            has_surplus_mode: Cell::new(opened.has_surplus_mode()),
            handle: opened.into_own_descriptor().into(),
            devices: Devices::default(),
        }
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File {
            handle: descriptor.into(),
            has_surplus_mode: Cell::new(false),
            devices: Devices::default(),
        }
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> File {
        OwnedFd::from(file).into()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}
