//! The state of a connection for draining and eviction.

use laio_serve_net::idle_eviction::ConnectionSlot;
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Whether draining may close a connection without losing a request. Eviction has a state of its
/// own, in the [`ConnectionSlot`]: a connection that has received only a part of a head is in a
/// request, so draining waits for it, but it waits for its client, so it may be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainState {
    /// A request is in progress.
    InRequest,
    /// No request has arrived yet. The client does not expect the connection to be closed.
    New,
    /// Between two requests.
    Between,
}

/// The state of a connection for draining and eviction, shared between its task and the worker.
pub(crate) struct ConnectionState {
    pub(crate) drain_state: Cell<DrainState>,
    /// None with the back end sync, where a worker serves one connection at a time, and for streams
    /// of HTTP/2 and HTTP/3, whose connection has the slot.
    pub(crate) slot: Option<ConnectionSlot>,
    /// The connection closes itself when it is evicted.
    closes_itself: Cell<bool>,
    /// The slot has the waker of the task.
    waker_set: Cell<bool>,
}

impl ConnectionState {
    pub(crate) fn new(slot: Option<ConnectionSlot>) -> Rc<ConnectionState> {
        Rc::new(ConnectionState {
            drain_state: Cell::new(DrainState::New),
            slot,
            closes_itself: Cell::new(false),
            waker_set: Cell::new(false),
        })
    }

    /// Returns the state of a request of HTTP/2 or HTTP/3, which has no connection of its own.
    pub(crate) fn for_stream() -> Rc<ConnectionState> {
        let connection_state = ConnectionState::new(None);
        connection_state.set_drain_state(DrainState::InRequest);
        connection_state
    }

    pub(crate) fn set_drain_state(&self, drain_state: DrainState) {
        self.drain_state.set(drain_state);
        if drain_state != DrainState::InRequest {
            self.mark_evictable();
        }
    }

    /// Marks the connection as waiting for its client, so that it may be evicted.
    pub(crate) fn mark_evictable(&self) {
        self.slot.iter().for_each(ConnectionSlot::mark_evictable);
    }

    /// Marks the connection as having received a complete request.
    pub(crate) fn mark_not_evictable(&self) {
        self.slot
            .iter()
            .for_each(ConnectionSlot::mark_not_evictable);
    }

    /// Whether the connection may stay open after its request.
    pub(crate) fn may_keep_alive(&self) -> bool {
        self.slot
            .as_ref()
            .is_none_or(ConnectionSlot::may_keep_alive)
    }

    /// Whether the connection was evicted.
    pub(crate) fn is_evicted(&self) -> bool {
        self.slot.as_ref().is_some_and(ConnectionSlot::is_evicted)
    }

    /// Sets whether the connection closes itself when it is evicted.
    pub(crate) fn set_closes_itself(&self, closes_itself: bool) {
        self.closes_itself.set(closes_itself);
    }

    /// Waits for eviction; never ready while the connection handles eviction itself (HTTP/2 sends
    /// `GOAWAY`). Only the task that serves the connection may call this.
    pub(crate) fn poll_evicted(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(slot) = &self.slot
            && !self.waker_set.replace(true)
        {
            slot.set_waker(context.waker());
        }
        if self.is_evicted() && !self.closes_itself.get() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// How the connection continues after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Request,
    End,
    /// Close after discarding input, because the client may still be sending.
    Linger,
    /// Switch to HTTP/2.
    Multiplex,
}
