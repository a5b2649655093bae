//! Ctrl-C: the first one stops the command, which removes its files; a second one ends the process at once.

use crate::Failure;
use crate::signals::{Second, catch};
use laio_bench::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Installs the signal handlers, and returns the request to stop that they set. Must be called before other
/// threads start, which inherit the signal mask.
pub(crate) fn listen() -> Result<Stop, Failure> {
    let stop = Stop::new();
    let mut signals = catch(&[SIGINT, SIGTERM, SIGHUP], Second::ExitsBySignal, &[])?;
    let asked = stop.clone();
    crate::signals::on_thread(move || {
        if signals.forever().next().is_some() {
            asked.stop();
        }
    })?;
    Ok(stop)
}
