//! Large files through memory, with several pieces in flight: each is read, then written where it belongs.
//! For back ends that have something to overlap then, and for files that are opened past the page cache.

use crate::data::{Broken, Pair};
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
pub(crate) async fn copy(pair: &Pair<'_>, start: u64, end: u64) -> Result<u64, Broken> {
    let options = pair.worker.options();
    let queue = Queue {
        pair,
        next: Cell::new(start),
        end: Cell::new(end),
        direct: Cell::new(options.direct && past_cache(pair, true)),
        padded: Cell::new(false),
    };
    let pieces = (end - start).div_ceil(queue.piece() as u64);
    let depth = (options.queue() as u64).min(pieces).max(1);
    all((0..depth).map(|_| queue.lane())).await?;
    let end = queue.end.get().max(start);
    if queue.padded.get() {
        let cut = Truncate::new(pair.target.clone(), end);
        let cut = pair.worker.write(cut).await;
        cut.map_err(Broken::Write)?;
    }
    if queue.direct.get() {
        past_cache(pair, false);
    }
    Ok(end - start)
}

/// Switches both files; false, and as before, if a file system refuses.
fn past_cache(pair: &Pair<'_>, on: bool) -> bool {
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
    pair: &'a Pair<'a>,
    /// Where the next piece begins.
    next: Cell<u64>,
    /// Where the last one ends: the end of the file, if that is met before.
    end: Cell<u64>,
    direct: Cell<bool>,
    /// More was written than the file has.
    padded: Cell<bool>,
}

impl Queue<'_> {
    fn piece(&self) -> usize {
        let wanted = self.pair.worker.options().buffer.min(self.pair.piece());
        (wanted / ALIGNMENT * ALIGNMENT).max(ALIGNMENT)
    }

    /// One piece after the other.
    async fn lane(&self) -> Result<(), Broken> {
        // Room for a start that is aligned.
        let mut buffer = Vec::with_capacity(self.piece() + ALIGNMENT);
        loop {
            self.pair.go_on()?;
            let at = self.next.get();
            if at >= self.end.get() {
                return Ok(());
            }
            let count = (self.end.get() - at).min(self.piece() as u64) as usize;
            self.next.set(at + count as u64);
            let mut done = 0;
            while done < count {
                let place = at + done as u64;
                let (moved, back) = self.step(buffer, place, count - done).await?;
                buffer = back;
                if moved == 0 {
                    // The end, though the file was longer when it was opened.
                    self.end.set(self.end.get().min(place));
                    break;
                }
                done += moved;
            }
        }
    }

    /// Reads and writes what one call reads.
    async fn step(
        &self,
        mut buffer: Vec<u8>,
        at: u64,
        count: usize,
    ) -> Result<(usize, Vec<u8>), Broken> {
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
            let (result, filled) = worker.lazily(read).await;
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
        let moved = result.map_err(Broken::Read)?.min(count);
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
            let place = at + (done - start) as u64;
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(self.pair.target.clone(), part, place);
            let (result, part) = worker.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device says so; nobody else should be asked for ever.
                Ok(0) => return Err(Broken::Write(Errno::NOSPC.into())),
                Ok(written) => done += written,
                Err(error) if self.is_refused(&error, direct) => direct = false,
                Err(error) => return Err(Broken::Write(error)),
            }
        }
        self.pair.pace(moved).await;
        Ok((moved, buffer))
    }

    /// The file system wants other places than these: from now on through the page cache.
    fn is_refused(&self, error: &io::Error, direct: bool) -> bool {
        let refused = direct && error.raw_os_error() == Some(Errno::INVAL.raw());
        if refused && self.direct.replace(false) {
            past_cache(self.pair, false);
        }
        refused
    }
}

/// Runs futures side by side, until all are over or one has failed.
async fn all<F: Future<Output = Result<(), Broken>>>(
    futures: impl Iterator<Item = F>,
) -> Result<(), Broken> {
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
            Some(broken) => Poll::Ready(Err(broken)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
