//! Ctrl-C: what was begun is given up and removed; a second one ends the process at once.

use crate::Failure;
use laio_bench::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What a signal asks to stop. Before other threads start, which inherit what is set up here.
pub(crate) fn listen() -> Result<Stop, Failure> {
    let stop = Stop::new();
    let impatient = Arc::new(AtomicBool::new(false));
    let signals = [SIGINT, SIGTERM, SIGHUP];
    for signal in signals {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, impatient.clone())?;
        signal_hook::flag::register(signal, impatient.clone())?;
    }
    let mut signals = Signals::new(signals)?;
    let asked = stop.clone();
    let thread = std::thread::Builder::new().name("laio-signals".to_owned());
    thread.spawn(move || {
        if signals.forever().next().is_some() {
            asked.stop();
        }
    })?;
    Ok(stop)
}
