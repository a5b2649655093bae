//! A TLS session over a socket. rustls transforms the bytes, the engine sends and receives them.

use super::published::CHALLENGE_PROTOCOL;
use crate::net::socket::{Expect, Socket};
use crate::net::write_buffers;
use laio_rt::Descriptor;
use laio_serve_base::options::Limits;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ProtocolVersion};
use rustls::{ServerConfig, ServerConnection};
use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A TLS session with a client or an upstream. Buffers at most [`Limits::TLS_BUFFER`] unsent bytes.
pub struct Session {
    connection: Connection,
    socket: Socket,
    /// Received records, consumed up to `used`.
    records: Vec<u8>,
    used: usize,
    /// Nothing was received yet.
    fresh: bool,
}

/// The version of TLS and the name of the cipher suite.
pub type TlsParameters = (&'static str, &'static str);

/// The error for a client that sends plain HTTP instead of a TLS record.
#[derive(Debug)]
struct PlainHttp;

impl fmt::Display for PlainHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client sent HTTP without TLS")
    }
}

impl Error for PlainHttp {}

/// Whether a session has failed because the client sent plain HTTP.
pub fn is_plain_http(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<PlainHttp>())
}

impl Session {
    /// Creates a session with a client.
    ///
    /// # Errors
    /// Returns the errors of rustls about the configuration.
    pub fn new(socket: Descriptor, config: Arc<ServerConfig>) -> io::Result<Session> {
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Session::over(socket, connection.into()))
    }

    /// Creates a session with an upstream of this name.
    ///
    /// # Errors
    /// Returns the errors of rustls about the configuration.
    pub fn to_server(
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
            socket: Socket::new(socket),
            records: Vec::new(),
            used: 0,
            fresh: true,
        }
    }

    /// Returns the version and the cipher suite. Both are empty before the handshake.
    pub fn parameters(&self) -> TlsParameters {
        let version = match self.connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "",
        };
        let suite = self.connection.negotiated_cipher_suite();
        // The names of the registry of IANA; those of rustls differ for TLS 1.3.
        let suite = match suite.and_then(|suite| suite.suite().as_str()) {
            Some("TLS13_AES_128_GCM_SHA256") => "TLS_AES_128_GCM_SHA256",
            Some("TLS13_AES_256_GCM_SHA384") => "TLS_AES_256_GCM_SHA384",
            Some("TLS13_CHACHA20_POLY1305_SHA256") => "TLS_CHACHA20_POLY1305_SHA256",
            suite => suite.unwrap_or_default(),
        };
        (version, suite)
    }

    /// Performs the TLS handshake. In TLS 1.3 the client waits for nothing after its last message, so
    /// the session tickets are sent with the first response, by the same system call.
    pub fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.connection.is_handshaking() {
            ready!(self.poll_send(context))?;
            // The peer computes for longer than an attempt to receive takes.
            if self.connection.is_handshaking()
                && ready!(self.poll_records(context, Expect::Block))? == 0
            {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        let by_client = matches!(self.connection, Connection::Server(_));
        if self.connection.alpn_protocol() == Some(CHALLENGE_PROTOCOL) {
            // The authority has seen the certificate; no data may follow (RFC 8737).
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if by_client && self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
            return Poll::Ready(Ok(()));
        }
        self.poll_send(context)
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Descriptor {
        self.socket.descriptor()
    }

    /// Whether all that had arrived is processed, so that the next receive will probably block.
    pub(crate) fn is_drained(&self) -> bool {
        self.socket.is_drained() && !self.has_unread()
    }

    /// Whether HTTP/2 was negotiated (ALPN).
    pub fn speaks_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(b"h2")
    }

    /// Adds records that were received before the session began.
    pub fn begin_with(&mut self, records: Vec<u8>) {
        debug_assert!(self.fresh && !self.has_unread());
        (self.records, self.used) = (records, 0);
    }

    /// Whether received records were not processed yet.
    pub fn has_unread(&self) -> bool {
        self.used < self.records.len()
    }

    /// Appends decrypted bytes to `input`. Returns 0 at the end. A client may close without a close
    /// notification, because a truncated request is recognisable; an upstream may not, because a
    /// truncated response may not be.
    pub fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
        expect: Expect,
    ) -> Poll<io::Result<usize>> {
        let by_client = matches!(self.connection, Connection::Server(_));
        let mut received = false;
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
            // rustls may have a protocol message to send: after a request it goes with the response,
            // else now. Receiving does not wait for it.
            if received && let Poll::Ready(Err(error)) = self.poll_send(context) {
                return Poll::Ready(Err(error));
            }
            let expect = if received { Expect::Arrived } else { expect };
            ready!(self.poll_records(context, expect))?;
            received = true;
        }
    }

    /// Receives records and passes them to rustls, a buffer at a time, because rustls buffers the
    /// plaintext.
    fn poll_records(
        &mut self,
        context: &mut Context<'_>,
        expect: Expect,
    ) -> Poll<io::Result<usize>> {
        if self.used == self.records.len() {
            self.records = ready!(self.socket.poll_receive(context, expect))?;
            self.used = 0;
        }
        // An HTTP method begins with a letter, a TLS record with a type from 20 to 24.
        let by_client = matches!(self.connection, Connection::Server(_));
        let letter = self.records.first().is_some_and(u8::is_ascii_alphabetic);
        if std::mem::take(&mut self.fresh) && by_client && letter {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, PlainHttp)));
        }
        let mut left = &self.records[self.used..];
        let count = self.connection.read_tls(&mut left)?;
        self.used = self.records.len() - left.len();
        if let Err(error) = self.connection.process_new_packets() {
            // Try to send the TLS alert with the reason.
            let _ = self.poll_send(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }

    /// Encrypts some of `bytes`: none if the buffer is full, and [`Session::poll_send`] must come
    /// first.
    pub(crate) fn poll_encrypt(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.socket.poll_sent(context))?;
        Poll::Ready(self.connection.writer().write(bytes))
    }

    /// Waits until all records are sent.
    pub fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_sent(context))?;
            if !self.connection.wants_write() {
                return Poll::Ready(Ok(()));
            }
            let mut records = write_buffers::take();
            while self.connection.wants_write() {
                self.connection.write_tls(&mut records)?;
            }
            self.socket.send(records);
        }
    }

    /// Sends a close notification and shuts down the sending side.
    pub fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.send_close_notify();
        ready!(self.poll_send(context))?;
        Poll::Ready(self.socket.finish())
    }
}
