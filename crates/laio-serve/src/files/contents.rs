//! An opened file, and the sources of its bytes.

use crate::options::Limits;
use laio::ops::FileStatus;
use laio_rt::Descriptor;
use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;

/// A file that can be served.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) contents: Contents,
    pub(crate) status: Rc<FileStatus>,
    /// For a cached file, the header fields of a 200 response once they have been encoded.
    pub(crate) fields: Option<Rc<OnceCell<Box<[u8]>>>>,
}

/// The kind of file that a name leads to.
#[derive(Debug)]
pub(crate) enum FileKind {
    File(Opened),
    Directory(Descriptor),
    /// A device, FIFO or socket, which is not served.
    Special,
}

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

/// A file that is kept open, and which of its chunks were read.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Descriptor,
    size: u64,
    chunks: RefCell<Vec<u64>>,
}

/// Bytes of a chunk.
const CHUNK: u64 = Limits::CHUNK as u64;

impl OpenFile {
    /// The maximum number of chunks recorded; later ones are always read.
    const CHUNKS_MAX: usize = 16 * 1024;

    pub(crate) fn new(file: Descriptor, size: u64) -> OpenFile {
        let chunks = size.div_ceil(CHUNK).min(Self::CHUNKS_MAX as u64) as usize;
        OpenFile {
            file,
            size,
            chunks: vec![0; chunks.div_ceil(64)].into(),
        }
    }

    /// Records that a range was read. A chunk counts only if it was read completely, up to the end
    /// of the file.
    pub(crate) fn was_read(&self, start: u64, end: u64) {
        let chunk = start / CHUNK;
        let whole = start.is_multiple_of(CHUNK) && end >= self.size.min(start + CHUNK);
        if whole && let Some(word) = self.chunks.borrow_mut().get_mut(chunk as usize / 64) {
            *word |= 1 << (chunk % 64);
        }
    }

    /// Returns the end of the recorded range that starts at `start`, at most `end`.
    pub(crate) fn resident(&self, start: u64, end: u64) -> u64 {
        let chunks = self.chunks.borrow();
        let mut until = start;
        while until < end {
            let chunk = until / CHUNK;
            let word = chunks.get(chunk as usize / 64).copied().unwrap_or(0);
            if word & 1 << (chunk % 64) == 0 {
                break;
            }
            until = (chunk + 1) * CHUNK;
        }
        until.min(end)
    }
}

/// Returns the error for a file that has become shorter.
pub(crate) fn shorter() -> io::Error {
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
            let open = OpenFile::new(Descriptor::from(std::os::fd::OwnedFd::from(file)), size);
            assert_eq!(open.resident(0, size), 0);
            open.was_read(0, CHUNK - 1);
            assert_eq!(open.resident(0, size), 0, "incomplete");
            open.was_read(0, CHUNK);
            open.was_read(2 * CHUNK, 3 * CHUNK);
            assert_eq!(open.resident(5, size), CHUNK);
            assert_eq!(open.resident(5, 7), 7);
            assert_eq!(open.resident(2 * CHUNK, size), 3 * CHUNK);
            open.was_read(3 * CHUNK, size);
            assert_eq!(open.resident(2 * CHUNK + 1, size), size);
        });
    }
}
