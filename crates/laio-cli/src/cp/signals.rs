//! Signals that end a copy before its time.

use crate::signals::{Second, catch};
use laio_cp::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::time::Duration;

/// How long a copy that was asked to stop may take to do so.
const GRACE: Duration = Duration::from_secs(3);

/// The thread does little, and is there also for a copy that has little memory.
const STACK: usize = 128 << 10;

/// The first signal stops the copy; a second one ends the process at once.
pub(super) fn listen(stop: Stop) -> std::io::Result<()> {
    let mut signals = catch(&[SIGINT, SIGTERM, SIGHUP], Second::Killed, &[])?;
    std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.stop(signal);
                std::thread::sleep(GRACE);
                // A call waits that nobody can end, such as opening a FIFO that has no writer.
                std::process::exit(128 + signal);
            }
        })?;
    Ok(())
}
