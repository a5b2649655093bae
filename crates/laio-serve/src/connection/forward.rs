//! Requests that an upstream answers.

use super::{Connection, Next, micros_since};
use crate::buffers::Buffers;
use crate::reply::Asked;
use crate::stream::Stream;
use crate::upstream::{Asking, Forwarded, Route, Source, Trouble};
use crate::worker::Worker;
use laio_http::log::LogRecord;
use laio_http::response::CONTINUE;
use laio_http::{BodySkip, RequestPath};
use std::io;
use std::time::{Duration, Instant};

impl Connection {
    /// Forwards a request for `path` to an upstream; `input` holds the bytes received after its
    /// head.
    pub(super) async fn forward(
        &mut self,
        asked: Asked<'_>,
        route: &Route,
        path: &RequestPath<'_>,
        started: Instant,
        input: Vec<u8>,
    ) -> io::Result<Next> {
        let (worker, request) = (self.worker.clone(), asked.request);
        let body = BodySkip::new(request.framing, worker.limits().upstream.body_bytes);
        let body = match body {
            Ok(body) => body,
            Err(rejection) => return self.refuse(rejection.status(), rejection.detail()).await,
        };
        let Buffers { mut output, name } = worker.spare.take();
        let mut source = Received {
            worker: &worker,
            stream: &self.stream,
            input,
            body,
            waited: Duration::ZERO,
            bytes: 0,
            expects: request.expects_continue,
        };
        let asking = Asking {
            asked,
            path,
            peer: &self.peer,
            secure: self.stream.is_secure(),
            websocket: !self.stream.delimits(),
            stream: &self.stream,
            spooled: None,
            trusts: false,
        };
        let forwarded = worker
            .forward(asking, route, &mut source, &mut output)
            .await;
        let (input, done) = (std::mem::take(&mut source.input), source.is_done());
        let Some(forwarded) = forwarded else {
            return Ok(Next::End);
        };
        let Forwarded {
            reply,
            relayed,
            tunnel,
            keep_alive,
        } = forwarded;
        let (status, mut length) = (reply.status, reply.length);
        let sent = match relayed {
            Some(mut relayed) => {
                let sent = worker.relay(&self.stream, output, &mut relayed).await;
                length = relayed.content();
                sent
            }
            None => worker.send(&self.stream, output, reply.body).await,
        };
        if let (Some(tunnel), Ok(_)) = (tunnel, &sent) {
            length = tunnel.run(&worker, &self.stream, input).await;
            self.input = Vec::new();
        } else {
            self.input = input;
        }
        worker.log.write(&LogRecord {
            remote: &self.peer,
            status,
            bytes: length,
            duration_us: micros_since(started),
            version: self.stream.version().unwrap_or(request.version.as_str()),
            ..LogRecord::of(request, asked.date)
        });
        let output = sent?;
        worker.spare.give_back(Buffers { output, name });
        self.answered = true;
        Ok(match (keep_alive, done) {
            (true, _) => Next::Request,
            (false, true) if self.input.is_empty() => Next::End,
            (false, _) => Next::Linger,
        })
    }
}

/// The body of a request, received from the client's connection.
struct Received<'a> {
    worker: &'a Worker,
    stream: &'a Stream,
    input: Vec<u8>,
    body: BodySkip,
    /// Time spent waiting for the client, without time spent waiting for the upstream.
    waited: Duration,
    bytes: u64,
    /// The client waits for 100 Continue.
    expects: bool,
}

impl Source for Received<'_> {
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Trouble> {
        let before = out.len();
        loop {
            let input = &mut self.input;
            let used = self
                .body
                .advance_with(input, |piece| out.extend_from_slice(piece))
                .map_err(Trouble::of_client)?;
            input.drain(..used);
            self.bytes += used as u64;
            if self.body.is_done() || out.len() > before {
                return Ok(self.body.is_done());
            }
            self.receive().await?;
        }
    }

    fn is_ready(&self) -> bool {
        self.body.is_done() || !self.input.is_empty()
    }

    fn is_untouched(&self) -> bool {
        self.bytes == 0
    }

    fn is_done(&self) -> bool {
        self.body.is_done()
    }

    fn watch(&self) -> Box<dyn Fn() -> bool> {
        self.stream.watch()
    }
}

impl Received<'_> {
    async fn receive(&mut self) -> Result<(), Trouble> {
        if std::mem::take(&mut self.expects) {
            let told = self.worker.send_all(self.stream, CONTINUE.to_vec()).await;
            told.map_err(|_| Trouble::gone())?;
        }
        let limits = self.worker.limits();
        // A client that keeps the minimum rate gets as long as that rate takes.
        let earned = Duration::from_secs(self.bytes / limits.body_rate.max(1));
        let time = (limits.body_time + earned).saturating_sub(self.waited);
        let started = Instant::now();
        let input = std::mem::take(&mut self.input);
        let received = match time.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.worker.receive(self.stream, input, time).await,
        };
        self.waited += started.elapsed();
        match received {
            Ok(input) if input.is_empty() => Err(Trouble::gone()),
            Ok(input) => {
                self.input = input;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Trouble::slow_client()),
            Err(_) => Err(Trouble::gone()),
        }
    }
}
