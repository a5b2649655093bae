//! An opened file, and the sources of its bytes.

use laio::ops::FileStatus;
use laio_http::HeadFields;
use laio_rt::Descriptor;
use laio_serve_base::options::{Cache, Limits};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A file that can be served.
#[derive(Clone, Debug)]
pub struct Opened {
    pub contents: Contents,
    pub status: Rc<FileStatus>,
    /// For a cached file, the fields of a 200 response once there was one.
    pub fields: Option<Rc<OnceCell<HeadFields>>>,
}

/// The kind of file that a name leads to.
#[derive(Debug)]
pub enum FileKind {
    File(Opened),
    Directory(Descriptor),
    /// A device, FIFO or socket, which is not served.
    Special,
}

/// The bytes of an opened file.
#[derive(Clone, Debug)]
pub enum Contents {
    File(Descriptor),
    /// A cached open file, parts of which are known to be in the page cache.
    Open(Rc<OpenFile>),
    /// The whole contents, cached in memory.
    Memory(Rc<[u8]>),
}

impl Contents {
    /// Records that a range was read or sent from the page cache.
    pub(crate) fn was_read(&self, start: u64, end: u64, now: Instant) {
        if let Contents::Open(open) = self {
            open.was_read(start, end, now);
        }
    }
}

/// A file that is kept open, and which of its chunks were in the page cache within the last seconds.
#[derive(Debug)]
pub struct OpenFile {
    pub file: Descriptor,
    size: u64,
    /// A bit for each chunk that was read or sent in the present period, which began at `since`.
    chunks: RefCell<Vec<u64>>,
    /// The same for the period before, which ended at `since`.
    earlier: RefCell<Vec<u64>>,
    since: Cell<Instant>,
}

/// Bytes of a chunk.
const CHUNK: u64 = Limits::CHUNK as u64;

impl OpenFile {
    /// The maximum number of chunks recorded; later ones are always read.
    const CHUNKS_MAX: usize = 16 * 1024;
    /// How long a chunk counts as present at most. A slow client keeps the file open after the cache has
    /// dropped it, and the kernel may need the memory meanwhile.
    pub(crate) const AGE_MAX: Duration = Cache::MAX_AGE.saturating_mul(2);
    /// A chunk that was recorded in one period counts until the end of the next.
    const PERIOD: Duration = Cache::MAX_AGE;

    pub(crate) fn new(file: Descriptor, size: u64, now: Instant) -> OpenFile {
        let chunks = size.div_ceil(CHUNK).min(Self::CHUNKS_MAX as u64) as usize;
        OpenFile {
            file,
            size,
            chunks: vec![0; chunks.div_ceil(64)].into(),
            earlier: vec![0; chunks.div_ceil(64)].into(),
            since: Cell::new(now),
        }
    }

    /// Records that a range was read, or sent with `sendfile`. A chunk counts only if all of it was, up
    /// to the end of the file.
    pub(crate) fn was_read(&self, start: u64, end: u64, now: Instant) {
        self.forget_old(now);
        let mut chunks = self.chunks.borrow_mut();
        let first = start.div_ceil(CHUNK);
        let last = if end >= self.size {
            end.div_ceil(CHUNK)
        } else {
            end / CHUNK
        };
        for chunk in first..last {
            let Some(word) = chunks.get_mut(chunk as usize / 64) else {
                break;
            };
            *word |= 1 << (chunk % 64);
        }
    }

    /// Returns the end of the recorded range that starts at `start`, at most `end`.
    pub(crate) fn resident(&self, start: u64, end: u64, now: Instant) -> u64 {
        self.forget_old(now);
        let (chunks, earlier) = (self.chunks.borrow(), self.earlier.borrow());
        let mut until = start;
        while until < end {
            let chunk = until / CHUNK;
            let at = chunk as usize / 64;
            if at >= chunks.len() || (chunks[at] | earlier[at]) & 1 << (chunk % 64) == 0 {
                break;
            }
            until = (chunk + 1) * CHUNK;
        }
        until.min(end)
    }

    fn forget_old(&self, now: Instant) {
        let age = now.saturating_duration_since(self.since.get());
        if age < Self::PERIOD {
            return;
        }
        let mut chunks = self.chunks.borrow_mut();
        if age < Self::AGE_MAX {
            self.earlier.borrow_mut().copy_from_slice(&chunks);
            self.since.set(self.since.get() + Self::PERIOD);
        } else {
            self.earlier.borrow_mut().fill(0);
            self.since.set(now);
        }
        chunks.fill(0);
    }
}

/// Returns the error for a file that has become shorter.
pub fn shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file became shorter while it was sent",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_chunks_are_resident() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let file = std::fs::File::open("/dev/null").unwrap();
            let size = 3 * CHUNK + 10;
            let now = Instant::now();
            let file = Descriptor::from(std::os::fd::OwnedFd::from(file));
            let open = OpenFile::new(file, size, now);
            assert_eq!(open.resident(0, size, now), 0);
            open.was_read(0, CHUNK - 1, now);
            assert_eq!(open.resident(0, size, now), 0, "incomplete");
            open.was_read(0, CHUNK, now);
            open.was_read(2 * CHUNK, 3 * CHUNK, now);
            assert_eq!(open.resident(5, size, now), CHUNK);
            assert_eq!(open.resident(5, 7, now), 7);
            assert_eq!(open.resident(2 * CHUNK, size, now), 3 * CHUNK);
            open.was_read(3 * CHUNK, size, now);
            assert_eq!(open.resident(2 * CHUNK + 1, size, now), size);

            let later = now + OpenFile::AGE_MAX;
            assert_eq!(open.resident(0, size, later), 0, "too long ago");
            open.was_read(0, CHUNK, later);
            assert_eq!(open.resident(0, size, later), CHUNK);
            let still = later + OpenFile::AGE_MAX - Duration::from_nanos(1);
            assert_eq!(open.resident(0, size, still), CHUNK);

            // What is sent again and again stays; the rest does not.
            let mut now = still + OpenFile::AGE_MAX;
            open.was_read(0, size, now);
            for _ in 0..5 {
                now += OpenFile::PERIOD;
                assert!(open.resident(0, size, now) >= 2 * CHUNK);
                open.was_read(5, 2 * CHUNK + 5, now);
                open.was_read(0, CHUNK, now);
            }
            assert_eq!(open.resident(0, size, now), 2 * CHUNK);
        });
    }
}
