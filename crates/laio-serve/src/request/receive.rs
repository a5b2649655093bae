//! Receives heads, discards bodies; begins and ends connections.

use crate::io_contexts::IoContexts;
use crate::net::stream::{Expect, Stream};
use crate::options::Limits;
use crate::services::Services;
use laio_http::BodySkip;
use laio_rt::time::{Sleep, sleep, sleep_until};
use std::io;
use std::time::{Duration, Instant};

/// Bytes of buffer space for one receive.
const RECEIVE_BUFFER: usize = 4096;

/// How discarding a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// The next request begins in the buffer.
    Whole,
    /// The client closed the connection first.
    Closed,
    /// The body is too long, or its framing is broken.
    Refused,
}

/// Appends received bytes to `input`, waiting until `limit` ends. If nothing was appended, the
/// client has closed the connection. With [`Expect::Block`], `input` is empty and gets only
/// [`Limits::IDLE_BYTES`], because many connections may be idle.
///
/// # Errors
/// `TimedOut`, or the errors of the socket.
pub(crate) async fn receive(
    contexts: &IoContexts,
    stream: &Stream,
    mut input: Vec<u8>,
    expect: Expect,
    limit: &mut Sleep,
) -> io::Result<Vec<u8>> {
    match expect {
        Expect::Block => {
            if !(Limits::IDLE_BYTES / 2..=Limits::IDLE_BYTES).contains(&input.capacity()) {
                input = Vec::with_capacity(Limits::IDLE_BYTES);
            }
        }
        Expect::Arrived => {
            if input.capacity() - input.len() < RECEIVE_BUFFER / 2 {
                input.reserve(RECEIVE_BUFFER);
            }
        }
    }
    if contexts.now() >= limit.deadline() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let receiving = stream.receive(contexts, input, expect);
    match laio_rt::time::timeout_by(limit, receiving).await {
        Ok((Ok(_), input)) => Ok(input),
        // With the back end sync, the socket's own timeout expired.
        Ok((Err(error), _)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Ok((Err(error), _)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Discards the rest of a request body, in `input` and from the socket, up to the next request.
///
/// # Errors
/// `TimedOut` if the body arrives too slowly, or the errors of the socket.
pub(crate) async fn skip_body(
    services: &Services,
    stream: &Stream,
    mut input: Vec<u8>,
    mut skip: BodySkip,
) -> io::Result<(Vec<u8>, Skipped)> {
    let (contexts, limits) = (&services.contexts, &services.limits);
    let deadline = Instant::now() + limits.body_time;
    let mut limit = sleep_until(deadline);
    let mut received = 0;
    loop {
        match skip.advance(&input) {
            Ok(used) => {
                received += used as u64;
                drop(input.drain(..used));
            }
            Err(_) => return Ok((input, Skipped::Refused)),
        }
        if skip.is_done() {
            return Ok((input, Skipped::Whole));
        }
        // A client that keeps the minimum rate gets as long as that rate takes.
        let earned = Duration::from_secs(received / limits.body_rate.max(1));
        limit.reset(deadline + earned);
        let before = input.len();
        input = receive(contexts, stream, input, Expect::Arrived, &mut limit).await?;
        if input.len() == before {
            return Ok((input, Skipped::Closed));
        }
    }
}

/// Performs the TLS handshake on an encrypted stream. Returns whether the client chose HTTP/2.
///
/// # Errors
/// When the handshake fails or takes too long.
pub(crate) async fn handshake(limits: &Limits, stream: &Stream) -> io::Result<bool> {
    match stream {
        Stream::Tls(_) => {
            let begun = laio_rt::time::timeout(limits.head_time, stream.handshake()).await;
            begun.map_err(|_| io::ErrorKind::TimedOut)?
        }
        _ => Ok(false),
    }
}

/// Sends the TLS close notification; nothing on a plain connection.
pub(crate) async fn send_close_notify(limits: &Limits, stream: &Stream) {
    if let Stream::Tls(_) = stream {
        let _ = laio_rt::time::timeout(limits.linger_time, stream.finish()).await;
    }
}

/// Closes a connection whose client may still be sending. Closing at once with unread input
/// would make the kernel reset the connection, and the client might lose the response (RFC 9112,
/// section 9.6).
pub(crate) async fn linger(services: &Services, stream: &Stream) {
    if stream.finish().await.is_err() {
        return;
    }
    let contexts = &services.contexts;
    let mut limit = sleep(services.limits.linger_time);
    let mut read = 0;
    let mut buffer = Vec::new();
    while read < Limits::LINGER_BYTES {
        buffer.clear();
        match receive(contexts, stream, buffer, Expect::Arrived, &mut limit).await {
            Ok(more) if !more.is_empty() => {
                read += more.len();
                buffer = more;
            }
            _ => return,
        }
    }
}
