//! Receives heads, discards bodies; begins and ends connections.

use crate::services::Services;
use laio::Errno;
use laio::ops::{Readiness, Recv, SlabBuffer};
use laio_http::BodySkip;
use laio_rt::time::{Elapsed, Sleep, sleep, sleep_until, timeout_by};
use laio_rt::{Descriptor, Submission};
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_net::arrivals;
use laio_serve_net::io_contexts::IoContexts;
use laio_serve_net::socket::{Expect, receive_operation};
use laio_serve_net::stream::Stream;
use std::io;
use std::time::{Duration, Instant};

/// Bytes of buffer space for one receive.
const RECEIVE_BUFFER: usize = 4096;

/// How discarding a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
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
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` contains its arguments twice, and every idle connection has this future"
)]
pub fn receive<'a>(
    contexts: &'a IoContexts,
    stream: &'a Stream,
    mut input: Vec<u8>,
    mut expect: Expect,
    limit: &'a mut Sleep,
) -> impl Future<Output = io::Result<Vec<u8>>> + use<'a> {
    async move {
        if contexts.now() >= limit.deadline() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let Stream::Plain(socket) = stream else {
            let input = with_space(std::mem::take(&mut input), expect);
            // Boxed, so that plain connections do not reserve memory for this future.
            let receive = Box::pin(stream.receive(contexts, input, expect));
            return result_of(timeout_by(limit, receive).await);
        };
        if expect == Expect::Block && !contexts.sync {
            let buffers = &contexts.receive_buffers;
            buffers.put_back(std::mem::take(&mut input));
            let receive = receive_operation(socket, buffers.idle.take(), expect);
            let receive = contexts.submit(IoStep::Receive, receive);
            match receive_when_idle(contexts, socket, receive, limit).await {
                Ok(Some(received)) => return result_of(Ok(received)),
                Ok(None) => expect = Expect::Arrived,
                Err(elapsed) => return result_of(Err(elapsed)),
            }
        }
        let buffer = with_space(std::mem::take(&mut input), expect);
        let receive = receive_operation(socket, buffer, expect);
        let receive = contexts.submit(IoStep::Receive, receive);
        let turn = laio_rt::turn();
        let received = timeout_by(limit, receive).await;
        arrivals::note(turn);
        result_of(received)
    }
}

type IdleReceive = Submission<Recv<Descriptor, SlabBuffer>>;

/// The result of a receive, and its buffer.
type Received = (io::Result<usize>, Vec<u8>);

fn result_of(received: Result<Received, Elapsed>) -> io::Result<Vec<u8>> {
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

/// Waits for a receive from a connection that is probably idle. After [`Limits::IDLE_BUFFER_TIME`] the connection
/// keeps no buffer: this cancels the receive, waits until the socket is readable, and returns `None`.
fn receive_when_idle<'a>(
    contexts: &'a IoContexts,
    socket: &'a Descriptor,
    mut receive: IdleReceive,
    limit: &'a mut Sleep,
) -> impl Future<Output = Result<Option<Received>, Elapsed>> + use<'a> {
    let deadline = limit.deadline();
    limit.reset(deadline.min(contexts.now() + Limits::IDLE_BUFFER_TIME));
    let turn = laio_rt::turn();
    async move {
        match timeout_by(limit, &mut receive).await {
            Ok((result, buffer)) => {
                arrivals::note(turn);
                let input = contexts.receive_buffers.input_of(&buffer);
                return Ok(Some((result, input)));
            }
            Err(elapsed) if limit.deadline() == deadline => return Err(elapsed),
            Err(_) => {}
        }
        // Dropping the operation instead could lose bytes that arrive at this moment.
        receive.cancel();
        match (&mut receive).await {
            (Err(error), _) if is_cancelled(&error) => {}
            (result, buffer) => {
                arrivals::note(laio_rt::turn());
                let input = contexts.receive_buffers.input_of(&buffer);
                return Ok(Some((result, input)));
            }
        }
        limit.reset(deadline);
        let readable = contexts.submit(IoStep::Receive, Readiness::readable(socket.clone()));
        match timeout_by(limit, readable).await? {
            Ok(_) => Ok(None),
            Err(error) => Ok(Some((Err(error), Vec::new()))),
        }
    }
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
pub async fn skip_body(
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
pub async fn handshake(limits: &Limits, stream: &Stream) -> io::Result<bool> {
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
pub async fn send_close_notify(limits: &Limits, stream: &Stream) {
    if let Stream::Tls(_) = stream {
        let _ = laio_rt::time::timeout(limits.linger_time, Box::pin(stream.finish())).await;
    }
}

/// Closes a connection whose client may still be sending. Closing at once with unread input
/// would make the kernel reset the connection, and the client might lose the response (RFC 9112,
/// section 9.6).
pub async fn linger(services: &Services, stream: &Stream) {
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
