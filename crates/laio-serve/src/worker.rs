//! A worker: one thread with a context, an executor and a listening socket.

use crate::accept::accept;
use crate::connection::Connection;
use crate::log::Log;
use crate::options::{Limits, Options};
use crate::server::Served;
use crate::stop::Stop;
use laio_http::{DateCache, HttpDate};
use laio_rt::{Descriptor, JoinHandle, Runtime};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What the connections of a worker share.
pub(crate) struct Worker {
    pub(crate) root: Descriptor,
    pub(crate) log: Log,
    limits: Limits,
    connections_max: usize,
    clock: RefCell<DateCache>,
    stopping: Cell<bool>,
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
    root: OwnedFd,
    listener: OwnedFd,
    stop: Arc<Stop>,
) -> io::Result<Served> {
    runtime.block_on(async {
        let log = Log::start(&options.log, options.log_format).await?;
        let worker = Rc::new(Worker {
            root: Descriptor::from(root),
            log,
            limits: options.limits.clone(),
            connections_max: options
                .connections(laio_rt::with_context(|context| context.backend())),
            clock: RefCell::default(),
            stopping: Cell::new(false),
            connections: RefCell::default(),
            accepted: Cell::new(0),
            waiting: RefCell::default(),
        });
        let accepting = laio_rt::spawn(accept(worker.clone(), Descriptor::from(listener)));
        stop.asked().await;
        worker.stopping.set(true);
        accepting.abort();
        worker.drain().await;
        worker.log.finish().await;
        Ok(Served {
            connections: worker.accepted.get(),
            requests: worker.log.lines(),
        })
    })
}

impl Worker {
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether connections should end after their present answer.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// The date for an answer, and its second.
    pub(crate) fn now(&self) -> (HttpDate, i64) {
        let mut clock = self.clock.borrow_mut();
        let date = *clock.now();
        (date, clock.second())
    }

    /// Serves a connection in a task of its own.
    pub(crate) fn spawn(self: &Rc<Self>, connection: Connection, idle: Rc<Cell<bool>>) {
        let number = self.accepted.get();
        self.accepted.set(number + 1);
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
