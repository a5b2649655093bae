//! The connections of a worker to an upstream in HTTP/2, each of which carries many requests at the same
//! time. The `h2` crate implements the frames.

use super::error::{Progress, UpstreamError};
use super::target::Target;
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::Request;
use laio_rt::sync::Semaphore;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_net::http2_io::{Io, Stalled};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

/// The connections of a worker to an upstream.
#[derive(Default)]
pub struct Http2Connections {
    all: RefCell<Vec<Rc<Http2Connection>>>,
    /// One request makes a connection while the others wait for it, because it will carry them too.
    connecting: OnceCell<Semaphore>,
    sweeping: Cell<bool>,
}

struct Http2Connection {
    requests: SendRequest<Bytes>,
    /// Requests in flight.
    streams: Cell<usize>,
    /// Whether it has carried a request before.
    used: Cell<bool>,
    last_ended: Cell<Instant>,
    /// Whether it takes no more requests.
    retired: Cell<bool>,
    /// The header of the PROXY protocol with which it began; empty without it.
    proxy_header: Vec<u8>,
}

/// The place of one request on a connection, free again on drop.
pub struct Http2Place {
    connection: Rc<Http2Connection>,
    /// Whether the connection has carried a request before.
    pub reused: bool,
}

impl Http2Connections {
    /// Returns a place on a connection, which may be a new one.
    pub async fn place(
        self: &Rc<Self>,
        target: &Target,
        proxy_header: &[u8],
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Http2Place, UpstreamError> {
        if let Some(place) = self.with_room(proxy_header, limits) {
            return Ok(place);
        }
        let connecting = self.connecting.get_or_init(|| Semaphore::new(1));
        let _turn = laio_rt::time::timeout(time, connecting.acquire())
            .await
            .map_err(|_| late())?;
        if let Some(place) = self.with_room(proxy_header, limits) {
            return Ok(place);
        }
        self.remove_retired();
        if self.all.borrow().len() >= limits.connections.max(1) && !self.close_idle() {
            // The upstream allows fewer requests for each connection than this server.
            return self.least_loaded(proxy_header).ok_or_else(|| {
                UpstreamError::busy("all connections carry requests of other clients")
                    .at(Progress::NotConnected)
            });
        }
        let connection = self.connect(target, proxy_header, time, limits).await?;
        Ok(Http2Place::on(&connection))
    }

    async fn connect(
        self: &Rc<Self>,
        target: &Target,
        proxy_header: &[u8],
        time: Duration,
        limits: &UpstreamLimits,
    ) -> Result<Rc<Http2Connection>, UpstreamError> {
        let (requests, driver) = connect(target, proxy_header.to_vec(), time, limits).await?;
        let connection = Rc::new(Http2Connection {
            requests,
            streams: Cell::new(0),
            used: Cell::new(false),
            last_ended: Cell::new(Instant::now()),
            retired: Cell::new(false),
            proxy_header: proxy_header.to_vec(),
        });
        self.all.borrow_mut().push(connection.clone());
        let (all, own) = (Rc::downgrade(self), Rc::downgrade(&connection));
        let driving = async move {
            // Its errors are those of the requests too.
            let _ = driver.await;
            if let Some(own) = own.upgrade() {
                own.retired.set(true);
            }
            if let Some(all) = all.upgrade() {
                all.remove_retired();
            }
        };
        laio_rt::spawn(driving).detach();
        if !self.sweeping.replace(true) {
            laio_rt::spawn(sweep(Rc::downgrade(self), limits.idle_time)).detach();
        }
        Ok(connection)
    }

    fn with_room(&self, proxy_header: &[u8], limits: &UpstreamLimits) -> Option<Http2Place> {
        let all = self.all.borrow();
        let has_room = |connection: &&Rc<Http2Connection>| {
            let most = connection.requests.current_max_send_streams();
            let most = most.min(limits.streams).max(1);
            connection.fits(proxy_header) && connection.streams.get() < most
        };
        all.iter().find(has_room).map(Http2Place::on)
    }

    fn least_loaded(&self, proxy_header: &[u8]) -> Option<Http2Place> {
        let all = self.all.borrow();
        let fitting = all
            .iter()
            .filter(|connection| connection.fits(proxy_header));
        let least = fitting.min_by_key(|connection| connection.streams.get());
        least.map(Http2Place::on)
    }

    /// Closes a connection that carries no request. Returns false if there is none.
    fn close_idle(&self) -> bool {
        let mut all = self.all.borrow_mut();
        let idle = all.iter().position(|it| it.streams.get() == 0);
        idle.map(|index| all.remove(index)).is_some()
    }

    fn remove_retired(&self) {
        self.all.borrow_mut().retain(|it| !it.retired.get());
    }
}

/// Closes connections that have carried no request for too long. They end when the last handle of them is
/// dropped.
async fn sweep(all: Weak<Http2Connections>, time: Duration) {
    loop {
        laio_rt::time::sleep(time).await;
        let Some(all) = all.upgrade() else { return };
        all.all.borrow_mut().retain(|it| {
            !it.retired.get() && (it.streams.get() > 0 || it.last_ended.get().elapsed() < time)
        });
        if all.all.borrow().is_empty() {
            all.sweeping.set(false);
            return;
        }
    }
}

impl Http2Connection {
    fn fits(&self, proxy_header: &[u8]) -> bool {
        !self.retired.get() && self.proxy_header == proxy_header
    }
}

impl Http2Place {
    fn on(connection: &Rc<Http2Connection>) -> Http2Place {
        connection.streams.set(connection.streams.get() + 1);
        Http2Place {
            reused: connection.used.replace(true),
            connection: connection.clone(),
        }
    }

    /// Sends the head of a request.
    ///
    /// # Errors
    /// When the connection takes no more requests: then the upstream has got nothing.
    pub async fn begin(
        &self,
        request: Request<()>,
        ends: bool,
        time: Duration,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), UpstreamError> {
        let ready = self.connection.requests.clone().ready();
        let ready = laio_rt::time::timeout(time, ready).await.map_err(|_| {
            UpstreamError::busy("the upstream accepts no more requests at the same time")
                .at(Progress::NotConnected)
        })?;
        let failed = |error: h2::Error| {
            self.retire();
            UpstreamError::bad_gateway(format_args!("cannot send the request: {error}"))
                .at(Progress::NotConnected)
        };
        let mut ready = ready.map_err(failed)?;
        ready.send_request(request, ends).map_err(failed)
    }

    /// Lets the connection take no more requests.
    pub fn retire(&self) {
        self.connection.retired.set(true);
    }

    /// Whether the connection takes no more requests.
    pub fn is_retired(&self) -> bool {
        self.connection.retired.get()
    }

    /// Returns what an error of the `h2` crate before the response means.
    pub fn explain(&self, error: &h2::Error) -> UpstreamError {
        let refused = error.reason() == Some(Reason::REFUSED_STREAM);
        if error.is_remote() && refused {
            // The upstream has not looked at the request (RFC 9113, section 8.7).
            let text = "the upstream refuses requests at the same time";
            return UpstreamError::busy(text).at(Progress::NotConnected);
        }
        if error.is_io() || error.is_go_away() {
            self.retire();
        }
        let progress = if error.is_remote() && error.is_go_away() {
            // Only requests that the upstream has not looked at end with a GOAWAY frame.
            Progress::NotConnected
        } else if error.is_io() && self.reused {
            Progress::Stale
        } else {
            Progress::NothingReceived
        };
        UpstreamError::bad_gateway(format_args!("cannot read the response: {error}")).at(progress)
    }
}

impl Drop for Http2Place {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.streams.set(connection.streams.get() - 1);
        connection.last_ended.set(Instant::now());
    }
}

/// Connects, and begins HTTP/2. The second result is a future that transfers the frames.
pub(super) async fn connect(
    target: &Target,
    proxy_header: Vec<u8>,
    time: Duration,
    limits: &UpstreamLimits,
) -> Result<(SendRequest<Bytes>, Connection<Io, Bytes>), UpstreamError> {
    let link = target.connect(proxy_header, time, limits).await?;
    let stream = link.into_http2()?;
    let io = Io::new(stream, Vec::new(), Stalled::default(), |_| {}, None);
    let io = io.ok_or_else(|| UpstreamError::bad_gateway("the connection is shared"))?;
    let window = UpstreamLimits::HTTP2_WINDOW;
    let streams = u32::try_from(limits.streams).unwrap_or(u32::MAX).max(1);
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_max_send_streams(limits.streams)
        .initial_window_size(window)
        // Slow clients of some requests must not stop the others.
        .initial_connection_window_size(window.saturating_mul(streams).min(i32::MAX as u32))
        .max_header_list_size(UpstreamLimits::HEAD.head_bytes as u32)
        .max_send_buffer_size(UpstreamLimits::CHUNK);
    let begun = builder.handshake::<_, Bytes>(io);
    let begun = laio_rt::time::timeout(time, begun)
        .await
        .map_err(|_| late())?;
    begun.map_err(|error| {
        UpstreamError::bad_gateway(format_args!("HTTP/2 cannot begin: {error}"))
            .at(Progress::NotConnected)
    })
}

fn late() -> UpstreamError {
    UpstreamError::timed_out("connecting took too long").at(Progress::NotConnected)
}
