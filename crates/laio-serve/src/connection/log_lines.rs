//! The lines of the access log for the responses on a connection.

use super::{Connection, SentResponse};
use crate::clients::Client;
use crate::log::micros_since;
use crate::net::stream::Stream;
use crate::request::response::Response;
use crate::services::Services;
use laio_http::log::{AddedField, LogRecord};
use laio_http::{HttpDate, Request};

/// Writes the line of the access log for a response, and counts it. `added` are fields that the server has added to
/// those of the request.
pub(super) fn log_response(
    services: &Services,
    stream: &Stream,
    (request, added): (&Request<'_>, &[AddedField]),
    client: &Client,
    date: &HttpDate,
    sent: SentResponse,
    head: Option<&[u8]>,
) {
    let log = &services.log;
    if !log.needs_records() {
        return log.count(sent.status, sent.length);
    }
    log.write(&LogRecord {
        remote: &client.name,
        status: sent.status,
        bytes: sent.length,
        duration_us: micros_since(sent.started),
        version: stream.version().unwrap_or(request.version.as_str()),
        added,
        response_head: head,
        tls: stream.tls().filter(|_| log.needs_tls()),
        early_data: stream.is_early(),
        ..LogRecord::from_request(request, date)
    });
}

impl Connection {
    /// Writes the line for a response to input that is no request.
    pub(super) fn log_unread(&self, response: &Response, date: &HttpDate, output: &[u8]) {
        let log = &self.services.log;
        log.write(&LogRecord {
            remote: &self.peer.client.name,
            status: response.status,
            bytes: response.length,
            response_head: log.head_of(output).as_deref(),
            tls: self.stream.tls().filter(|_| log.needs_tls()),
            ..LogRecord::unread(date)
        });
    }
}
