//! Signals that a command catches. A signal that is ignored when the process starts (`nohup`, a shell's
//! background job) stays ignored, in every command.

use laio::Limits;
use rustix::fs::{Mode, OFlags};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The effect of a second ending signal: it ends the process at once.
#[derive(Clone, Copy)]
pub(crate) enum Second {
    /// The signal's default action.
    Killed,
    /// The process exits with 128 plus the number of the signal.
    ExitsBySignal,
    /// The process exits with this status.
    Exits(i32),
}

/// Catches signals. Those in `ending` end the command, and a second one of them the process. Must be called
/// before other threads start, which inherit the signal mask.
pub(crate) fn catch(ending: &[i32], second: Second, others: &[i32]) -> io::Result<Signals> {
    make_room_for_descriptors();
    let impatient = Arc::new(AtomicBool::new(false));
    let ending = heeded(ending);
    for &signal in &ending {
        let impatient = impatient.clone();
        match second {
            Second::Killed => signal_hook::flag::register_conditional_default(signal, impatient)?,
            Second::ExitsBySignal => {
                signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, impatient)?
            }
            Second::Exits(status) => {
                signal_hook::flag::register_conditional_shutdown(signal, status, impatient)?
            }
        };
    }
    for &signal in &ending {
        signal_hook::flag::register(signal, impatient.clone())?;
    }
    Signals::new(ending.into_iter().chain(heeded(others)))
}

/// Runs what waits for signals on a thread of its own.
///
/// # Errors
/// Says why no thread can be started.
pub(crate) fn on_thread(body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let purpose = "the thread that waits for signals";
    laio::thread::start("laio-signals", purpose, body).map(drop)
}

/// Enlarges the process's table of descriptors to the numbers of the engine's own, while the process has one
/// thread: with several, the kernel waits for all processors before it replaces the table (`synchronize_rcu`),
/// some 10 ms. With a lower limit of descriptors, or none free, the table stays as it is.
fn make_room_for_descriptors() {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(any) = rustix::fs::open("/", flags, Mode::empty()) else {
        return;
    };
    let _ = rustix::io::fcntl_dupfd_cloexec(&any, Limits::OWN_DESCRIPTORS);
}

/// Returns those of these signals that the process does not ignore.
pub(crate) fn heeded(signals: &[i32]) -> Vec<i32> {
    let signals = signals.iter().copied();
    signals
        .filter(|signal| !laio::process::is_ignored(*signal))
        .collect()
}
