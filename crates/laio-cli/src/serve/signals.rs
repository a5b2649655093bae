//! What signals ask of a server.

use super::observe::AdminHandle;
use super::{handover, interactive_end, load, notify, say};
use crate::signals::{self, Second};
use laio_serve::{Control, Options};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io;

/// The signals, caught from now on: before there are other threads, which inherit what is set up here.
pub(super) fn catch() -> io::Result<Signals> {
    let others = [SIGHUP, SIGUSR1, SIGUSR2];
    signals::catch(&[SIGINT, SIGTERM], Second::Exits(1), &others)
}

/// The signal by which a process of `--processes` is stopped: it inherits what the one that supervises ignores, so
/// one of the two is left whenever the supervisor itself can be stopped.
pub(super) fn stopping() -> Signal {
    match signals::heeded(&[SIGTERM, SIGINT]).first() {
        Some(&SIGTERM) => Signal::TERM,
        Some(_) => Signal::INT,
        None => Signal::KILL,
    }
}

/// Does what signals ask, on a thread of its own.
pub(super) fn obey(mut signals: Signals, control: Control, admin: AdminHandle) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("laio-signals".to_owned());
    thread.spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP if interactive_end() => control.stop(),
                SIGHUP => reload(&control),
                SIGUSR1 => match control.reopen_log() {
                    Ok(()) => say("the access log is opened anew"),
                    Err(error) => say(&format!("the access log stays where it is: {error}")),
                },
                SIGUSR2 if handover::is_supervised() => control.hand_over(),
                SIGUSR2 => {
                    if restart(&control) {
                        // The other one waits for the address.
                        admin.close();
                    }
                }
                _ if handover::is_supervised() => control.stop(),
                _ => {
                    say("stopping: answers in flight are finished; once more ends at once");
                    notify::tell(notify::State::Stopping);
                    control.stop();
                    // From now on another instance can have this address, too.
                    admin.close();
                }
            }
        }
    })?;
    Ok(())
}

/// Reads all options anew, and serves with them if they make sense.
fn reload(control: &Control) {
    notify::tell(notify::State::Reloading);
    let options = load().and_then(|loaded| loaded.options());
    match options.and_then(|options: Options| Ok(control.reload(options)?)) {
        Ok(kept) if kept.is_empty() => say("the options were read anew"),
        Ok(kept) => say(&format!(
            "the options were read anew; changes of {} take a restart",
            kept.join(", ")
        )),
        Err(failure) => say(&format!("the options stay as they are:\n{failure}")),
    }
    notify::tell(notify::State::Ready);
}

/// Starts this program anew, which may be another version by now, and leaves the sockets to it when it serves.
/// Whether it does.
fn restart(control: &Control) -> bool {
    let started = control
        .listeners()
        .and_then(|sockets| handover::start(sockets, false));
    match started {
        Ok(mut next) => {
            let number = next.child.id();
            if next.serves() {
                say(&format!(
                    "process {number} serves; answers in flight are finished here"
                ));
                control.hand_over();
                return true;
            } else {
                let _ = next.child.wait();
                say(&format!(
                    "process {number} does not serve; this one goes on"
                ));
            }
        }
        Err(error) => say(&format!("no other process can be started: {error}")),
    }
    false
}
