//! A request that is forwarded to an upstream, its body, and whether it may be sent again.

use laio_http::{Method, RequestPath};
use laio_serve_base::clients::Peer;
use laio_serve_core::request::body::{BodyError, BodyTime, ClientBody};
use laio_serve_core::request::lookup::Script;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::message_fields::RequestRules;
use laio_serve_net::stream::Stream;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::route::Route;
use std::net::SocketAddr;

/// A request to be forwarded to an upstream.
#[derive(Clone, Copy)]
pub struct ProxyRequest<'a> {
    /// The request of the client.
    pub ctx: RequestContext<'a>,
    /// The upstreams of the path's prefix.
    pub route: &'a Route,
    /// The path to ask for.
    pub path: &'a RequestPath<'a>,
    /// The script that a FastCGI program executes, if the site has chosen one.
    pub script: Option<&'a Script>,
    /// The peer of the connection: the client, or a proxy.
    pub peer: &'a Peer,
    /// Whether the connection can become a tunnel. Once [`super::answer`] has checked the request:
    /// whether the client asked for that too.
    pub websocket: bool,
    /// The client's connection; none for a request of this server itself.
    pub stream: Option<&'a Stream>,
    /// The rules of the site for the fields of the request; none for auth servers.
    pub rules: Option<&'a RequestRules>,
    /// Further fields.
    pub more: &'a [(&'static str, Vec<u8>)],
    /// The length of the body, if the body was spooled.
    pub spooled: Option<u64>,
    /// How the cache of responses takes part.
    pub caching: Caching<'a>,
}

/// How the cache takes part in a request to an upstream.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "response-cache"), allow(dead_code))]
pub enum Caching<'a> {
    /// Not at all.
    #[default]
    Off,
    /// The response may be stored, so the conditions of this client do not matter.
    Store,
    /// The upstream is asked whether a stored response with these validators is still valid.
    Revalidate {
        /// The entity tag of the stored response.
        etag: Option<&'a [u8]>,
        /// The value of its Last-Modified.
        modified: Option<&'a [u8]>,
    },
}

impl<'a> ProxyRequest<'a> {
    /// Returns the request of a client, as it arrived on its connection.
    pub fn new(
        ctx: RequestContext<'a>,
        (stream, peer): (&'a Stream, &'a Peer),
        (route, path): (&'a Route, &'a RequestPath<'a>),
        script: Option<&'a Script>,
    ) -> ProxyRequest<'a> {
        ProxyRequest {
            ctx,
            route,
            path,
            script,
            peer,
            websocket: !stream.is_multiplexed(),
            stream: Some(stream),
            rules: ctx.site.request_rules.as_ref(),
            more: &[],
            spooled: None,
            caching: Caching::Off,
        }
    }
}

impl ProxyRequest<'_> {
    /// Returns the server's address and the client's, where there are any. The port of a client behind a
    /// trusted proxy is not known, and 0.
    pub(super) fn ends(&self) -> [Option<SocketAddr>; 2] {
        let [own, peer] = self.endpoints();
        let client = self.ctx.client;
        let address = client.address.filter(|_| !self.is_from_socket());
        [own, address.map(|ip| SocketAddr::new(ip, 0)).or(peer)]
    }

    /// Returns the local and the remote address of the client's connection, where there are any.
    pub(super) fn endpoints(&self) -> [Option<SocketAddr>; 2] {
        self.stream.map_or([None; 2], Stream::endpoints)
    }

    /// Whether the client gets interim responses and trailers.
    pub(super) fn is_multiplexed(&self) -> bool {
        self.stream.is_some_and(Stream::is_multiplexed)
    }

    /// Whether the client is at the other end of the socket, not behind a trusted proxy.
    pub(super) fn is_from_socket(&self) -> bool {
        self.peer.is_at_socket && *self.ctx.client == self.peer.client
    }
}

/// The body of a request.
pub(super) trait Source {
    /// Sets how long the client may take.
    fn set_time(&mut self, _time: BodyTime) {}
    /// Appends the next chunk of the body, waiting for it. Returns whether it was the last.
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError>;
    /// Whether the next chunk is available without waiting.
    fn is_ready(&self) -> bool;
    /// Begins to read the body from its beginning again, if that is possible, and returns whether it is.
    fn rewind(&mut self) -> bool;
    /// Whether the whole body was read.
    fn is_done(&self) -> bool;
}

impl Source for ClientBody<'_> {
    fn set_time(&mut self, time: BodyTime) {
        self.time = time;
    }

    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        self.next_piece(out).await.map_err(|error| match error {
            BodyError::ClientGone => UpstreamError::client_gone(),
            BodyError::SlowClient => UpstreamError::slow_client(),
            BodyError::Bad(rejection) => UpstreamError::bad_body(rejection),
        })
    }

    fn is_ready(&self) -> bool {
        self.body.is_done() || !self.input.is_empty()
    }

    fn rewind(&mut self) -> bool {
        self.bytes == 0
    }

    fn is_done(&self) -> bool {
        self.body.is_done()
    }
}

/// The body of a request that has none.
pub(super) struct EmptyBody;

impl Source for EmptyBody {
    async fn next(&mut self, _: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        Ok(true)
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn rewind(&mut self) -> bool {
        true
    }

    fn is_done(&self) -> bool {
        true
    }
}

/// Whether a failed request can be repeated without having an effect twice.
pub(super) fn may_be_repeated(
    proxy_request: &ProxyRequest<'_>,
    error: &UpstreamError,
    source: &mut impl Source,
) -> bool {
    let allowed = match error.progress {
        Progress::NotConnected => true,
        Progress::Stale | Progress::NothingReceived => {
            is_idempotent(&proxy_request.ctx.request.method)
        }
        Progress::Final => false,
    };
    allowed && !error.client_gone && source.rewind()
}

/// Whether the request may be repeated (RFC 9110, section 9.2.2).
fn is_idempotent(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
    )
}
