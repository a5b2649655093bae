//! The body of a response on a connection that carries one exchange at a time.

use super::lease::{Lease, ProtocolState};
use super::trailers;
use super::upstream_head::UpstreamHead;
use http::HeaderMap;
use laio_http::{BodySkip, Framing};
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::route::Member;
use std::io;
use std::rc::Rc;

/// The body of a response in HTTP/1.1 or FastCGI.
pub(super) struct LinkBody {
    /// The connection, until the body has ended.
    lease: Option<Lease>,
    member: Rc<Member>,
    ending: Ending,
    /// Whether the connection can be reused after the body.
    keep: bool,
    /// The lines of the fields after the body.
    trailers: Vec<u8>,
}

/// How the end of the body is detected.
enum Ending {
    Framing(BodySkip),
    Connection,
    /// The end of the program's output, or the length that the program announced.
    Program(Option<u64>),
    Over,
}

impl LinkBody {
    pub(super) fn new(lease: Lease, upstream_head: &UpstreamHead, whole: bool) -> LinkBody {
        let ending = match (&lease.protocol_state, upstream_head.framing) {
            (ProtocolState::FastCgi(_), Some(Framing::Length(length))) => {
                Ending::Program(Some(length))
            }
            (ProtocolState::FastCgi(_), Some(Framing::None)) => Ending::Program(Some(0)),
            (ProtocolState::FastCgi(_), _) => Ending::Program(None),
            (ProtocolState::Http, None) => Ending::Connection,
            (ProtocolState::Http, Some(framing)) => match BodySkip::new(framing, u64::MAX) {
                Ok(body) => Ending::Framing(body),
                Err(_) => Ending::Connection,
            },
        };
        LinkBody {
            member: lease.member.clone(),
            lease: Some(lease),
            ending,
            keep: whole && upstream_head.keep_alive,
            trailers: Vec::new(),
        }
    }

    /// Appends the received content, at most `most` bytes. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>, most: usize) -> io::Result<bool> {
        let Some(lease) = &mut self.lease else {
            return Ok(true);
        };
        let over = match &mut self.ending {
            Ending::Over => true,
            Ending::Connection => {
                let input = &mut lease.link.input;
                if input.len() <= most {
                    out.append(input)
                } else {
                    out.extend(input.drain(..most))
                }
                false
            }
            Ending::Framing(body) => {
                let input = &mut lease.link.input;
                let trailers = &mut self.trailers;
                let part = &input[..input.len().min(most)];
                let used = body.advance_with_trailers(
                    part,
                    |chunk| out.extend_from_slice(chunk),
                    |byte| trailers.push(byte),
                );
                let used = used.map_err(|_| bad("the chunked coding is malformed"))?;
                input.drain(..used);
                body.is_done()
            }
            Ending::Program(left) => {
                lease.parse_records()?;
                let ProtocolState::FastCgi(fastcgi_state) = &mut lease.protocol_state else {
                    return Err(bad("the upstream does not use FastCGI"));
                };
                let output = &mut fastcgi_state.output;
                let most = most.min(output.len()) as u64;
                let most = left.unwrap_or(u64::MAX).min(most);
                out.extend(output.drain(..most as usize)); // at most its length
                if let Some(left) = left {
                    *left -= most;
                }
                let done = fastcgi_state.records.is_done() && output.is_empty();
                match (done, &left) {
                    (_, Some(0)) => true,
                    (true, Some(_)) => {
                        return Err(bad("the output is shorter than its Content-Length"));
                    }
                    (done, None) => done,
                    (false, Some(_)) => false,
                }
            }
        };
        if over {
            self.end();
        }
        Ok(over)
    }

    /// Whether content was received and not taken.
    pub(super) fn has_received(&self) -> bool {
        let Some(lease) = &self.lease else {
            return false;
        };
        match &lease.protocol_state {
            ProtocolState::Http => !lease.link.input.is_empty(),
            ProtocolState::FastCgi(state) => !state.output.is_empty(),
        }
    }

    /// Waits until more is received.
    pub(super) async fn wait(&mut self) -> io::Result<()> {
        let Some(lease) = &mut self.lease else {
            return Ok(());
        };
        let time = lease.deadline.within(lease.limits.between_time);
        match lease.link.receive(time).await {
            Ok(0) if matches!(self.ending, Ending::Connection) => {
                self.ending = Ending::Over;
                self.keep = false;
                Ok(())
            }
            Ok(0) => Err(bad(
                "the upstream closed the connection before the end of the response",
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn end(&mut self) {
        if let Some(lease) = self.lease.take()
            && self.keep
        {
            lease.finish();
        }
    }

    /// Returns the fields after the body.
    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        let lines = std::mem::take(&mut self.trailers);
        (!lines.is_empty()).then(|| trailers::parse(&lines))
    }

    pub(super) fn member(&self) -> &Rc<Member> {
        &self.member
    }

    /// Returns the connection, if the body has not ended.
    pub(super) fn into_lease(self) -> Option<Lease> {
        self.lease
    }

    /// Notes that the upstream has broken the response off.
    pub(super) fn failed(&self, error: &UpstreamError) {
        if let Some(lease) = &self.lease {
            lease.member.failed(error, lease.deadline, &lease.limits);
        }
    }
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
