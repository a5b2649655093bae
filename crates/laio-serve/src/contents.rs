//! The sources of a file's bytes.

use crate::io_contexts;
use crate::observe::{self, Stage};
use crate::options::IoStep;
use crate::resident::OpenFile;
use crate::worker::Worker;
use laio::ops::{Limit, ReadAt, Sink};
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use std::io;
use std::rc::Rc;

/// The bytes of an opened file.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    File(Descriptor),
    /// A cached open file, parts of which are known to be in the page cache.
    Open(Rc<OpenFile>),
    /// The whole contents, cached in memory.
    Memory(Rc<[u8]>),
}

impl Contents {
    /// Records that a range was read.
    pub(crate) fn was_read(&self, start: u64, end: u64) {
        if let Contents::Open(open) = self {
            open.was_read(start, end);
        }
    }
}

impl Worker {
    /// Appends at most `most` bytes of a file to the buffer.
    ///
    /// # Errors
    /// Returns the errors of reading; `TimedOut` when it takes too long, `UnexpectedEof` at the end
    /// of the file.
    pub(crate) async fn read(
        &self,
        contents: &Contents,
        mut out: Vec<u8>,
        most: usize,
        offset: u64,
    ) -> io::Result<Vec<u8>> {
        let file = match contents {
            Contents::File(file) => file,
            Contents::Open(open) => &open.file,
            Contents::Memory(bytes) => {
                let start = bytes.len().min(offset as usize);
                let end = bytes.len().min(start.saturating_add(most));
                if start == end {
                    return Err(shorter());
                }
                out.extend_from_slice(&bytes[start..end]);
                return Ok(out);
            }
        };
        let limited = Limit::new(out, most);
        Ok(self.read_into(file, limited, offset).await?.into_inner())
    }

    /// Reads from a file into the free space of a buffer.
    ///
    /// # Errors
    /// Like [`Worker::read`].
    pub(crate) async fn read_into<B: Sink>(
        &self,
        file: &Descriptor,
        mut buffer: B,
        offset: u64,
    ) -> io::Result<B> {
        let mut direct = io_contexts::reads_directly();
        loop {
            let begun = observe::begin();
            let permit = self.concurrency.permit(IoStep::FileRead).await;
            let read = ReadAt::new(file.clone(), buffer, offset);
            let read = io_contexts::submit(IoStep::FileRead, read);
            let read = laio_rt::time::timeout(self.limits().read_time, read).await;
            drop(permit);
            observe::end(Stage::Read, begun);
            let (result, filled) = read.map_err(|_| io::ErrorKind::TimedOut)?;
            match result {
                Ok(0) => return Err(shorter()),
                Ok(_) => return Ok(filled),
                // Linux AIO would have blocked (for example on pages under writeback), and a helper
                // can bypass the page cache for aligned reads only. Read through the page cache.
                Err(error) if direct && error.kind() == io::ErrorKind::InvalidInput => {
                    rustix::fs::fcntl_setfl(file, OFlags::empty())?;
                    (buffer, direct) = (filled, false);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the error for a file that has become shorter.
pub(crate) fn shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file became shorter while it was sent",
    )
}
