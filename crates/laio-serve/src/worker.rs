//! A worker: one thread with an engine context, an executor and listening sockets.

use crate::accept::{self, accept};
use crate::addresses::Addresses;
use crate::auth::PasswordCache;
use crate::buffers::BufferPool;
use crate::cache::Cache;
use crate::connection::Connection;
use crate::cpu_pool::CpuPool;
use crate::generation::GenerationState;
use crate::idle_eviction::{ConnectionSlot, ConnectionSlots};
use crate::io_contexts::{self, ConcurrencyLimit, ContextPlan};
use crate::listen::Share;
use crate::log::Log;
use crate::observe;
use crate::options::{Http2, Io, IoStep, Limits, Options};
use crate::resource_exhaustion::ExhaustionWarning;
use crate::server::Served;
use crate::site::Sites;
use crate::stop::{Interruptible, Level, Stop};
use crate::stream::Stream;
use crate::tls::{Session, Tls};
use crate::transfer::Pools;
use crate::upstream::is_quiet;
use laio::BackendKind;
use laio::ops::Readiness;
use laio_http::{DateCache, HttpDate};
use laio_rt::future::{Either, race};
use laio_rt::sync::{Notify, Semaphore};
use laio_rt::{Aborted, Descriptor, JoinHandle, Runtime};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

/// State shared by the connections of a worker.
pub(crate) struct Worker {
    pub(crate) sites: Sites,
    pub(crate) cache: Option<Cache>,
    pub(crate) buffer_pool: BufferPool,
    pub(crate) log: Log,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) cpu_pool: Arc<CpuPool>,
    pub(crate) password_cache: PasswordCache,
    pub(crate) auth_checks: Semaphore,
    pub(crate) compressions: Semaphore,
    pub(crate) io: Io,
    /// Bytes of a file read or sent at a time.
    pub(crate) chunk: usize,
    pub(crate) concurrency: ConcurrencyLimit,
    pub(crate) pools: Pools,
    pub(crate) exhaustion_warning: ExhaustionWarning,
    limits: Limits,
    http2: Option<Http2>,
    tls: Option<Arc<Tls>>,
    connections_max: usize,
    clock: RefCell<DateCache>,
    stop: Arc<Stop>,
    draining: Cell<bool>,
    /// Connections between two requests are closed, and so are connections that finish a request.
    closes_idle: Cell<bool>,
    /// Wakes the tasks in [`Worker::wait_until_draining`]: accepting tasks and finished HTTP/2
    /// streams.
    drain_started: Notify,
    /// Calls block the thread, and with it all tasks of the worker.
    sync: bool,
    /// Source of unpredictable numbers.
    random: RandomState,
    /// Connections by number.
    connections: RefCell<HashMap<u64, RunningConnection>>,
    accepted: Cell<u64>,
    /// Tasks that wait for a connection to end: an accepting task, or the one that stops the
    /// worker.
    wakers: RefCell<Vec<Waker>>,
}

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

/// The task of a connection, and its state.
struct RunningConnection {
    task: JoinHandle<()>,
    connection_state: Rc<ConnectionState>,
    socket: Option<Descriptor>,
}

/// The state of a connection for draining and eviction, shared between its task and the worker.
pub(crate) struct ConnectionState {
    drain_state: Cell<DrainState>,
    /// None with the back end sync, where a worker serves one connection at a time, and for HTTP/2
    /// streams, whose connection has the slot.
    slot: Option<ConnectionSlot>,
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

    /// Returns the state of an HTTP/2 request, which has no connection of its own.
    pub(crate) fn for_http2_stream() -> Rc<ConnectionState> {
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

    /// Waits for eviction; never ends while the connection handles eviction itself (HTTP/2 sends
    /// `GOAWAY`). Only the task that serves the connection may call this.
    async fn evicted(&self) {
        poll_fn(|context| {
            if let Some(slot) = &self.slot
                && !self.waker_set.replace(true)
            {
                slot.set_waker(context.waker());
            }
            match self.is_evicted() && !self.closes_itself.get() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Runs a worker on the calling thread until the server stops it and its connections have ended.
pub(crate) fn run(
    runtime: Runtime,
    options: &Options,
    shared: GenerationState,
    listeners: Vec<Share>,
) -> io::Result<Served> {
    runtime.block_on(async {
        let _observed = options.observer.observe_thread();
        let log = Log::start(shared.log.clone(), options.log_format)?;
        let backend = laio_rt::with_context(|context| context.backend());
        let stop = shared.stop;
        let sites = Sites::new(shared.sites)?;
        let worker = Rc::new(Worker {
            buffer_pool: BufferPool::default(),
            cache: Cache::new(&options.cache, sites.count(), options.workers(backend)),
            sites,
            log,
            addresses: shared.addresses,
            slots: shared.slots,
            cpu_pool: shared.cpu_pool,
            password_cache: PasswordCache::default(),
            auth_checks: Semaphore::new(options.limits.auth_checks),
            compressions: Semaphore::new(options.limits.compressions),
            io: options.io,
            chunk: options.io.chunk.unwrap_or(Limits::CHUNK),
            concurrency: ConcurrencyLimit::new(options, backend),
            pools: Pools::default(),
            exhaustion_warning: ExhaustionWarning::default(),
            limits: options.limits.clone(),
            http2: options.http2(backend),
            tls: shared.tls,
            connections_max: ContextPlan::new(options, backend)?.connections(options),
            clock: RefCell::default(),
            stop: stop.clone(),
            draining: Cell::new(false),
            closes_idle: Cell::new(false),
            drain_started: Notify::new(),
            sync: backend == BackendKind::Sync,
            random: RandomState::new(),
            connections: RefCell::default(),
            accepted: Cell::new(0),
            wakers: RefCell::default(),
        });
        let interruptible = listeners.iter().map(|it| worker.interruptible(&it.socket));
        let _interruptible: Vec<_> = interruptible.collect();
        listeners
            .iter()
            .try_for_each(|it| accept::prepare(&it.socket, worker.sync))?;
        let accept = |Share { socket, tls }| {
            laio_rt::spawn(accept(worker.clone(), Descriptor::from(socket), tls))
        };
        let mut accepting = AcceptTasks(listeners.into_iter().map(accept).collect());
        let hand_over = stop.reached(Level::HandingOver);
        if let Either::Left(Err(aborted)) = race(accepting.ended(), hand_over).await {
            let text = format!("the worker accepts no more connections: {aborted}");
            return Err(io::Error::other(text));
        }
        worker.draining.set(true);
        worker.drain_started.notify_waiters();
        let deadline = worker.drain(accepting).await;
        worker.log.finish(deadline).await;
        Ok(Served {
            connections: worker.accepted.get(),
            requests: worker.log.lines(),
            cache_hits: worker.cache.as_ref().map_or(0, Cache::hits),
            log_lines_lost: worker.log.lost(),
        })
    })
}

impl Worker {
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the worker accepts no more connections, and connections end after their present
    /// answer.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get() || (self.sync && self.stop.is_raised())
    }

    /// Whether a connection in this state is closed at once: between two requests, once the worker
    /// closes idle connections.
    pub(crate) fn closes_when(&self, drain_state: DrainState) -> bool {
        self.closes_idle.get() && drain_state == DrainState::Between
    }

    /// Waits until the worker should accept no more connections.
    pub(crate) async fn wait_until_draining(&self) {
        while !self.is_draining() {
            self.drain_started.notified().await;
        }
    }

    /// Whether calls block the thread, and with it all tasks of the worker.
    pub(crate) fn is_sync(&self) -> bool {
        self.sync
    }

    /// Returns the stream of a connection, encrypted if `tls` is set.
    ///
    /// # Errors
    /// Returns the errors of rustls about the configuration.
    pub(crate) fn stream(&self, socket: OwnedFd, tls: bool) -> io::Result<Stream> {
        let socket = Descriptor::from(socket);
        match self.tls.as_ref().filter(|_| tls) {
            Some(tls) => Ok(Stream::encrypted(Session::new(socket, tls.config.clone())?)),
            None => Ok(Stream::Plain(socket)),
        }
    }

    /// Returns the limits of HTTP/2, or none if it is disabled.
    pub(crate) fn http2(&self) -> Option<Http2> {
        self.http2.clone()
    }

    /// Returns an unpredictable number.
    pub(crate) fn random(&self) -> u64 {
        self.random
            .hash_one((self.accepted.get(), self.log.lines()))
    }

    /// With the back end sync, registers a socket to be interrupted when the server stops.
    pub(crate) fn interruptible(&self, socket: &OwnedFd) -> Option<Interruptible> {
        let duplicate = self.sync.then(|| socket.try_clone().ok()).flatten()?;
        Some(self.stop.register(duplicate))
    }

    /// Returns the number of a new connection, and counts it.
    pub(crate) fn next_number(&self) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        number
    }

    /// Returns the date of an answer, and its second.
    pub(crate) fn now(&self) -> (HttpDate, i64) {
        let mut clock = self.clock.borrow_mut();
        let date = *clock.now();
        (date, clock.second())
    }

    /// Serves a connection in a new task.
    pub(crate) fn spawn(
        self: &Rc<Self>,
        connection: Connection,
        connection_state: Rc<ConnectionState>,
    ) {
        let number = self.next_number();
        let guard = ConnectionGuard {
            worker: self.clone(),
            number,
        };
        let (state, socket) = (connection_state.clone(), connection.socket());
        let task = laio_rt::spawn(async move {
            let guard = guard;
            if let Either::Left(()) = race(state.evicted(), connection.serve()).await {
                guard.worker.note_eviction();
            }
        });
        self.connections.borrow_mut().insert(
            number,
            RunningConnection {
                task,
                connection_state,
                socket,
            },
        );
    }

    /// Waits until the worker may accept another connection.
    pub(crate) async fn wait_for_slot(&self, listener: &Descriptor) {
        if self.connections.borrow().len() >= self.connections_max {
            race(
                self.wait_for_fewer_than(self.connections_max),
                self.evict_while_clients_wait(listener),
            )
            .await;
        }
        self.slots.wait_for_capacity().await;
        if self.slots.is_evicting() {
            laio_rt::yield_now().await;
        }
    }

    /// Once a client waits in the listen queue, evicts idle connections, one after each pause:
    /// those between two requests, and those that have waited for their client longer than a head
    /// may take.
    async fn evict_while_clients_wait(&self, listener: &Descriptor) {
        let readable = Readiness::readable(listener.clone());
        let _ = io_contexts::submit(IoStep::Accept, readable).await;
        loop {
            self.evict_longest_idle();
            laio_rt::time::sleep(Limits::EVICTION_PAUSE).await;
        }
    }

    fn evict_longest_idle(&self) {
        if self.slots.is_evicting() {
            return;
        }
        let all = self.connections.borrow();
        let idle = all.values().filter_map(|running| {
            let slot = running.connection_state.slot.as_ref()?;
            let between = running.connection_state.drain_state.get() == DrainState::Between;
            (between || slot.has_idled(self.limits.head_time)).then_some(slot)
        });
        self.slots.evict_longest_idle_of(idle);
    }

    /// Counts the eviction of a connection, and warns.
    pub(crate) fn note_eviction(&self) {
        observe::evicted();
        let text = "closing the connections that have been idle longest, to accept others";
        if self.connections.borrow().len() < self.connections_max {
            self.exhaustion_warning
                .warn(text, &rustix::io::Errno::MFILE.into());
        } else {
            let error = io::Error::other("the worker has reached --max-connections");
            self.exhaustion_warning.warn(text, &error);
        }
    }

    /// Evicts an idle connection if `error` is EMFILE. Returns false if the caller should not try
    /// again.
    pub(crate) async fn evict_for_descriptor(&self, error: &io::Error) -> bool {
        let short = error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error());
        if !short || self.sync || !self.slots.evict_longest_idle() {
            return false;
        }
        laio_rt::time::sleep(Limits::EVICTION_PAUSE).await;
        true
    }

    async fn wait_for_fewer_than(&self, count: usize) {
        poll_fn(|context| {
            if self.connections.borrow().len() < count {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Closes idle connections, lets answers finish, and aborts the remaining connections at the
    /// deadline. During a hand-over idle connections get a grace period first, and there is no
    /// deadline.
    ///
    /// Returns the deadline, if there is one.
    async fn drain(&self, mut accepting: AcceptTasks) -> Option<Instant> {
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
        let deadline = Instant::now() + self.limits.drain_time;
        let accepted_before_stop = self.accepted.get();
        let finished = laio_rt::time::timeout(self.limits.drain_time, async {
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
        let all = self.connections.borrow();
        let numbers: Vec<_> = all
            .iter()
            .filter(|&(&number, running)| which(number, running))
            .map(|(&number, _)| number)
            .collect();
        drop(all);
        for number in numbers {
            // The task's guard removes it from the table too, so the table must not be borrowed
            // here.
            let running = self.connections.borrow_mut().remove(&number);
            if let Some(running) = running {
                running.task.abort();
            }
        }
    }
}

/// The accepting tasks, one for each listening socket.
struct AcceptTasks(Vec<JoinHandle<()>>);

impl AcceptTasks {
    /// Waits until all tasks have ended, or one has failed.
    async fn ended(&mut self) -> Result<(), Aborted> {
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

    fn abort(&self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Removes a connection from the table when its task ends or is dropped.
struct ConnectionGuard {
    worker: Rc<Worker>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.worker.connections.borrow_mut().remove(&self.number);
        for waker in self.worker.wakers.take() {
            waker.wake();
        }
    }
}
