//! The streams in one direction that a client opens: its control stream, and those of QPACK.

use super::frames::{FrameHead, Frames, integer, kind};
use super::{Failure, ReceiveStreams, code};
use crate::net::quic::StreamId;
use laio_serve_base::options::Http3;
use std::collections::HashSet;
use std::task::{Context, Poll, ready};

/// Types of streams.
mod stream {
    pub(super) const CONTROL: u64 = 0x0;
    pub(super) const PUSH: u64 = 0x1;
    pub(super) const ENCODER: u64 = 0x2;
    pub(super) const DECODER: u64 = 0x3;
}

/// The streams of a connection, at most [`Http3::UNIDIRECTIONAL_STREAMS`].
#[derive(Default)]
pub struct Unidirectional {
    streams: Vec<Stream>,
}

struct Stream {
    id: StreamId,
    frames: Frames,
    kind: Kind,
}

enum Kind {
    /// Its type has not arrived.
    New,
    Control(Control),
    /// Instructions for a dynamic table, which the server does not have.
    Encoder,
    /// Acknowledgements of a dynamic table, which the server does not use.
    Decoder {
        is_inside_integer: bool,
    },
}

/// What the control stream has said.
#[derive(Default)]
struct Control {
    has_settings: bool,
    /// The frame that is being read.
    frame: Option<FrameHead>,
    payload: Vec<u8>,
    goaway: Option<u64>,
    max_push: Option<u64>,
}

impl Unidirectional {
    /// Adds a stream that the client has opened.
    pub fn add(&mut self, id: StreamId) {
        self.streams.push(Stream {
            id,
            frames: Frames::new(id),
            kind: Kind::New,
        });
    }

    /// Reads what has arrived.
    ///
    /// # Errors
    /// How the client has violated the protocol.
    pub fn read(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Result<(), Failure> {
        let mut index = 0;
        while let Some(stream) = self.streams.get_mut(index) {
            let was_new = matches!(stream.kind, Kind::New);
            match stream.poll_read(context, quic) {
                Poll::Pending => index += 1,
                // Its type has arrived.
                Poll::Ready(Ok(())) if !matches!(stream.kind, Kind::New) => {
                    self.check_type(index)?;
                }
                // It has an unknown type, or has ended before its type.
                Poll::Ready(Ok(())) => {
                    quic.stop(stream.id, code::STREAM_CREATION_ERROR);
                    quic.forget(stream.id);
                    self.streams.swap_remove(index);
                }
                Poll::Ready(Err(Failure::Gone)) if was_new => {
                    self.streams.swap_remove(index);
                }
                Poll::Ready(Err(Failure::Gone)) => return Err(closed()),
                Poll::Ready(Err(failure)) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Checks that no other stream has the type of this one.
    fn check_type(&self, index: usize) -> Result<(), Failure> {
        let of = |stream: &Stream| std::mem::discriminant(&stream.kind);
        let same = of(&self.streams[index]);
        if self.streams.iter().filter(|it| of(it) == same).count() > 1 {
            let reason = "a stream of this type is open already";
            return Err(Failure::Connection(code::STREAM_CREATION_ERROR, reason));
        }
        Ok(())
    }
}

fn closed() -> Failure {
    let reason = "a stream ended that must stay open";
    Failure::Connection(code::CLOSED_CRITICAL_STREAM, reason)
}

impl Stream {
    /// Reads what has arrived. Ready if the type was just read, or the stream is of no use.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<(), Failure>> {
        match &mut self.kind {
            Kind::New => {
                let kind = ready!(self.frames.poll_integer(context, quic))?;
                match kind {
                    Some(stream::CONTROL) => self.kind = Kind::Control(Control::default()),
                    Some(stream::ENCODER) => self.kind = Kind::Encoder,
                    Some(stream::DECODER) => {
                        self.kind = Kind::Decoder {
                            is_inside_integer: false,
                        };
                    }
                    Some(stream::PUSH) => {
                        let reason = "only servers push";
                        let failure = Failure::Connection(code::STREAM_CREATION_ERROR, reason);
                        return Poll::Ready(Err(failure));
                    }
                    _ => {}
                }
                Poll::Ready(Ok(()))
            }
            Kind::Control(control) => control.poll_read(&mut self.frames, context, quic),
            Kind::Encoder => loop {
                let bytes = ready!(self.frames.poll_bytes(context, quic))?.ok_or_else(closed)?;
                // The capacity of the table may be set to zero, which it is already.
                if bytes.iter().any(|&byte| byte != 0x20) {
                    let reason = "the server has no dynamic table";
                    let code = code::QPACK_ENCODER_STREAM_ERROR;
                    return Poll::Ready(Err(Failure::Connection(code, reason)));
                }
            },
            Kind::Decoder { is_inside_integer } => loop {
                let bytes = ready!(self.frames.poll_bytes(context, quic))?.ok_or_else(closed)?;
                for byte in bytes {
                    if !is_cancellation(byte, is_inside_integer) {
                        let reason = "the server uses no dynamic table";
                        let code = code::QPACK_DECODER_STREAM_ERROR;
                        return Poll::Ready(Err(Failure::Connection(code, reason)));
                    }
                }
            },
        }
    }
}

/// Whether a byte belongs to the cancellation of a stream, which may arrive without a table too.
fn is_cancellation(byte: u8, is_inside_integer: &mut bool) -> bool {
    if *is_inside_integer {
        *is_inside_integer = byte & 0x80 != 0;
        return true;
    }
    *is_inside_integer = byte & 0x3f == 0x3f;
    byte & 0xc0 == 0x40
}

impl Control {
    fn poll_read(
        &mut self,
        frames: &mut Frames,
        context: &mut Context<'_>,
        quic: &impl ReceiveStreams,
    ) -> Poll<Result<(), Failure>> {
        loop {
            let Some(frame) = self.frame else {
                let frame = ready!(frames.poll_head(context, quic))?.ok_or_else(closed)?;
                self.check(frame)?;
                self.payload.clear();
                self.frame = Some(frame);
                continue;
            };
            match ready!(frames.poll_payload(context, quic))? {
                Some(bytes) if is_known(frame.kind) => self.payload.extend_from_slice(&bytes),
                Some(_) => {}
                None => {
                    self.frame = None;
                    self.take(frame)?;
                }
            }
        }
    }

    /// Checks whether a frame may begin here.
    fn check(&mut self, frame: FrameHead) -> Result<(), Failure> {
        let is_settings = frame.kind == kind::SETTINGS;
        if !self.has_settings && !is_settings {
            let reason = "the first frame of the control stream is not SETTINGS";
            return Err(Failure::Connection(code::MISSING_SETTINGS, reason));
        }
        let forbidden = matches!(frame.kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE);
        if forbidden || kind::is_of_http2(frame.kind) || self.has_settings && is_settings {
            let reason = "a frame is not allowed on the control stream";
            return Err(Failure::Connection(code::FRAME_UNEXPECTED, reason));
        }
        self.has_settings = true;
        if is_known(frame.kind) && frame.length > Http3::CONTROL_FRAME {
            let reason = "a frame of the control stream is too large";
            return Err(Failure::Connection(code::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }

    /// Processes a whole frame.
    fn take(&mut self, frame: FrameHead) -> Result<(), Failure> {
        let id_error = |reason| Failure::Connection(code::ID_ERROR, reason);
        match frame.kind {
            kind::SETTINGS => return check_settings(&self.payload),
            kind::GOAWAY => {
                let id = self.only_integer()?;
                if self.goaway.replace(id).is_some_and(|before| id > before) {
                    return Err(id_error("the number of GOAWAY has grown"));
                }
            }
            kind::MAX_PUSH_ID => {
                let id = self.only_integer()?;
                if self.max_push.replace(id).is_some_and(|before| id < before) {
                    return Err(id_error("the number of MAX_PUSH_ID has shrunk"));
                }
            }
            kind::CANCEL_PUSH => {
                self.only_integer()?;
                return Err(id_error("the server has pushed nothing"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the integer that is the whole payload.
    fn only_integer(&self) -> Result<u64, Failure> {
        match integer(&self.payload) {
            Some((value, length)) if length == self.payload.len() => Ok(value),
            _ => Err(malformed()),
        }
    }
}

fn is_known(kind: u64) -> bool {
    matches!(
        kind,
        kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID | kind::CANCEL_PUSH
    )
}

fn malformed() -> Failure {
    let reason = "the payload of a frame is malformed";
    Failure::Connection(code::FRAME_ERROR, reason)
}

/// Checks the settings of the client, none of which concerns the server: it may send heads of any
/// size, and neither pushes nor uses a dynamic table.
fn check_settings(mut payload: &[u8]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    while !payload.is_empty() {
        let mut next = || {
            let (value, length) = integer(payload)?;
            payload = &payload[length..];
            Some(value)
        };
        let id = next().ok_or_else(malformed)?;
        next().ok_or_else(malformed)?;
        // These are settings of HTTP/2.
        if matches!(id, 0x2..=0x5) || !seen.insert(id) {
            let reason = "a setting is forbidden, or occurs twice";
            return Err(Failure::Connection(code::SETTINGS_ERROR, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let code = |payload: &[u8]| match check_settings(payload) {
            Ok(()) => 0,
            Err(Failure::Connection(code, _)) => code,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(code(b""), 0);
        assert_eq!(code(b"\x01\x00\x06\x40\x64\x40\x21\x07"), 0);
        assert_eq!(code(b"\x01\x00\x01\x00"), code::SETTINGS_ERROR);
        assert_eq!(code(b"\x02\x00"), code::SETTINGS_ERROR);
        assert_eq!(code(b"\x06"), code::FRAME_ERROR);
        assert_eq!(code(b"\x06\x40"), code::FRAME_ERROR);
    }

    #[test]
    fn cancellations_are_split_in_any_way() {
        let mut inside = false;
        let mut all = |bytes: &[u8]| {
            let each = |&byte: &u8| is_cancellation(byte, &mut inside);
            bytes.iter().all(each)
        };
        assert!(all(&[0x40, 0x7e, 0x7f, 0x80, 0x01, 0x41, 0x7f]) && all(&[0x00, 0x42]));
        assert!(!all(&[0x80]) && !all(&[0x01]));
    }
}
