//! The access log in a file or on standard output: lines are buffered in memory up to a limit, and a task of the
//! worker writes them.

use super::Dropped;
use laio::ops::Write;
use laio_rt::{Descriptor, JoinHandle};
use laio_serve_base::options::{Limits, LogTarget};
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

/// The log of one worker.
pub(crate) struct FileLog {
    queue: Rc<LogQueue>,
    writer: RefCell<Option<JoinHandle<()>>>,
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
    dropped: Dropped,
}

impl LogFile {
    /// Opens the log.
    ///
    /// # Errors
    /// Names the file that cannot be opened.
    pub(crate) fn open(target: &LogTarget) -> io::Result<LogFile> {
        Ok(LogFile {
            target: target.clone(),
            file: Mutex::new(open(target)?),
            opened: AtomicU64::new(0),
        })
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

impl FileLog {
    /// Starts the log writer of a worker.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(crate) fn start(file: Arc<LogFile>) -> io::Result<FileLog> {
        let queue = Rc::new(LogQueue {
            file,
            pending: RefCell::default(),
            finished: Cell::default(),
            writer: RefCell::default(),
            dropped: Dropped::default(),
        });
        let writer = Writer::new(queue.clone())?;
        let writer = RefCell::new(Some(laio_rt::spawn(writer.run())));
        Ok(FileLog { queue, writer })
    }

    /// Adds the line that `write` appends.
    pub(crate) fn add(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = &self.queue;
        let mut pending = queue.pending.borrow_mut();
        if pending.len() > Limits::LOG_BYTES {
            queue.drop_lines(1, &"it cannot be written as fast as lines arrive");
            return;
        }
        write(&mut pending);
        drop(pending);
        queue.wake();
    }

    /// Returns the number of dropped lines.
    pub(crate) fn lost(&self) -> u64 {
        self.queue.dropped.all()
    }

    /// Writes the remaining lines, within a time limit and before the deadline.
    pub(crate) async fn finish(&self, deadline: Option<Instant>) {
        let queue = &self.queue;
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
        queue.dropped.print(&queue.file);
    }
}

impl LogQueue {
    fn wake(&self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    fn drop_lines(&self, lines: u64, why: &dyn fmt::Display) {
        self.dropped.count(lines, &self.file, why);
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
        self.queue.dropped.recovered(&self.queue.file);
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
