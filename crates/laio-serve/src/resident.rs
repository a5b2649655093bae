//! Files that are known to be in memory: the kernel sends them by itself (`sendfile`), without copying them for us.
//!
//! No flag keeps `sendfile` from waiting for a disk. So a piece of a file goes this way only after it was read, a
//! moment ago, for somebody else: within [`Cache::KEEPS`](crate::Cache::KEEPS), which is how long a file is kept.

use crate::contents::Contents;
use crate::lanes;
use crate::observe::{self, Stage};
use crate::options::Limits;
use crate::stream::Stream;
use crate::transfer::Pace;
use crate::worker::Worker;
use laio_http::ByteRange;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;

/// A file that is kept open, and which of its pieces were read since.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: Descriptor,
    size: u64,
    pieces: RefCell<Vec<u64>>,
}

/// Bytes in a piece.
const PIECE: u64 = Limits::PIECE as u64;

impl Open {
    /// Pieces remembered; what lies behind them is read.
    const PIECES_MAX: usize = 16 * 1024;

    pub(crate) fn new(file: Descriptor, size: u64) -> Open {
        let pieces = size.div_ceil(PIECE).min(Self::PIECES_MAX as u64) as usize;
        Open {
            file,
            size,
            pieces: vec![0; pieces.div_ceil(64)].into(),
        }
    }

    /// Notes that bytes were read: a piece counts if all of it, or of what the file has of it, was.
    pub(crate) fn was_read(&self, start: u64, end: u64) {
        let piece = start / PIECE;
        let whole = start.is_multiple_of(PIECE) && end >= self.size.min(start + PIECE);
        if whole && let Some(word) = self.pieces.borrow_mut().get_mut(piece as usize / 64) {
            *word |= 1 << (piece % 64);
        }
    }

    /// Where the bytes from `start` on that were read end, at most at `end`.
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
    /// Sends what is in `out`, and as much of a range behind it as is known to be in memory. Gives the emptied buffer
    /// back, and how much it was. Where nothing can be sent so, it does nothing.
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
        let most = range.end.min(range.start + Limits::SENDFILE_TURN);
        let end = open.resident(range.start, most);
        // What was read past the page cache is not in it.
        let elsewhere = self.is_sync() || lanes::reads_directly();
        if end - range.start < Limits::SENDFILE_FROM || elsewhere {
            return Ok((out, 0));
        }
        if !out.is_empty() {
            out = self.send_before(stream, out).await?;
        }
        let begun = observe::begin();
        let (mut offset, pace) = (range.start, Pace::new(self));
        while offset < end {
            let left = (end - offset) as usize;
            match sendfile(socket, &open.file, &mut offset, left) {
                Ok(0) => return Err(crate::contents::shorter()),
                Ok(count) => pace.took(count as u64),
                Err(Errno::AGAIN) => pace.wait(self, socket).await?,
                Err(errno) => return Err(errno.into()),
            }
        }
        observe::end(Stage::Send, begun);
        Ok((out, end - range.start))
    }
}

/// Sends at most `count` bytes, if the socket has room for any. Sockets are in blocking mode, as operations want
/// them, so for the moment it is put out of it: nothing else is in flight on it.
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
    fn pieces_that_were_read() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let file = std::fs::File::open("/dev/null").unwrap();
            let size = 3 * PIECE + 10;
            let open = Open::new(Descriptor::from(std::os::fd::OwnedFd::from(file)), size);
            assert_eq!(open.resident(0, size), 0);
            open.was_read(0, PIECE - 1);
            assert_eq!(open.resident(0, size), 0, "not all of it");
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
