//! The progress line.

use std::io::{IsTerminal, Write};

/// A progress line on standard error, shown only on a terminal.
pub(crate) struct StatusLine {
    watched: bool,
}

impl StatusLine {
    /// Moves the cursor to the start of the line and clears it.
    const EMPTY: &str = "\r\x1b[K";

    pub(crate) fn new() -> StatusLine {
        StatusLine {
            watched: std::io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&mut self, text: &str) {
        if self.watched {
            let mut stderr = std::io::stderr();
            // An error is ignored, because the line is only informative.
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
