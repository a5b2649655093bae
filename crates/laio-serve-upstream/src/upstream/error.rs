//! Errors of exchanges with upstreams.

use laio_http::{Rejection, Status};
use std::fmt;

/// An error of an exchange: the status for the client, and the reason for the log.
#[derive(Debug)]
pub struct UpstreamError {
    /// The status of the response to the client.
    pub status: Status,
    /// The cause, for messages.
    pub why: String,
    /// How far the exchange was.
    pub progress: Progress,
    /// The client has closed its connection.
    pub client_gone: bool,
    /// The name of the upstream, if one was chosen.
    pub upstream: Option<String>,
}

/// How far an exchange was when it failed, which decides whether the request may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The upstream has got nothing.
    NotConnected,
    /// A reused connection was closed before any byte of the response: the upstream had probably closed
    /// it before the request.
    Stale,
    /// No byte of the response has arrived.
    NothingReceived,
    /// The response has begun, or another upstream would not help.
    Final,
}

impl UpstreamError {
    /// Returns an error after which the request is not repeated.
    pub fn new(status: Status, why: impl fmt::Display) -> UpstreamError {
        UpstreamError {
            status,
            why: why.to_string(),
            progress: Progress::Final,
            client_gone: false,
            upstream: None,
        }
    }

    /// The client has closed its connection.
    pub fn client_gone() -> UpstreamError {
        UpstreamError {
            client_gone: true,
            ..UpstreamError::bad_gateway("the client closed the connection")
        }
    }

    /// The upstream cannot be reached, or breaks the protocol.
    pub fn bad_gateway(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::BAD_GATEWAY, why)
    }

    /// The upstream takes too long.
    pub fn timed_out(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::GATEWAY_TIMEOUT, why)
    }

    /// Nothing of a response has arrived in time.
    pub fn no_answer() -> UpstreamError {
        let late = UpstreamError::timed_out("the upstream did not answer in time");
        late.at(Progress::NothingReceived)
    }

    /// There are too many requests.
    pub fn busy(why: impl fmt::Display) -> UpstreamError {
        UpstreamError::new(Status::SERVICE_UNAVAILABLE, why)
    }

    /// Returns the error for a request body that is malformed or too large.
    pub fn bad_body(rejection: Rejection) -> UpstreamError {
        UpstreamError::new(rejection.status(), rejection.detail())
    }

    /// The client takes too long to send the body.
    pub fn slow_client() -> UpstreamError {
        UpstreamError::new(
            Status::REQUEST_TIMEOUT,
            "the client sent the body too slowly",
        )
    }

    /// Returns the error of an exchange that was so far.
    pub fn at(self, progress: Progress) -> UpstreamError {
        UpstreamError { progress, ..self }
    }

    /// Whether the upstream has caused the error, rather than the client or a limit of this server.
    pub fn is_of_upstream(&self) -> bool {
        !self.client_gone
            && self.progress != Progress::Stale
            && matches!(self.status, Status::BAD_GATEWAY | Status::GATEWAY_TIMEOUT)
    }

    /// Returns the text for the client. The reason goes to the log only.
    pub fn detail(&self) -> &'static str {
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
