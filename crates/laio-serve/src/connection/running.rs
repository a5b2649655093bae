//! The running connections of a worker.

use super::state::{ConnectionState, DrainState};
use laio::ops::Readiness;
use laio_rt::future::{Either, race};
use laio_rt::sync::Notify;
use laio_rt::{Aborted, Descriptor, JoinHandle};
use laio_serve_base::observe;
use laio_serve_base::options::{Http2, IoStep, Limits};
use laio_serve_base::stop::{Interruptible, Level, Stop};
use laio_serve_core::request::directory_answer::DirectoryAnswer;
use laio_serve_core::services::Services;
use laio_serve_net::idle_eviction::ConnectionSlots;
use laio_serve_net::socket::is_quiet;
use laio_serve_proxy::ProxyServices;
use laio_serve_uploads::ChangeServices;
use pin_project_lite::pin_project;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The connections of a worker: their number, their eviction, and how they end with the worker.
pub(crate) struct Connections {
    services: Rc<Services>,
    pub(super) features: WorkerFeatures,
    stop: Arc<Stop>,
    most: usize,
    /// The limits of HTTP/2; none if it is disabled.
    pub(super) http2: Option<Http2>,
    draining: Cell<bool>,
    /// Connections between two requests are closed, and so are connections that finish a request.
    closes_idle: Cell<bool>,
    /// Wakes the tasks in [`Connections::wait_until_draining`]: accepting tasks and finished HTTP/2
    /// streams.
    drain_started: Notify,
    /// Connections by number.
    running: RefCell<HashMap<u64, RunningConnection>>,
    accepted: Cell<u64>,
    /// Tasks that wait for a connection to end: an accepting task, or the one that stops the
    /// worker.
    wakers: RefCell<Vec<Waker>>,
}

/// What single stages of a worker's requests need.
pub(crate) struct WorkerFeatures {
    pub(crate) change_services: ChangeServices,
    pub(crate) proxy_services: ProxyServices,
    pub(crate) directory_answers: Vec<Box<dyn DirectoryAnswer>>,
    /// Whether upstreams get requests in early data.
    pub(crate) passes_early: bool,
}

/// The task of a connection, and its state.
struct RunningConnection {
    task: JoinHandle<()>,
    connection_state: Rc<ConnectionState>,
    socket: Option<Descriptor>,
}

impl Connections {
    pub(crate) fn new(
        services: Rc<Services>,
        features: WorkerFeatures,
        stop: Arc<Stop>,
        most: usize,
        http2: Option<Http2>,
    ) -> Rc<Connections> {
        Rc::new(Connections {
            services,
            features,
            stop,
            most,
            http2,
            draining: Cell::new(false),
            closes_idle: Cell::new(false),
            drain_started: Notify::new(),
            running: RefCell::default(),
            accepted: Cell::new(0),
            wakers: RefCell::default(),
        })
    }

    /// Returns the number of connections accepted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.get()
    }

    /// Whether the worker is ending: it accepts only what is queued, and connections end after
    /// their present response.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get() || (self.services.contexts.sync && self.stop.is_raised())
    }

    /// Whether a connection in this state is closed at once: between two requests, once the worker
    /// closes idle connections.
    pub(crate) fn closes_when(&self, drain_state: DrainState) -> bool {
        self.closes_idle.get() && drain_state == DrainState::Between
    }

    /// Waits until the worker is ending.
    pub(crate) async fn wait_until_draining(&self) {
        while !self.is_draining() {
            self.drain_started.notified().await;
        }
    }

    /// Whether other workers have the sockets of this one, and accept the connections.
    pub(crate) fn hands_over(&self) -> bool {
        self.stop.level() == Level::HandingOver
    }

    /// Waits until other workers have the sockets of this one.
    pub(crate) async fn wait_for_hand_over(&self) {
        self.stop.reached(Level::HandingOver).await;
        if self.stop.level() > Level::HandingOver {
            std::future::pending().await
        }
    }

    /// Waits until all workers of the server stop. Does not end if only this worker closes its connections, after
    /// too many reloads.
    pub(crate) async fn wait_for_stop(&self) {
        self.stop.reached(Level::Stopping).await;
        if self.stop.level() > Level::Stopping {
            std::future::pending().await
        }
    }

    /// With the back end sync, registers a socket to be interrupted when the server stops.
    pub(crate) fn interruptible(&self, socket: &OwnedFd) -> Option<Interruptible> {
        if !self.services.contexts.sync {
            return None;
        }
        Some(self.stop.register(socket.try_clone().ok()?))
    }

    /// Returns the number of a new connection, and counts it.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        number
    }

    /// Serves a connection in a new task.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        connection_state: Rc<ConnectionState>,
        socket: Option<Descriptor>,
        serve: impl Future<Output = ()> + 'static,
    ) {
        let number = self.next_number();
        let guard = ConnectionGuard {
            connections: self.clone(),
            number,
        };
        let task = laio_rt::spawn(ServeUntilEvicted {
            serve,
            connection_state: connection_state.clone(),
            guard,
        });
        let running = RunningConnection {
            task,
            connection_state,
            socket,
        };
        self.running.borrow_mut().insert(number, running);
    }

    /// Whether the worker has as many connections as it may have.
    pub(crate) fn is_full(&self) -> bool {
        self.running.borrow().len() >= self.most
    }

    /// Waits until the worker may accept another connection.
    pub(crate) async fn wait_for_slot(&self, listener: &Descriptor) {
        if self.is_full() {
            race(
                self.wait_for_fewer_than(self.most),
                self.evict_while_clients_wait(listener),
            )
            .await;
        }
        self.services.slots.wait_for_capacity().await;
        if self.services.slots.is_evicting() {
            laio_rt::yield_now().await;
        }
    }

    /// Once a client waits in the listen queue, evicts idle connections, one after each pause:
    /// those between two requests, and those that have waited for their client longer than a head
    /// may take.
    async fn evict_while_clients_wait(&self, listener: &Descriptor) {
        let readable = Readiness::readable(listener.clone());
        let _ = self
            .services
            .contexts
            .submit(IoStep::Accept, readable)
            .await;
        loop {
            if !self.services.slots.is_evicting() {
                self.evict_longest_idle();
            }
            laio_rt::time::sleep(Limits::EVICTION_PAUSE).await;
        }
    }

    /// Evicts the connection that has been idle longest. Returns false if none is idle.
    fn evict_longest_idle(&self) -> bool {
        let all = self.running.borrow();
        let idle = all.values().filter_map(|running| {
            let slot = running.connection_state.slot.as_ref()?;
            let between = running.connection_state.drain_state.get() == DrainState::Between;
            (between || slot.has_idled(self.services.limits.head_time)).then_some(slot)
        });
        ConnectionSlots::evict_longest_idle_of(idle)
    }

    /// Whether the worker may have another connection, for which it evicts an idle one if it has to.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full() || self.evict_longest_idle()
    }

    /// Counts the eviction of a connection, and warns.
    pub(crate) fn note_eviction(&self) {
        observe::evicted();
        let text = "closing the connections that have been idle longest, to accept others";
        if self.running.borrow().len() < self.most {
            self.services
                .exhaustion_warning
                .warn(text, &rustix::io::Errno::MFILE.into());
        } else {
            let error = io::Error::other("the worker has reached --max-connections");
            self.services.exhaustion_warning.warn(text, &error);
        }
    }

    async fn wait_for_fewer_than(&self, count: usize) {
        poll_fn(|context| {
            if self.running.borrow().len() < count {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Closes idle connections, lets responses finish, and aborts the remaining connections at the
    /// deadline. During a hand-over idle connections get a grace period first, and there is no
    /// deadline.
    ///
    /// Returns the deadline, if there is one.
    pub(crate) async fn drain(&self, mut accepting: AcceptTasks) -> Option<Instant> {
        self.draining.set(true);
        self.drain_started.notify_waiters();
        let handed_over = async {
            let _ = accepting.ended().await;
            let grace =
                laio_rt::time::timeout(Limits::HAND_OVER_GRACE, self.wait_for_fewer_than(1));
            if grace.await.is_err() {
                self.closes_idle.set(true);
                self.abort(|_, running| {
                    running.connection_state.drain_state.get() == DrainState::Between
                });
            }
            self.wait_for_fewer_than(1).await;
        };
        if let Either::Right(()) = race(self.stop.reached(Level::Stopping), handed_over).await {
            return None;
        }
        let deadline = Instant::now() + self.services.limits.drain_time;
        let accepted_before_stop = self.accepted.get();
        let finished = laio_rt::time::timeout(self.services.limits.drain_time, async {
            let _ = accepting.ended().await;
            // Let the newest connections read a request that has already arrived.
            laio_rt::yield_now().await;
            self.close_idle(accepted_before_stop);
            let ended = self.wait_for_fewer_than(1);
            let grace = laio_rt::time::timeout(Limits::FIRST_REQUEST_GRACE, ended);
            if grace.await.is_err() {
                self.close_idle(u64::MAX);
                self.wait_for_fewer_than(1).await;
            }
        });
        race(self.stop.reached(Level::Cut), finished).await;
        accepting.abort();
        self.abort(|_, _| true);
        Some(deadline)
    }

    /// Closes idle connections. Keeps new ones that have unread input or a number of at least
    /// `accepted_before_stop`, because a request may still arrive there.
    fn close_idle(&self, accepted_before_stop: u64) {
        self.closes_idle.set(true);
        self.abort(
            |number, running| match running.connection_state.drain_state.get() {
                DrainState::InRequest => false,
                DrainState::Between => true,
                DrainState::New => {
                    number < accepted_before_stop && running.socket.as_ref().is_none_or(is_quiet)
                }
            },
        );
    }

    fn abort(&self, which: impl Fn(u64, &RunningConnection) -> bool) {
        let all = self.running.borrow();
        let numbers: Vec<_> = all
            .iter()
            .filter(|&(&number, running)| which(number, running))
            .map(|(&number, _)| number)
            .collect();
        drop(all);
        for number in numbers {
            // The task's guard removes it from the table too, so the table must not be borrowed
            // here.
            let running = self.running.borrow_mut().remove(&number);
            if let Some(running) = running {
                running.task.abort();
            }
        }
    }
}

/// The accepting tasks, one for each listening socket.
pub(crate) struct AcceptTasks(pub(crate) Vec<JoinHandle<()>>);

impl AcceptTasks {
    /// Waits until all tasks have ended, or one has failed.
    pub(crate) async fn ended(&mut self) -> Result<(), Aborted> {
        poll_fn(|context| {
            let mut died = None;
            self.0
                .retain_mut(|task| match Pin::new(task).poll(context) {
                    Poll::Ready(Err(aborted)) => {
                        died = Some(aborted);
                        false
                    }
                    Poll::Ready(Ok(())) => false,
                    Poll::Pending => true,
                });
            match died {
                Some(aborted) => Poll::Ready(Err(aborted)),
                None if self.0.is_empty() => Poll::Ready(Ok(())),
                None => Poll::Pending,
            }
        })
        .await
    }

    pub(crate) fn abort(&self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

pin_project! {
    /// The future of a connection's task. An `async` block would contain the future that serves the connection, and
    /// the connection beside it.
    struct ServeUntilEvicted<F> {
        #[pin]
        serve: F,
        connection_state: Rc<ConnectionState>,
        guard: ConnectionGuard,
    }
}

impl<F: Future<Output = ()>> Future for ServeUntilEvicted<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.connection_state.poll_evicted(context).is_ready() {
            this.guard.connections.note_eviction();
            return Poll::Ready(());
        }
        this.serve.poll(context)
    }
}

/// Removes a connection from the table when its task ends or is dropped.
struct ConnectionGuard {
    connections: Rc<Connections>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.running.borrow_mut().remove(&self.number);
        for waker in self.connections.wakers.take() {
            waker.wake();
        }
    }
}
