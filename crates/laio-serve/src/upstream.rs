//! Servers and programs behind this one: requests below some prefixes are theirs to answer.
//!
//! An exchange is a straight line too: `target` (which upstream, and what path), `pool` (a connection that is
//! free), `link` (its bytes), `request` and `fastcgi` (the head that is sent), `exchange` (the body, and the
//! wait for the head of the answer), `answer` (what of that is passed on), `relay` (the body of the answer).
//! `spool` keeps a body whose length is needed first. `sendfile` is for answers that name a file instead, `tunnel` for connections that become something else.
//! `client` is where it meets the client's connection.

mod answer;
mod client;
mod encryption;
mod exchange;
mod fastcgi;
mod link;
mod names;
mod pool;
mod relay;
mod request;
mod sendfile;
mod spool;
mod target;
mod tunnel;

pub(crate) use client::{Asking, Forwarded, Source};
pub(crate) use link::{has_ended, is_quiet};
pub(crate) use names::Names;
pub(crate) use relay::Relayed;
pub(crate) use sendfile::SendfileRoot;
pub(crate) use spool::check as check_spool;
pub(crate) use target::{Route, Targets, route};

use crate::messages::say;
use laio_http::{Rejection, Status};
use std::fmt;

/// Why an exchange has failed: what the client is told, and what the log.
#[derive(Debug)]
pub(crate) struct Trouble {
    status: Status,
    why: String,
    /// Nothing has come of the answer, on a connection that had been idle: its other end may have closed it
    /// at the same moment, before it saw the request.
    stale: bool,
    /// The client is not there any more.
    gone: bool,
}

impl Trouble {
    fn new(status: Status, why: impl fmt::Display) -> Trouble {
        Trouble {
            status,
            why: why.to_string(),
            stale: false,
            gone: false,
        }
    }

    pub(crate) fn gone() -> Trouble {
        Trouble {
            gone: true,
            ..Trouble::gateway("the client has gone")
        }
    }

    fn gateway(why: impl fmt::Display) -> Trouble {
        Trouble::new(Status::BAD_GATEWAY, why)
    }

    fn late(why: impl fmt::Display) -> Trouble {
        Trouble::new(Status::GATEWAY_TIMEOUT, why)
    }

    fn busy(why: impl fmt::Display) -> Trouble {
        Trouble::new(Status::SERVICE_UNAVAILABLE, why)
    }

    /// A body that makes no sense, or is too large.
    pub(crate) fn of_client(rejection: Rejection) -> Trouble {
        Trouble::new(rejection.status(), rejection.detail())
    }

    pub(crate) fn slow_client() -> Trouble {
        Trouble::new(Status::REQUEST_TIMEOUT, "the body did not come in time")
    }

    /// What the client gets to read; the reason is nobody's business but the log's.
    fn detail(&self) -> &'static str {
        match self.status {
            Status::SERVICE_UNAVAILABLE => {
                "Too many requests wait for the server behind; try again."
            }
            Status::GATEWAY_TIMEOUT => "The server behind takes too long to answer.",
            Status::CONTENT_TOO_LARGE => "The request body is too large.",
            Status::BAD_REQUEST => "The request body is malformed.",
            Status::REQUEST_TIMEOUT => "The request body did not come in time.",
            Status::METHOD_NOT_ALLOWED => "This method is not passed on.",
            _ => "The server behind gave no answer that could be passed on.",
        }
    }
}
