//! The reads of one request: which may start next, what their results mean, and the bytes of each range at
//! the end. It makes no call: programs make the operations that it returns.

use super::choice::{From, RangeStats, place};
use super::memory::{ALIGNMENT, Lent, Piece, RangeBytes};
use super::plan::{JoinedRange, PIECE, aligned, join, pieces};
use super::{Direct, DirectReason, device, device::DeviceFile, reuse};
use crate::Errno;
use crate::ops::{FileStatus, ReadAt, Sink};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// The reads of one request for ranges of a file.
///
/// ```
/// use laio::ops::{OpenFile, StatFile};
/// use laio::ranges::{Direct, DirectReason, RangeReads};
/// use laio::{Context, Operation, Options, Outcome};
///
/// fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
///     match context.submit(operation) {
///         Outcome::Done(output) => output,
///         Outcome::Pending(ticket) => {
///             context.poll(&mut Vec::new(), None).unwrap();
///             context.take(ticket).unwrap()
///         }
///     }
/// }
///
/// let mut context = Context::new(Options::new())?;
/// let file = OpenFile::from(std::fs::File::open("/proc/self/exe")?);
/// let status = run(&mut context, StatFile::new(file.clone()))?;
/// let device = Err(DirectReason::NotAsked);
/// let mut reads = RangeReads::new(file, device, &status, &[1..4, 100_000..100_200], Direct::Never)?;
/// while !reads.is_over() {
///     for read in reads.next(8)? {
///         let output = run(&mut context, read);
///         reads.done(output)?;
///     }
/// }
/// let (bytes, stats) = reads.finish();
/// assert_eq!((&bytes[0][..], bytes[1].len()), (&b"ELF"[..], 200));
/// assert_eq!((stats.reads, stats.direct_reads), (2, 0));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct RangeReads<F> {
    file: F,
    device: Option<DeviceFile<F>>,
    is_auto: bool,
    /// The device and the number of the file, by which direct reads are remembered.
    identity: (u64, u64),
    /// Of a regular file, if it is known.
    size: Option<u64>,
    ranges: Vec<Range<u64>>,
    /// Not started.
    joined: VecDeque<JoinedRange>,
    /// Started: the pieces of each read that are not in flight, in their order.
    reads: Vec<Read>,
    /// Pieces that may start.
    ready: VecDeque<PieceRead>,
    in_flight: usize,
    found: Vec<Option<RangeBytes>>,
    /// The error of what is not read any more, see [`RangeReads::stop`].
    stopped: Option<Errno>,
    /// Of ranges whose reads have failed.
    errors: Vec<Option<Errno>>,
    /// The program's memory for each range; empty if it has given none.
    memory: Vec<Lent>,
    stats: RangeStats,
}

/// One read, in pieces.
#[derive(Debug)]
struct Read {
    joined: JoinedRange,
    /// The first byte of the first piece in the file.
    start: u64,
    pieces: Vec<Option<Piece>>,
    missing: usize,
    has_failed: bool,
}

/// A piece that is being read, as the buffer of its operation.
#[derive(Debug)]
pub struct PieceRead {
    piece: Piece,
    from: From,
    /// The number of the read, and of the piece in it.
    read: usize,
    number: usize,
    /// Where it begins in the file, and the end of what is wanted of it.
    bytes: Range<u64>,
}

// SAFETY: the piece has the wanted property.
unsafe impl Sink for PieceRead {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        self.piece.spare_capacity()
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: by the caller.
        unsafe { self.piece.append(count) }
    }
}

impl<F: AsFd + Clone + 'static> RangeReads<F> {
    /// Plans the reads of an open file with this status: from the device if there is one, else through the
    /// page cache.
    ///
    /// # Errors
    /// `InvalidInput` for a range that ends before it begins.
    pub fn new(
        file: F,
        device: Result<DeviceFile<F>, DirectReason>,
        status: &FileStatus,
        ranges: &[Range<u64>],
        direct: Direct,
    ) -> io::Result<RangeReads<F>> {
        let reason = match (&device, direct) {
            (Err(reason), _) => *reason,
            (Ok(_), Direct::Auto) => DirectReason::LargerThanMemory,
            (Ok(_), _) => DirectReason::Asked,
        };
        Ok(RangeReads {
            file,
            device: device.ok(),
            is_auto: direct == Direct::Auto,
            identity: (status.device(), status.inode()),
            size: Some(status.size()).filter(|&size| status.is_file() && size > 0),
            joined: join(ranges)?.into(),
            ranges: ranges.to_vec(),
            reads: Vec::new(),
            ready: VecDeque::new(),
            in_flight: 0,
            found: vec![None; ranges.len()],
            stopped: None,
            errors: vec![None; ranges.len()],
            memory: Vec::new(),
            stats: RangeStats {
                ranges: ranges.len() as u64,
                reason,
                ..RangeStats::default()
            },
        })
    }

    /// Lets the bytes of each range go to memory of the program: read into it where it is aligned as a
    /// direct read needs, and the range is not read together with others; else copied to it.
    ///
    /// # Safety
    /// There is an address for each range, from which on as many bytes may be written as the range has.
    /// Nothing else uses them until this, the operations that it has returned, and the bytes that it will
    /// return are dropped.
    pub unsafe fn into_memory(mut self, memory: Vec<NonNull<u8>>) -> RangeReads<F> {
        assert_eq!(memory.len(), self.ranges.len());
        self.memory = memory.into_iter().map(Lent).collect();
        self
    }

    /// Returns the reads to start next, at most `most`. There may be more later: when reads in flight are
    /// done.
    ///
    /// # Errors
    /// `OutOfMemory`; [`RangeReads::error`] of the ranges is `ENOMEM` then.
    pub fn next(&mut self, most: usize) -> io::Result<Vec<ReadAt<F, PieceRead>>> {
        while self.ready.len() < most
            && let Some(joined) = self.joined.pop_front()
        {
            let of = joined.of.clone();
            self.start(joined)
                .inspect_err(|_| self.note(&of, Errno::NOMEM))?;
        }
        let count = self.ready.len().min(most);
        let next: Vec<_> = self.ready.drain(..count).collect();
        self.in_flight += count;
        Ok(next.into_iter().map(|read| self.operation(read)).collect())
    }

    /// Takes the output of one of the reads.
    ///
    /// # Errors
    /// The error of a read, as the plain read of the page cache has it. A program that goes on gets the
    /// ranges that are not read together with this one; [`RangeReads::error`] says which have failed.
    pub fn done(&mut self, (result, read): (io::Result<usize>, PieceRead)) -> io::Result<()> {
        self.in_flight -= 1;
        let number = read.read;
        if self.reads[number].has_failed {
            return Ok(());
        }
        self.interpret(result, read)
            .inspect_err(|error| self.fail(number, error.into()))
    }

    /// Decides what follows the result of a read.
    fn interpret(&mut self, result: io::Result<usize>, mut read: PieceRead) -> io::Result<()> {
        let is_direct = read.from == From::Device;
        let stats = &mut self.stats;
        let bytes = if is_direct {
            &mut stats.direct_bytes
        } else {
            &mut stats.cached_bytes
        };
        *bytes += *result.as_ref().unwrap_or(&0) as u64;
        let has_cache = self.device.as_ref().is_none_or(|device| !device.is_own);
        let wanted = read.bytes.end - read.bytes.start;
        let result = match result {
            Err(error) if is_end(Errno::from(&error)) => return Err(error),
            Err(error) if !is_direct || !has_cache => return Err(error),
            result => result,
        };
        let is_complete = read.piece.filled() as u64 >= wanted;
        // The end of the file, or an error after the bytes: the page cache says which.
        let is_open = match result {
            Ok(count) => (is_direct && has_cache) || (count > 0 && !is_direct),
            Err(_) => true,
        };
        if !is_complete && is_open {
            if let Some(errno) = self.stopped {
                return Err(errno.into());
            }
            if is_direct {
                self.stats.repeated += 1;
            }
            read.from = From::Repeated;
            read.piece.set_limit(wanted);
            self.ready.push_front(read);
            return Ok(());
        }
        self.keep(read)
    }

    /// Starts no further reads. The ranges of what was not started have this error.
    pub fn stop(&mut self, errno: Errno) {
        self.stopped = Some(errno);
        for joined in std::mem::take(&mut self.joined) {
            self.note(&joined.of, errno);
        }
        for read in std::mem::take(&mut self.ready) {
            self.fail(read.read, errno);
        }
    }

    /// The error of the read of a range. A range that shares a read with others shares its error.
    pub fn error(&self, index: usize) -> Option<Errno> {
        self.errors[index]
    }

    /// Whether all reads are done.
    pub fn is_over(&self) -> bool {
        self.joined.is_empty() && self.ready.is_empty() && self.in_flight == 0
    }

    /// The bytes of each range, in the order of the request, and what was done. What was not read is empty.
    pub fn finish(self) -> (Vec<RangeBytes>, RangeStats) {
        let found = self.found.into_iter();
        let bytes = found.map(Option::unwrap_or_default);
        (bytes.collect(), self.stats)
    }

    /// Gives up a read: its other pieces are not started, and what is in flight counts for nothing.
    fn fail(&mut self, number: usize, errno: Errno) {
        self.ready.retain(|read| read.read != number);
        let read = &mut self.reads[number];
        read.has_failed = true;
        read.pieces.clear();
        let of = read.joined.of.clone();
        self.note(&of, errno);
    }

    fn note(&mut self, of: &[usize], errno: Errno) {
        for &index in of {
            self.errors[index].get_or_insert(errno);
        }
    }

    /// Allocates the memory of a read, and decides where each piece is read.
    fn start(&mut self, mut joined: JoinedRange) -> io::Result<()> {
        let bytes = &mut joined.bytes;
        // No memory for what the file does not have. A size that is too small does not shorten small ranges.
        if let Some(size) = self.size {
            let least = match self.device {
                // A file system with direct reads knows the size. The kernel refuses offsets that are
                // negative for it.
                Some(_) if i64::try_from(bytes.start).is_ok() => 0,
                _ => bytes.start.saturating_add(PIECE),
            };
            bytes.end = bytes.end.min(size.max(least));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let block = self.device.as_ref().map_or(1, |device| device.block);
        let wide = aligned(bytes, block);
        let wanted = bytes.end;
        let memory = match self.lent(&joined.of, &wide) {
            Some(pieces) => pieces,
            None => Piece::allocate(wide.end - wide.start, PIECE)?,
        };
        let read = self.reads.len();
        self.reads.push(Read {
            start: wide.start,
            missing: memory.len(),
            pieces: memory.iter().map(|_| None).collect(),
            has_failed: false,
            joined,
        });
        for (number, (mut piece, bytes)) in memory.into_iter().zip(pieces(wide)).enumerate() {
            let from = self.place(&bytes);
            let bytes = bytes.start..bytes.end.min(wanted);
            if from != From::Device {
                piece.set_limit(bytes.end - bytes.start);
            }
            self.stats.reads += 1;
            self.ready.push_back(PieceRead {
                piece,
                from,
                read,
                number,
                bytes,
            });
        }
        Ok(())
    }

    /// The program's memory for these bytes of the file, if all of them belong there, and can be read there.
    fn lent(&self, of: &[usize], bytes: &Range<u64>) -> Option<Vec<Piece>> {
        let &[only] = of else {
            return None;
        };
        let &start = self.memory.get(only)?;
        let range = &self.ranges[only];
        let is_aligned = self.device.is_none() || start.0.addr().get().is_multiple_of(ALIGNMENT);
        let fits = bytes.start == range.start && bytes.end <= range.end;
        let total = usize::try_from(bytes.end - bytes.start).ok()?;
        // SAFETY: by the caller of `into_memory`; no other range has this memory.
        (is_aligned && fits).then(|| unsafe { Piece::lend(start, total, PIECE) })
    }

    fn place(&self, bytes: &Range<u64>) -> From {
        let Some(device) = &self.device else {
            return From::Cache;
        };
        let last_block = self.size.unwrap_or(0) / device.block * device.block;
        place(
            self.is_auto && !device.is_own,
            // The kernel would read less than asked for, and a read of the rest is not aligned.
            bytes.end > last_block && !device.is_own,
            || device::pages(&self.file, bytes),
            || reuse::mark(self.identity, bytes),
        )
    }

    fn operation(&mut self, read: PieceRead) -> ReadAt<F, PieceRead> {
        let stats = &mut self.stats;
        let (done, from) = (read.piece.filled() as u64, read.from);
        match (&self.device, from) {
            (Some(device), From::Device) => {
                stats.direct_reads += 1;
                let offset = read.bytes.start;
                ReadAt::new(device.file.clone(), read, offset).expect_block()
            }
            _ => {
                stats.cached_reads += 1;
                stats.found_in_cache += u64::from(from == From::FoundInCache);
                stats.read_before += u64::from(from == From::ReadBefore);
                stats.file_ends += u64::from(from == From::FileEnd);
                let offset = read.bytes.start + done;
                ReadAt::new(self.file.clone(), read, offset)
            }
        }
    }

    /// Keeps a piece. The last one of a read gives their bytes to its ranges.
    fn keep(&mut self, done: PieceRead) -> io::Result<()> {
        let read = &mut self.reads[done.read];
        read.pieces[done.number] = Some(done.piece);
        read.missing -= 1;
        if read.missing > 0 {
            return Ok(());
        }
        let pieces = std::mem::take(&mut read.pieces).into_iter().flatten();
        let Some(all) = RangeBytes::of_pieces(pieces.collect()) else {
            return Ok(());
        };
        let start = read.start;
        let parts = read.joined.of.iter().map(|&index| {
            let range = &self.ranges[index];
            (index, all.slice(range.start - start..range.end - start))
        });
        let parts: Vec<_> = parts.collect();
        if !self.memory.is_empty() {
            for (index, bytes) in parts {
                // SAFETY: by the caller of `into_memory`.
                let bytes = unsafe { bytes.moved_to(self.memory[index]) };
                self.found[index] = Some(bytes);
            }
            return Ok(());
        }
        // Small ranges, far from each other, would keep the memory of all that is between them.
        let needs = parts.iter().map(|(_, bytes)| bytes.needs());
        let is_sparse = needs.fold(0, usize::saturating_add) < all.holds() / 2;
        for (index, bytes) in parts {
            self.found[index] = Some(if is_sparse { bytes.copied()? } else { bytes });
        }
        Ok(())
    }
}

/// Whether an errno means that the program no longer wants the result: `ECANCELED`, or `ETIME` of a time-out.
fn is_end(errno: Errno) -> bool {
    errno == Errno::CANCELED || errno == Errno::TIME
}

#[cfg(test)]
mod tests;
