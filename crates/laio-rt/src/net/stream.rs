//! Connections.

use super::address::{inet, local, peer, socket};
use super::{Address, ReadHalf, WriteHalf};
use crate::Descriptor;
use crate::fs::File;
use crate::read::{peek, read};
use crate::submission::submit;
use crate::write::write_all;
use laio::ops::{
    Connect, Recv, Send, SendFile, SendVectored, Shutdown as End, Sink, Source, Sources,
};
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Marks TCP connections.
#[derive(Clone, Copy, Debug)]
pub enum Tcp {}

/// Marks connections between processes on the same machine.
#[derive(Clone, Copy, Debug)]
pub enum Unix {}

/// A TCP connection.
pub type TcpStream = Stream<Tcp>;

/// A connection between two processes on the same machine.
pub type UnixStream = Stream<Unix>;

/// A connection: bytes in order, in both directions.
///
/// All methods take `&self`, so one task may read while another one writes: share it by `Rc`, or use
/// [`Stream::into_split`]. Writes of several tasks do not interleave.
///
/// Dropping the future of a read (by a time-out, for example) loses no byte: the next read returns what it has read.
/// After dropping the future of a write it is not known how much was written, so close the connection then.
pub struct Stream<K> {
    pub(super) socket: Descriptor,
    kind: PhantomData<fn() -> K>,
}

impl<K> Stream<K> {
    /// Reads the bytes that have arrived; waits only if there are none. Returns the number of bytes (0 when the
    /// peer has ended the stream), and the buffer with the bytes appended.
    pub fn read<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        read(&self.socket, buffer, Recv::new)
    }

    /// As [`Stream::read`], but leaves the bytes in the socket, so that the next read returns them again.
    pub fn peek<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        peek(&self.socket, buffer, |socket, buffer| {
            Recv::new(socket, buffer).flags(RecvFlags::PEEK.bits() as i32)
        })
    }

    /// Writes all of the buffer.
    pub fn write_all<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        self.send_all(buffer, SendFlags::empty())
    }

    /// As [`Stream::write_all`] with `MSG_MORE`: TCP waits for the next write to fill a packet.
    pub fn write_more<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        self.send_all(buffer, SendFlags::MORE)
    }

    fn send_all<B: Source>(
        &self,
        buffer: B,
        flags: SendFlags,
    ) -> impl Future<Output = (io::Result<()>, B)> {
        write_all(buffer, move |part| {
            Send::new(self.socket.clone(), part).flags(flags.bits() as i32)
        })
    }

    /// Writes all of several buffers with one call.
    ///
    /// ```
    /// use laio_rt::net::UnixStream;
    /// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
    /// runtime.block_on(async {
    ///     let (one, other) = UnixStream::pair()?;
    ///     one.write_vectored(("head ", vec![b'x'; 3])).await.0?;
    ///     let (result, buffer) = other.read(Vec::with_capacity(100)).await;
    ///     assert_eq!((result?, &buffer[..]), (8, &b"head xxx"[..]));
    ///     std::io::Result::Ok(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn write_vectored<S: Sources>(&self, sources: S) -> (io::Result<()>, S) {
        let mut length = 0;
        sources.visit(&mut |bytes| length += bytes.len());
        let (result, sources) = submit(SendVectored::new(self.socket.clone(), sources)).await;
        let result = match result {
            Ok(count) if count < length => Err(self.write_error().await),
            result => result.map(drop),
        };
        (result, sources)
    }

    /// Returns the error that interrupted a write: an empty write reports it.
    async fn write_error(&self) -> io::Error {
        let (result, _) = submit(Send::new(self.socket.clone(), "")).await;
        result
            .err()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends `count` bytes of a file, from byte `offset` on, without copying them to user space. Returns the
    /// result and the number of bytes sent, which is less than `count` after an error, or if the file ends.
    ///
    /// `sendfile` has no non-blocking form for a blocking socket, so this occupies a helper thread until the
    /// peer has received the bytes. If [`waiting_helpers`](laio::Limits::waiting_helpers) peers are slow, the next
    /// call fails with `EAGAIN`. [`File::read_at`] and [`Stream::write_all`] copy, but need no helper.
    pub async fn send_file(&self, file: &File, offset: u64, count: u64) -> (io::Result<()>, u64) {
        let mut done = 0;
        while done < count {
            let most = (count - done).min(SEND_FILE_MAX) as usize;
            let (socket, file) = (self.socket.clone(), file.handle().clone());
            match submit(SendFile::new(socket, file, Some(offset + done), most)).await {
                Ok(0) => break,
                Ok(sent) => done += sent as u64,
                Err(error) => return (Err(error), done),
            }
        }
        (Ok(()), done)
    }

    /// Shuts down one direction, or both, after the writes in flight: the peer reads the end of the stream, or
    /// can no longer write.
    ///
    /// # Errors
    /// `NotConnected` if the connection is closed.
    pub fn shutdown(&self, how: Shutdown) -> impl Future<Output = io::Result<()>> {
        submit(End::new(self.socket.clone(), how))
    }

    /// Closes the connection and waits until it is closed. (Dropping it does not wait.)
    ///
    /// # Errors
    /// Those of `close`. The connection is closed in any case.
    pub async fn close(self) -> io::Result<()> {
        self.socket.close().await
    }

    /// Splits the connection into a reader and a writer, for two tasks. Dropping the writer ends the stream for
    /// the peer.
    pub fn into_split(self) -> (ReadHalf<K>, WriteHalf<K>) {
        super::split::split(self)
    }

    /// Returns the descriptor, for operations without a method here.
    pub fn descriptor(&self) -> &Descriptor {
        &self.socket
    }

    pub(super) fn new(socket: Descriptor) -> Stream<K> {
        Stream {
            socket,
            kind: PhantomData,
        }
    }

    /// Returns another reference to the same connection.
    pub(super) fn share(&self) -> Stream<K> {
        Stream::new(self.socket.clone())
    }

    async fn connected(address: Address) -> io::Result<Stream<K>> {
        let socket = socket(&address, SocketType::STREAM)?;
        submit(Connect::new(socket.clone(), address)).await?;
        Ok(Stream::new(socket))
    }
}

/// The number of bytes that one operation of `send_file` sends. The operation may occupy a helper until the peer
/// has received them; between two operations other tasks run.
const SEND_FILE_MAX: u64 = 1 << 20;

impl Stream<Tcp> {
    /// Connects to a listening socket.
    ///
    /// # Errors
    /// `ConnectionRefused` if no socket listens there, `TimedOut` after a minute or two without an answer.
    pub async fn connect(address: impl Into<SocketAddr>) -> io::Result<TcpStream> {
        Stream::connected(Address::Inet(address.into())).await
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        inet(local(&self.socket)?)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// `NotConnected` if the connection is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        inet(peer(&self.socket)?)
    }

    /// Sets `TCP_NODELAY`: small writes are sent at once, instead of waiting for the peer to acknowledge earlier
    /// ones.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_nodelay(&self.socket, nodelay)?)
    }

    /// Sets `TCP_CORK`: partial packets wait for up to 200 ms until they are full.
    ///
    /// # Errors
    /// Those of `setsockopt`.
    pub fn set_cork(&self, cork: bool) -> io::Result<()> {
        Ok(sockopt::set_tcp_cork(&self.socket, cork)?)
    }
}

impl Stream<Unix> {
    /// Connects to the listening socket with this path.
    ///
    /// # Errors
    /// `NotFound` if the path does not exist, `ConnectionRefused` if no socket listens there.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<UnixStream> {
        Stream::connected(Address::unix(path)?).await
    }

    /// Connects to any kind of Unix socket address.
    ///
    /// # Errors
    /// As for [`UnixStream::connect`].
    pub async fn connect_to(address: impl Into<Address>) -> io::Result<UnixStream> {
        Stream::connected(address.into()).await
    }

    /// Creates a connection, and returns its two ends.
    ///
    /// # Errors
    /// `EMFILE` or `ENFILE` if there are no descriptors left.
    pub fn pair() -> io::Result<(UnixStream, UnixStream)> {
        let (one, other) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((one.into(), other.into()))
    }

    /// Returns the address of this end.
    ///
    /// # Errors
    /// Those of `getsockname`.
    pub fn local_addr(&self) -> io::Result<Address> {
        local(&self.socket)
    }

    /// Returns the address of the peer.
    ///
    /// # Errors
    /// `NotConnected` if the connection is closed.
    pub fn peer_addr(&self) -> io::Result<Address> {
        peer(&self.socket)
    }
}

/// Takes ownership of a connected socket in blocking mode.
impl<K> From<OwnedFd> for Stream<K> {
    fn from(socket: OwnedFd) -> Stream<K> {
        Stream::new(socket.into())
    }
}

impl<K> AsFd for Stream<K> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<K> fmt::Debug for Stream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.socket).finish()
    }
}
