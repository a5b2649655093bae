//! What stands in for the cache of responses in a server without the feature `response-cache`.

use super::proxy_request::ProxyRequest;
use super::upstream_head::UpstreamHead;
use laio_http::{Output, Status};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::services::Services;
use std::rc::Rc;

pub use NoCache as ResponseCache;

/// No server has one.
pub enum NoCache {}

#[allow(dead_code)] // A cache makes them.
pub(super) enum Plan {
    Bypass,
    Answer(Response, Option<Fetch>),
    Fetch(Fetch),
}

/// No response is stored.
pub(super) enum Fetch {}

/// No response is recorded.
pub(super) enum Recorder {}

impl NoCache {
    /// Creates no cache.
    pub fn new(_: &UpstreamLimits) -> Option<Rc<NoCache>> {
        None
    }

    pub(super) async fn plan(
        &self,
        _: &Services,
        _: RequestContext<'_>,
        _: &ProxyRequest<'_>,
        _: &mut Output,
    ) -> Plan {
        match *self {}
    }

    pub(super) fn invalidate(&self, _: &ProxyRequest<'_>, _: Status) {
        match *self {}
    }
}

impl Fetch {
    pub(super) fn request<'a>(&'a self, _: ProxyRequest<'a>) -> ProxyRequest<'a> {
        match *self {}
    }

    pub(super) fn settle(
        &self,
        _: &Services,
        _: &UpstreamHead,
        _: RequestContext<'_>,
        _: &mut Output,
    ) -> Option<Response> {
        match *self {}
    }

    pub(super) fn instead_of_error(
        &self,
        _: &Services,
        _: RequestContext<'_>,
        _: &mut Output,
        _: Status,
    ) -> Option<Response> {
        match *self {}
    }

    pub(super) fn record(
        self,
        _: &UpstreamHead,
        _: RequestContext<'_>,
    ) -> (Option<Recorder>, String) {
        match self {}
    }
}

impl Recorder {
    pub(super) fn record(self, _: &[u8], _: bool) -> Option<Recorder> {
        match self {}
    }
}

pub(super) async fn refresh(_: &Services, _: ProxyRequest<'_>, fetch: Fetch) {
    match fetch {}
}
