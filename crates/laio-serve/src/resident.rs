//! Files whose pages are known to be cached, sent with `sendfile`.
//!
//! No flag prevents `sendfile` from blocking on a disk. So it is used only for pieces that an
//! earlier request has read within [`Cache::MAX_AGE`](crate::Cache::MAX_AGE), the time that a file
//! stays cached.

use crate::contents::Contents;
use crate::io_contexts;
use crate::observe::{self, Stage};
use crate::options::Limits;
use crate::stream::Stream;
use crate::transfer::SendDeadline;
use crate::worker::Worker;
use laio_http::ByteRange;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;

/// A file that is kept open, and which of its pieces were read.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Descriptor,
    size: u64,
    pieces: RefCell<Vec<u64>>,
}

/// Bytes of a piece.
const PIECE: u64 = Limits::CHUNK as u64;

impl OpenFile {
    /// The maximum number of pieces recorded; later ones are always read.
    const PIECES_MAX: usize = 16 * 1024;

    pub(crate) fn new(file: Descriptor, size: u64) -> OpenFile {
        let pieces = size.div_ceil(PIECE).min(Self::PIECES_MAX as u64) as usize;
        OpenFile {
            file,
            size,
            pieces: vec![0; pieces.div_ceil(64)].into(),
        }
    }

    /// Records that a range was read. A piece counts only if it was read completely, up to the end
    /// of the file.
    pub(crate) fn was_read(&self, start: u64, end: u64) {
        let piece = start / PIECE;
        let whole = start.is_multiple_of(PIECE) && end >= self.size.min(start + PIECE);
        if whole && let Some(word) = self.pieces.borrow_mut().get_mut(piece as usize / 64) {
            *word |= 1 << (piece % 64);
        }
    }

    /// Returns the end of the recorded range that starts at `start`, at most `end`.
    fn resident(&self, start: u64, end: u64) -> u64 {
        let pieces = self.pieces.borrow();
        let mut until = start;
        while until < end {
            let piece = until / PIECE;
            let word = pieces.get(piece as usize / 64).copied().unwrap_or(0);
            if word & 1 << (piece % 64) == 0 {
                break;
            }
            until = (piece + 1) * PIECE;
        }
        until.min(end)
    }
}

impl Worker {
    /// Sends `out` and the part of a range that is known to be in the page cache. Returns the
    /// emptied buffer and the number of bytes sent. Sends nothing if there is no such part.
    pub(crate) async fn send_resident(
        &self,
        stream: &Stream,
        mut out: Vec<u8>,
        contents: &Contents,
        range: ByteRange,
    ) -> io::Result<(Vec<u8>, u64)> {
        let (Some(socket), Contents::Open(open)) = (stream.plain(), contents) else {
            return Ok((out, 0));
        };
        let most = range
            .end
            .min(range.start + Limits::SENDFILE_BYTES_BEFORE_YIELD);
        let end = open.resident(range.start, most);
        // Direct reads do not fill the page cache.
        let elsewhere = self.is_sync() || io_contexts::reads_directly();
        if end - range.start < Limits::SENDFILE_FROM || elsewhere {
            return Ok((out, 0));
        }
        if !out.is_empty() {
            out = self.send_before(stream, out).await?;
        }
        let begun = observe::begin();
        let (mut offset, deadline) = (range.start, SendDeadline::new(self));
        while offset < end {
            let left = (end - offset) as usize;
            match sendfile(socket, &open.file, &mut offset, left) {
                Ok(0) => return Err(crate::contents::shorter()),
                Ok(count) => deadline.add_sent(count as u64),
                Err(Errno::AGAIN) => deadline.wait_until_writable(self, socket).await?,
                Err(errno) => return Err(errno.into()),
            }
        }
        observe::end(Stage::Send, begun);
        Ok((out, end - range.start))
    }
}

/// Sends at most `count` bytes, if the socket buffer has space. Operations need the socket in
/// blocking mode, so it is non-blocking only during this call, while nothing else is in flight on
/// it.
fn sendfile(
    socket: &Descriptor,
    file: &Descriptor,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    rustix::fs::fcntl_setfl(socket, OFlags::NONBLOCK)?;
    let sent = loop {
        match rustix::fs::sendfile(socket, file, Some(offset), count) {
            Err(Errno::INTR) => {}
            sent => break sent,
        }
    };
    rustix::fs::fcntl_setfl(socket, OFlags::empty())?;
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_pieces_are_resident() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let file = std::fs::File::open("/dev/null").unwrap();
            let size = 3 * PIECE + 10;
            let open = OpenFile::new(Descriptor::from(std::os::fd::OwnedFd::from(file)), size);
            assert_eq!(open.resident(0, size), 0);
            open.was_read(0, PIECE - 1);
            assert_eq!(open.resident(0, size), 0, "incomplete");
            open.was_read(0, PIECE);
            open.was_read(2 * PIECE, 3 * PIECE);
            assert_eq!(open.resident(5, size), PIECE);
            assert_eq!(open.resident(5, 7), 7);
            assert_eq!(open.resident(2 * PIECE, size), 3 * PIECE);
            open.was_read(3 * PIECE, size);
            assert_eq!(open.resident(2 * PIECE + 1, size), size);
        });
    }
}
