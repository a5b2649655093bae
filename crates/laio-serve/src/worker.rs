//! A worker: one thread with a context, an executor and a listening socket.

use crate::accept::accept;
use crate::addresses::Addresses;
use crate::aside::Aside;
use crate::auth::Remembered;
use crate::cache::Cache;
use crate::connection::Connection;
use crate::log::Log;
use crate::options::{Limits, Options};
use crate::server::{Served, Shared};
use crate::site::Sites;
use crate::stop::{Interruptible, Stop};
use laio::BackendKind;
use laio_http::{DateCache, HttpDate};
use laio_rt::sync::Semaphore;
use laio_rt::{Descriptor, JoinHandle, Runtime};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) sites: Sites,
    pub(crate) cache: Option<Cache>,
    pub(crate) log: Log,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) aside: Arc<Aside>,
    pub(crate) remembered: Remembered,
    pub(crate) auth_checks: Semaphore,
    pub(crate) compressions: Semaphore,
    limits: Limits,
    connections_max: usize,
    clock: RefCell<DateCache>,
    stop: Arc<Stop>,
    stopping: Cell<bool>,
    /// Calls wait in the kernel, and with them all tasks of the worker.
    sync: bool,
    /// For numbers that nobody foresees.
    random: RandomState,
    /// Connections by number.
    connections: RefCell<HashMap<u64, Running>>,
    accepted: Cell<u64>,
    /// Who waits for a connection to end: the accepting task, or the one that stops the worker.
    waiting: RefCell<Vec<Waker>>,
}

/// A connection being served.
struct Running {
    task: JoinHandle<()>,
    /// Between two requests.
    idle: Rc<Cell<bool>>,
}

/// Runs a worker on the calling thread until it is asked to stop and its connections have ended.
pub(crate) fn run(
    runtime: Runtime,
    options: &Options,
    shared: Shared,
    listeners: Vec<OwnedFd>,
) -> io::Result<Served> {
    runtime.block_on(async {
        let log = Log::start(&options.log, options.log_format).await?;
        let backend = laio_rt::with_context(|context| context.backend());
        let stop = shared.stop;
        let sites = Sites::new(shared.sites)?;
        let worker = Rc::new(Worker {
            cache: Cache::new(&options.cache, sites.count()),
            sites,
            log,
            addresses: shared.addresses,
            aside: shared.aside,
            remembered: Remembered::default(),
            auth_checks: Semaphore::new(options.limits.auth_checks),
            compressions: Semaphore::new(options.limits.compressions),
            limits: options.limits.clone(),
            connections_max: options.connections(backend),
            clock: RefCell::default(),
            stop: stop.clone(),
            stopping: Cell::new(false),
            sync: backend == BackendKind::Sync,
            random: RandomState::new(),
            connections: RefCell::default(),
            accepted: Cell::new(0),
            waiting: RefCell::default(),
        });
        let interruptible = listeners.iter().map(|it| worker.interruptible(it));
        let _interruptible: Vec<_> = interruptible.collect();
        let accept = |listener| laio_rt::spawn(accept(worker.clone(), Descriptor::from(listener)));
        let accepting: Vec<_> = listeners.into_iter().map(accept).collect();
        stop.asked().await;
        worker.stopping.set(true);
        accepting.iter().for_each(JoinHandle::abort);
        worker.drain().await;
        worker.log.finish().await;
        Ok(Served {
            connections: worker.accepted.get(),
            requests: worker.log.lines(),
            kept: worker.cache.as_ref().map_or(0, Cache::hits),
        })
    })
}

impl Worker {
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether connections should end after their present answer.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get() || (self.sync && self.stop.is_asked())
    }

    /// Whether calls wait in the kernel, and with them all tasks of the worker.
    pub(crate) fn is_sync(&self) -> bool {
        self.sync
    }

    /// A number that nobody foresees.
    pub(crate) fn random(&self) -> u64 {
        self.random
            .hash_one((self.accepted.get(), self.log.lines()))
    }

    /// With the back end sync, has a socket be interrupted when the server stops.
    pub(crate) fn interruptible(&self, socket: &OwnedFd) -> Option<Interruptible> {
        let again = self.sync.then(|| socket.try_clone().ok()).flatten()?;
        Some(self.stop.interrupts(again))
    }

    /// Counts a connection, and gives it a number.
    pub(crate) fn count(&self) -> u64 {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
        number
    }

    /// The date for an answer, and its second.
    pub(crate) fn now(&self) -> (HttpDate, i64) {
        let mut clock = self.clock.borrow_mut();
        let date = *clock.now();
        (date, clock.second())
    }

    /// Serves a connection in a task of its own.
    pub(crate) fn spawn(self: &Rc<Self>, connection: Connection, idle: Rc<Cell<bool>>) {
        let number = self.count();
        let worker = self.clone();
        let task = laio_rt::spawn(async move {
            connection.serve().await;
            worker.ended(number);
        });
        self.connections
            .borrow_mut()
            .insert(number, Running { task, idle });
    }

    fn ended(&self, number: u64) {
        self.connections.borrow_mut().remove(&number);
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits until there is room for another connection.
    pub(crate) async fn room(&self) {
        self.fewer_than(self.connections_max).await;
    }

    async fn fewer_than(&self, count: usize) {
        poll_fn(|context| {
            if self.connections.borrow().len() < count {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Ends idle connections at once, lets the others finish their answer, and ends what is left when
    /// the time is up.
    async fn drain(&self) {
        self.abort(|idle| idle);
        let _ = laio_rt::time::timeout(self.limits.drain_time, self.fewer_than(1)).await;
        self.abort(|_| true);
    }

    fn abort(&self, which: impl Fn(bool) -> bool) {
        self.connections.borrow_mut().retain(|_, running| {
            let ends = which(running.idle.get());
            if ends {
                running.task.abort();
            }
            !ends
        });
    }
}
