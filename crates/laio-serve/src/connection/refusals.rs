//! Responses to input that is no request: a malformed head, plain HTTP on a TLS port.

use super::Connection;
use super::http2;
use super::state::Next;
use laio_http::{Output, Rejection, Status};
use laio_serve_base::trace;
use laio_serve_core::request::pages::{self, SecureFields};
use laio_serve_core::request::receive::linger;
use laio_serve_core::request::send_buffer::send_output;
use laio_serve_core::site::message_fields::Answered;
use laio_serve_net::stream::Stream;
use std::io;

impl Connection {
    /// Answers a malformed head, unless it is the preface of HTTP/2, which is not a valid head of
    /// HTTP/1.1.
    pub(super) async fn refuse_head(
        &mut self,
        number: u32,
        input: Vec<u8>,
        rejection: Rejection,
    ) -> io::Result<Next> {
        if number == 1 && self.connections.http2.is_some() {
            if http2::begins(&input) {
                self.input = input;
                return Ok(Next::Multiplex);
            }
            // Without TLS, the client chooses HTTP/2 by sending the preface.
            if self.stream.plain().is_some() && http2::is_invalid_preface(&input) {
                return Ok(Next::End);
            }
        }
        self.refuse(rejection.status(), rejection.detail()).await
    }

    /// Answers a client that sends plain HTTP to a TLS port, without encryption, and ends the
    /// connection.
    pub(super) async fn refuse_plain_http(self) {
        let Some(socket) = self.stream.socket() else {
            return;
        };
        let (date, _) = self.services.now();
        let mut output = Output::default();
        let response = pages::plain_http_on_tls_port(&mut output, &date);
        self.log_unread(&response, &date, &output);
        let clear = Stream::Plain(socket);
        let sent = send_output(&self.services, &clear, output).await;
        if sent.is_ok() {
            linger(&self.services, &clear).await;
        }
    }

    /// Answers input that is not a valid request, and ends the connection.
    pub(super) async fn refuse(&mut self, status: Status, detail: &str) -> io::Result<Next> {
        trace::note("response", || format!("{status}: {detail}"));
        let (date, _) = self.services.now();
        let mut output = Output::default();
        let hsts = self.services.sites.of(None).hsts.as_deref();
        let fields = SecureFields {
            hsts: hsts.filter(|_| self.stream.is_secure()),
            alt_svc: self.alt_svc.as_deref(),
        };
        let response = pages::malformed_request(&mut output, &date, fields, status, detail);
        // The head may be malformed, so the host is not known.
        if let Some(rules) = &self.services.sites.of(None).response_rules {
            rules.apply(Answered::unparsed(status), &mut output);
        }
        self.log_unread(&response, &date, &output);
        send_output(&self.services, &self.stream, output).await?;
        Ok(Next::Linger)
    }
}
