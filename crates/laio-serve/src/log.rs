//! The access log. Writing never delays a request: lines are buffered in memory up to a limit, and
//! a task of the worker writes them. Lines that cannot be written are counted and dropped.

use crate::messages::print;
use crate::observe::{self, Stage};
use crate::options::{Limits, LogTarget};
use laio::ops::Write;
use laio_http::Status;
use laio_http::log::{LogFormat, LogRecord, write_line};
use laio_rt::{Descriptor, JoinHandle};
use rustix::fs::{Mode, OFlags};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Instant;

/// The access log of one worker.
pub(crate) struct Log {
    format: LogFormat,
    queue: Option<Rc<LogQueue>>,
    writer: RefCell<Option<JoinHandle<()>>>,
    lines: Cell<u64>,
}

/// The destination of the lines of all workers.
#[derive(Debug)]
pub(crate) struct LogFile {
    target: LogTarget,
    file: Mutex<OwnedFd>,
    /// The number of times that the file was reopened.
    opened: AtomicU64,
}

struct LogQueue {
    file: Arc<LogFile>,
    pending: RefCell<Vec<u8>>,
    finished: Cell<bool>,
    writer: RefCell<Option<Waker>>,
    dropped: DroppedLines,
}

/// The number of dropped lines, and when a warning about them was last printed.
#[derive(Default)]
struct DroppedLines {
    /// Dropped since the last message with a count.
    lost: Cell<u64>,
    /// Dropped since the worker started.
    all: Cell<u64>,
    warned: Cell<Option<Instant>>,
}

impl LogFile {
    /// Opens the log. Returns none if logging is off.
    ///
    /// # Errors
    /// Names the file that cannot be opened.
    pub(crate) fn open(target: &LogTarget) -> io::Result<Option<Arc<LogFile>>> {
        if *target == LogTarget::Off {
            return Ok(None);
        }
        Ok(Some(Arc::new(LogFile {
            target: target.clone(),
            file: Mutex::new(open(target)?),
            opened: AtomicU64::new(0),
        })))
    }

    /// Opens the file again by its name, after it was moved away. Each writer switches to it with
    /// its next line.
    ///
    /// # Errors
    /// Returns the errors of opening; the present file then stays open.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let file = open(&self.target)?;
        *self.file.lock().unwrap() = file;
        self.opened.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Returns a new descriptor of the file, and the number of reopenings.
    fn descriptor(&self) -> io::Result<(OwnedFd, u64)> {
        let file = self.file.lock().unwrap();
        let number = self.opened.load(Ordering::Acquire);
        Ok((file.try_clone()?, number))
    }
}

impl fmt::Display for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            LogTarget::File(path) => path.display().fmt(f),
            _ => f.write_str("on standard output"),
        }
    }
}

fn open(target: &LogTarget) -> io::Result<OwnedFd> {
    let LogTarget::File(path) = target else {
        return io::stdout().as_fd().try_clone_to_owned();
    };
    // Non-blocking, so that opening a FIFO without a reader fails (ENXIO) instead of blocking.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o644);
    let opened =
        rustix::fs::open(path, flags | OFlags::NONBLOCK | OFlags::NOCTTY, mode).and_then(|file| {
            rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
            Ok(file)
        });
    opened.map_err(|errno| {
        let hint = match errno {
            rustix::io::Errno::NXIO => "; it is a FIFO without a reader",
            _ => "",
        };
        let error = io::Error::from(errno);
        let text = format!("cannot open the log {}: {error}{hint}", path.display());
        io::Error::new(error.kind(), text)
    })
}

impl Log {
    /// Starts the log writer of a worker.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn start(file: Option<Arc<LogFile>>, format: LogFormat) -> io::Result<Log> {
        let queue = file.map(|file| {
            Rc::new(LogQueue {
                file,
                pending: RefCell::default(),
                finished: Cell::default(),
                writer: RefCell::default(),
                dropped: DroppedLines::default(),
            })
        });
        let start = |queue: &Rc<LogQueue>| {
            let writer = Writer::new(queue.clone())?;
            io::Result::Ok(laio_rt::spawn(writer.run()))
        };
        let writer = queue.as_ref().map(start).transpose()?;
        Ok(Log {
            format,
            queue,
            writer: RefCell::new(writer),
            lines: Cell::new(0),
        })
    }

    /// Adds a line.
    pub(crate) fn write(&self, record: &LogRecord<'_>) {
        observe::answered(record.status, record.bytes);
        observe::lasted(Stage::Total, record.duration_us);
        let begun = observe::begin();
        self.add(record);
        observe::end(Stage::Log, begun);
    }

    /// Whether a record is used for more than counting.
    pub(crate) fn needs_records(&self) -> bool {
        self.queue.is_some() || observe::is_timed()
    }

    /// Counts a response of which nothing else is needed.
    pub(crate) fn count(&self, status: Status, bytes: u64) {
        observe::answered(status, bytes);
        self.lines.set(self.lines.get() + 1);
    }

    fn add(&self, record: &LogRecord<'_>) {
        self.lines.set(self.lines.get() + 1);
        let Some(queue) = &self.queue else { return };
        let mut pending = queue.pending.borrow_mut();
        if pending.len() > Limits::LOG_BYTES {
            queue.drop_lines(1, &"it cannot be written as fast as lines arrive");
            return;
        }
        write_line(self.format, record, &mut pending);
        drop(pending);
        queue.wake();
    }

    /// Returns the number of requests, logged or not.
    pub(crate) fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// Returns the number of dropped lines.
    pub(crate) fn lost(&self) -> u64 {
        self.queue
            .as_ref()
            .map_or(0, |queue| queue.dropped.all.get())
    }

    /// Writes the remaining lines, within a time limit and before the deadline.
    pub(crate) async fn finish(&self, deadline: Option<Instant>) {
        let Some(queue) = &self.queue else { return };
        queue.finished.set(true);
        queue.wake();
        let writer = self.writer.take();
        if let Some(mut writer) = writer
            && laio_rt::time::timeout(
                Limits::final_time(deadline, Limits::LOG_FLUSH_TIME),
                &mut writer,
            )
            .await
            .is_err()
        {
            writer.abort();
            queue.drop_lines(
                count_lines(&queue.pending.borrow()),
                &"the server ended before all lines were written",
            );
        }
        queue.print_dropped();
    }
}

impl LogQueue {
    fn wake(&self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    /// Counts dropped lines, and warns unless a warning is in force.
    fn drop_lines(&self, lines: u64, why: &dyn fmt::Display) {
        let dropped = &self.dropped;
        dropped.lost.set(dropped.lost.get() + lines);
        dropped.all.set(dropped.all.get() + lines);
        if dropped.warned.get().is_none() {
            dropped.warned.set(Some(Instant::now()));
            let file = &self.file;
            print(format_args!(
                "the access log {file}: {why}; dropping lines until it can be written"
            ));
        }
    }

    /// Ends a warning after a successful write, at limited rate.
    fn recovered(&self) {
        let warned = self.dropped.warned.get();
        if warned.is_some_and(|warned| warned.elapsed() >= Limits::LOG_WARN_INTERVAL) {
            self.dropped.warned.set(None);
            self.print_dropped();
        }
    }

    fn print_dropped(&self) {
        let (lost, file) = (self.dropped.lost.take(), &self.file);
        if lost > 0 {
            print(format_args!(
                "the access log {file}: {lost} lines were dropped"
            ));
        }
    }
}

/// Writes the buffered lines until the log is finished.
struct Writer {
    queue: Rc<LogQueue>,
    file: Descriptor,
    opened: u64,
    /// The last write ended in the middle of a line.
    torn: bool,
}

impl Writer {
    fn new(queue: Rc<LogQueue>) -> io::Result<Writer> {
        let (file, opened) = queue.file.descriptor()?;
        Ok(Writer {
            queue,
            file: file.into(),
            opened,
            torn: false,
        })
    }

    async fn run(mut self) {
        let mut buffer = Vec::new();
        while self.queue.clone().wait_for_lines().await {
            self.renew();
            if self.torn {
                buffer.push(b'\n');
                buffer.append(&mut self.queue.pending.borrow_mut());
            } else {
                std::mem::swap(&mut buffer, &mut *self.queue.pending.borrow_mut());
            }
            buffer = self.write(buffer).await;
            buffer.clear();
        }
    }

    /// Switches to the reopened file.
    fn renew(&mut self) {
        let queue = &self.queue.file;
        if queue.opened.load(Ordering::Acquire) == self.opened {
            return;
        }
        // Without a free descriptor, keep writing to the old file.
        if let Ok((file, opened)) = queue.descriptor() {
            self.file = file.into();
            self.opened = opened;
            self.torn = false;
        }
    }

    async fn write(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        while !buffer.is_empty() {
            let (result, written) = laio_rt::submit(Write::new(self.file.clone(), buffer)).await;
            buffer = written;
            match result {
                Ok(count) if count > 0 => {
                    self.torn = buffer[count - 1] != b'\n';
                    // A write to a full disk may be short; the next one returns the error.
                    buffer.drain(..count);
                }
                Ok(_) => return self.give_up(buffer, &"a write returned 0"),
                Err(error) => return self.give_up(buffer, &error),
            }
        }
        self.queue.recovered();
        buffer
    }

    fn give_up(&self, buffer: Vec<u8>, why: &dyn fmt::Display) -> Vec<u8> {
        // The rest of a torn line was counted when it was lost.
        let lines = count_lines(&buffer).saturating_sub(u64::from(buffer.first() == Some(&b'\n')));
        self.queue.drop_lines(lines, why);
        buffer
    }
}

impl LogQueue {
    /// Waits for lines. Returns false if the log is finished and empty.
    async fn wait_for_lines(self: Rc<Self>) -> bool {
        poll_fn(|context| {
            if !self.pending.borrow().is_empty() || self.finished.get() {
                return Poll::Ready(());
            }
            *self.writer.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        !self.pending.borrow().is_empty()
    }
}

fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Returns the time since `start` as a log line contains it.
pub(crate) fn micros_since(start: Instant) -> u64 {
    start.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
