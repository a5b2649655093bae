//! Requests that an upstream answers.

use super::{Connection, Next, micros_since};
use crate::buffers::Buffers;
use crate::reply::RequestContext;
use crate::stream::Stream;
use crate::upstream::{Forwarded, ProxyRequest, Route, Source, UpstreamError};
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
        ctx: RequestContext<'_>,
        route: &Route,
        path: &RequestPath<'_>,
        started: Instant,
        input: Vec<u8>,
    ) -> io::Result<Next> {
        let (worker, request) = (self.worker.clone(), ctx.request);
        let body = BodySkip::new(request.framing, worker.limits().upstream.body_bytes);
        let body = match body {
            Ok(body) => body,
            Err(rejection) => return self.refuse(rejection.status(), rejection.detail()).await,
        };
        let Buffers { mut output, name } = worker.buffer_pool.take();
        let mut source = ClientBody {
            worker: &worker,
            stream: &self.stream,
            input,
            body,
            waited: Duration::ZERO,
            bytes: 0,
            expects_continue: request.expects_continue,
        };
        let proxy_request = ProxyRequest {
            ctx,
            path,
            peer: &self.peer,
            secure: self.stream.is_secure(),
            websocket: !self.stream.is_http2_stream(),
            stream: &self.stream,
            spooled: None,
            trusts_client: false,
        };
        let forwarded = worker
            .forward(proxy_request, route, &mut source, &mut output)
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
            ..LogRecord::of(request, ctx.date)
        });
        let output = sent?;
        worker.buffer_pool.put_back(Buffers { output, name });
        self.answered = true;
        Ok(match (keep_alive, done) {
            (true, _) => Next::Request,
            (false, true) if self.input.is_empty() => Next::End,
            (false, _) => Next::Linger,
        })
    }
}

/// The body of a request, received from the client's connection.
struct ClientBody<'a> {
    worker: &'a Worker,
    stream: &'a Stream,
    input: Vec<u8>,
    body: BodySkip,
    /// Time spent waiting for the client, without time spent waiting for the upstream.
    waited: Duration,
    bytes: u64,
    /// The client waits for 100 Continue.
    expects_continue: bool,
}

impl Source for ClientBody<'_> {
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        let before = out.len();
        loop {
            let input = &mut self.input;
            let used = self
                .body
                .advance_with(input, |piece| out.extend_from_slice(piece))
                .map_err(UpstreamError::bad_body)?;
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

impl ClientBody<'_> {
    async fn receive(&mut self) -> Result<(), UpstreamError> {
        if std::mem::take(&mut self.expects_continue) {
            let sent = self.worker.send_all(self.stream, CONTINUE.to_vec()).await;
            sent.map_err(|_| UpstreamError::client_gone())?;
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
            Ok(input) if input.is_empty() => Err(UpstreamError::client_gone()),
            Ok(input) => {
                self.input = input;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(UpstreamError::slow_client())
            }
            Err(_) => Err(UpstreamError::client_gone()),
        }
    }
}
