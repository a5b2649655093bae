//! What is being done, for people who watch.

use std::io::{IsTerminal, Write};

/// A line on standard error that says what is being done, if someone watches.
pub(crate) struct StatusLine {
    watched: bool,
}

impl StatusLine {
    /// Moves to the start of the line and empties it.
    const EMPTY: &str = "\r\x1b[K";

    pub(crate) fn new() -> StatusLine {
        StatusLine {
            watched: std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.watched {
            let mut stderr = std::io::stderr();
            // Whether it can be shown changes nothing.
            let _ = write!(stderr, "{}{text} …", StatusLine::EMPTY);
            let _ = stderr.flush();
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.watched {
            let _ = write!(std::io::stderr(), "{}", StatusLine::EMPTY);
        }
    }
}
