//! Properties of what a client sends over HTTP/3, whatever the bytes are.

use super::request::{Head, RequestStream};
use super::unidirectional::Unidirectional;
use super::{Failure, ReceiveStreams, qpack};
use crate::net::quic::connection::StreamEnd;
use crate::net::quic::{Dir, StreamId};
use bytes::Bytes;
use laio_http::{Limits, Parsed, Request, RequestFields, parse};
use quinn_proto::Side;
use std::cell::Cell;
use std::task::{Context, Poll, Waker};

/// Bytes of a head.
const MOST: usize = 2048;

/// What arrives on streams, in pieces of one length.
struct Arrived<'b> {
    /// What is unread of each.
    unread: [Cell<&'b [u8]>; 2],
    piece: usize,
    /// Whether the streams end after these bytes.
    ends: bool,
}

impl ReceiveStreams for Arrived<'_> {
    fn poll_read(
        &self,
        _: &mut Context<'_>,
        id: StreamId,
        most: usize,
    ) -> Poll<Result<Option<Bytes>, StreamEnd>> {
        let unread = &self.unread[id.index() as usize];
        let length = unread.get().len().min(self.piece).min(most);
        let (piece, rest) = unread.get().split_at(length);
        unread.set(rest);
        match piece {
            [] if self.ends => Poll::Ready(Ok(None)),
            [] => Poll::Pending,
            piece => Poll::Ready(Ok(Some(Bytes::copy_from_slice(piece)))),
        }
    }

    fn stop(&self, _: StreamId, _: u32) {}

    fn forget(&self, _: StreamId) {}
}

/// A request: the outcome does not depend on how its bytes were split, and the parser of HTTP/1.1
/// agrees with it.
pub fn http3_request(bytes: &[u8]) {
    let whole = request(bytes, usize::MAX);
    for piece in [1, 3] {
        assert_eq!(request(bytes, piece), whole);
    }
}

/// Returns the head and the body.
fn request(bytes: &[u8], piece: usize) -> Result<(Head, Vec<u8>), Failure> {
    let arrived = Arrived {
        unread: [Cell::new(bytes), Cell::new(b"")],
        piece,
        ends: true,
    };
    let context = &mut Context::from_waker(Waker::noop());
    let mut stream = RequestStream::new(StreamId::new(Side::Client, Dir::Bi, 0), MOST);
    let head = now(stream.poll_head(context, &arrived))?;
    match head {
        Head::TooLarge => Ok((Head::TooLarge, Vec::new())),
        Head::Whole(head) => {
            check_head(&head.fields);
            let mut body = Vec::new();
            while let Some(bytes) = now(stream.poll_data(context, &arrived))? {
                body.extend_from_slice(&bytes);
            }
            assert!(head.length.is_none_or(|length| length == body.len() as u64));
            Ok((Head::Whole(head), body))
        }
    }
}

/// The parser of HTTP/1.1 finds the same request in the text of a head. A client that adds lines to
/// a head, or ends it early, smuggles a request.
fn check_head(fields: &RequestFields) {
    let limits = Limits {
        head_bytes: 65_535,
        ..Limits::DEFAULT
    };
    let Ok(request) = Request::from_fields(fields, &limits) else {
        return;
    };
    let mut text = format!("{} {} HTTP/1.1\r\n", request.method, request.target).into_bytes();
    for (name, value) in request.headers.iter() {
        for part in [name, b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    match parse(&text, &limits) {
        Ok(Parsed::Complete {
            request: parsed,
            head_len,
        }) => {
            assert_eq!(head_len, text.len());
            assert_eq!(format!("{parsed:?}"), format!("{request:?}"));
        }
        other => panic!("{other:?}"),
    }
}

fn now<T>(poll: Poll<T>) -> T {
    match poll {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("bytes have arrived, or the stream has ended"),
    }
}

/// Two streams in one direction: the outcome does not depend on how their bytes were split. The first byte
/// is the length of the first one.
pub fn http3_unidirectional(bytes: &[u8]) {
    let Some((&length, bytes)) = bytes.split_first() else {
        return;
    };
    let (first, second) = bytes.split_at(bytes.len().min(length.into()));
    let outcome = |piece| {
        let arrived = Arrived {
            unread: [Cell::new(first), Cell::new(second)],
            piece,
            ends: length % 2 == 0,
        };
        let mut streams = Unidirectional::default();
        for index in 0..2 {
            streams.add(StreamId::new(Side::Client, Dir::Uni, index));
        }
        let context = &mut Context::from_waker(Waker::noop());
        streams.read(context, &arrived)
    };
    let whole = outcome(usize::MAX);
    for piece in [1, 3] {
        assert_eq!(outcome(piece), whole);
    }
}

/// Field sections: what is decoded is the same after it was encoded and decoded again.
pub fn qpack_section(bytes: &[u8]) {
    let Some(fields) = decode(bytes) else { return };
    let mut section = Vec::new();
    qpack::begin(&mut section);
    for (name, value) in &fields {
        qpack::encode(name, value, &mut section);
    }
    assert_eq!(decode(&section), Some(fields));
}

fn decode(section: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut fields = Vec::new();
    let decoded = qpack::decode(section, |name, value| {
        fields.push((name.to_vec(), value.to_vec()));
        Ok::<_, qpack::Malformed>(())
    });
    decoded.ok().map(|()| fields)
}
