//! Many operations in flight at once.

use crate::measure::{Caller, Direct, Plain, Subject, Via, expect, leaked_buffer, word};
use crate::{BackendKind, Call, Context, Errno, Outcome, PollOptions};
use io_uring::{IoUring, opcode, types};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Bytes of a read.
const BYTES: usize = 4096;

/// The callback that receives the results of operations, by tag.
pub(crate) type Take<'a> = &'a mut dyn FnMut(u64, Result<usize, Errno>);

/// Holds several operations at once.
pub(crate) trait Flight {
    /// Starts a call. Returns the result if it is available at once.
    ///
    /// # Safety
    /// As for the system call; memory that its arguments point to is never freed.
    unsafe fn start(&mut self, call: &Call, tag: u64) -> Result<Option<usize>, Errno>;

    /// Waits for at least one operation; returns how many have finished.
    fn reap(&mut self, take: Take<'_>) -> Result<usize, Errno>;
}

impl Flight for Context {
    unsafe fn start(&mut self, call: &Call, tag: u64) -> Result<Option<usize>, Errno> {
        // SAFETY: by the caller.
        match unsafe { self.call_with(*call, tag) } {
            Outcome::Done(result) => result.map(Some),
            Outcome::Pending(_) => Ok(None),
        }
    }

    fn reap(&mut self, take: Take<'_>) -> Result<usize, Errno> {
        let count = self.poll_with(PollOptions::default(), |completion| {
            take(completion.user_data, completion.result);
        })?;
        match count {
            // Nothing is in flight, so no completion would ever arrive.
            0 if self.pending() == 0 => Err(Errno::IO),
            count => Ok(count),
        }
    }
}

/// A bare io_uring: the lower bound for the cost of any interface on it.
pub struct BareRing(IoUring);

impl std::fmt::Debug for BareRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BareRing")
    }
}

impl BareRing {
    /// Sets up the ring with the best flags for one thread, like the engine's own.
    ///
    /// # Errors
    /// The error of setting it up, for example if io_uring is absent or forbidden.
    pub fn new() -> Result<BareRing, Errno> {
        let mut builder = IoUring::builder();
        builder.setup_submit_all().setup_single_issuer();
        builder.setup_defer_taskrun().setup_taskrun_flag();
        match builder.build(256).map_err(Errno::from) {
            // Before Linux 6.1.
            Err(Errno::INVAL) => Ok(BareRing(IoUring::new(256)?)),
            result => Ok(BareRing(result?)),
        }
    }

    /// Queues a read; it is submitted by [`BareRing::reap`].
    ///
    /// # Safety
    /// As for the system call; the buffer is never freed.
    pub(crate) unsafe fn start(&mut self, call: &Call, tag: u64) -> Result<(), Errno> {
        let [fd, pointer, length, offset, ..] = call.args;
        let offset = match call.number as libc::c_long {
            libc::SYS_pread64 => offset as u64,
            libc::SYS_read => u64::MAX,
            _ => return Err(Errno::OPNOTSUPP),
        };
        let read = opcode::Read::new(types::Fd(fd as i32), pointer as *mut u8, length as u32);
        let entry = read.offset(offset).build().user_data(tag);
        // SAFETY: by the caller.
        unsafe { self.0.submission().push(&entry) }.map_err(|_| Errno::AGAIN)
    }

    /// Submits, waits for one completion, and reaps all available ones.
    pub(crate) fn reap(&mut self, take: Take<'_>) -> Result<usize, Errno> {
        loop {
            match self.0.submit_and_wait(1).map_err(Errno::from) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        let mut count = 0;
        for completion in self.0.completion() {
            let result = completion.result();
            let result = usize::try_from(result).map_err(|_| Errno::from_raw(-result));
            take(completion.user_data(), result);
            count += 1;
        }
        Ok(count)
    }
}

impl Flight for BareRing {
    unsafe fn start(&mut self, call: &Call, tag: u64) -> Result<Option<usize>, Errno> {
        // SAFETY: by the caller.
        unsafe { BareRing::start(self, call, tag) }.map(|()| None)
    }

    fn reap(&mut self, take: Take<'_>) -> Result<usize, Errno> {
        BareRing::reap(self, take)
    }
}

/// Makes `count` calls, always `depth` of them in flight. `next` gives the call that uses buffer `tag`.
fn keep_in_flight(
    flight: &mut impl Flight,
    depth: usize,
    count: usize,
    mut next: impl FnMut(u64) -> Call,
) -> Result<(), Errno> {
    let mut free: Vec<u64> = (0..depth.min(count) as u64).collect();
    let (mut left, mut in_flight) = (count, 0);
    let mut failed = Ok(());
    while left > 0 || in_flight > 0 {
        while left > 0
            && let Some(tag) = free.pop()
        {
            left -= 1;
            // SAFETY: the buffers are never freed, and each is used by one call at a time.
            match unsafe { flight.start(&next(tag), tag)? } {
                Some(moved) => {
                    expect(Ok(moved), BYTES)?;
                    free.push(tag);
                }
                None => in_flight += 1,
            }
        }
        if in_flight > 0 {
            in_flight -= flight.reap(&mut |tag, result| {
                free.push(tag);
                failed = failed.and(expect(result, BYTES));
            })?;
            failed?;
        }
    }
    Ok(())
}

/// Waits for all operations in flight; each must have moved so many bytes.
fn reap_all(flight: &mut impl Flight, mut in_flight: usize, bytes: usize) -> Result<(), Errno> {
    let mut failed = Ok(());
    while in_flight > 0 {
        in_flight -= flight.reap(&mut |_, result| failed = failed.and(expect(result, bytes)))?;
    }
    failed
}

/// Calls that can be made one at a time, or started and waited for later.
trait BothWays {
    /// Nanoseconds for `count` calls.
    fn run_in_flight(&mut self, flight: &mut impl Flight, count: usize) -> Result<u64, Errno>;

    /// Nanoseconds for `count` calls, one at a time.
    fn run_by(&mut self, caller: impl Caller, count: usize) -> Result<u64, Errno>;

    fn run_via(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        match via {
            Via::Plain => self.run_by(Plain, count),
            Via::Direct => self.run_by(Direct, count),
            Via::Context(context) => self.run_in_flight(*context, count),
            Via::Ring(ring) => self.run_in_flight(*ring, count),
        }
    }
}

/// Reads of 4 KiB from random places of a file, a number of them in flight. Plainly: one at a time.
#[derive(Debug)]
pub struct ColdReads {
    file: OwnedFd,
    depth: usize,
    buffers: usize,
    order: Order,
}

impl ColdReads {
    /// `depth` of them in flight.
    ///
    /// # Errors
    /// Of looking at the file; `EINVAL` if it is smaller than one read.
    pub fn new(file: OwnedFd, depth: usize) -> Result<ColdReads, Errno> {
        let length = rustix::fs::fstat(&file)?.st_size as u64;
        Ok(ColdReads {
            file,
            depth,
            buffers: leaked_buffer(depth * BYTES) as usize,
            order: Order::new(length / BYTES as u64)?,
        })
    }
}

impl BothWays for ColdReads {
    fn run_in_flight(&mut self, flight: &mut impl Flight, count: usize) -> Result<u64, Errno> {
        let (file, buffers) = (word(&self.file), self.buffers);
        let order = &mut self.order;
        let start = Instant::now();
        keep_in_flight(flight, self.depth, count, |tag| {
            let buffer = buffers + tag as usize * BYTES;
            let offset = order.next_page() as usize * BYTES;
            Call::new(libc::SYS_pread64, [file, buffer, BYTES, offset])
        })?;
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn run_by(&mut self, mut caller: impl Caller, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count {
            let offset = self.order.next_page() as usize * BYTES;
            let args = [word(&self.file), self.buffers, BYTES, offset];
            // SAFETY: the buffer is never freed.
            let result = unsafe { caller.call(&Call::new(libc::SYS_pread64, args)) };
            expect(result, BYTES)?;
        }
        Ok(start.elapsed().as_nanos() as u64)
    }
}

impl Subject for ColdReads {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        self.run_via(via, count)
    }
}

/// The pages of a file in an order that looks random and repeats none before all were used.
#[derive(Debug)]
struct Order {
    pages: u64,
    /// Of a page's number.
    bits: u32,
    counter: u64,
}

impl Order {
    fn new(pages: u64) -> Result<Order, Errno> {
        if pages == 0 {
            return Err(Errno::INVAL);
        }
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
        Ok(Order {
            pages,
            bits: pages.next_power_of_two().trailing_zeros(),
            counter: now.map_or(0, |now| now.as_nanos() as u64),
        })
    }

    /// Counts, and mixes the bits of the counter in steps each of which can be undone, so that different
    /// counters stay different. Numbers that are no pages are left out.
    fn next_page(&mut self) -> u64 {
        let mask = (1 << self.bits) - 1;
        let half = self.bits / 2 + 1;
        loop {
            self.counter = self.counter.wrapping_add(1);
            let mut page = self.counter & mask;
            for _ in 0..3 {
                page = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
                page ^= page >> half;
            }
            if page < self.pages {
                return page;
            }
        }
    }
}

/// Sets of cached reads or writes of 4 KiB, each set started together and waited for together.
#[derive(Debug)]
pub struct CachedBatch {
    file: OwnedFd,
    size: usize,
    buffers: usize,
    number: libc::c_long,
}

impl CachedBatch {
    /// `size` reads in a set, of the file's first pages.
    ///
    /// # Errors
    /// None yet; `EINVAL` for an empty set.
    pub fn new(file: OwnedFd, size: usize) -> Result<CachedBatch, Errno> {
        CachedBatch::for_file(libc::SYS_pread64, file, size)
    }

    /// The same with writes.
    ///
    /// # Errors
    /// As for [`CachedBatch::new`].
    pub fn of_writes(file: OwnedFd, size: usize) -> Result<CachedBatch, Errno> {
        CachedBatch::for_file(libc::SYS_pwrite64, file, size)
    }

    fn for_file(number: libc::c_long, file: OwnedFd, size: usize) -> Result<CachedBatch, Errno> {
        if size == 0 {
            return Err(Errno::INVAL);
        }
        let buffers = leaked_buffer(size * BYTES) as usize;
        Ok(CachedBatch {
            file,
            size,
            buffers,
            number,
        })
    }

    fn call(&self, index: usize) -> Call {
        let at = index * BYTES;
        let args = [word(&self.file), self.buffers + at, BYTES, at];
        Call::new(self.number, args)
    }
}

impl BothWays for CachedBatch {
    fn run_in_flight(&mut self, flight: &mut impl Flight, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count.div_ceil(self.size) {
            let mut in_flight = 0;
            for index in 0..self.size {
                // SAFETY: the buffers are never freed, and each is used by one call at a time.
                match unsafe { flight.start(&self.call(index), index as u64)? } {
                    Some(moved) => expect(Ok(moved), BYTES)?,
                    None => in_flight += 1,
                }
            }
            reap_all(flight, in_flight, BYTES)?;
        }
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn run_by(&mut self, mut caller: impl Caller, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count.div_ceil(self.size) {
            for index in 0..self.size {
                // SAFETY: the buffers are never freed.
                expect(unsafe { caller.call(&self.call(index)) }, BYTES)?;
            }
        }
        Ok(start.elapsed().as_nanos() as u64)
    }
}

impl Subject for CachedBatch {
    /// Nanoseconds for `count` reads, which should be a multiple of the set's size.
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        self.run_via(via, count)
    }
}

/// Reads of many pipes: all are started, then a byte is written to each pipe, then all are waited for.
/// Plainly: a byte is written to each pipe, and then read. Both ways the writes are timed too.
#[derive(Debug)]
pub struct ManyPipes {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    buffers: usize,
}

impl ManyPipes {
    /// With this number of pipes.
    ///
    /// # Errors
    /// Of making the pipes.
    pub fn new(count: usize) -> Result<ManyPipes, Errno> {
        let pipes: Result<Vec<_>, _> = (0..count).map(|_| pipe_with(PipeFlags::CLOEXEC)).collect();
        Ok(ManyPipes {
            pipes: pipes?,
            buffers: leaked_buffer(count) as usize,
        })
    }

    fn call(&self, index: usize) -> Call {
        let pipe = word(&self.pipes[index].0);
        Call::new(libc::SYS_read, [pipe, self.buffers + index, 1])
    }

    fn write_all(&self) -> Result<(), Errno> {
        for (_, end) in &self.pipes {
            expect(rustix::io::write(end, &[1]).map_err(Errno::from), 1)?;
        }
        Ok(())
    }
}

impl BothWays for ManyPipes {
    fn run_in_flight(&mut self, flight: &mut impl Flight, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count.div_ceil(self.pipes.len()) {
            let mut in_flight = 0;
            for index in 0..self.pipes.len() {
                // SAFETY: the buffers are never freed.
                match unsafe { flight.start(&self.call(index), index as u64)? } {
                    None => in_flight += 1,
                    Some(_) => return Err(Errno::IO),
                }
            }
            self.write_all()?;
            reap_all(flight, in_flight, 1)?;
        }
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn run_by(&mut self, mut caller: impl Caller, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count.div_ceil(self.pipes.len()) {
            self.write_all()?;
            for index in 0..self.pipes.len() {
                // SAFETY: the buffers are never freed.
                expect(unsafe { caller.call(&self.call(index)) }, 1)?;
            }
        }
        Ok(start.elapsed().as_nanos() as u64)
    }
}

impl Subject for ManyPipes {
    /// Nanoseconds for `count` reads, which should be a multiple of the number of pipes.
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        match via {
            // It would block before the first byte is written.
            Via::Context(context) if context.info().backend() == BackendKind::Sync => {
                self.run_by(&mut **context, count)
            }
            via => self.run_via(via, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_comes_once() {
        for pages in [1, 2, 3, 1000, 1024] {
            let mut order = Order::new(pages).unwrap();
            let mut seen: Vec<_> = (0..pages).map(|_| order.next_page()).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..pages), "{pages}: {seen:?}");
        }
        assert!(Order::new(0).is_err());
    }
}
