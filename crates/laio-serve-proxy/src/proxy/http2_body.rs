//! The body of a response in HTTP/2, and its trailers.

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use laio_rt::sync::Permit;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::http2::Http2Place;
use laio_serve_upstream::link::Deadline;
use laio_serve_upstream::route::{InFlight, Member};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

pub(super) struct Http2Body {
    /// The stream, until the body has ended.
    stream: Option<RecvStream>,
    /// Received and not yet taken.
    next: Option<Bytes>,
    trailers: Option<HeaderMap>,
    member: Rc<Member>,
    limits: UpstreamLimits,
    deadline: Deadline,
    _held: (Http2Place, Permit, InFlight),
}

impl Http2Body {
    pub(super) fn new(
        stream: RecvStream,
        ended: bool,
        member: Rc<Member>,
        limits: UpstreamLimits,
        deadline: Deadline,
        held: (Http2Place, Permit, InFlight),
    ) -> Http2Body {
        Http2Body {
            stream: Some(stream).filter(|_| !ended),
            next: None,
            trailers: None,
            member,
            limits,
            deadline,
            _held: held,
        }
    }

    pub(super) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Whether content was received and not taken.
    pub(super) fn has_received(&self) -> bool {
        self.next.is_some()
    }

    /// Appends what has arrived, at most `most` bytes. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let end = out.len() + most.min(UpstreamLimits::CHUNK);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Some(mut bytes) = self.next.take() {
                let taken = bytes.split_to(bytes.len().min(end - out.len()));
                out.extend_from_slice(&taken);
                if let Some(stream) = &mut self.stream {
                    let released = stream.flow_control().release_capacity(taken.len());
                    released.map_err(io::Error::other)?;
                }
                if !bytes.is_empty() {
                    self.next = Some(bytes);
                    return Ok(false);
                }
            }
            if self.stream.is_none() {
                return Ok(true);
            }
            if out.len() >= end {
                return Ok(false);
            }
            // `wait` leaves a waker, if nothing has arrived.
            match self.poll_next(&mut context) {
                Poll::Ready(arrived) => arrived?,
                Poll::Pending => return Ok(false),
            }
        }
    }

    /// Waits until more has arrived.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        let time = self.deadline.within(self.limits.between_time);
        let arrived = laio_rt::time::timeout(time, poll_fn(|context| self.poll_next(context)));
        arrived
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Receives the next bytes, or the end and the trailers.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Ok(()));
        };
        if self.next.is_some() {
            return Poll::Ready(Ok(()));
        }
        match ready!(stream.poll_data(context)) {
            Some(Ok(bytes)) => self.next = Some(bytes),
            Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            None => {
                let trailers = ready!(stream.poll_trailers(context));
                self.trailers = trailers.map_err(io::Error::other)?;
                self.stream = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Returns the fields after the body.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    /// Notes that the upstream has broken the response off.
    pub(super) fn failed(&self, error: &UpstreamError) {
        self.member.failed(error, self.deadline, &self.limits);
    }
}
