//! Ctrl-C: what was begun is given up and removed; a second one ends the process at once.

use crate::Failure;
use crate::signals::{Second, catch};
use laio_bench::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What a signal asks to stop. Before other threads start, which inherit what is set up here.
pub(crate) fn listen() -> Result<Stop, Failure> {
    let stop = Stop::new();
    let mut signals = catch(&[SIGINT, SIGTERM, SIGHUP], Second::ExitsBySignal, &[])?;
    let asked = stop.clone();
    let thread = std::thread::Builder::new().name("laio-signals".to_owned());
    thread.spawn(move || {
        if signals.forever().next().is_some() {
            asked.stop();
        }
    })?;
    Ok(stop)
}
