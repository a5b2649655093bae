//! The body of a request, received piece by piece from the client.

use super::receive::receive;
use super::send_buffer::send_output;
use crate::services::Services;
use laio_http::{BodySkip, Output, Rejection};
use laio_rt::time::sleep_until;
use laio_serve_base::clients::Peer;
use laio_serve_net::socket::Expect;
use laio_serve_net::stream::Stream;
use std::io;
use std::time::{Duration, Instant};

/// The body of a request, received from the client's connection.
pub struct ClientBody<'a> {
    pub services: &'a Services,
    pub stream: &'a Stream,
    pub peer: &'a Peer,
    pub input: Vec<u8>,
    pub body: BodySkip,
    /// Time spent waiting for the client, without time spent waiting for others.
    pub waited: Duration,
    pub time: BodyTime,
    pub bytes: u64,
    /// The client waits for 100 Continue.
    pub expects_continue: bool,
    /// Buffer space for one receive; with 0, as for a head.
    pub room: usize,
}

/// How long a client may take to send a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyTime {
    /// All pieces together.
    Whole,
    /// Each piece.
    EachPiece,
    /// As long as the response continues.
    Unlimited,
}

impl BodyTime {
    /// Longer than any response takes.
    pub const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
}

/// The reason why the rest of a body was not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The client has closed its connection.
    ClientGone,
    /// The client sends too slowly.
    SlowClient,
    /// The body is malformed or too large.
    Bad(Rejection),
}

impl ClientBody<'_> {
    /// Appends the next piece of the body to `out`, waiting for it. Returns whether it was the last.
    ///
    /// # Errors
    /// When the body is malformed, or does not arrive.
    pub async fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, BodyError> {
        let before = out.len();
        loop {
            self.take_received(|chunk| out.extend_from_slice(chunk))?;
            if self.is_done() || out.len() > before {
                return Ok(self.is_done());
            }
            self.receive().await?;
        }
    }

    /// Whether all of the body was received.
    pub fn is_done(&self) -> bool {
        self.body.is_done()
    }

    /// Whether all of the body has arrived. It may still have to be read.
    pub fn has_arrived(&self) -> bool {
        let mut body = self.body.clone();
        body.advance(&self.input).is_ok() && body.is_done()
    }

    /// Discards what has arrived of the body. Returns whether that was all of it, so that the next request on
    /// the connection can follow.
    pub fn discard_received(&mut self) -> bool {
        self.take_received(|_| {}).is_ok() && self.is_done()
    }

    fn take_received(&mut self, content: impl FnMut(&[u8])) -> Result<(), BodyError> {
        let used = self.body.advance_with(&self.input, content);
        let used = used.map_err(BodyError::Bad)?;
        self.input.drain(..used);
        self.bytes += used as u64;
        Ok(())
    }

    async fn receive(&mut self) -> Result<(), BodyError> {
        let (services, stream) = (self.services, self.stream);
        if std::mem::take(&mut self.expects_continue) {
            let mut interim = Output::default();
            interim.push_continue();
            let sent = send_output(services, stream, interim).await;
            sent.map_err(|_| BodyError::ClientGone)?;
        }
        let limits = &services.limits;
        // A client that keeps the minimum rate gets as long as that rate takes.
        let earned = Duration::from_secs(self.bytes / limits.body_rate.max(1));
        let time = match self.time {
            BodyTime::Whole => (limits.body_time + earned).saturating_sub(self.waited),
            BodyTime::EachPiece => limits.body_time,
            BodyTime::Unlimited => BodyTime::LONGEST,
        };
        let started = Instant::now();
        let mut input = std::mem::take(&mut self.input);
        input.reserve(self.room);
        let mut limit = sleep_until(started + time);
        let received = receive(
            &services.contexts,
            stream,
            input,
            Expect::Arrived,
            &mut limit,
        )
        .await;
        self.waited += started.elapsed();
        match received {
            Ok(input) if input.is_empty() => Err(BodyError::ClientGone),
            Ok(input) => {
                self.input = input;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(BodyError::SlowClient),
            Err(_) => Err(BodyError::ClientGone),
        }
    }
}
