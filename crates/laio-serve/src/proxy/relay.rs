//! Passing on the body of a response chunk by chunk. The next chunk is read when the client has
//! accepted the last, so the client's speed limits the upstream.

use super::lease::{Lease, ProtocolState};
use super::upstream_head::UpstreamHead;
use crate::messages::print;
use crate::net::stream::Stream;
use crate::request::send_buffer::send_all;
use crate::services::Services;
use laio_http::{BodySkip, Framing};
use std::io;

/// The body of a response in transit.
pub(crate) struct Relayed {
    /// The connection, until the body has ended.
    lease: Option<Lease>,
    ending: Ending,
    /// Whether the connection can be reused after the body.
    keep: bool,
    /// Whether the body is sent to the client in chunks.
    chunked: bool,
    content: u64,
}

/// How the end of the body is detected.
enum Ending {
    Framing(BodySkip),
    Connection,
    /// The end of the program's output, or the length that the program announced.
    Program(Option<u64>),
    Over,
}

impl Relayed {
    pub(super) fn new(
        lease: Lease,
        upstream_head: &UpstreamHead,
        whole: bool,
        chunked: bool,
    ) -> Relayed {
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
        Relayed {
            lease: Some(lease),
            ending,
            keep: whole && upstream_head.keep_alive,
            chunked,
            content: 0,
        }
    }

    /// Returns the number of content bytes so far.
    pub(crate) fn content(&self) -> u64 {
        self.content
    }

    /// Appends the received content. Returns whether it was the last.
    pub(super) fn take(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let Some(lease) = &mut self.lease else {
            return Ok(true);
        };
        let before = out.len();
        let over = match &mut self.ending {
            Ending::Over => true,
            Ending::Connection => {
                out.append(&mut lease.link.input);
                false
            }
            Ending::Framing(body) => {
                let input = &mut lease.link.input;
                let used = body.advance_with(input, |chunk| out.extend_from_slice(chunk));
                let used = used.map_err(|_| bad("the chunked coding is malformed"))?;
                input.drain(..used);
                body.is_done()
            }
            Ending::Program(left) => {
                lease.parse_records()?;
                let ProtocolState::FastCgi(fastcgi_state) = &mut lease.protocol_state else {
                    return Err(bad("the upstream does not use FastCGI"));
                };
                let most = left
                    .unwrap_or(u64::MAX)
                    .min(fastcgi_state.output.len() as u64);
                out.extend(fastcgi_state.output.drain(..most as usize)); // at most its length
                if let Some(left) = left {
                    *left -= most;
                }
                match (fastcgi_state.records.is_done(), &left) {
                    (_, Some(0)) => true,
                    (true, Some(_)) => {
                        return Err(bad("the output is shorter than its Content-Length"));
                    }
                    (done, None) => done,
                    (false, Some(_)) => false,
                }
            }
        };
        self.content += (out.len() - before) as u64;
        if over {
            self.end();
        }
        Ok(over)
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

    /// Returns the name of the upstream, for the log.
    fn name(&self) -> &str {
        self.lease.as_ref().map_or("", |lease| &lease.name)
    }
}

fn bad(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Placeholder for a chunk size, which is filled in later.
const SIZE: &[u8] = b"00000\r\n";

/// Sends `out`, and then the body.
///
/// # Errors
/// Returns the errors of the client and of the upstream: the connection must end.
pub(crate) async fn relay(
    services: &Services,
    stream: &Stream,
    mut out: Vec<u8>,
    body: &mut Relayed,
) -> io::Result<Vec<u8>> {
    loop {
        let last = match body.chunked && !stream.is_multiplexed() {
            true => chunk(body, &mut out),
            false => body.take(&mut out),
        };
        // Send the bytes received before an error, so that the client sees what is wrong.
        if !out.is_empty() {
            out = send_all(services, stream, out).await?;
        }
        match last {
            Ok(true) => return Ok(out),
            Ok(false) => {}
            Err(error) => return Err(broken(body, error)),
        }
        if let Err(error) = body.wait().await {
            return Err(broken(body, error));
        }
    }
}

fn broken(body: &Relayed, error: io::Error) -> io::Error {
    print(format_args!(
        "{}: the response is incomplete: {error}",
        body.name()
    ));
    error
}

/// Appends the received content as a chunk, and the last chunk at the end. Returns whether it was
/// the end.
fn chunk(body: &mut Relayed, out: &mut Vec<u8>) -> io::Result<bool> {
    let start = out.len();
    out.extend_from_slice(SIZE);
    let last = body.take(out);
    let length = out.len() - start - SIZE.len();
    if length == 0 {
        out.truncate(start);
    } else {
        let digits = format!("{length:05x}");
        out[start..][..digits.len()].copy_from_slice(digits.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if let Ok(true) = last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    last
}
