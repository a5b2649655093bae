//! Waiting for signals to the process.

use crate::Descriptor;
use crate::submission::{Submission, submit};
use laio::ops::Read;
use signal_hook::SigId;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/// Waits for signals. While it lives, the signals do not have their default effect. Afterwards they are ignored,
/// because the handler stays installed.
///
/// Several `Signals`, also on several threads, may wait for the same signal: each receives it.
///
/// ```no_run
/// use laio_rt::signal::{SIGINT, SIGTERM, Signals};
/// # async fn wait() -> std::io::Result<()> {
/// let mut signals = Signals::new(&[SIGTERM, SIGINT])?;
/// let which = signals.next().await?;
/// # let _ = which; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Signals {
    reader: Descriptor,
    /// The pending read. It survives when the future of `next` is dropped, because an abandoned read could
    /// consume a byte.
    read: Option<Submission<Read<Descriptor, Vec<u8>>>>,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    registrations: Vec<SigId>,
}

impl Signals {
    /// Installs handlers for these signals.
    ///
    /// # Errors
    /// `EINVAL` for a signal that does not exist or cannot be handled.
    ///
    /// # Panics
    /// For `SIGKILL`, `SIGSTOP`, `SIGILL`, `SIGFPE` and `SIGSEGV`.
    pub fn new(signals: &[i32]) -> io::Result<Signals> {
        let (reader, writer) = UnixStream::pair()?;
        let mut made = Signals {
            reader: OwnedFd::from(reader).into(),
            read: None,
            flags: Vec::new(),
            registrations: Vec::new(),
        };
        for &signal in signals {
            let flag = Arc::new(AtomicBool::new(false));
            // The flag's handler runs first, so that the reader of the byte finds the flag set.
            let id = signal_hook::flag::register(signal, flag.clone())?;
            made.registrations.push(id);
            made.flags.push((signal, flag));
            let id = signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
            made.registrations.push(id);
        }
        Ok(made)
    }

    /// Waits for one of the signals, and returns its number. A signal that arrives several times before the
    /// program waits for it is returned once.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn next(&mut self) -> io::Result<i32> {
        loop {
            let came = |(_, flag): &&(i32, Arc<AtomicBool>)| flag.swap(false, Ordering::AcqRel);
            if let Some((signal, _)) = self.flags.iter().find(came) {
                return Ok(*signal);
            }
            let reader = &self.reader;
            let read = self
                .read
                .get_or_insert_with(|| submit(Read::new(reader.clone(), Vec::with_capacity(64))));
            let (result, _) = read.await;
            self.read = None;
            // The number of bytes does not matter: the flags identify the signals.
            if result? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registrations.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
