//! Sends a whole buffer within the time limits.

use super::send_deadline::SendDeadline;
use crate::services::Services;
use laio::ops::{Part, Send};
use laio_http::Output;
use laio_rt::Descriptor;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_net::stream::Stream;
use rustix::net::SendFlags;
use std::io;
use std::time::Duration;

/// Sends a head, and what follows it in the output. Returns an empty buffer.
pub async fn send_output(
    services: &Services,
    stream: &Stream,
    output: Output,
) -> io::Result<Vec<u8>> {
    let out = begin_response(services, stream, output).await?;
    if out.is_empty() {
        return Ok(out);
    }
    send_all(services, stream, out).await
}

/// Begins to send a response: over HTTP/2 and HTTP/3 its output. Returns the bytes of the output that are
/// left, which on other streams are sent with the bytes that follow.
pub async fn begin_response(
    services: &Services,
    stream: &Stream,
    output: Output,
) -> io::Result<Vec<u8>> {
    if !stream.is_multiplexed() || output.bytes.is_empty() {
        return Ok(output.bytes);
    }
    let length = output.bytes.len();
    await_send(services, length, stream.send_output(output)).await
}

/// Sends a whole buffer within the time limits, and returns it empty.
pub fn send_all(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
) -> impl Future<Output = io::Result<Vec<u8>>> {
    send_flagged(services, stream, out, SendFlags::empty())
}

/// Like [`send_all`], for a buffer that is followed by more data at once (`MSG_MORE`), so that the
/// kernel can merge both.
pub(crate) fn send_more(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
) -> impl Future<Output = io::Result<Vec<u8>>> {
    send_flagged(services, stream, out, SendFlags::MORE)
}

async fn send_flagged(
    services: &Services,
    stream: &Stream,
    out: Vec<u8>,
    flags: SendFlags,
) -> io::Result<Vec<u8>> {
    if services.contexts.sends_by_readiness
        && let Some(socket) = stream.plain()
    {
        return send_by_readiness(services, socket, out, flags).await;
    }
    let length = out.len();
    let sending = stream.send(&services.contexts, out, flags);
    await_send(services, length, sending).await
}

/// Awaits a send within its time limit, and returns the buffer empty.
pub async fn await_send(
    services: &Services,
    length: usize,
    sent: impl Future<Output = (io::Result<usize>, Vec<u8>)>,
) -> io::Result<Vec<u8>> {
    let begun = observe::begin();
    let sent = laio_rt::time::timeout(time_to_send(services, length), sent).await;
    observe::end(Stage::Send, begun);
    let (result, mut out) = sent.map_err(|_| io::ErrorKind::TimedOut)?;
    whole(result, length)?;
    out.clear();
    Ok(out)
}

/// The result of sending a whole buffer, from the number of bytes sent.
pub fn whole(sent: io::Result<usize>, length: usize) -> io::Result<()> {
    match sent {
        // With the back end sync, the socket's own timeout ended the send.
        Ok(count) if count < length => Err(io::ErrorKind::TimedOut.into()),
        sent => sent.map(drop),
    }
}

/// Sends a whole buffer without occupying a helper while the client is slow.
async fn send_by_readiness(
    services: &Services,
    socket: &Descriptor,
    mut out: Vec<u8>,
    flags: SendFlags,
) -> io::Result<Vec<u8>> {
    let deadline = send_deadline(services);
    let begun = observe::begin();
    let mut done = 0;
    while done < out.len() {
        let part = Part::new(out, done..);
        let flags = flags.union(SendFlags::DONTWAIT).bits() as i32;
        let send = Send::new(socket.clone(), part).flags(flags);
        let permit = services.contexts.permit(IoStep::Send).await;
        let (result, part) = services.contexts.submit(IoStep::Send, send).await;
        drop(permit);
        out = part.into_inner();
        match result {
            Ok(count) => {
                done += count;
                deadline.add_sent(count as u64);
            }
            Err(error) if would_block(&error) => {
                deadline.wait_until_writable(services, socket).await?
            }
            Err(error) => return Err(error),
        }
    }
    observe::end(Stage::Send, begun);
    out.clear();
    Ok(out)
}

pub(super) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns the time limit for sending `length` bytes. A slower client would occupy a connection
/// and a buffer for too long.
fn time_to_send(services: &Services, length: usize) -> Duration {
    let limits = &services.limits;
    let at_rate = length as u64 / limits.write_rate.max(1);
    limits.write_time.max(Duration::from_secs(at_rate))
}

/// Returns the deadline of a send of several chunks, each of which may take as long as a send of its
/// length.
pub fn send_deadline(services: &Services) -> SendDeadline {
    SendDeadline::new(time_to_send(services, Limits::CHUNK))
}
