//! Errors of exchanges with upstreams.

use laio_http::{Rejection, Status};
use std::fmt;

/// An error of an exchange: the status for the client, and the reason for the log.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    pub(crate) status: Status,
    pub(crate) why: String,
    /// A reused connection was closed before any byte of the response; the request may be retried.
    pub(crate) stale: bool,
    /// The client has closed its connection.
    pub(crate) client_gone: bool,
}

impl UpstreamError {
    pub(crate) fn new(status: Status, why: impl fmt::Display) -> UpstreamError {
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

    pub(crate) fn bad_gateway(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::BAD_GATEWAY, why)
    }

    pub(crate) fn timed_out(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::GATEWAY_TIMEOUT, why)
    }

    pub(crate) fn busy(why: impl fmt::Display) -> UpstreamError {
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
    pub(crate) fn detail(&self) -> &'static str {
        match self.status {
            Status::SERVICE_UNAVAILABLE => {
                "Too many requests are waiting for the upstream server; try again."
            }
            Status::GATEWAY_TIMEOUT => "The upstream server takes too long to answer.",
            Status::CONTENT_TOO_LARGE => "The request body is too large.",
            Status::BAD_REQUEST => "The request body is malformed.",
            Status::REQUEST_TIMEOUT => "The request body arrived too slowly.",
            Status::METHOD_NOT_ALLOWED => "The server does not forward this method.",
            _ => "The upstream server sent no usable response.",
        }
    }
}
