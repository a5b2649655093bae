//! The frames of a stream.

use super::{Failure, ReceiveStreams, code};
use crate::net::quic::StreamId;
use crate::net::quic::connection::StreamEnd;
use bytes::Bytes;
use std::task::{Context, Poll, ready};

/// Types of frames.
#[allow(missing_docs)] // They have the names of RFC 9114.
pub mod kind {
    pub(crate) const DATA: u64 = 0x0;
    pub(crate) const HEADERS: u64 = 0x1;
    pub(crate) const CANCEL_PUSH: u64 = 0x3;
    pub const SETTINGS: u64 = 0x4;
    pub(crate) const PUSH_PROMISE: u64 = 0x5;
    pub const GOAWAY: u64 = 0x7;
    pub(crate) const MAX_PUSH_ID: u64 = 0xd;

    /// Whether this was a type of HTTP/2 that HTTP/3 forbids.
    pub(crate) fn is_of_http2(kind: u64) -> bool {
        matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub kind: u64,
    pub length: u64,
}

/// Reads the frames of a stream.
pub(crate) struct Frames {
    id: StreamId,
    /// Bytes that QUIC has delivered.
    unread: Bytes,
    /// The first bytes of the present integer, and their number.
    integer: [u8; 8],
    filled: usize,
    kind: Option<u64>,
    /// The bytes that are left of the present frame.
    left: u64,
    has_ended: bool,
}

/// Bytes taken from QUIC at a time.
const PIECE: usize = 64 * 1024;

impl Frames {
    pub(crate) fn new(id: StreamId) -> Frames {
        Frames {
            id,
            unread: Bytes::new(),
            integer: [0; 8],
            filled: 0,
            kind: None,
            left: 0,
            has_ended: false,
        }
    }

    /// Returns the head of the next frame, or none at the end of the stream. The payload of the
    /// present frame must have been read.
    pub(crate) fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Option<FrameHead>, Failure>> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => match ready!(self.poll_integer(context, quic))? {
                Some(kind) => *self.kind.insert(kind),
                None => return Poll::Ready(Ok(None)),
            },
        };
        let Some(length) = ready!(self.poll_integer(context, quic))? else {
            return Poll::Ready(Err(cut()));
        };
        self.kind = None;
        self.left = length;
        Poll::Ready(Ok(Some(FrameHead { kind, length })))
    }

    /// Returns the next bytes of the payload of the present frame; none at its end.
    pub(crate) fn poll_payload(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        if self.left == 0 {
            return Poll::Ready(Ok(None));
        }
        if !ready!(self.poll_fill(context, quic))? {
            return Poll::Ready(Err(cut()));
        }
        let count = self.left.min(self.unread.len() as u64);
        self.left -= count;
        Poll::Ready(Ok(Some(self.unread.split_to(count as usize))))
    }

    /// Returns the next bytes of a stream without frames; none at its end.
    pub(crate) fn poll_bytes(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        let more = ready!(self.poll_fill(context, quic))?;
        Poll::Ready(Ok(more.then(|| std::mem::take(&mut self.unread))))
    }

    /// Reads an integer; none if the stream has ended before it.
    pub(crate) fn poll_integer(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<Option<u64>, Failure>> {
        loop {
            if !ready!(self.poll_fill(context, quic))? {
                return Poll::Ready(match self.filled {
                    0 => Ok(None),
                    _ => Err(cut()),
                });
            }
            self.integer[self.filled] = self.unread.split_to(1)[0];
            self.filled += 1;
            let read = &self.integer[..self.filled];
            if let Some((value, _)) = integer(read) {
                self.filled = 0;
                return Poll::Ready(Ok(Some(value)));
            }
        }
    }

    /// Whether the stream has ended after the present frame, as far as it is known now.
    pub(crate) fn poll_is_over(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> bool {
        self.left == 0 && matches!(self.poll_fill(context, quic), Poll::Ready(Ok(false)))
    }

    /// Waits until there are unread bytes. Returns false at the end of the stream.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<bool, Failure>> {
        while self.unread.is_empty() {
            if self.has_ended {
                return Poll::Ready(Ok(false));
            }
            match ready!(quic.poll_read(context, self.id, PIECE)) {
                Ok(Some(bytes)) => self.unread = bytes,
                Ok(None) => self.has_ended = true,
                Err(StreamEnd::Reset | StreamEnd::Lost) => {
                    return Poll::Ready(Err(Failure::Gone));
                }
            }
        }
        Poll::Ready(Ok(true))
    }
}

fn cut() -> Failure {
    Failure::Connection(code::FRAME_ERROR, "a frame is cut off")
}

/// Returns the integer at the start of `bytes` (RFC 9000, section 16) and its length, or none if it is
/// cut off.
pub(crate) fn integer(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let bytes = bytes.get(..length)?;
    let value = bytes
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte));
    // Without the two bits that are the length.
    let bits = 8 * length - 2;
    Some((value & ((1 << bits) - 1), length))
}

/// Appends an integer of at most 62 bits.
pub fn put_integer(value: u64, out: &mut Vec<u8>) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => {
            out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes());
        }
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends the head of a frame.
pub fn put_head(kind: u64, length: usize, out: &mut Vec<u8>) {
    put_integer(kind, out);
    put_integer(length as u64, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_size() {
        let sizes = [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            ((1 << 62) - 1, 8),
        ];
        for (value, length) in sizes {
            let mut out = Vec::new();
            put_integer(value, &mut out);
            assert_eq!(out.len(), length);
            assert_eq!(integer(&out), Some((value, length)));
            assert_eq!(integer(&out[..length - 1]), None);
        }
        // RFC 9000, appendix A.1.
        assert_eq!(integer(&[0x7b, 0xbd]), Some((15_293, 2)));
        assert_eq!(integer(&[0x40, 0x25]), Some((37, 2)));
    }
}
