//! Commands to a running server: stop, reload, reopen the log, hand over its sockets. A control
//! thread executes them one after the other, and restarts workers that fail.

use super::generation::{Generation, OnEnd, ServerState, WorkerEnded};
use crate::features;
use crate::worker::Served;
use laio::BackendKind;
use laio_serve_base::messages::{self, print};
use laio_serve_base::options::{Limits, Options};
use laio_serve_base::stop::Level;
use laio_serve_net::listen::Listening;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// A handle that sends commands to a server, from any thread.
#[derive(Clone, Debug)]
pub struct Control(Sender<Command>);

pub(crate) enum Command {
    Stop,
    Reload(Box<Options>, Sender<io::Result<Vec<&'static str>>>),
    ReopenLog(Sender<io::Result<()>>),
    Certificates(Sender<io::Result<()>>),
    Listeners(Sender<io::Result<Vec<OwnedFd>>>),
    HandOver,
    Ended(WorkerEnded),
}

impl Control {
    /// Stops the server: it accepts no more connections, finishes the responses in progress, and
    /// ends.
    pub fn stop(&self) {
        let _ = self.0.send(Command::Stop);
    }

    /// Switches to new options: new connections use them, responses in progress finish with the old
    /// ones. Returns the options that have changed but need a restart.
    ///
    /// # Errors
    /// Like [`crate::Server::start`]; the old options then stay in force.
    pub fn reload(&self, options: Options) -> io::Result<Vec<&'static str>> {
        self.ask(|reply| Command::Reload(Box::new(options), reply))
    }

    /// Opens the access log again, after its file was moved away.
    ///
    /// # Errors
    /// Returns the errors of opening; the server then keeps writing to the moved file.
    pub fn reopen_log(&self) -> io::Result<()> {
        self.ask(Command::ReopenLog)
    }

    /// Reads the certificates again, as the server does by itself when their files change. Existing
    /// connections are not affected.
    ///
    /// # Errors
    /// Names the malformed file, and the reason; the old certificates then stay in use.
    pub fn reload_certificates(&self) -> io::Result<()> {
        self.ask(Command::Certificates)
    }

    /// Returns the listening sockets, for a server that takes over.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn listeners(&self) -> io::Result<Vec<OwnedFd>> {
        self.ask(Command::Listeners)
    }

    /// Leaves the sockets to another server, finishes the responses in progress without a deadline,
    /// and ends.
    pub fn hand_over(&self) {
        let _ = self.0.send(Command::HandOver);
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<io::Result<T>>) -> Command) -> io::Result<T> {
        let (reply, answer) = channel();
        let _ = self.0.send(command(reply));
        let ended = |_| Err(io::Error::other("the server has ended"));
        answer.recv().unwrap_or_else(ended)
    }
}

/// Returns a function that reports the end of a worker to the control thread.
fn on_end(commands: &Sender<Command>) -> OnEnd {
    let commands = commands.clone();
    Arc::new(move |ended| drop(commands.send(Command::Ended(ended))))
}

/// The state of the control thread.
pub(crate) struct Service {
    kind: BackendKind,
    sockets: Listening,
    server_state: ServerState,
    /// The generation that serves, or served last.
    present: Generation,
    /// Earlier generations that finish their connections.
    past: Vec<Generation>,
    level: Level,
    /// When the server must have ended, once it was stopped.
    deadline: Option<Instant>,
    served: Served,
    /// Workers to restart, and when.
    restarts: Vec<(usize, Instant)>,
    commands: Receiver<Command>,
    sender: Sender<Command>,
}

impl Service {
    /// Starts the first generation of workers.
    ///
    /// # Errors
    /// Like [`Generation::start`].
    pub(crate) fn start(
        options: Options,
        kind: BackendKind,
        mut sockets: Listening,
    ) -> io::Result<Service> {
        let (sender, commands) = channel();
        let server_state = ServerState::new(&options)?;
        let present = Generation::start(
            0,
            options,
            kind,
            &sockets.shares,
            server_state.clone(),
            on_end(&sender),
        )?;
        sockets.adopt();
        server_state.slots.measure_capacity();
        // From now on workers answer the challenges.
        server_state.background.wake();
        Ok(Service {
            kind,
            sockets,
            server_state,
            present,
            past: Vec::new(),
            level: Level::Serving,
            deadline: None,
            served: Served::default(),
            restarts: Vec::new(),
            commands,
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
                Some(command) => self.execute(command),
                None => self.restart_due(),
            }
        }
        messages::flush(self.deadline);
        self.served
    }

    fn generations(&self) -> impl Iterator<Item = &Generation> {
        self.past.iter().chain([&self.present])
    }

    /// Returns the next command, or none when a worker is due for a restart.
    fn next(&self) -> Option<Command> {
        let due = self.restarts.iter().map(|&(_, due)| due).min();
        let Some(due) = due else {
            return self.commands.recv().ok();
        };
        let time = due.saturating_duration_since(Instant::now());
        self.commands.recv_timeout(time).ok()
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Stop => self.wind_down(Level::Stopping),
            Command::HandOver => {
                self.sockets.leave();
                if let Some(datagrams) = &self.server_state.datagrams {
                    datagrams.leave();
                }
                self.wind_down(Level::HandingOver);
            }
            Command::Reload(options, reply) => {
                let _ = reply.send(self.reload(*options));
            }
            Command::ReopenLog(reply) => {
                let mut logs = self.generations().filter_map(|one| one.shared.log.as_ref());
                let reopened = logs.try_for_each(|log| log.reopen());
                let _ = reply.send(reopened);
            }
            Command::Certificates(reply) => {
                let tls = self.present.shared.tls.as_ref();
                let _ = reply.send(tls.map_or(Ok(()), |tls| tls.reload()));
            }
            Command::Listeners(reply) => {
                let _ = reply.send(self.listeners());
            }
            Command::Ended(ended) => self.ended(ended),
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
        self.restarts.clear();
        self.server_state.background.end();
        if level == Level::Stopping && self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.present.options.limits.drain_time);
        }
        for generation in self.generations() {
            generation.shared.stop.raise(level);
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
        features::check_compiled(&options)?;
        let kept = options.keep_fixed_options(&self.present.options);
        options.observer = self.present.options.observer.clone();
        let number = self.present.number + 1;
        let new = Generation::start(
            number,
            options,
            self.kind,
            &self.sockets.shares,
            self.server_state.clone(),
            on_end(&self.sender),
        )?;
        let old = std::mem::replace(&mut self.present, new);
        self.server_state.background.wake();
        self.server_state.slots.measure_capacity();
        old.shared.stop.raise(Level::HandingOver);
        self.restarts.clear();
        self.past.push(old);
        if self.past.len() > Limits::GENERATIONS {
            print("too many reloads: closing the oldest connections still in progress");
            self.past[0].shared.stop.raise(Level::Cut);
        }
        Ok(kept)
    }

    fn ended(&mut self, ended: WorkerEnded) {
        let (number, worker) = (ended.generation, ended.worker);
        let present = self.present.number == number;
        let generation = match self.past.iter().position(|past| past.number == number) {
            Some(index) => &mut self.past[index],
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
                self.served.cache_hits += served.cache_hits;
                self.served.log_lines_lost += served.log_lines_lost;
            }
            Err(why) if present && self.level == Level::Serving => {
                print(format_args!(
                    "restarting worker {worker}, which has ended: {why}"
                ));
                // A worker that fails at once is restarted after a pause.
                let due = (started + Limits::RESTART_PAUSE).max(Instant::now());
                self.restarts.push((worker, due));
            }
            Err(why) => print(format_args!("worker {worker} has ended: {why}")),
        }
        let past = self.past.len();
        self.past.retain(|past| past.running() > 0);
        if self.past.len() < past {
            self.server_state.slots.measure_capacity();
            // The threads of the next generations may not get the memory of these.
            laio::memory::release_free_memory();
        }
    }

    /// Restarts the workers that are due.
    fn restart_due(&mut self) {
        let now = Instant::now();
        for (worker, due) in std::mem::take(&mut self.restarts) {
            if due > now {
                self.restarts.push((worker, due));
                continue;
            }
            if let Err(error) = self.present.restart(worker, &self.sockets.shares[worker]) {
                print(format_args!("cannot restart worker {worker}: {error}"));
                self.restarts.push((worker, now + Limits::RESTART_PAUSE));
            }
        }
    }
}
