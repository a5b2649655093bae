//! Pipes.

use crate::Descriptor;
use crate::read::read;
use crate::write::write_all;
use laio::ops::{Read, Sink, Source, Write};
use rustix::pipe::PipeFlags;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Creates a pipe. Both ends are closed on `exec`.
///
/// # Errors
/// `EMFILE` or `ENFILE` if there are no descriptors left.
///
/// ```
/// use laio_rt::pipe::pipe;
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(async {
///     let (reader, writer) = pipe()?;
///     writer.write_all("hello").await.0?;
///     let (result, buffer) = reader.read(Vec::with_capacity(100)).await;
///     assert_eq!((result?, &buffer[..]), (5, &b"hello"[..]));
///     std::io::Result::Ok(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn pipe() -> io::Result<(Reader, Writer)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((reader.into(), writer.into()))
}

/// The reading end of a pipe, FIFO or terminal.
///
/// Dropping the future of a `read` loses no byte: the next `read` returns what it has read.
#[derive(Debug)]
pub struct Reader(Descriptor);

impl Reader {
    /// Reads the available bytes; waits only if there are none. Returns the number of bytes (0 at the end), and
    /// the buffer with the bytes appended.
    pub fn read<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        read(&self.0, buffer, Read::new)
    }

    /// Returns the descriptor, for operations without a method here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }
}

impl From<OwnedFd> for Reader {
    fn from(descriptor: OwnedFd) -> Reader {
        Reader(descriptor.into())
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The writing end of a pipe, FIFO or terminal.
#[derive(Debug)]
pub struct Writer(Descriptor);

impl Writer {
    /// Writes all of the buffer. Fails with `EPIPE` if there is no reader.
    pub fn write_all<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        write_all(buffer, |part| Write::new(self.0.clone(), part))
    }

    /// Returns the descriptor, for operations without a method here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }
}

impl From<OwnedFd> for Writer {
    fn from(descriptor: OwnedFd) -> Writer {
        Writer(descriptor.into())
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
