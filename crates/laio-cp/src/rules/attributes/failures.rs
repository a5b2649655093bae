//! Collects the failures of one file. The last one becomes the file's result; earlier ones are
//! printed as they occur.

use crate::outcome::Failure;
use crate::session::Session;

/// The failures of one file.
pub(crate) struct Failures<'a> {
    session: &'a Session,
    last: Option<Failure>,
}

impl Failures<'_> {
    pub(crate) fn new(session: &Session) -> Failures<'_> {
        Failures {
            session,
            last: None,
        }
    }

    /// Adds a failure; prints the one before.
    pub(crate) fn add(&mut self, result: Result<(), Failure>) {
        let Err(failure) = result else { return };
        if let Some(before) = self.last.replace(failure) {
            self.session.console.warn(before);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Takes the last failure as the result of the file.
    pub(crate) fn result(&mut self) -> Result<(), Failure> {
        self.last.take().map_or(Ok(()), Err)
    }
}
