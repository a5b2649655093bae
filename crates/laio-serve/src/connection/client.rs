//! The client of an exchange.

use crate::net::stream::Stream;
use crate::request::reply::RequestContext;
use crate::services::Services;
use laio_http::Status;
use laio_http::log::LogRecord;
use std::time::Instant;

/// A client, and the services of the worker that serves it.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) services: &'a Services,
    pub(super) stream: &'a Stream,
    pub(super) peer: &'a str,
}

impl Client<'_> {
    /// Writes the line of an answer to the access log; its request began at `started`.
    pub(super) fn log(
        &self,
        ctx: RequestContext<'_>,
        started: Instant,
        status: Status,
        bytes: u64,
    ) {
        self.services.log.write(&LogRecord {
            remote: self.peer,
            status,
            bytes,
            duration_us: started.elapsed().as_micros().try_into().unwrap_or(u64::MAX),
            version: self
                .stream
                .version()
                .unwrap_or(ctx.request.version.as_str()),
            ..LogRecord::of(ctx.request, ctx.date)
        });
    }
}
