//! The messages of HTTP/3 (RFC 9114): frames and heads on QUIC streams.

pub mod frames;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod huffman;
pub(crate) mod qpack;
pub mod request;
mod static_table;
pub mod unidirectional;

use crate::net::quic::StreamId;
use crate::net::quic::connection::{QuicConnection, StreamEnd};
use bytes::Bytes;
use std::task::{Context, Poll};

/// The streams that a client sends. A QUIC connection has them; so do the bytes of a fuzz target.
pub trait ReceiveStreams {
    /// Returns the next bytes of a stream, at most `most`; none at its end.
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        id: StreamId,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamEnd>>;

    /// Asks the client to send no more of a stream.
    fn stop(&self, id: StreamId, code: u32);

    /// Forgets the tasks that wait for a stream.
    fn forget(&self, id: StreamId);
}

impl ReceiveStreams for QuicConnection {
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        id: StreamId,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamEnd>> {
        QuicConnection::poll_read(self, context, id, most)
    }

    fn stop(&self, id: StreamId, code: u32) {
        QuicConnection::stop(self, id, code);
    }

    fn forget(&self, id: StreamId) {
        QuicConnection::forget(self, id);
    }
}

/// Error codes (RFC 9114, section 8.1, and RFC 9204, section 6).
#[allow(missing_docs)] // They have the names of the RFCs.
pub mod code {
    pub const NO_ERROR: u32 = 0x100;
    pub(crate) const INTERNAL_ERROR: u32 = 0x102;
    pub const STREAM_CREATION_ERROR: u32 = 0x103;
    pub const CLOSED_CRITICAL_STREAM: u32 = 0x104;
    pub(crate) const FRAME_UNEXPECTED: u32 = 0x105;
    pub(crate) const FRAME_ERROR: u32 = 0x106;
    pub const EXCESSIVE_LOAD: u32 = 0x107;
    pub(crate) const ID_ERROR: u32 = 0x108;
    pub(crate) const SETTINGS_ERROR: u32 = 0x109;
    pub(crate) const MISSING_SETTINGS: u32 = 0x10a;
    pub const REQUEST_REJECTED: u32 = 0x10b;
    pub const REQUEST_CANCELLED: u32 = 0x10c;
    pub const REQUEST_INCOMPLETE: u32 = 0x10d;
    pub(crate) const MESSAGE_ERROR: u32 = 0x10e;
    pub(crate) const QPACK_DECOMPRESSION_FAILED: u32 = 0x200;
    pub(crate) const QPACK_ENCODER_STREAM_ERROR: u32 = 0x201;
    pub(crate) const QPACK_DECODER_STREAM_ERROR: u32 = 0x202;
}

/// Why a stream cannot be read any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client has given it up, or the connection is lost.
    Gone,
    /// The client has violated the protocol on this stream alone.
    Stream(u32),
    /// The client has violated the protocol: the connection ends with this code and reason.
    Connection(u32, &'static str),
}
