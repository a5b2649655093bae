//! `--processes`: some processes serve on the same sockets, and another one, which does not serve, starts them again
//! if they die. Connections that wait meanwhile are taken by the others, or by the next.

use super::{Loaded, handover, load, notify, say, signals};
use crate::Failure;
use handover::Started;
use laio_serve::Listening;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::{Duration, Instant};

/// Between the start of a process and its next start, if it dies.
const PAUSE: Duration = Duration::from_secs(1);

struct Supervisor {
    sockets: Vec<Vec<OwnedFd>>,
    places: Vec<Place>,
    stopping: bool,
}

/// One process after the other.
struct Place {
    child: Option<Child>,
    started: Instant,
}

/// Supervises until it is asked to stop and all processes have ended.
pub(super) fn run(loaded: Loaded, processes: usize) -> Result<(), Failure> {
    let options = loaded.options()?;
    let descriptors = laio_serve::raise_descriptor_limit();
    laio_serve::check(&options)?;
    let mut signals = signals::catch()?;
    // Also if it is ignored: then the kernel would not say how the processes have ended.
    signals.add_signal(SIGCHLD)?;
    let mut listening = Listening::open(&options, processes)?;
    let mut supervisor = Supervisor {
        sockets: listening.take_shares(),
        places: Vec::new(),
        stopping: false,
    };
    for number in 0..processes {
        let child = supervisor.start(number)?;
        supervisor.places.push(Place {
            child: Some(child),
            started: Instant::now(),
        });
    }
    super::announce(
        &options.site.root,
        listening.addresses(),
        &format!("{processes} processes, {descriptors} descriptors each"),
    );
    listening.adopt();
    notify::tell(notify::State::Ready);
    handover::tell_ready()?;
    while supervisor.alive() {
        match supervisor.next(&mut signals) {
            Some(SIGCHLD) => supervisor.bury(),
            Some(SIGHUP) => supervisor.reload(),
            Some(SIGUSR1) => supervisor.tell_all(Signal::USR1),
            Some(SIGUSR2) if !supervisor.restart() => {}
            Some(SIGUSR2) => {
                listening.leave();
                supervisor.close(&mut listening);
            }
            Some(_) => {
                say("stopping: answers in flight are finished; once more ends at once");
                notify::tell(notify::State::Stopping);
                supervisor.stopping = true;
                supervisor.tell_all(signals::stopping());
                supervisor.close(&mut listening);
            }
            None => {}
        }
        supervisor.revive();
    }
    Ok(())
}

impl Supervisor {
    fn alive(&self) -> bool {
        !self.stopping || self.places.iter().any(|place| place.child.is_some())
    }

    /// Closes the sockets. The processes that serve on them have copies of their own, and close them by themselves.
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
        Err(format!("process {number} has ended before it served: {status}").into())
    }

    /// The next signal; none if a process is due to be started again.
    fn next(&self, signals: &mut Signals) -> Option<i32> {
        if self.stopping || self.places.iter().all(|place| place.child.is_some()) {
            return signals.forever().next();
        }
        std::thread::sleep(PAUSE / 10);
        signals.pending().next()
    }

    /// Notes which processes have ended.
    fn bury(&mut self) {
        for place in &mut self.places {
            let Some(child) = &mut place.child else {
                continue;
            };
            if let Ok(Some(status)) = child.try_wait() {
                if !self.stopping {
                    let number = child.id();
                    say(&format!(
                        "process {number} has ended ({status}): it is started again"
                    ));
                }
                place.child = None;
            }
        }
    }

    /// Starts again what has ended, though not one that dies at once without a pause.
    fn revive(&mut self) {
        if self.stopping {
            return;
        }
        for number in 0..self.places.len() {
            let place = &self.places[number];
            if place.child.is_some() || place.started.elapsed() < PAUSE {
                continue;
            }
            let started = self.start(number);
            let place = &mut self.places[number];
            place.started = Instant::now();
            match started {
                Ok(child) => place.child = Some(child),
                Err(failure) => say(&format!("{failure}; it is tried again")),
            }
        }
    }

    /// Has all processes read the options anew, if they make sense.
    fn reload(&self) {
        let options = load().and_then(|loaded| loaded.options());
        match options.and_then(|options| Ok(laio_serve::check(&options)?)) {
            Ok(()) => self.tell_all(Signal::HUP),
            Err(failure) => say(&format!("the options stay as they are:\n{failure}")),
        }
    }

    /// Has another process supervise others. Whether it does.
    fn restart(&mut self) -> bool {
        let clones = self.sockets.iter().flatten().map(OwnedFd::try_clone);
        let started = clones
            .collect::<Result<_, _>>()
            .and_then(|sockets| handover::start(sockets, false));
        match started {
            Ok(mut next) => {
                let number = next.child.id();
                if next.serves() {
                    say(&format!("process {number} supervises from now on"));
                    self.stopping = true;
                    self.tell_all(Signal::USR2);
                    return true;
                }
                let _ = next.child.wait();
                say("the new process does not serve; this one goes on");
                false
            }
            Err(error) => {
                say(&format!("no other process can be started: {error}"));
                false
            }
        }
    }

    fn tell_all(&self, signal: Signal) {
        let children = self.places.iter().filter_map(|place| place.child.as_ref());
        for pid in children.filter_map(|child| Pid::from_raw(child.id() as i32)) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}
