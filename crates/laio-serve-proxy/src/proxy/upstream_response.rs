//! The response of an upstream: its head, and its body as it arrives.

use super::http2_body::Http2Body;
use super::lease::Lease;
use super::link_body::LinkBody;
use super::upload::Upload;
use super::upstream_head::UpstreamHead;
use http::HeaderMap;
use laio_serve_base::messages::print;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::route::Member;
use std::io;
use std::rc::Rc;

/// The response of an upstream, whose head has been received.
pub(super) struct UpstreamResponse {
    pub(super) head: UpstreamHead,
    pub(super) body: UpstreamBody,
    /// What sends the rest of the request, if the connection can do so during the response.
    pub(super) upload: Option<Upload>,
}

/// The body of a response, as it arrives.
pub(super) enum UpstreamBody {
    Link(LinkBody),
    Http2(Http2Body),
}

impl UpstreamResponse {
    /// Discards the body. If it is empty, the connection can be reused. Returns the head.
    pub(super) fn discard(mut self) -> UpstreamHead {
        let _ = self.body.take(&mut Vec::new(), usize::MAX);
        self.head
    }
}

impl UpstreamBody {
    /// Returns the upstream that answers.
    pub(super) fn member(&self) -> &Rc<Member> {
        match self {
            UpstreamBody::Link(body) => body.member(),
            UpstreamBody::Http2(body) => body.member(),
        }
    }

    /// Returns the connection, if it can become a tunnel.
    pub(super) fn into_lease(self) -> Option<Lease> {
        match self {
            UpstreamBody::Link(body) => body.into_lease(),
            UpstreamBody::Http2(_) => None,
        }
    }

    /// Appends at most `most` bytes of the received content. Returns whether they were the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        match self {
            UpstreamBody::Link(body) => body.take(out, most),
            UpstreamBody::Http2(body) => body.take(out, most),
        }
    }

    /// Whether content was received and not taken.
    pub(super) fn has_received(&self) -> bool {
        match self {
            UpstreamBody::Link(body) => body.has_received(),
            UpstreamBody::Http2(body) => body.has_received(),
        }
    }

    /// Waits until more is received.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        match self {
            UpstreamBody::Link(body) => body.wait().await,
            UpstreamBody::Http2(body) => body.wait().await,
        }
    }

    /// Returns the fields after the body.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        match self {
            UpstreamBody::Link(body) => body.take_trailers(),
            UpstreamBody::Http2(body) => body.take_trailers(),
        }
    }

    /// Reports that the upstream has broken the response off.
    pub(super) fn report(&self, error: &io::Error) {
        let fault = UpstreamError::bad_gateway(format_args!("the response is incomplete: {error}"));
        match self {
            UpstreamBody::Link(body) => body.failed(&fault),
            UpstreamBody::Http2(body) => body.failed(&fault),
        }
        print(format_args!("{}: {}", self.member().target.name, fault.why));
    }
}
