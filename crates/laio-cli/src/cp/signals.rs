//! Signals that stop a copy.

use crate::signals::{Second, catch, heeded};
use laio_cp::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::time::Duration;

/// The time within which a copy must stop.
const GRACE: Duration = Duration::from_secs(3);

/// A small stack: the thread must also start when memory is limited.
const STACK: usize = 128 << 10;

/// The signals that stop a copy.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// The first signal stops the copy; a second one kills the process.
pub(super) fn listen(stop: Stop) -> std::io::Result<()> {
    let mut signals = catch(&ENDING, Second::Killed, &[])?;
    let number = stop.number();
    let listening = std::thread::Builder::new()
        .name("laio-signals".to_owned())
        .stack_size(STACK)
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                stop.stop(signal);
                std::thread::sleep(GRACE);
                // A call may wait forever, such as opening a FIFO without a writer.
                std::process::exit(128 + signal);
            }
        });
    if listening.is_err() {
        // No thread can be started, so the handlers themselves leave the number where the copy looks for it.
        for signal in heeded(&ENDING) {
            signal_hook::flag::register_usize(signal, number.clone(), signal as usize)?;
        }
    }
    Ok(())
}
