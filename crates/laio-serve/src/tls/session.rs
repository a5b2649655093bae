//! An encrypted connection: records in and out, over a socket. rustls computes, the engine moves the bytes.

use crate::options::Limits;
use crate::stream::Wire;
use laio_rt::Descriptor;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// One session, with a client or with a server behind. Of what waits to be sent there is never more than [`Limits::TLS_BUFFER`].
pub(crate) struct Session {
    connection: Connection,
    wire: Wire,
    /// Received, and not yet looked at from `used` on.
    records: Vec<u8>,
    used: usize,
    /// Nothing has come yet.
    fresh: bool,
}

/// What a client sent first is a request in the clear, and no record of TLS.
#[derive(Debug)]
struct InTheClear;

impl fmt::Display for InTheClear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client speaks HTTP without TLS")
    }
}

impl Error for InTheClear {}

/// Whether a session has failed because the client speaks HTTP without TLS.
pub(crate) fn is_in_the_clear(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<InTheClear>())
}

impl Session {
    /// # Errors
    /// Those of rustls, about the configuration.
    pub(crate) fn new(socket: Descriptor, config: Arc<ServerConfig>) -> io::Result<Session> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Session::over(socket, connection.into()))
    }

    /// With a server of a name.
    ///
    /// # Errors
    /// Those of rustls, about the configuration.
    pub(crate) fn to_server(
        socket: Descriptor,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Session> {
        let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Session::over(socket, connection.into()))
    }

    fn over(socket: Descriptor, mut connection: Connection) -> Session {
        connection.set_buffer_limit(Some(Limits::TLS_BUFFER));
        Session {
            connection,
            wire: Wire::new(socket),
            records: Vec::new(),
            used: 0,
            fresh: true,
        }
    }

    /// Agrees with the other end on keys and protocol.
    pub(crate) fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.is_handshaking() {
            ready!(self.poll_send(context))?;
            if self.connection.is_handshaking() && ready!(self.poll_records(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        self.poll_send(context)
    }

    pub(crate) fn socket(&self) -> &Descriptor {
        self.wire.socket()
    }

    /// Whether HTTP/2 was agreed on (ALPN).
    pub(crate) fn speaks_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(b"h2")
    }

    /// Whether something that came was not looked at yet.
    pub(crate) fn has_unread(&self) -> bool {
        self.used < self.records.len()
    }

    /// Appends what comes next, deciphered, to `input`; 0 at the end. A client need not announce it: a request that is
    /// cut off is not whole by itself. An answer may be, so a server behind must.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<io::Result<usize>> {
        let by_client = matches!(self.connection, Connection::Server(_));
        loop {
            match self.connection.reader().fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len();
                    input.extend_from_slice(bytes);
                    self.connection.reader().consume(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if by_client && error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(self.poll_records(context))?;
            // An answer of the protocol's own may wait for its turn; what comes does not wait for it.
            if let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// Gives rustls what has come, one gulp at a time: it holds one in clear.
    fn poll_records(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.used == self.records.len() {
            self.records = ready!(self.wire.poll_receive(context))?;
            self.used = 0;
        }
        // A method begins with a letter, and no record of TLS does: it begins with a type from 20 to 24.
        let by_client = matches!(self.connection, Connection::Server(_));
        let letter = self.records.first().is_some_and(u8::is_ascii_alphabetic);
        if std::mem::take(&mut self.fresh) && by_client && letter {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, InTheClear)));
        }
        let mut left = &self.records[self.used..];
        let count = self.connection.read_tls(&mut left)?;
        self.used = self.records.len() - left.len();
        if let Err(error) = self.connection.process_new_packets() {
            // The alert tells the client why, if there is room for it.
            let _ = self.poll_send(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    /// Takes some of `bytes` to be sent, when there is room.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(context))?;
        let count = self.connection.writer().write(bytes)?;
        if let Poll::Ready(Err(error)) = self.poll_send(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(count))
    }

    /// Waits until everything is sent.
    pub(crate) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.wire.poll_sent(context))?;
            if !self.connection.wants_write() {
                return Poll::Ready(Ok(()));
            }
            let mut records = Vec::new();
            while self.connection.wants_write() {
                self.connection.write_tls(&mut records)?;
            }
            self.wire.send(records);
        }
    }

    /// Says that nothing more will come, in a way that nobody in between could.
    pub(crate) fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.send_close_notify();
        ready!(self.poll_send(context))?;
        Poll::Ready(self.wire.finish())
    }
}
