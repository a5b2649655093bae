//! Warnings about exhausted descriptors or memory, limited in rate.

use laio_serve_base::messages::print;
use laio_serve_base::options::Limits;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::time::Instant;

/// The time of the last warning.
#[derive(Debug, Default)]
pub struct ExhaustionWarning(Cell<Option<Instant>>);

impl ExhaustionWarning {
    /// Warns that a resource is exhausted, with its consequence and a hint. Returns whether the
    /// warning was printed.
    pub fn warn(&self, what: &str, error: &io::Error) -> bool {
        let last = self.0.get();
        if last.is_some_and(|last| last.elapsed() < Limits::EXHAUSTION_WARN_INTERVAL) {
            return false;
        }
        self.0.set(Some(Instant::now()));
        let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE) => "; ulimit -n is too low",
            Some(Errno::NFILE) => "; fs.file-max is too low",
            _ => "",
        };
        print(format_args!("{what}: {error}{hint}"));
        true
    }
}

/// Whether the error is the exhaustion of a resource that other requests will free.
pub fn is_resource_exhaustion(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_limited_in_rate() {
        let exhaustion_warning = ExhaustionWarning::default();
        let error = io::Error::from(Errno::MFILE);
        assert!(is_resource_exhaustion(&error) && !is_resource_exhaustion(&Errno::NOENT.into()));
        assert!(exhaustion_warning.warn("a test has no descriptors", &error));
        assert!(!exhaustion_warning.warn("a test has no descriptors", &error));
        let long_ago = Instant::now().checked_sub(Limits::EXHAUSTION_WARN_INTERVAL);
        exhaustion_warning.0.set(long_ago);
        assert!(long_ago.is_none() || exhaustion_warning.warn("a test has no descriptors", &error));
    }
}
