//! Warnings about exhausted descriptors or memory, limited in rate.

use crate::messages::say;
use crate::options::Limits;
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use std::time::Instant;

/// The time of the last warning.
#[derive(Debug, Default)]
pub(crate) struct Shortage(Cell<Option<Instant>>);

impl Shortage {
    /// Warns that a resource is exhausted, with its consequence and a hint. Returns whether the
    /// warning was printed.
    pub(crate) fn tell(&self, what: &str, error: &io::Error) -> bool {
        let said = self.0.get();
        if said.is_some_and(|said| said.elapsed() < Limits::SHORTAGE_SAY_EVERY) {
            return false;
        }
        self.0.set(Some(Instant::now()));
        let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::MFILE) => "; ulimit -n is too low",
            Some(Errno::NFILE) => "; fs.file-max is too low",
            _ => "",
        };
        say(format_args!("{what}: {error}{hint}"));
        true
    }
}

/// Whether the error is the exhaustion of a resource that other requests will free.
pub(crate) fn is_one(error: &io::Error) -> bool {
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
    fn it_is_said_now_and_then() {
        let shortage = Shortage::default();
        let error = io::Error::from(Errno::MFILE);
        assert!(is_one(&error) && !is_one(&Errno::NOENT.into()));
        assert!(shortage.tell("a test has no descriptors", &error));
        assert!(!shortage.tell("a test has no descriptors", &error));
        let long_ago = Instant::now().checked_sub(Limits::SHORTAGE_SAY_EVERY);
        shortage.0.set(long_ago);
        assert!(long_ago.is_none() || shortage.tell("a test has no descriptors", &error));
    }
}
