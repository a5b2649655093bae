//! Signals that stop a copy.

use crate::signals::{Second, catch};
use laio_cp::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::time::Duration;

/// The time within which a copy must stop.
const GRACE: Duration = Duration::from_secs(3);

/// A small stack: the thread must also start when memory is limited.
const STACK: usize = 128 << 10;

/// The first signal stops the copy; a second one kills the process.
pub(super) fn listen(stop: Stop) -> std::io::Result<()> {
    let mut signals = catch(&[SIGINT, SIGTERM, SIGHUP], Second::Killed, &[])?;
    std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.stop(signal);
                std::thread::sleep(GRACE);
                // A call may wait forever, such as opening a FIFO without a writer.
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}
