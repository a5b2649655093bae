//! A connection to an upstream while an exchange uses it.

use super::upstream_head::UpstreamHead;
use laio_http::fastcgi::{Event, Records};
use laio_http::upstream::{parse_cgi, parse_response};
use laio_rt::sync::Permit;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Protocol, UpstreamLimits};
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::link::{Deadline, Link};
use laio_serve_upstream::route::{InFlight, Member};
use std::io;
use std::rc::Rc;

/// A connection in use, with its permit from the pool.
pub(super) struct Lease {
    pub(super) link: Link,
    pub(super) member: Rc<Member>,
    pub(super) limits: UpstreamLimits,
    pub(super) deadline: Deadline,
    pub(super) protocol_state: ProtocolState,
    pub(super) permit: Permit,
    pub(super) in_flight: InFlight,
}

/// The protocol state of a connection.
pub(super) enum ProtocolState {
    Http,
    FastCgi(Box<FastCgiState>),
}

/// The parsed part of a FastCGI response.
#[derive(Default)]
pub(super) struct FastCgiState {
    pub(super) records: Records,
    /// Output that was not consumed yet.
    pub(super) output: Vec<u8>,
    /// The program's error output, for the log.
    error_output: Vec<u8>,
}

impl ProtocolState {
    pub(super) fn for_protocol(protocol: &Protocol) -> ProtocolState {
        match protocol {
            Protocol::Http { .. } | Protocol::Http2 { .. } => ProtocolState::Http,
            Protocol::FastCgi => ProtocolState::FastCgi(Box::default()),
        }
    }
}

impl Lease {
    /// Parses the head, if it is complete, and leaves what follows it in the buffer.
    pub(super) fn head(&mut self, to_head: bool) -> Result<Option<UpstreamHead>, UpstreamError> {
        if let ProtocolState::FastCgi(_) = self.protocol_state {
            self.parse_records()
                .map_err(|error| UpstreamError::bad_gateway(&error))?;
        }
        let heads = UpstreamLimits::HEAD;
        let (buffer, found) = match &mut self.protocol_state {
            ProtocolState::Http => {
                let input = &mut self.link.input;
                let found = parse_response(input, &heads, to_head).map(|found| {
                    found.map(|(response, length)| {
                        (UpstreamHead::from_response(&response, false), length)
                    })
                });
                (input, found)
            }
            ProtocolState::FastCgi(fastcgi_state) => {
                let found = parse_cgi(&fastcgi_state.output, &heads, to_head).map(|found| {
                    found.map(|(response, length)| {
                        (UpstreamHead::from_response(&response, true), length)
                    })
                });
                if matches!(found, Ok(None)) && fastcgi_state.records.is_done() {
                    return Err(UpstreamError::bad_gateway(
                        "the program ended without a response",
                    ));
                }
                (&mut fastcgi_state.output, found)
            }
        };
        let Some((upstream_head, length)) = found.map_err(UpstreamError::bad_gateway)? else {
            return Ok(None);
        };
        buffer.drain(..length);
        Ok(Some(upstream_head))
    }

    /// Parses the received records.
    pub(super) fn parse_records(&mut self) -> io::Result<()> {
        let ProtocolState::FastCgi(fastcgi_state) = &mut self.protocol_state else {
            return Ok(());
        };
        let FastCgiState {
            records,
            output,
            error_output,
        } = &mut **fastcgi_state;
        let used = records.advance(&self.link.input, |event| match event {
            Event::Output(chunk) => output.extend_from_slice(chunk),
            Event::Error(chunk) => {
                let space = UpstreamLimits::STDERR.saturating_sub(error_output.len());
                error_output.extend_from_slice(&chunk[..chunk.len().min(space)]);
            }
        });
        let used = used.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.link.input.drain(..used);
        if records.is_done() && !error_output.is_empty() {
            let text = std::mem::take(error_output);
            let text = String::from_utf8_lossy(&text);
            print(format_args!(
                "{}, error output: {}",
                self.member.target.name,
                text.trim_end().escape_debug()
            ));
        }
        Ok(())
    }

    /// Returns the connection to the pool after a complete exchange, if it can be reused.
    pub(super) fn finish(self) {
        let over = match &self.protocol_state {
            ProtocolState::Http => true,
            ProtocolState::FastCgi(fastcgi_state) => fastcgi_state.records.is_done(),
        };
        let Lease {
            mut link,
            member,
            limits,
            permit,
            ..
        } = self;
        link.reused = true;
        if over && member.target.keeps_connections {
            member.pool.keep(link, &limits);
        }
        // Released last, so that the next waiter finds the connection in the pool.
        drop(permit);
    }
}
