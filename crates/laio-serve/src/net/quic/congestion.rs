//! Congestion control, which must not keep a connection from saying that it closes.
//!
//! `quinn-proto` 0.11.19 sends no `CONNECTION_CLOSE` while the congestion window is full (quinn issue
//! 2785, repaired after that release), so the client would wait for its idle timeout. A closing
//! connection sends no data, so that its window may be as large as it likes.

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use quinn_proto::{Connection, RttEstimator};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The window of a closing connection, which is not paced either.
const UNLIMITED: u64 = 1 << 40;

/// Makes the controllers of connections: CUBIC, as by default.
#[derive(Default)]
pub(super) struct Controllers(Arc<CubicConfig>);

impl ControllerFactory for Controllers {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Closable {
            inner: self.0.clone().build(now, mtu),
            closes: Arc::default(),
        })
    }
}

/// A controller that can be opened for the last packet.
struct Closable {
    inner: Box<dyn Controller>,
    closes: Arc<AtomicBool>,
}

/// Lets a connection send the packet that closes it.
pub(super) fn open(connection: &Connection) {
    let controller = connection.congestion_state().clone_box().into_any();
    if let Ok(controller) = controller.downcast::<Closable>() {
        controller.closes.store(true, Ordering::Relaxed);
    }
}

impl Controller for Closable {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.inner
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.inner
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.closes.load(Ordering::Relaxed) {
            UNLIMITED
        } else {
            self.inner.window()
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Closable {
            inner: self.inner.clone_box(),
            closes: self.closes.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
