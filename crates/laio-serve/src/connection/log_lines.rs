//! The lines of the access log for the responses on a connection.

use super::{Connection, SentResponse};
use laio_http::log::{AddedField, LogRecord};
use laio_http::{HeadFields, HttpDate, Output, Request};
use laio_serve_base::clients::Client;
use laio_serve_core::log::micros_since;
use laio_serve_core::request::response::Response;
use laio_serve_core::services::Services;
use laio_serve_net::stream::Stream;

/// Writes the line of the access log for a response, and counts it. `added` are fields that the server has added to
/// those of the request.
pub(super) fn log_response(
    services: &Services,
    stream: &Stream,
    (request, added): (&Request<'_>, &[AddedField]),
    client: &Client,
    date: &HttpDate,
    sent: SentResponse,
    fields: Option<&HeadFields>,
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
        response_fields: fields,
        tls: stream.tls().filter(|_| log.needs_tls()),
        early_data: stream.is_early(),
        ..LogRecord::from_request(request, date)
    });
}

impl Connection {
    /// Writes the line for a response to input that is no request.
    pub(super) fn log_unread(&self, response: &Response, date: &HttpDate, output: &Output) {
        let log = &self.services.log;
        log.write(&LogRecord {
            remote: &self.peer.client.name,
            status: response.status,
            bytes: response.length,
            response_fields: log.fields_of(output).as_ref(),
            tls: self.stream.tls().filter(|_| log.needs_tls()),
            ..LogRecord::unread(date)
        });
    }
}
