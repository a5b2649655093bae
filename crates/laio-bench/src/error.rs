//! Errors with the action that failed.

use std::fmt::{self, Display};
use std::io;

/// An I/O error, and the action that failed with it.
#[derive(Debug)]
pub struct Error {
    doing: String,
    cause: io::Error,
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.doing, self.cause)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Adds the action to a failed result.
pub(crate) trait While<T> {
    fn doing(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> While<T> for Result<T, E> {
    fn doing(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|cause| Error {
            doing: what.to_string(),
            cause: cause.into(),
        })
    }
}
