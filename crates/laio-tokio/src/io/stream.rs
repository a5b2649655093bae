//! A descriptor as a stream of bytes in both directions.

use crate::fs::File;
use laio::ops::OpenFile;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A pipe, a terminal, a socket or a file, read and written at its position.
///
/// A read or write is attempted on the caller's memory; what would block waits in the background. A read
/// and a write may wait at the same time. Dropping a future of `read` loses no byte: the stream keeps what
/// was read for the next one. As with a [`File`], a write may return before its bytes were written: call
/// `flush`. A stream that is dropped finishes the write in flight, and cancels the read.
///
/// ```
/// use laio_tokio::io::Stream;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut child = std::process::Command::new("tr")
///     .args(["a-z", "A-Z"])
///     .stdin(std::process::Stdio::piped())
///     .stdout(std::process::Stdio::piped())
///     .spawn()?;
/// let mut input = Stream::from(child.stdin.take().unwrap());
/// let mut output = Stream::from(child.stdout.take().unwrap());
/// input.write_all(b"some text").await?;
/// input.flush().await?;
/// drop(input);
/// let mut text = String::new();
/// output.read_to_string(&mut text).await?;
/// assert_eq!(text, "SOME TEXT");
/// # child.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Stream {
    // Each has one operation in flight, so that a write need not wait for a read.
    reader: File,
    writer: File,
}

impl Stream {
    fn new(open: OpenFile) -> Stream {
        Stream {
            reader: File::from_open(open.clone()),
            writer: File::from_open(open),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().reader).poll_read(context, dst)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        src: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write(context, src)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().writer).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(context)
    }

    /// Flushes. The other end of a pipe sees the end when the stream is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl From<OwnedFd> for Stream {
    fn from(descriptor: OwnedFd) -> Stream {
        Stream::new(OpenFile::from(descriptor))
    }
}

impl From<ChildStdin> for Stream {
    fn from(pipe: ChildStdin) -> Stream {
        Stream::from(OwnedFd::from(pipe))
    }
}

impl From<ChildStdout> for Stream {
    fn from(pipe: ChildStdout) -> Stream {
        Stream::from(OwnedFd::from(pipe))
    }
}

impl From<ChildStderr> for Stream {
    fn from(pipe: ChildStderr) -> Stream {
        Stream::from(OwnedFd::from(pipe))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }
}
