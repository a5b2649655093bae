//! A client connection as a byte stream in both directions, over TCP, TLS, or a stream of HTTP/2 or
//! HTTP/3.

use super::arrivals;
use super::socket::{Expect, endpoints, receive_operation};
use crate::io_contexts::IoContexts;
use crate::memory::connection::{Held, RequestMemory};
use crate::net::multiplexed::{Multiplexed, each};
use crate::net::tls::session::{Session, TlsParameters};
use http::HeaderMap;
use laio::ops::Send;
use laio_http::Output;
use laio_rt::Descriptor;
use laio_serve_base::options::IoStep;
use laio_serve_base::trace;
use rustix::net::{SendFlags, Shutdown};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Poll, ready};

/// The byte stream of a connection. On a plain socket each method makes the system call directly.
pub enum Stream {
    /// A socket without encryption.
    Plain(Descriptor),
    /// A socket with TLS.
    Tls(Box<RefCell<Session>>),
    /// One request of a connection with several.
    Multiplexed(Multiplexed),
}

impl Stream {
    /// Returns the stream of a TLS session.
    pub fn encrypted(session: Session) -> Stream {
        Stream::Tls(Box::new(RefCell::new(session)))
    }

    /// Returns the socket if its bytes reach the client unchanged, so that the kernel may send
    /// files (`sendfile`).
    pub fn plain(&self) -> Option<&Descriptor> {
        match self {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(_) | Stream::Multiplexed(_) => None,
        }
    }

    /// Whether the connection is encrypted, or its request is explained as if it were.
    pub fn is_secure(&self) -> bool {
        match self {
            Stream::Plain(_) => trace::is_secure(),
            Stream::Tls(_) => true,
            Stream::Multiplexed(it) => each!(it, exchange => exchange.tls().is_some()),
        }
    }

    /// Whether the request is in early data, and the handshake not complete, so that somebody may repeat it.
    pub fn is_early(&self) -> bool {
        match self {
            Stream::Multiplexed(it) => each!(it, exchange => exchange.is_early()),
            Stream::Plain(_) | Stream::Tls(_) => false,
        }
    }

    /// Waits until the client has completed the handshake, if the request is early.
    ///
    /// # Errors
    /// When the connection is lost first.
    pub async fn confirmed(&self) -> io::Result<()> {
        match self {
            Stream::Multiplexed(it) => each!(it, exchange => exchange.confirmed().await),
            Stream::Plain(_) | Stream::Tls(_) => Ok(()),
        }
    }

    /// Returns the version and the cipher suite of TLS, if the connection is encrypted. The cipher suite of
    /// QUIC is not known.
    pub fn tls(&self) -> Option<TlsParameters> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(session) => Some(session.borrow().parameters()),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.tls()),
        }
    }

    /// Returns the underlying socket, or none for streams of HTTP/2 and HTTP/3.
    pub fn socket(&self) -> Option<Descriptor> {
        match self {
            Stream::Plain(socket) => Some(socket.clone()),
            Stream::Tls(session) => Some(session.borrow().socket().clone()),
            Stream::Multiplexed(_) => None,
        }
    }

    /// Returns the local and the remote internet address, where there are any.
    pub fn endpoints(&self) -> [Option<SocketAddr>; 2] {
        match self {
            Stream::Plain(socket) => endpoints(socket),
            Stream::Tls(session) => endpoints(session.borrow().socket()),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.endpoints()),
        }
    }

    /// Whether the stream delimits its one response by itself, so that no chunked coding is needed.
    pub fn is_multiplexed(&self) -> bool {
        matches!(self, Stream::Multiplexed(_))
    }

    /// Returns the HTTP version if the request line does not contain it.
    pub fn version(&self) -> Option<&'static str> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => None,
            Stream::Multiplexed(it) => Some(each!(it, exchange => exchange.version())),
        }
    }

    /// Performs the TLS handshake on an encrypted stream. Returns whether the client chose HTTP/2.
    pub async fn handshake(&self) -> io::Result<bool> {
        let Stream::Tls(session) = self else {
            return Ok(false);
        };
        poll_fn(|context| session.borrow_mut().poll_handshake(context)).await?;
        Ok(session.borrow().speaks_http2())
    }

    /// Appends received bytes to `input`, waiting until there are any. Returns 0 at the end.
    pub async fn receive(
        &self,
        contexts: &IoContexts,
        mut input: Vec<u8>,
        expect: Expect,
    ) -> (io::Result<usize>, Vec<u8>) {
        let result = match self {
            Stream::Plain(socket) => {
                let receive = receive_operation(socket, input, expect);
                let turn = laio_rt::turn();
                let received = contexts.submit(IoStep::Receive, receive).await;
                arrivals::note(turn);
                return received;
            }
            Stream::Tls(session) => {
                let receive = |context: &mut std::task::Context<'_>| {
                    session
                        .borrow_mut()
                        .poll_receive(context, &mut input, expect)
                };
                poll_fn(receive).await
            }
            Stream::Multiplexed(it) => each!(it, exchange => exchange.receive(&mut input).await),
        };
        // TLS, HTTP/2 and HTTP/3 do not report the executor turn in which the bytes arrived: assume this
        // one.
        arrivals::note(laio_rt::turn());
        (result, input)
    }

    /// Returns the memory of the request, if it shares that of a connection with others (HTTP/2 and HTTP/3).
    pub fn memory(&self) -> Option<&RequestMemory> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => None,
            Stream::Multiplexed(it) => each!(it, exchange => Some(exchange.memory())),
        }
    }

    /// Waits until the client's flow control allows a part of the body. Returns about how many bytes, at most `most`.
    pub async fn window(&self, most: usize) -> io::Result<usize> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => Ok(most),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.window(most).await),
        }
    }

    /// Waits until the client's flow control allows a piece of a body of which `most` bytes follow, and the connection may
    /// hold it. Only for HTTP/2 and HTTP/3.
    pub async fn room(&self, most: usize) -> io::Result<Held> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.room(most).await),
        }
    }

    /// Sends a piece for which [`Stream::room`] has made room. Returns how much of it flow control has admitted: the rest
    /// is dropped.
    pub fn send_piece(&self, bytes: Vec<u8>, held: Held) -> io::Result<usize> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.send_piece(bytes, held)),
        }
    }

    /// Sends what `try_send` of an exchange of HTTP/2 or HTTP/3 has left.
    pub async fn flush(&self) -> io::Result<()> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => Ok(()),
            Stream::Multiplexed(it) => each!(it, exchange => exchange.flush().await),
        }
    }

    /// Sends the head of a response over HTTP/2 or HTTP/3, and what follows it in the output. Only for these.
    pub async fn send_output(&self, output: Output) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => {
                (Err(io::ErrorKind::Unsupported.into()), Vec::new())
            }
            Stream::Multiplexed(it) => each!(it, exchange => exchange.send_output(output).await),
        }
    }

    /// Sends all of `out`. Returns fewer bytes if the send was interrupted. With `MSG_MORE`, the last
    /// bytes may wait for the next send, or for [`Stream::finish`]. HTTP/2 and HTTP/3 ignore the
    /// flags: they send bytes of a body.
    pub async fn send(
        &self,
        contexts: &IoContexts,
        out: Vec<u8>,
        flags: SendFlags,
    ) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(socket) => {
                let send = Send::new(socket.clone(), out).flags(flags.bits() as i32);
                contexts.submit(IoStep::Send, send).await
            }
            Stream::Tls(session) => {
                let waits = flags.contains(SendFlags::MORE);
                (encrypt(session, &out, waits).await, out)
            }
            Stream::Multiplexed(it) => each!(it, exchange => exchange.send(out).await),
        }
    }

    /// Sends the fields after the body of a response of unknown length, or keeps them for its end. Only
    /// HTTP/2 and HTTP/3 have them here.
    pub async fn send_trailers(&self, trailers: HeaderMap) -> io::Result<()> {
        match self {
            Stream::Plain(_) | Stream::Tls(_) => Ok(()),
            Stream::Multiplexed(it) => {
                each!(it, exchange => exchange.send_trailers(trailers).await)
            }
        }
    }

    /// Shuts down the sending side.
    pub async fn finish(&self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => Ok(rustix::net::shutdown(socket, Shutdown::Write)?),
            Stream::Tls(session) => {
                poll_fn(|context| session.borrow_mut().poll_finish(context)).await
            }
            Stream::Multiplexed(_) => Ok(()),
        }
    }
}

/// Encrypts and sends all of `out`. If more follows at once, the last bytes wait for it, so that one
/// system call sends both.
pub async fn encrypt(
    session: &RefCell<Session>,
    out: &[u8],
    more_follows: bool,
) -> io::Result<usize> {
    let mut done = 0;
    poll_fn(|context| -> Poll<io::Result<()>> {
        let mut session = session.borrow_mut();
        loop {
            done += ready!(session.poll_encrypt(context, &out[done..]))?;
            if done == out.len() && more_follows {
                return Poll::Ready(Ok(()));
            }
            let sent = session.poll_send(context)?;
            if done == out.len() {
                return sent.map(Ok);
            }
        }
    })
    .await?;
    Ok(done)
}
