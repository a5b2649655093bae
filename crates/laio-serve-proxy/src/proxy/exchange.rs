//! Sending a request to an upstream of its route, and its response: the head, and the body as it arrives.

use super::http1::{Lease, LinkBody};
use super::http2_body::Http2Body;
use super::proxy_request::may_be_repeated;
use super::proxy_request::{ProxyRequest, Source};
use super::upload::Upload;
use super::upstream_head::UpstreamHead;
use super::{hash_key, http1, http2};
use http::HeaderMap;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Balance, Protocol, UpstreamLimits};
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::link::Deadline;
use laio_serve_upstream::route::{Member, Tried};
use std::io;
use std::rc::Rc;
use std::time::Instant;

/// Sends a request and receives the head of the response. A request that failed before it can have had an
/// effect goes to further upstreams of the prefix.
pub(super) async fn ask(
    proxy_request: &ProxyRequest<'_>,
    source: &mut impl Source,
    limits: &UpstreamLimits,
) -> Result<UpstreamResponse, UpstreamError> {
    let (route, deadline) = (proxy_request.route, Deadline::new(limits));
    let key = match route.group.balance() {
        Balance::Hash(key) => hash_key::of(proxy_request, key),
        _ => None,
    };
    let (begun, mut tried) = (Instant::now(), Tried::default());
    let mut chosen = route.choose(&mut tried, key, limits);
    loop {
        let Some(member) = chosen else {
            return Err(UpstreamError::bad_gateway("there is no upstream"));
        };
        let answered = match member.target.protocol {
            Protocol::Http2 { .. } => {
                let asked = http2::ask(proxy_request, member, source, limits, deadline);
                asked.await.map(|(head, body, upload)| UpstreamResponse {
                    head,
                    body: UpstreamBody::Http2(body),
                    upload,
                })
            }
            Protocol::Http { .. } | Protocol::FastCgi => {
                let asked = http1::ask(proxy_request, member, source, limits, deadline);
                asked.await.map(|(head, body)| UpstreamResponse {
                    head,
                    body: UpstreamBody::Link(body),
                    upload: None,
                })
            }
        };
        let mut error = match answered {
            Ok(response) => {
                member.succeeded();
                return Ok(response);
            }
            Err(error) => error,
        };
        member.failed(&error, deadline, limits);
        error.upstream = Some(member.target.name.clone());
        let again = tried.count() < limits.tries
            && begun.elapsed() < limits.retry_time
            && !deadline.is_over()
            && may_be_repeated(proxy_request, &error, source);
        chosen = if again {
            route.choose(&mut tried, key, limits)
        } else {
            None
        };
        let Some(next) = chosen else {
            return Err(error);
        };
        print(format_args!(
            "{} for {}: {}; the request goes to {}",
            member.target.name,
            proxy_request.path.as_str().escape_debug(),
            error.why,
            next.target.name,
        ));
    }
}

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
