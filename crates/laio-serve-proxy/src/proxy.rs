//! Requests that an upstream answers.
//!
//! `answer` decides who answers a request, and sends the response. `exchange` chooses the upstream; `http1`
//! and `http2` send the request, whose head `request` and `fastcgi` build, and receive the response's head,
//! whose fields `upstream_head` chooses. `relay` passes the response on, `cache` stores it. `spool` stores a
//! body whose length must be known first. `hash_key` is what chooses an upstream by a hash. `sendfile` handles
//! responses that name a file, `tunnel` handles WebSocket connections. `auth_request` asks auth servers.
//!
//! A request is a `RequestContext`, here with a [`ProxyRequest`] around it, and its response is an
//! `UpstreamResponse` from its head to its last byte.

mod answer;
pub mod auth_request;
#[cfg(feature = "response-cache")]
pub mod cache;
#[cfg(not(feature = "response-cache"))]
#[path = "proxy/without_cache.rs"]
pub mod cache;
mod compress;
mod exchange;
mod fastcgi;
mod fields;
mod hash_key;
mod http1;
mod http2;
mod http2_body;
mod proxy_request;
mod relay;
mod request;
mod sendfile;
mod spool;
mod trailers;
mod tunnel;
mod upload;
mod upstream_head;

use laio_serve_base::options::UpstreamLimits;
use std::rc::Rc;

pub use answer::answer;
pub use proxy_request::ProxyRequest;

/// What requests to upstreams need beside the services of all requests.
pub struct ProxyServices {
    cache: Option<Rc<cache::ResponseCache>>,
}

impl ProxyServices {
    /// Creates what one worker needs.
    pub fn new(limits: &UpstreamLimits) -> ProxyServices {
        let cache = cache::ResponseCache::new(limits);
        ProxyServices { cache }
    }
}
