//! The one place that writes messages: whole lines, in the order in which they come.

use crate::outcome::Failure;
use crate::progress::Progress;
use laio::Errno;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Standard output and standard error, shared by all workers.
pub(crate) struct Console {
    program: String,
    /// What is to be written to standard output; the lock also keeps lines apart.
    output: Mutex<Vec<u8>>,
    line_by_line: bool,
    /// What the standard streams failed at first.
    failed: Mutex<Option<Failure>>,
    progress: Progress,
}

/// Bytes of standard output that are gathered before they are written.
const GATHERED_MAX: usize = 64 << 10;

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

    /// A line on standard error, after the program's name.
    pub(crate) fn complain(&self, message: impl std::fmt::Display) {
        let mut output = self.lock();
        self.write_out(&mut output);
        let line = format!("{}: {message}\n", self.program);
        // Nothing can be done if standard error is gone.
        self.progress
            .aside(|| drop(io::stderr().write_all(line.as_bytes())));
    }

    /// A line (or several) on standard output.
    pub(crate) fn tell(&self, line: &str) {
        let mut output = self.lock();
        output.extend_from_slice(line.as_bytes());
        output.push(b'\n');
        if self.line_by_line || output.len() >= GATHERED_MAX {
            self.write_out(&mut output);
        }
    }

    /// Asks on standard error and reads a line from standard input: whether it is a yes.
    pub(crate) fn ask(&self, question: &str) -> bool {
        let mut output = self.lock();
        self.write_out(&mut output);
        self.progress.aside(|| {
            let asked = match laio::was_closed(&io::stderr()) {
                true => Err(Errno::BADF.into()),
                false => write!(io::stderr(), "{}: {question}", self.program),
            };
            if let Err(error) = asked {
                self.note(Failure::of(error, "write error"));
            }
            if laio::was_closed(&io::stdin()) {
                self.note(Failure::of(Errno::BADF.into(), "error closing file"));
                return false;
            }
            let mut answer = Vec::new();
            let read = io::stdin().lock().read_until(b'\n', &mut answer);
            read.is_ok() && matches!(answer.first(), Some(b'y' | b'Y'))
        })
    }

    /// Writes what is gathered. What failed is the first that did.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        self.write_out(&mut self.lock());
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_out(&self, output: &mut Vec<u8>) {
        if output.is_empty() {
            return;
        }
        // A reader who has seen enough is no reason to stop copying; but is told at the end.
        self.progress.aside(|| {
            let mut stdout = io::stdout().lock();
            let written = match laio::was_closed(&stdout) {
                true => Err(Errno::BADF.into()),
                false => stdout.write_all(output).and_then(|()| stdout.flush()),
            };
            if let Err(error) = written {
                self.note(Failure::of(error, "write error"));
            }
        });
        output.clear();
    }

    fn note(&self, failure: Failure) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(failure);
    }
}
