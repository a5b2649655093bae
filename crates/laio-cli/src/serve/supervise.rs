//! `--processes`: several processes serve on the same sockets, and a supervisor, which does not
//! serve, restarts those that fail. Meanwhile the others accept the connections, or the restarted
//! one does.

use super::{Settings, handover, load, notify, print_message, signals};
use crate::Failure;
use handover::Started;
use laio_serve::Listening;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

/// Minimum time between two starts of a process that fails.
const PAUSE: Duration = Duration::from_secs(1);

struct Supervisor {
    sockets: Vec<Vec<OwnedFd>>,
    processes: Vec<ProcessSlot>,
    stopping: bool,
}

/// A process and its successors.
struct ProcessSlot {
    child: Option<Child>,
    started: Instant,
}

/// Supervises until a signal stops it and all processes have ended.
pub(super) fn run(settings: &Settings, count: usize) -> Result<(), Failure> {
    let options = settings.options()?;
    let hosts = options.hosts.iter().map(|host| &host.site);
    let mut sites = hosts.chain([&options.site]);
    if sites.any(|site| site.uploads.webdav && site.uploads.who.is_some()) {
        let text = "--webdav with --upload cannot be combined with --processes, because its locks are in the memory of \
                    one process";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text).into());
    }
    let descriptors = laio_serve::raise_descriptor_limit();
    laio_serve::check(&options)?;
    let mut signals = signals::catch()?;
    // Catch SIGCHLD even if it is ignored, or the kernel would not report how the processes ended.
    signals.add_signal(SIGCHLD)?;
    let mut listening = Listening::open(&options, count)?;
    let mut supervisor = Supervisor {
        sockets: listening.take_shares(),
        processes: Vec::new(),
        stopping: false,
    };
    for number in 0..count {
        let child = supervisor.start(number)?;
        supervisor.processes.push(ProcessSlot {
            child: Some(child),
            started: Instant::now(),
        });
    }
    super::announce(
        options.site.directory(),
        listening.addresses(),
        &format!("{count} processes, {descriptors} descriptors each"),
    );
    listening.adopt();
    notify::send_state(notify::State::Ready);
    handover::report_ready()?;
    while supervisor.alive() {
        match supervisor.next(&mut signals) {
            Some(SIGCHLD) => supervisor.reap(),
            Some(SIGHUP) => supervisor.reload(),
            Some(SIGUSR1) => supervisor.signal_all(Signal::USR1),
            Some(SIGUSR2) if !supervisor.restart() => {}
            Some(SIGUSR2) => {
                listening.leave();
                supervisor.close(&mut listening);
            }
            Some(_) => {
                print_message(
                    "stopping: finishing the responses in progress; a second signal ends the server now",
                );
                notify::send_state(notify::State::Stopping);
                supervisor.stopping = true;
                supervisor.signal_all(signals::stopping());
                supervisor.close(&mut listening);
            }
            None => {}
        }
        supervisor.restart_ended();
    }
    Ok(())
}

impl Supervisor {
    fn alive(&self) -> bool {
        !self.stopping || self.processes.iter().any(|slot| slot.child.is_some())
    }

    /// Closes the sockets. The serving processes have duplicates, which they close themselves.
    fn close(&mut self, listening: &mut Listening) {
        self.sockets.clear();
        listening.close();
    }

    /// Starts a process and waits until it serves.
    fn start(&self, number: usize) -> Result<Child, Failure> {
        let clones = self.sockets[number].iter().map(OwnedFd::try_clone);
        let mut started: Started = handover::start(clones.collect::<Result<_, _>>()?, true)?;
        if started.serves() {
            return Ok(started.child);
        }
        let status = started.child.wait()?;
        Err(format!("process {number} ended before it served: {status}").into())
    }

    /// Returns the next signal, or none if a process is due for a restart.
    fn next(&self, signals: &mut Signals) -> Option<i32> {
        if self.stopping || self.processes.iter().all(|slot| slot.child.is_some()) {
            return signals.forever().next();
        }
        std::thread::sleep(PAUSE / 10);
        signals.pending().next()
    }

    /// Records which processes have ended.
    fn reap(&mut self) {
        for slot in &mut self.processes {
            let Some(child) = &mut slot.child else {
                continue;
            };
            if let Ok(Some(status)) = child.try_wait() {
                if !self.stopping {
                    let number = child.id();
                    print_message(&format!(
                        "process {number} has ended ({status}); restarting it"
                    ));
                }
                slot.child = None;
            }
        }
    }

    /// Restarts the processes that have ended, after a pause if they fail at once.
    fn restart_ended(&mut self) {
        if self.stopping {
            return;
        }
        for number in 0..self.processes.len() {
            let slot = &self.processes[number];
            if slot.child.is_some() || slot.started.elapsed() < PAUSE {
                continue;
            }
            let started = self.start(number);
            let slot = &mut self.processes[number];
            slot.started = Instant::now();
            match started {
                Ok(child) => slot.child = Some(child),
                Err(failure) => print_message(&format!("{failure}; trying again")),
            }
        }
    }

    /// Lets all processes read the options again, if they are valid.
    fn reload(&self) {
        let options = load()
            .map_err(Failure::from)
            .and_then(|settings| settings.options());
        match options.and_then(|options| Ok(laio_serve::check(&options)?)) {
            Ok(()) => self.signal_all(Signal::HUP),
            Err(failure) => print_message(&format!("keeping the old options:\n{failure}")),
        }
    }

    /// Starts another supervisor, which takes over. Returns whether it did.
    fn restart(&mut self) -> bool {
        let clones = self.sockets.iter().flatten().map(OwnedFd::try_clone);
        let started = clones
            .collect::<Result<_, _>>()
            .and_then(|sockets| handover::start(sockets, false));
        match started {
            Ok(mut next) => {
                let number = next.child.id();
                if next.serves() {
                    print_message(&format!("process {number} has taken over"));
                    self.stopping = true;
                    self.signal_all(Signal::USR2);
                    return true;
                }
                let _ = next.child.wait();
                print_message("the new process failed to start; this process continues");
                false
            }
            Err(error) => {
                print_message(&format!("cannot start another process: {error}"));
                false
            }
        }
    }

    fn signal_all(&self, signal: Signal) {
        let children = self.processes.iter().filter_map(|slot| slot.child.as_ref());
        for pid in children.filter_map(|child| Pid::from_raw(child.id() as i32)) {
            // The process may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}
