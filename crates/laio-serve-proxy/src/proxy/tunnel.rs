//! A tunnel for a WebSocket connection: copies bytes in both directions until both ends have closed
//! or the idle timeout expires.

use super::http1::Lease;
use laio_rt::future::{join, race};
use laio_rt::sync::Permit;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::request::send_buffer::send_all;
use laio_serve_core::services::Services;
use laio_serve_net::io_contexts::IoContexts;
use laio_serve_net::socket::Expect;
use laio_serve_net::stream::Stream;
use laio_serve_upstream::link::{Link, Transport, send};
use laio_serve_upstream::route::InFlight;
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

pub(super) struct Tunnel {
    link: Link,
    limits: UpstreamLimits,
    _permit: Permit,
    _in_flight: InFlight,
}

impl Tunnel {
    /// Creates a tunnel. Its connection no longer counts towards the pool's limit.
    pub(super) fn new(lease: Lease, permit: Permit) -> Tunnel {
        Tunnel {
            link: lease.link,
            limits: lease.limits,
            _permit: permit,
            _in_flight: lease.in_flight,
        }
    }

    /// Copies bytes in both directions; `input` holds the bytes received after the request. Returns
    /// the number of bytes sent to the client.
    pub(super) async fn run(mut self, services: &Services, stream: &Stream, input: Vec<u8>) -> u64 {
        let transport = self.link.transport();
        let (last_received, sent) = (Cell::new(Instant::now()), Cell::new(0));
        let time = self.limits.tunnel_time;
        let down = down(services, stream, &mut self.link, &last_received, &sent);
        let up = up(
            &services.contexts,
            stream,
            &transport,
            input,
            &last_received,
            time,
        );
        race(join(down, up), quiet(&last_received, time)).await;
        sent.get()
    }
}

/// Copies bytes from the upstream to the client, and counts them in `sent`.
async fn down(
    services: &Services,
    stream: &Stream,
    link: &mut Link,
    last_received: &Cell<Instant>,
    sent: &Cell<u64>,
) {
    loop {
        let out = std::mem::take(&mut link.input);
        if !out.is_empty() {
            sent.set(sent.get() + out.len() as u64);
            match send_all(services, stream, out).await {
                Ok(emptied) => link.input = emptied,
                Err(_) => break,
            }
        }
        match link.receive(Duration::MAX).await {
            Ok(0) | Err(_) => break,
            Ok(_) => last_received.set(Instant::now()),
        }
    }
    let _ = stream.finish().await;
}

/// Copies bytes from the client to the upstream.
async fn up(
    contexts: &IoContexts,
    stream: &Stream,
    transport: &Transport,
    mut input: Vec<u8>,
    last_received: &Cell<Instant>,
    time: Duration,
) -> io::Result<()> {
    loop {
        if !input.is_empty() {
            input = send(transport, input, time).await?;
        }
        input.reserve(8192);
        let (received, filled) = stream.receive(contexts, input, Expect::Arrived).await;
        input = filled;
        match received {
            Ok(0) | Err(_) => break,
            Ok(_) => last_received.set(Instant::now()),
        }
    }
    transport.finish().await
}

/// Waits until nothing was received for `time`.
async fn quiet(last_received: &Cell<Instant>, time: Duration) {
    while last_received.get().elapsed() < time {
        laio_rt::time::sleep(time.saturating_sub(last_received.get().elapsed())).await;
    }
}
