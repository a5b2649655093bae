//! The only writer to standard output and standard error: writes whole lines, in order.

use crate::lock::lock;
use crate::outcome::Failure;
use crate::progress::Progress;
use laio::Errno;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Mutex;

/// Standard output and standard error, shared by all workers.
pub(crate) struct Console {
    program: String,
    /// Buffered standard output. Its lock also serializes lines on standard error.
    output: Mutex<Vec<u8>>,
    line_by_line: bool,
    /// The first failure of a standard stream.
    failed: Mutex<Option<Failure>>,
    progress: Progress,
}

/// The size in bytes at which buffered output is written.
const BUFFERED_MAX: usize = 64 << 10;

impl Console {
    pub(crate) fn new(program: &str, progress: Progress) -> Console {
        Console {
            program: program.to_owned(),
            output: Mutex::default(),
            failed: Mutex::default(),
            line_by_line: io::stdout().is_terminal(),
            progress,
        }
    }

    /// Prints a line on standard error, prefixed with the program's name.
    pub(crate) fn warn(&self, message: impl std::fmt::Display) {
        let mut output = lock(&self.output);
        self.write_out(&mut output);
        let line = format!("{}: {message}\n", self.program);
        // No stream is left to report a failure of standard error.
        self.progress
            .while_hidden(|| drop(io::stderr().write_all(line.as_bytes())));
    }

    /// Prints one or more lines on standard output.
    pub(crate) fn print(&self, line: &str) {
        let mut output = lock(&self.output);
        output.extend_from_slice(line.as_bytes());
        output.push(b'\n');
        if self.line_by_line || output.len() >= BUFFERED_MAX {
            self.write_out(&mut output);
        }
    }

    /// Prints a question on standard error, reads a line from standard input, and returns whether
    /// the answer is yes.
    pub(crate) fn ask(&self, question: &str) -> bool {
        let mut output = lock(&self.output);
        self.write_out(&mut output);
        self.progress.while_hidden(|| {
            let asked = if laio::process::was_closed(&io::stderr()) {
                Err(Errno::BADF.into())
            } else {
                write!(io::stderr(), "{}: {question}", self.program)
            };
            if let Err(error) = asked {
                self.record_failure(Failure::from_error(error, "write error"));
            }
            if laio::process::was_closed(&io::stdin()) {
                self.record_failure(Failure::from_error(
                    Errno::BADF.into(),
                    "error closing file",
                ));
                return false;
            }
            let mut answer = Vec::new();
            let read = io::stdin().lock().read_until(b'\n', &mut answer);
            read.is_ok() && matches!(answer.first(), Some(b'y' | b'Y'))
        })
    }

    /// Writes buffered output. Returns the first failure of a standard stream.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.write_out(&mut lock(&self.output));
        let mut failed = lock(&self.failed);
        failed.take().map_or(Ok(()), Err)
    }

    fn write_out(&self, output: &mut Vec<u8>) {
        if output.is_empty() {
            return;
        }
        // A closed pipe does not stop the copy; `finish` reports it.
        self.progress.while_hidden(|| {
            let mut stdout = io::stdout().lock();
            let written = if laio::process::was_closed(&stdout) {
                Err(Errno::BADF.into())
            } else {
                stdout.write_all(output).and_then(|()| stdout.flush())
            };
            if let Err(error) = written {
                self.record_failure(Failure::from_error(error, "write error"));
            }
        });
        output.clear();
    }

    fn record_failure(&self, failure: Failure) {
        let mut failed = lock(&self.failed);
        failed.get_or_insert(failure);
    }
}
