//! Copies large files through several buffers in flight, for back ends that can overlap them, and
//! for O_DIRECT.

use crate::rules::pair::{CopyError, OpenPair};
use laio::Errno;
use laio::ops::{AlignedBuffer, Limit, Part, ReadAt, Truncate, WriteAt};
use rustix::fs::OFlags;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;

/// The alignment of addresses, offsets and lengths for O_DIRECT; no device needs more.
const ALIGNMENT: usize = AlignedBuffer::ALIGNMENT;

/// Copies the bytes from `start` to `end`; fewer if the source was truncated.
pub(crate) async fn copy(pair: &OpenPair<'_>, start: u64, end: u64) -> Result<u64, CopyError> {
    let options = &pair.session.options;
    let queue = Queue {
        pair,
        next: Cell::new(start),
        end: Cell::new(end),
        direct: Cell::new(options.direct && set_direct(pair, true)),
        padded: Cell::new(false),
    };
    let pieces = (end - start).div_ceil(queue.piece_size() as u64);
    let depth = (options.queue() as u64).min(pieces).max(1);
    run_concurrently((0..depth).map(|_| queue.copy_pieces())).await?;
    let end = queue.end.get().max(start);
    if queue.padded.get() {
        let cut = Truncate::new(pair.target.clone(), end);
        let cut = pair.io.call_target(cut).await;
        cut.map_err(CopyError::Write)?;
    }
    if queue.direct.get() {
        set_direct(pair, false);
    }
    Ok(end - start)
}

/// Sets O_DIRECT on both files. Returns `false`, with both unchanged, if a file system refuses.
fn set_direct(pair: &OpenPair<'_>, on: bool) -> bool {
    let switch = |file, on| {
        let mut flags = rustix::fs::fcntl_getfl(file)?;
        flags.set(OFlags::DIRECT, on);
        rustix::fs::fcntl_setfl(file, flags)
    };
    if switch(pair.source, on).is_err() {
        return false;
    }
    if switch(pair.target, on).is_err() {
        // Restoring the previous flag does not fail.
        let _ = switch(pair.source, !on);
        return false;
    }
    on
}

/// The copy of one range, shared by the futures that copy its pieces.
struct Queue<'a> {
    pair: &'a OpenPair<'a>,
    /// The start of the next piece.
    next: Cell<u64>,
    /// The end of the last piece: the end of the file, if a read reaches it first.
    end: Cell<u64>,
    direct: Cell<bool>,
    /// The last write was padded beyond the end of the file.
    padded: Cell<bool>,
}

impl Queue<'_> {
    fn piece_size(&self) -> usize {
        let wanted = self.pair.session.options.buffer.min(self.pair.piece_size());
        (wanted / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }

    /// Copies one piece after the other.
    async fn copy_pieces(&self) -> Result<(), CopyError> {
        let mut buffer = AlignedBuffer::with_capacity(self.piece_size());
        loop {
            self.pair.check_stop()?;
            let at = self.next.get();
            if at >= self.end.get() {
                return Ok(());
            }
            let count = (self.end.get() - at).min(self.piece_size() as u64) as usize;
            self.next.set(at + count as u64);
            let mut done = 0;
            while done < count {
                let offset = at + done as u64;
                let (moved, back) = self.copy_piece(buffer, offset, count - done).await?;
                buffer = back;
                if moved == 0 {
                    // The file was truncated since it was opened.
                    self.end.set(self.end.get().min(offset));
                    break;
                }
                done += moved;
            }
        }
    }

    /// Copies the bytes that one read returns.
    async fn copy_piece(
        &self,
        mut buffer: AlignedBuffer,
        at: u64,
        count: usize,
    ) -> Result<(usize, AlignedBuffer), CopyError> {
        let io = self.pair.io;
        let mut direct = self.direct.get();
        let wanted = if direct {
            count.next_multiple_of(ALIGNMENT)
        } else {
            count
        };
        let result = loop {
            buffer.clear();
            let read = ReadAt::new(self.pair.source.clone(), Limit::new(buffer, wanted), at);
            let (result, filled) = io.call_backend(read).await;
            buffer = filled.into_inner();
            if result
                .as_ref()
                .is_err_and(|error| self.is_refused(error, direct))
            {
                direct = false;
                continue;
            }
            break result;
        };
        let moved = result.map_err(CopyError::Read)?.min(count);
        if moved == 0 {
            return Ok((0, buffer));
        }
        buffer.truncate(moved);
        if self.direct.get() && !moved.is_multiple_of(ALIGNMENT) {
            buffer.resize(moved.next_multiple_of(ALIGNMENT), 0);
            self.padded.set(true);
        }
        let mut done = 0;
        while done < buffer.len() {
            let offset = at + done as u64;
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(self.pair.target.clone(), part, offset);
            let (result, part) = io.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device returns ENOSPC; a write of 0 bytes must not be retried forever.
                Ok(0) => return Err(CopyError::Write(Errno::NOSPC.into())),
                Ok(written) => done += written,
                Err(error) if self.is_refused(&error, direct) => direct = false,
                Err(error) => return Err(CopyError::Write(error)),
            }
        }
        self.pair.count_and_throttle(moved).await;
        Ok((moved, buffer))
    }

    /// Whether the file system needs a larger alignment; if so, clears O_DIRECT.
    fn is_refused(&self, error: &io::Error, direct: bool) -> bool {
        let refused = direct && error.raw_os_error() == Some(Errno::INVAL.raw());
        if refused && self.direct.replace(false) {
            set_direct(self.pair, false);
        }
        refused
    }
}

/// Polls futures concurrently until all are ready or one has failed.
async fn run_concurrently<F: Future<Output = Result<(), CopyError>>>(
    futures: impl Iterator<Item = F>,
) -> Result<(), CopyError> {
    let mut running: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        let mut failed = None;
        running.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(result) => {
                failed = failed.take().or(result.err());
                false
            }
        });
        match failed {
            Some(error) => Poll::Ready(Err(error)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
