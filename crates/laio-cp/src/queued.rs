//! Large files through memory, with several pieces in flight: each is read, then written where it belongs.
//! For back ends that have something to overlap then, and for files that are opened past the page cache.

use crate::data::{CopyError, OpenPair};
use laio::Errno;
use laio::ops::{Limit, Part, ReadAt, Truncate, WriteAt};
use rustix::fs::OFlags;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::Poll;

/// What addresses, places and lengths must be multiples of, past the page cache: no device wants more.
const ALIGNMENT: usize = 4 << 10;

/// Copies bytes from `start` to `end`. Fewer if the file has become shorter.
pub(crate) async fn copy(pair: &OpenPair<'_>, start: u64, end: u64) -> Result<u64, CopyError> {
    let options = pair.worker.options();
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
        let cut = pair.worker.call_target(cut).await;
        cut.map_err(CopyError::Write)?;
    }
    if queue.direct.get() {
        set_direct(pair, false);
    }
    Ok(end - start)
}

/// Switches both files; false, and as before, if a file system refuses.
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
        // It was possible a moment ago.
        let _ = switch(pair.source, !on);
        return false;
    }
    on
}

struct Queue<'a> {
    pair: &'a OpenPair<'a>,
    /// Where the next piece begins.
    next: Cell<u64>,
    /// Where the last one ends: the end of the file, if that is met before.
    end: Cell<u64>,
    direct: Cell<bool>,
    /// More was written than the file has.
    padded: Cell<bool>,
}

impl Queue<'_> {
    fn piece_size(&self) -> usize {
        let wanted = self
            .pair
            .worker
            .options()
            .buffer
            .min(self.pair.piece_size());
        (wanted / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }

    /// One piece after the other.
    async fn copy_pieces(&self) -> Result<(), CopyError> {
        // Room for a start that is aligned.
        let mut buffer = Vec::with_capacity(self.piece_size() + ALIGNMENT);
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
                    // The end, though the file was longer when it was opened.
                    self.end.set(self.end.get().min(offset));
                    break;
                }
                done += moved;
            }
        }
    }

    /// Reads and writes what one call reads.
    async fn copy_piece(
        &self,
        mut buffer: Vec<u8>,
        at: u64,
        count: usize,
    ) -> Result<(usize, Vec<u8>), CopyError> {
        let worker = self.pair.worker;
        let address = buffer.as_ptr() as usize;
        let start = address.next_multiple_of(ALIGNMENT) - address;
        let mut direct = self.direct.get();
        let wanted = match direct {
            true => count.next_multiple_of(ALIGNMENT),
            false => count,
        };
        let result = loop {
            buffer.clear();
            buffer.resize(start, 0);
            let read = ReadAt::new(self.pair.source.clone(), Limit::new(buffer, wanted), at);
            let (result, filled) = worker.call_lazy(read).await;
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
        buffer.truncate(start + moved);
        if self.direct.get() && !moved.is_multiple_of(ALIGNMENT) {
            buffer.resize(start + moved.next_multiple_of(ALIGNMENT), 0);
            self.padded.set(true);
        }
        let mut done = start;
        while done < buffer.len() {
            let offset = at + (done - start) as u64;
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(self.pair.target.clone(), part, offset);
            let (result, part) = worker.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device says so; nobody else should be asked for ever.
                Ok(0) => return Err(CopyError::Write(Errno::NOSPC.into())),
                Ok(written) => done += written,
                Err(error) if self.is_refused(&error, direct) => direct = false,
                Err(error) => return Err(CopyError::Write(error)),
            }
        }
        self.pair.account(moved).await;
        Ok((moved, buffer))
    }

    /// The file system wants other places than these: from now on through the page cache.
    fn is_refused(&self, error: &io::Error, direct: bool) -> bool {
        let refused = direct && error.raw_os_error() == Some(Errno::INVAL.raw());
        if refused && self.direct.replace(false) {
            set_direct(self.pair, false);
        }
        refused
    }
}

/// Runs futures side by side, until all are over or one has failed.
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
