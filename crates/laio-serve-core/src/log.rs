//! The access log. Writing never delays a request: lines are buffered in memory up to a limit, and a task of the
//! worker (`file`) or a thread (`socket`) writes them. Lines that cannot be written are counted and dropped.

mod file;
mod journald;
mod socket;
mod syslog;

use crate::site::globs;
use file::{FileLog, LogFile};
use globset::GlobSet;
use laio_http::log::{LogField, LogFormat, LogRecord, write_fields, write_line};
use laio_http::{HeadFields, Output, Status};
use laio_serve_base::messages::print;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::{Limits, LogTarget, Options};
use socket::{LogSocket, Peer};
use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The access log of one worker.
pub struct Log {
    shared: Option<Arc<SharedLog>>,
    file: Option<FileLog>,
    /// Lines of a socket that are lost.
    lost: Cell<u64>,
    /// A record for a socket.
    scratch: RefCell<Vec<u8>>,
    /// Successful responses since the last one that was logged.
    unsampled: Cell<u32>,
    lines: Cell<u64>,
}

/// What the logs of all workers of a generation share.
#[derive(Debug)]
pub struct SharedLog {
    target: Target,
    format: LogFormat,
    fields: Vec<LogField>,
    sample: Option<NonZeroU32>,
    /// The paths that are not logged.
    skip: Option<GlobSet>,
    /// Lines contain fields of responses.
    needs_fields: bool,
    /// Lines contain properties of TLS.
    needs_tls: bool,
}

#[derive(Debug)]
enum Target {
    File(Arc<LogFile>),
    Syslog(LogSocket),
    Journald(LogSocket),
}

impl SharedLog {
    /// Opens the log. Returns `None` if logging is off.
    ///
    /// # Errors
    /// Names what cannot be opened, or the option that makes no sense.
    pub fn open(options: &Options) -> io::Result<Option<Arc<SharedLog>>> {
        let (format, rules) = (options.log_format, &options.log_options);
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
        let is_journal = matches!(options.log, LogTarget::Journald(_));
        let fixed = matches!(format, LogFormat::Common | LogFormat::Combined);
        if fixed && !is_journal && !rules.fields.is_empty() {
            return Err(invalid(
                "--log-fields needs --log-format json or logfmt: the fields of the other formats are fixed",
            ));
        }
        let skip = if rules.skip.is_empty() {
            None
        } else {
            Some(globs(rules.skip.iter().map(String::as_str))?)
        };
        let target = match &options.log {
            LogTarget::Off => return Ok(None),
            LogTarget::Syslog(address) => {
                Target::Syslog(LogSocket::open(Peer::Syslog(address.clone()))?)
            }
            LogTarget::Journald(path) => {
                Target::Journald(LogSocket::open(Peer::Journald(path.clone()))?)
            }
            file => Target::File(Arc::new(LogFile::open(file)?)),
        };
        let mut fields = rules.fields.clone();
        if is_journal && fields.is_empty() {
            fields = LogField::usual();
        }
        Ok(Some(Arc::new(SharedLog {
            target,
            format,
            needs_fields: fields.iter().any(LogField::is_of_response),
            needs_tls: fields.iter().any(LogField::is_of_tls),
            fields,
            sample: rules.sample,
            skip,
        })))
    }

    /// Opens a file again by its name, after it was moved away, or connects again.
    ///
    /// # Errors
    /// Returns the errors of opening; the present file then stays open.
    pub fn reopen(&self) -> io::Result<()> {
        match &self.target {
            Target::File(file) => file.reopen(),
            Target::Syslog(socket) | Target::Journald(socket) => {
                socket.reconnect();
                Ok(())
            }
        }
    }

    /// Appends the line of a record, without its line feed.
    fn push_line(&self, record: &LogRecord<'_>, out: &mut Vec<u8>) {
        let fixed = matches!(self.format, LogFormat::Common | LogFormat::Combined);
        if self.fields.is_empty() || fixed {
            write_line(self.format, record, out);
            out.pop();
        } else {
            write_fields(self.format, &self.fields, record, out);
        }
    }

    /// Whether the paths of this target are not logged.
    fn skips(&self, target: &[u8]) -> bool {
        let Some(skip) = &self.skip else { return false };
        let path = target.split(|&byte| byte == b'?').next().unwrap_or(target);
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        skip.is_match(Path::new(OsStr::from_bytes(relative)))
    }
}

impl Log {
    /// Starts the log of a worker.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub fn start(shared: Option<Arc<SharedLog>>) -> io::Result<Log> {
        let file = match shared.as_ref().map(|shared| &shared.target) {
            Some(Target::File(file)) => Some(FileLog::start(file.clone())?),
            _ => None,
        };
        Ok(Log {
            shared,
            file,
            lost: Cell::default(),
            scratch: RefCell::default(),
            unsampled: Cell::default(),
            lines: Cell::new(0),
        })
    }

    /// Adds a line.
    pub fn write(&self, record: &LogRecord<'_>) {
        observe::answered(record.status, record.bytes);
        observe::lasted(Stage::Total, record.duration_us);
        let begun = observe::begin();
        self.add(record);
        observe::end(Stage::Log, begun);
    }

    /// Whether a record is used for more than counting.
    pub fn needs_records(&self) -> bool {
        self.shared.is_some() || observe::is_timed()
    }

    /// Whether a record needs the fields of its response.
    pub fn needs_fields(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| shared.needs_fields)
    }

    /// Whether a record needs the version and the cipher suite of TLS.
    pub fn needs_tls(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.needs_tls)
    }

    /// Returns the fields of a response, if a record needs them.
    pub fn fields_of(&self, output: &Output) -> Option<HeadFields> {
        self.needs_fields().then(|| output.fields_from(0))
    }

    /// Counts a response of which nothing else is needed.
    pub fn count(&self, status: Status, bytes: u64) {
        observe::answered(status, bytes);
        self.lines.set(self.lines.get() + 1);
    }

    fn add(&self, record: &LogRecord<'_>) {
        self.lines.set(self.lines.get() + 1);
        let Some(shared) = &self.shared else { return };
        if shared.skips(record.target) || self.is_left_out(shared, record.status) {
            return;
        }
        match (&shared.target, &self.file) {
            (Target::File(_), Some(file)) => file.add(|out| {
                shared.push_line(record, out);
                out.push(b'\n');
            }),
            (Target::File(_), None) => {}
            (Target::Syslog(socket), _) => self.push(socket, |out, sender| {
                syslog::push_message(record, sender, out);
                shared.push_line(record, out);
            }),
            (Target::Journald(socket), _) => self.push(socket, |out, _| {
                journald::push_entry(record, &shared.fields, out, |out| {
                    shared.push_line(record, out)
                });
            }),
        }
    }

    /// Whether a successful response is one of those that `--log-sample` leaves out.
    fn is_left_out(&self, shared: &SharedLog, status: Status) -> bool {
        let Some(sample) = shared.sample else {
            return false;
        };
        if status.code() >= 400 {
            return false;
        }
        let number = self.unsampled.get();
        self.unsampled.set((number + 1) % sample);
        number != 0
    }

    /// Adds the record that `write` appends to the queue of a socket.
    fn push(&self, socket: &LogSocket, write: impl FnOnce(&mut Vec<u8>, &str)) {
        let mut record = self.scratch.borrow_mut();
        record.clear();
        write(&mut record, socket.sender());
        let dropped = u64::from(!socket.push(&record));
        self.count_lost(dropped + socket.take_lost());
    }

    fn count_lost(&self, lines: u64) {
        if lines > 0 {
            self.lost.set(self.lost.get() + lines);
            observe::log_lines_lost(lines);
        }
    }

    /// Returns the number of requests, logged or not.
    pub fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// Returns the number of dropped lines.
    pub fn lost(&self) -> u64 {
        self.lost.get() + self.file.as_ref().map_or(0, FileLog::lost)
    }

    /// Writes the remaining lines, within a time limit and before the deadline.
    pub async fn finish(&self, deadline: Option<Instant>) {
        if let Some(file) = &self.file {
            file.finish(deadline).await;
        }
        if let Some(shared) = &self.shared
            && let Target::Syslog(socket) | Target::Journald(socket) = &shared.target
        {
            socket.finish(deadline).await;
            self.count_lost(socket.take_lost());
        }
    }
}

/// The number of dropped lines, and when a warning about them was last printed.
#[derive(Default)]
struct Dropped {
    /// Dropped since the last message with a count.
    lost: Cell<u64>,
    /// Dropped since the worker started.
    all: Cell<u64>,
    warned: Cell<Option<Instant>>,
}

impl Dropped {
    fn all(&self) -> u64 {
        self.all.get()
    }

    /// Counts dropped lines, and warns unless a warning is in force.
    fn count(&self, lines: u64, log: &dyn fmt::Display, why: &dyn fmt::Display) {
        self.lost.set(self.lost.get() + lines);
        self.all.set(self.all.get() + lines);
        observe::log_lines_lost(lines);
        if self.warned.get().is_none() {
            self.warned.set(Some(Instant::now()));
            print(format_args!(
                "the access log {log}: {why}; dropping lines until it can be written"
            ));
        }
    }

    /// Ends a warning after a successful write, at limited rate.
    fn recovered(&self, log: &dyn fmt::Display) {
        let warned = self.warned.get();
        if warned.is_some_and(|warned| warned.elapsed() >= Limits::LOG_WARN_INTERVAL) {
            self.warned.set(None);
            self.print(log);
        }
    }

    fn print(&self, log: &dyn fmt::Display) {
        let lost = self.lost.take();
        if lost > 0 {
            print(format_args!(
                "the access log {log}: {lost} lines were dropped"
            ));
        }
    }
}

/// Returns the time since `start` as a log line contains it.
pub fn micros_since(start: Instant) -> u64 {
    start.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
