//! Signals to the process.

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

/// Waits for signals. As long as it lives they do not have their usual effect; afterwards they are
/// ignored, since the handler stays.
///
/// Several may wait for the same signal, also on several threads: each is told.
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
    /// Kept when the future of `next` is dropped: an abandoned read could take a byte with it.
    read: Option<Submission<Read<Descriptor, Vec<u8>>>>,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    registrations: Vec<SigId>,
}

impl Signals {
    /// Waits for these signals.
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
            // In this order: whoever reads the byte must find the flag set.
            let id = signal_hook::flag::register(signal, flag.clone())?;
            made.registrations.push(id);
            made.flags.push((signal, flag));
            let id = signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
            made.registrations.push(id);
        }
        Ok(made)
    }

    /// Waits for one of the signals; returns which. Signals that come again before they are waited for
    /// are merged into one.
    ///
    /// # Errors
    /// Those of a read.
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
            // However many bytes: the flags tell what they mean.
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
