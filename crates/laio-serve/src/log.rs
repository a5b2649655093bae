//! Step 7: the access log. Writing it never delays a request: lines are collected in memory, up to a
//! limit, and a task of the worker writes them.

use crate::options::{Limits, LogTarget};
use laio::ops::{Name, Open, Write};
use laio_http::log::{LogFormat, LogRecord, write_line};
use laio_rt::{Descriptor, JoinHandle};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The log of one worker.
pub(crate) struct Log {
    format: LogFormat,
    shared: Option<Rc<Shared>>,
    writer: RefCell<Option<JoinHandle<()>>>,
    lines: Cell<u64>,
}

#[derive(Default)]
struct Shared {
    pending: RefCell<Vec<u8>>,
    /// Lines that did not fit since the last write.
    dropped: Cell<u64>,
    finished: Cell<bool>,
    writer: RefCell<Option<Waker>>,
}

impl Log {
    /// Opens the log and starts its writer.
    pub(crate) async fn start(target: &LogTarget, format: LogFormat) -> io::Result<Log> {
        let file = match target {
            LogTarget::Off => None,
            LogTarget::Stdout => Some(io::stdout().as_fd().try_clone_to_owned()?),
            LogTarget::File(path) => {
                use rustix::fs::OFlags;
                let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
                let open = Open::new(Name::from_path(path)?, flags.bits() as i32).mode(0o644);
                Some(laio_rt::submit(open).await.map_err(|error| {
                    let name = path.display();
                    io::Error::new(error.kind(), format!("cannot open the log {name}: {error}"))
                })?)
            }
        };
        let shared = file.is_some().then(Rc::<Shared>::default);
        let writer = file
            .zip(shared.clone())
            .map(|(file, shared)| laio_rt::spawn(write_lines(Descriptor::from(file), shared)));
        Ok(Log {
            format,
            shared,
            writer: RefCell::new(writer),
            lines: Cell::new(0),
        })
    }

    /// Adds a line.
    pub(crate) fn write(&self, record: &LogRecord<'_>) {
        self.lines.set(self.lines.get() + 1);
        let Some(shared) = &self.shared else { return };
        let mut pending = shared.pending.borrow_mut();
        if pending.len() > Limits::LOG_BYTES {
            shared.dropped.set(shared.dropped.get() + 1);
            return;
        }
        write_line(self.format, record, &mut pending);
        drop(pending);
        shared.wake();
    }

    /// Requests logged, or that would have been.
    pub(crate) fn lines(&self) -> u64 {
        self.lines.get()
    }

    /// Writes what is left.
    pub(crate) async fn finish(&self) {
        if let Some(shared) = &self.shared {
            shared.finished.set(true);
            shared.wake();
        }
        let writer = self.writer.take();
        if let Some(writer) = writer {
            let _ = writer.await;
        }
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

/// Writes whatever has been collected, until the log is finished.
async fn write_lines(file: Descriptor, shared: Rc<Shared>) {
    let mut buffer = Vec::new();
    loop {
        poll_fn(|context| {
            if !shared.pending.borrow().is_empty() || shared.finished.get() {
                return Poll::Ready(());
            }
            *shared.writer.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        if shared.pending.borrow().is_empty() {
            return;
        }
        std::mem::swap(&mut buffer, &mut *shared.pending.borrow_mut());
        let dropped = shared.dropped.take();
        let (result, written) = laio_rt::submit(Write::new(file.clone(), buffer)).await;
        buffer = written;
        buffer.clear();
        if let Err(error) = result {
            // A full disk or a closed pipe must not end the server; it is said once per write.
            eprintln!("laio: the access log cannot be written: {error}");
        }
        if dropped > 0 {
            eprintln!("laio: the access log was too slow: {dropped} lines were left out");
        }
    }
}
