//! Signals of a server.

use super::observe::AdminHandle;
use super::{handover, interactive_end, load, notify, print_message};
use crate::Failure;
use crate::signals::{self, Second};
use laio_serve::{Control, Options};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::io;

/// Catches the signals. Called before other threads start, because these inherit the signal mask.
pub(super) fn catch() -> io::Result<Signals> {
    let others = [SIGHUP, SIGUSR1, SIGUSR2];
    signals::catch(&[SIGINT, SIGTERM], Second::Exits(1), &others)
}

/// Returns the signal that stops a process of `--processes`: one that the supervisor does not
/// ignore, because the processes inherit ignored signals.
pub(super) fn stopping() -> Signal {
    match signals::heeded(&[SIGTERM, SIGINT]).first() {
        Some(&SIGTERM) => Signal::TERM,
        Some(_) => Signal::INT,
        None => Signal::KILL,
    }
}

/// Executes signals on a separate thread.
pub(super) fn execute(
    mut signals: Signals,
    control: Control,
    admin: AdminHandle,
) -> io::Result<()> {
    signals::on_thread(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP if interactive_end() => control.stop(),
                SIGHUP => reload(&control),
                SIGUSR1 => match control.reopen_log() {
                    Ok(()) => print_message("reopened the access log"),
                    Err(error) => print_message(&format!(
                        "cannot reopen the access log, keeping the old file: {error}"
                    )),
                },
                SIGUSR2 if handover::is_supervised() => control.hand_over(),
                SIGUSR2 => {
                    if restart(&control) {
                        // The new process waits for the address.
                        admin.close();
                    }
                }
                _ if handover::is_supervised() => control.stop(),
                _ => {
                    print_message(
                        "stopping: finishing the responses in progress; a second signal ends the server now",
                    );
                    notify::send_state(notify::State::Stopping);
                    control.stop();
                    // Release the address for another instance.
                    admin.close();
                }
            }
        }
    })
}

/// Reads all options again, and uses them if they are valid.
fn reload(control: &Control) {
    notify::send_state(notify::State::Reloading);
    let options = load()
        .map_err(Failure::from)
        .and_then(|settings| settings.options());
    match options.and_then(|options: Options| Ok(control.reload(options)?)) {
        Ok(kept) if kept.is_empty() => print_message("reloaded the options"),
        Ok(kept) => print_message(&format!(
            "reloaded the options; changes of {} need a restart",
            kept.join(", ")
        )),
        Err(failure) => print_message(&format!("keeping the old options:\n{failure}")),
    }
    notify::send_state(notify::State::Ready);
}

/// Starts the program again, which may be another version now, and hands the sockets over to it.
/// Returns whether the new process serves.
fn restart(control: &Control) -> bool {
    let started = control
        .listeners()
        .and_then(|sockets| handover::start(sockets, false));
    match started {
        Ok(mut next) => {
            let number = next.child.id();
            if next.serves() {
                print_message(&format!(
                    "process {number} serves; finishing the responses in progress here"
                ));
                control.hand_over();
                return true;
            } else {
                let _ = next.child.wait();
                print_message(&format!(
                    "process {number} failed to start; this process continues"
                ));
            }
        }
        Err(error) => print_message(&format!("cannot start another process: {error}")),
    }
    false
}
