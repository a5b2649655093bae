//! The body of a response: bytes, or parts of a file that are read while they are sent.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use laio::Submission;
use laio::ops::{Limit, OpenFile, ReadAt};
use laio_http::files::{self, Part};
use laio_tokio::proactor;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of a response of [`super::ServeDir`]. A file is read in pieces, the next one when the last one
/// was taken.
pub struct Body {
    file: Option<OpenFile>,
    parts: VecDeque<Part>,
    /// Bytes not yet returned.
    left: u64,
    reading: Option<Submission<ReadAt<OpenFile, Limit<Vec<u8>>>>>,
}

impl Body {
    /// Bytes of a file that are read at a time.
    pub const CHUNK: usize = 128 * 1024;

    pub(super) fn new(body: files::Body<OpenFile>) -> Body {
        let (file, parts) = match body {
            files::Body::Empty => (None, Vec::new()),
            files::Body::Bytes(bytes) => (None, vec![Part::Bytes(bytes)]),
            files::Body::File { file, parts } => (Some(file), parts),
        };
        Body {
            file,
            left: parts.iter().map(Part::len).sum(),
            parts: parts.into(),
            reading: None,
        }
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let (result, buffer) = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                return Poll::Ready(Some(match result {
                    Ok(0) => Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file became shorter while it was sent",
                    )),
                    Ok(count) => {
                        if let Some(Part::Range(range)) = self.parts.front_mut() {
                            range.start += count as u64;
                        }
                        Ok(buffer.into_inner().into())
                    }
                    Err(error) => Err(error),
                }));
            }
            match (self.parts.front(), &self.file) {
                (Some(Part::Range(range)), Some(file)) if !range.is_empty() => {
                    let most = range.len().min(Body::CHUNK as u64) as usize;
                    let buffer = Limit::new(Vec::with_capacity(most), most);
                    let read = ReadAt::new(file.clone(), buffer, range.start);
                    self.reading = Some(proactor()?.submit(read));
                }
                (Some(_), _) => {
                    if let Some(Part::Bytes(bytes)) = self.parts.pop_front() {
                        return Poll::Ready(Some(Ok(bytes.into())));
                    }
                }
                (None, _) => return Poll::Ready(None),
            }
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        let budget = ready!(tokio::task::coop::poll_proceed(context));
        let bytes = ready!(body.poll_bytes(context));
        budget.made_progress();
        Poll::Ready(bytes.map(|bytes| match bytes {
            Ok(bytes) => {
                body.left -= bytes.len() as u64;
                Ok(Frame::data(bytes))
            }
            Err(error) => {
                body.parts.clear();
                Err(error)
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}
