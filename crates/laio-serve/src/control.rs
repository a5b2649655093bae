//! Commands to a running server: stop, reload, reopen the log, hand over its sockets. A control
//! thread executes them one after the other, and restarts workers that fail.

use crate::generation::{Ended, Generation, Lasting};
use crate::listen::Listening;
use crate::messages::{self, say};
use crate::options::{Limits, Options};
use crate::server::Served;
use crate::stop::Level;
use laio::BackendKind;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// A handle that sends commands to a server, from any thread.
#[derive(Clone, Debug)]
pub struct Control(Sender<Order>);

pub(crate) enum Order {
    Stop,
    Reload(Box<Options>, Sender<io::Result<Vec<&'static str>>>),
    ReopenLog(Sender<io::Result<()>>),
    Certificates(Sender<io::Result<()>>),
    Listeners(Sender<io::Result<Vec<OwnedFd>>>),
    HandOver,
    Ended(Ended),
}

impl Control {
    /// Stops the server: it accepts no more connections, finishes the answers in progress, and
    /// ends.
    pub fn stop(&self) {
        let _ = self.0.send(Order::Stop);
    }

    /// Switches to new options: new connections use them, answers in progress finish with the old
    /// ones. Returns the options that have changed but need a restart.
    ///
    /// # Errors
    /// As [`crate::Server::start`]; the old options then stay in force.
    pub fn reload(&self, options: Options) -> io::Result<Vec<&'static str>> {
        self.ask(|reply| Order::Reload(Box::new(options), reply))
    }

    /// Opens the access log again, after its file was moved away.
    ///
    /// # Errors
    /// Those of opening; the server then keeps writing to the moved file.
    pub fn reopen_log(&self) -> io::Result<()> {
        self.ask(Order::ReopenLog)
    }

    /// Reads the certificates again, as the server does by itself when their files change. Existing
    /// connections are not affected.
    ///
    /// # Errors
    /// Names the malformed file, and the reason; the old certificates then stay in use.
    pub fn reload_certificates(&self) -> io::Result<()> {
        self.ask(Order::Certificates)
    }

    /// Returns the listening sockets, for a server that takes over.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        self.ask(Order::Listeners)
    }

    /// Leaves the sockets to another server, finishes the answers in progress without a deadline,
    /// and ends.
    pub fn hand_over(&self) {
        let _ = self.0.send(Order::HandOver);
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<io::Result<T>>) -> Order) -> io::Result<T> {
        let (reply, answer) = channel();
        let _ = self.0.send(order(reply));
        let ended = |_| Err(io::Error::other("the server has ended"));
        answer.recv().unwrap_or_else(ended)
    }
}

/// The state of the control thread.
pub(crate) struct Service {
    kind: BackendKind,
    sockets: Listening,
    lasting: Lasting,
    /// The generation that serves, or served last.
    present: Generation,
    /// Earlier generations that finish their connections.
    past: Vec<Generation>,
    level: Level,
    /// When the server must have ended, once it was stopped.
    deadline: Option<Instant>,
    served: Served,
    /// Workers to restart, and when.
    dead: Vec<(usize, Instant)>,
    orders: Receiver<Order>,
    sender: Sender<Order>,
}

impl Service {
    /// Starts the first generation of workers.
    ///
    /// # Errors
    /// As [`Generation::start`].
    pub(crate) fn start(
        options: Options,
        kind: BackendKind,
        mut sockets: Listening,
    ) -> io::Result<Service> {
        let (sender, orders) = channel();
        let lasting = Lasting::new()?;
        let present = Generation::start(
            0,
            options,
            kind,
            &sockets.shares,
            lasting.clone(),
            sender.clone(),
        )?;
        sockets.adopt();
        lasting.room.settle();
        Ok(Service {
            kind,
            sockets,
            lasting,
            present,
            past: Vec::new(),
            level: Level::Serving,
            deadline: None,
            served: Served::default(),
            dead: Vec::new(),
            orders,
            sender,
        })
    }

    pub(crate) fn control(&self) -> Control {
        Control(self.sender.clone())
    }

    /// Returns a description of the back end.
    pub(crate) fn backend(&self) -> &str {
        &self.present.backend
    }

    /// Executes commands until all workers have ended.
    pub(crate) fn run(mut self) -> Served {
        while self.level == Level::Serving || self.generations().any(|one| one.running() > 0) {
            match self.next() {
                Some(order) => self.obey(order),
                None => self.revive(),
            }
        }
        messages::flush(self.deadline);
        self.served
    }

    fn generations(&self) -> impl Iterator<Item = &Generation> {
        self.past.iter().chain([&self.present])
    }

    /// Returns the next command, or none when a worker is due for a restart.
    fn next(&self) -> Option<Order> {
        let due = self.dead.iter().map(|&(_, due)| due).min();
        let Some(due) = due else {
            return self.orders.recv().ok();
        };
        let time = due.saturating_duration_since(Instant::now());
        self.orders.recv_timeout(time).ok()
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Stop => self.wind_down(Level::Stopping),
            Order::HandOver => {
                self.sockets.leave();
                self.wind_down(Level::HandingOver);
            }
            Order::Reload(options, reply) => {
                let _ = reply.send(self.reload(*options));
            }
            Order::ReopenLog(reply) => {
                let mut logs = self.generations().filter_map(|one| one.shared.log.as_ref());
                let reopened = logs.try_for_each(|log| log.reopen());
                let _ = reply.send(reopened);
            }
            Order::Certificates(reply) => {
                let tls = self.present.shared.tls.as_ref();
                let _ = reply.send(tls.map_or(Ok(()), |tls| tls.reload()));
            }
            Order::Listeners(reply) => {
                let _ = reply.send(self.listeners());
            }
            Order::Ended(ended) => self.ended(ended),
        }
    }

    fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        if self.level > Level::Serving {
            return Err(io::Error::other("the server is about to end"));
        }
        if self.kind == BackendKind::Sync {
            let text = "the back end sync cannot hand over its sockets, because its workers block in accept";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let all = self.sockets.shares.iter().flatten();
        all.map(|share| share.socket.try_clone()).collect()
    }

    fn wind_down(&mut self, level: Level) {
        self.level = self.level.max(level);
        self.dead.clear();
        if level == Level::Stopping && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.present.options.limits.drain_time);
        }
        for generation in self.generations() {
            generation.shared.stop.ask(level);
        }
        // The workers close their sockets after they have accepted the connections that the kernel
        // had completed.
        self.sockets.close();
    }

    fn reload(&mut self, mut options: Options) -> io::Result<Vec<&'static str>> {
        if self.level > Level::Serving {
            return Err(io::Error::other("the server is about to end"));
        }
        if self.kind == BackendKind::Sync {
            let text = "the back end sync cannot reload options, because its workers block in accept; restart the server";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let kept = options.keep_what_stays(&self.present.options);
        options.observer = self.present.options.observer.clone();
        let number = self.present.number + 1;
        let new = Generation::start(
            number,
            options,
            self.kind,
            &self.sockets.shares,
            self.lasting.clone(),
            self.sender.clone(),
        )?;
        let old = std::mem::replace(&mut self.present, new);
        self.lasting.room.settle();
        old.shared.stop.ask(Level::HandingOver);
        self.dead.clear();
        self.past.push(old);
        if self.past.len() > Limits::GENERATIONS {
            say("too many reloads: closing the oldest connections still in progress");
            self.past[0].shared.stop.ask(Level::Cut);
        }
        Ok(kept)
    }

    fn ended(&mut self, ended: Ended) {
        let (number, worker) = (ended.generation, ended.worker);
        let present = self.present.number == number;
        let generation = match self.past.iter().position(|past| past.number == number) {
            Some(place) => &mut self.past[place],
            None if present => &mut self.present,
            // From a generation that failed to start.
            None => return,
        };
        let slot = &mut generation.workers[worker];
        let started = slot.started;
        if let Some(thread) = slot.thread.take() {
            let _ = thread.join();
        }
        match ended.outcome {
            Ok(served) => {
                self.served.connections += served.connections;
                self.served.requests += served.requests;
                self.served.kept += served.kept;
                self.served.log_lines_lost += served.log_lines_lost;
            }
            Err(why) if present && self.level == Level::Serving => {
                say(format_args!(
                    "restarting worker {worker}, which has ended: {why}"
                ));
                // A worker that fails at once is restarted after a pause.
                let due = (started + Limits::RESTART_PAUSE).max(Instant::now());
                self.dead.push((worker, due));
            }
            Err(why) => say(format_args!("worker {worker} has ended: {why}")),
        }
        let past = self.past.len();
        self.past.retain(|past| past.running() > 0);
        if self.past.len() < past {
            self.lasting.room.settle();
        }
    }

    /// Restarts the workers that are due.
    fn revive(&mut self) {
        let now = Instant::now();
        for (worker, due) in std::mem::take(&mut self.dead) {
            if due > now {
                self.dead.push((worker, due));
                continue;
            }
            if let Err(error) = self.present.restart(worker, &self.sockets.shares[worker]) {
                say(format_args!("cannot restart worker {worker}: {error}"));
                self.dead.push((worker, now + Limits::RESTART_PAUSE));
            }
        }
    }
}
