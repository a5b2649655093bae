//! Upstreams: HTTP servers and FastCGI programs that answer the requests below configured prefixes.
//!
//! An exchange passes through these modules: `target` (chooses the upstream), `pool` (provides a
//! connection), `link` (carries its bytes), `request` and `fastcgi` (build the request head),
//! `exchange` (sends the request and receives the answer's head), `answer` (chooses the fields to
//! pass on), `relay` (passes the answer's body on). `spool` stores a body whose length must be
//! known first. `sendfile` handles answers that name a file, `tunnel` handles WebSocket
//! connections. `client` connects an exchange with the client's connection.

mod answer;
mod client;
mod encryption;
mod exchange;
mod fastcgi;
mod link;

mod pool;
mod relay;
mod request;
mod resolver;
mod sendfile;
mod spool;
mod target;
mod tunnel;

pub(crate) use client::{Forwarded, ProxyRequest, Source};
pub(crate) use link::{has_ended, is_quiet};
pub(crate) use relay::Relayed;
pub(crate) use resolver::NameResolver;
pub(crate) use sendfile::SendfileRoot;
pub(crate) use spool::check as check_spool;
pub(crate) use target::{Route, Targets, route};

use crate::messages::print;
use laio_http::{Rejection, Status};
use std::fmt;

/// An error of an exchange: the status for the client, and the reason for the log.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    status: Status,
    why: String,
    /// A reused connection was closed before any byte of the answer; the request may be retried.
    stale: bool,
    /// The client has closed its connection.
    client_gone: bool,
}

impl UpstreamError {
    fn new(status: Status, why: impl fmt::Display) -> UpstreamError {
        UpstreamError {
            status,
            why: why.to_string(),
            stale: false,
            client_gone: false,
        }
    }

    pub(crate) fn client_gone() -> UpstreamError {
        UpstreamError {
            client_gone: true,
            ..UpstreamError::bad_gateway("the client closed the connection")
        }
    }

    fn bad_gateway(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::BAD_GATEWAY, why)
    }

    fn timed_out(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::GATEWAY_TIMEOUT, why)
    }

    fn busy(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::SERVICE_UNAVAILABLE, why)
    }

    /// Returns the error for a request body that is malformed or too large.
    pub(crate) fn bad_body(rejection: Rejection) -> UpstreamError {
        UpstreamError::new(rejection.status(), rejection.detail())
    }

    pub(crate) fn slow_client() -> UpstreamError {
        UpstreamError::new(
            Status::REQUEST_TIMEOUT,
            "the client sent the body too slowly",
        )
    }

    /// Returns the text for the client. The reason goes to the log only.
    fn detail(&self) -> &'static str {
        match self.status {
            Status::SERVICE_UNAVAILABLE => {
                "Too many requests are waiting for the upstream server; try again."
            }
            Status::GATEWAY_TIMEOUT => "The upstream server takes too long to answer.",
            Status::CONTENT_TOO_LARGE => "The request body is too large.",
            Status::BAD_REQUEST => "The request body is malformed.",
            Status::REQUEST_TIMEOUT => "The request body arrived too slowly.",
            Status::METHOD_NOT_ALLOWED => "The server does not forward this method.",
            _ => "The upstream server sent no usable answer.",
        }
    }
}
