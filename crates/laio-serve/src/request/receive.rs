//! Receives heads, discards bodies; begins and ends connections.

use crate::io_contexts::IoContexts;
use crate::net::arrivals;
use crate::net::socket::{Expect, receive_operation};
use crate::net::stream::Stream;
use crate::options::{IoStep, Limits};
use crate::services::Services;
use laio::Errno;
use laio::ops::Readiness;
use laio_http::BodySkip;
use laio_rt::Descriptor;
use laio_rt::time::{Elapsed, Sleep, sleep, sleep_until, timeout_by};
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
    input: Vec<u8>,
    expect: Expect,
    limit: &mut Sleep,
) -> io::Result<Vec<u8>> {
    let now = contexts.now();
    if now >= limit.deadline() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let received = match stream {
        Stream::Plain(socket) => match expect {
            Expect::Block if !contexts.sync => {
                receive_when_idle(contexts, socket, input, limit, now).await
            }
            _ => receive_plain(contexts, socket, input, expect, limit).await,
        },
        // Boxed, so that plain connections do not reserve memory for this future.
        _ => {
            let input = with_space(input, expect);
            timeout_by(limit, Box::pin(stream.receive(contexts, input, expect))).await
        }
    };
    match received {
        Ok((Ok(_), input)) => Ok(input),
        // With the back end sync, the socket's own timeout expired.
        Ok((Err(error), _)) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::TimedOut.into())
        }
        Ok((Err(error), _)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

type Received = Result<(io::Result<usize>, Vec<u8>), Elapsed>;

async fn receive_plain(
    contexts: &IoContexts,
    socket: &Descriptor,
    input: Vec<u8>,
    expect: Expect,
    limit: &mut Sleep,
) -> Received {
    let receive = receive_operation(socket, with_space(input, expect), expect);
    let turn = laio_rt::turn();
    let received = timeout_by(limit, contexts.submit(IoStep::Receive, receive)).await;
    arrivals::note(turn);
    received
}

/// Receives from a connection that is probably idle. After [`Limits::IDLE_BUFFER_TIME`] it keeps no
/// buffer: it waits until the socket is readable, and receives then.
async fn receive_when_idle(
    contexts: &IoContexts,
    socket: &Descriptor,
    input: Vec<u8>,
    limit: &mut Sleep,
    now: Instant,
) -> Received {
    let deadline = limit.deadline();
    limit.reset(deadline.min(now + Limits::IDLE_BUFFER_TIME));
    let receive = receive_operation(socket, with_space(input, Expect::Block), Expect::Block);
    let turn = laio_rt::turn();
    let mut receiving = contexts.submit(IoStep::Receive, receive);
    let received = timeout_by(limit, &mut receiving).await;
    arrivals::note(turn);
    if received.is_ok() || limit.deadline() == deadline {
        return received;
    }
    // Dropping the operation instead could lose bytes that arrive at this moment.
    receiving.cancel();
    let (result, input) = receiving.await;
    arrivals::note(laio_rt::turn());
    if !result.as_ref().is_err_and(is_cancelled) {
        return Ok((result, input));
    }
    drop(input);
    limit.reset(deadline);
    let readable = contexts.submit(IoStep::Receive, Readiness::readable(socket.clone()));
    if let Err(error) = timeout_by(limit, readable).await? {
        return Ok((Err(error), Vec::new()));
    }
    receive_plain(contexts, socket, Vec::new(), Expect::Arrived, limit).await
}

fn is_cancelled(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::CANCELED.raw())
}

/// Returns the buffer with space for one receive.
fn with_space(mut input: Vec<u8>, expect: Expect) -> Vec<u8> {
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
    input
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
            // Boxed, so that plain connections do not reserve memory for this future.
            let handshake = Box::pin(stream.handshake());
            let begun = laio_rt::time::timeout(limits.head_time, handshake).await;
            begun.map_err(|_| io::ErrorKind::TimedOut)?
        }
        _ => Ok(false),
    }
}

/// Sends the TLS close notification; nothing on a plain connection.
pub(crate) async fn send_close_notify(limits: &Limits, stream: &Stream) {
    if let Stream::Tls(_) = stream {
        let _ = laio_rt::time::timeout(limits.linger_time, Box::pin(stream.finish())).await;
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
