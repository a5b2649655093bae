//! A request for ranges in a context: its operations, from the status of the file to the last read. Programs
//! with futures await the same operations instead.

use super::device::{DeviceAccess, DeviceFile, DeviceOpen};
use super::memory::RangeBytes;
use super::reading::{PieceRead, RangeReads};
use super::{DirectReason, RangeOptions, RangeStats};
use crate::ops::{FileStatus, FileSystemStatus, Open, ReadAt, StatFile, StatFileSystem};
use crate::{Context, Errno, Handle, Operation, Outcome, Submitted, Ticket};
use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::task::Poll;

/// Ranges of a file that are being read in a context, for programs that poll it.
///
/// ```
/// use laio::ops::OpenFile;
/// use laio::ranges::{Direct, RangeRequest};
/// use laio::{Context, Options};
/// use std::task::Poll;
///
/// let mut context = Context::new(Options::new())?;
/// let file = OpenFile::from(std::fs::File::open("/proc/self/exe")?);
/// let mut request = RangeRequest::new(file, vec![1..4, 100_000..100_200], Direct::Auto);
/// let read = loop {
///     match request.advance(&mut context) {
///         Poll::Ready(read) => break read?,
///         // A loop would first do other work; each completion of one of its operations may advance it.
///         Poll::Pending => context.poll(&mut Vec::new(), None)?,
///     };
/// };
/// let lengths: Vec<usize> = read.bytes.iter().map(|bytes| bytes.as_ref().unwrap().len()).collect();
/// assert_eq!(lengths, [3, 200]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A request that is dropped is abandoned: what is in flight is cancelled.
pub struct RangeRequest<F: AsFd + Clone + 'static> {
    file: F,
    ranges: Vec<Range<u64>>,
    memory: Vec<NonNull<u8>>,
    options: RangeOptions,
    device: Option<DeviceFile<F>>,
    stage: Stage<F>,
    started: Vec<Handle>,
    stopped: Option<Errno>,
}

/// What a [`RangeRequest`] has read.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestedRanges {
    /// The bytes of each range, in the order of the request: fewer than the range has only at the end of the
    /// file. Ranges that were read together fail together.
    pub bytes: Vec<Result<RangeBytes, Errno>>,
    /// What was done, and why.
    pub stats: RangeStats,
}

type PieceTicket<F> = Ticket<ReadAt<F, PieceRead>>;

/// What the request waits for.
enum Stage<F: AsFd + Clone + 'static> {
    /// Nothing: it has not begun.
    New,
    Status(Submitted<StatFile<F>>),
    FileSystem(Submitted<StatFileSystem<F>>, Box<FileStatus>, DeviceOpen),
    Device(Submitted<Open>, Box<FileStatus>, DeviceOpen),
    Reads(Box<RangeReads<F>>, Vec<PieceTicket<F>>),
    Over,
}

impl<F: AsFd + Clone + From<OwnedFd> + 'static> RangeRequest<F> {
    /// A request, which the first [`RangeRequest::advance`] begins. The file must stay open until it is
    /// over.
    pub fn new(
        file: F,
        ranges: Vec<Range<u64>>,
        options: impl Into<RangeOptions>,
    ) -> RangeRequest<F> {
        RangeRequest {
            file,
            ranges,
            memory: Vec::new(),
            options: options.into(),
            device: None,
            stage: Stage::New,
            started: Vec::new(),
            stopped: None,
        }
    }

    /// Uses the descriptor for direct reads that an earlier request for this file has opened
    /// ([`RangeRequest::device`]).
    #[must_use]
    pub fn with_device(mut self, device: Option<DeviceFile<F>>) -> RangeRequest<F> {
        self.device = device;
        self
    }

    /// Lets the bytes of each range go to memory of the program, see [`RangeReads::into_memory`].
    ///
    /// # Safety
    /// As for [`RangeReads::into_memory`]. The operations are over when the request is, or when the context
    /// has ended.
    #[must_use]
    pub unsafe fn into_memory(mut self, memory: Vec<NonNull<u8>>) -> RangeRequest<F> {
        self.memory = memory;
        self
    }

    /// Takes what has finished, and starts what may start. Pending: operations are in flight, and the
    /// completion of at least one was not delivered yet.
    ///
    /// # Errors
    /// The errors of reading the status of the file (`EBADF`); `InvalidInput` for a range that ends before it
    /// begins. Errors of reads are in the results of their ranges.
    ///
    /// # Panics
    /// If it is over.
    pub fn advance(&mut self, context: &mut Context) -> Poll<io::Result<RequestedRanges>> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::New => Stage::Status(self.submit(context, StatFile::new(self.file.clone()))),
                Stage::Status(status) => match taken(context, status) {
                    Outcome::Done(Ok(status)) => self.access(context, status)?,
                    Outcome::Done(Err(error)) => return Poll::Ready(Err(self.reason(error))),
                    waits => return self.wait(Stage::Status(waits)),
                },
                Stage::FileSystem(on, status, open) => match taken(context, on) {
                    Outcome::Done(on) => self.open_on(context, on, status, open)?,
                    waits => return self.wait(Stage::FileSystem(waits, status, open)),
                },
                Stage::Device(opened, status, open) => match taken(context, opened) {
                    Outcome::Done(opened) => self.opened(opened, &status, &open)?,
                    waits => return self.wait(Stage::Device(waits, status, open)),
                },
                Stage::Reads(mut reads, mut tickets) => {
                    self.read(context, &mut reads, &mut tickets);
                    if !reads.is_over() {
                        return self.wait(Stage::Reads(reads, tickets));
                    }
                    return Poll::Ready(Ok(self.read_ranges(*reads)));
                }
                Stage::Over => panic!("the request is over"),
            }
        }
    }

    /// Cancels what is in flight, and starts nothing more. The request goes on until that is over; what was
    /// not read then has `errno`.
    pub fn stop(&mut self, context: &mut Context, errno: Errno) {
        self.stopped = Some(errno);
        if let Stage::Reads(reads, _) = &mut self.stage {
            reads.stop(errno);
        }
        for handle in self.in_flight() {
            // Those that have finished fail.
            let _ = context.cancel(handle);
        }
    }

    /// The operations that have gone to the background since the last call of this function. Their
    /// completions carry 0, unless the program sets something else.
    pub fn started(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.started)
    }

    /// The operations in flight, or not yet taken.
    pub fn in_flight(&self) -> Vec<Handle> {
        fn handle<O: Operation>(submitted: &Submitted<O>) -> Vec<Handle> {
            match submitted {
                Outcome::Done(_) => Vec::new(),
                Outcome::Pending(ticket) => vec![ticket.handle()],
            }
        }
        match &self.stage {
            Stage::New | Stage::Over => Vec::new(),
            Stage::Status(status) => handle(status),
            Stage::FileSystem(status, ..) => handle(status),
            Stage::Device(opened, ..) => handle(opened),
            Stage::Reads(_, tickets) => tickets.iter().map(Ticket::handle).collect(),
        }
    }

    /// The descriptor for direct reads that this request has opened, or was given. To close it before the
    /// file ends the locks that the process has on the file by `fcntl` (`F_SETLK`).
    pub fn device(&self) -> Option<DeviceFile<F>> {
        self.device.clone()
    }

    fn read_ranges(&self, reads: RangeReads<F>) -> RequestedRanges {
        let errors = (0..self.ranges.len()).map(|index| match reads.error(index) {
            Some(Errno::CANCELED) => self.stopped.or(Some(Errno::CANCELED)),
            error => error,
        });
        let errors: Vec<_> = errors.collect();
        let (bytes, stats) = reads.finish();
        let bytes = bytes.into_iter().zip(errors);
        let bytes = bytes.map(|(bytes, error)| error.map_or(Ok(bytes), Err));
        let bytes = bytes.collect();
        RequestedRanges { bytes, stats }
    }

    /// The error of the request: why the program has stopped it, if it has.
    fn reason(&self, error: io::Error) -> io::Error {
        match self.stopped {
            Some(errno) if Errno::from(&error) == Errno::CANCELED => errno.into(),
            _ => error,
        }
    }

    fn wait(&mut self, stage: Stage<F>) -> Poll<io::Result<RequestedRanges>> {
        self.stage = stage;
        Poll::Pending
    }

    fn submit<O: Operation>(&mut self, context: &mut Context, operation: O) -> Submitted<O> {
        let submitted = context.submit(operation);
        if let Outcome::Pending(ticket) = &submitted {
            self.started.push(ticket.handle());
        }
        submitted
    }

    /// The stage after the status is known.
    fn access(&mut self, context: &mut Context, status: FileStatus) -> io::Result<Stage<F>> {
        let access = DeviceAccess::new(&self.file, &status, self.options.direct);
        let (open, asks) = match access {
            Err(reason) => return self.reads(Err(reason), &status),
            Ok(DeviceAccess::Own(device)) => return self.reads(Ok(device), &status),
            Ok(DeviceAccess::Open(open)) => (open, false),
            Ok(DeviceAccess::Ask(open)) => (open, true),
        };
        if let Some(device) = self.device.clone() {
            return self.reads(Ok(device), &status);
        }
        let status = Box::new(status);
        Ok(if asks {
            let ask = StatFileSystem::new(self.file.clone());
            Stage::FileSystem(self.submit(context, ask), status, open)
        } else {
            Stage::Device(self.submit(context, open.operation()), status, open)
        })
    }

    fn open_on(
        &mut self,
        context: &mut Context,
        on: io::Result<FileSystemStatus>,
        status: Box<FileStatus>,
        open: DeviceOpen,
    ) -> io::Result<Stage<F>> {
        let on = on.map_err(|_| DirectReason::FileSystem);
        match on.and_then(|on| open.allowed(&on, self.options.direct)) {
            Err(reason) => self.reads(Err(reason), &status),
            Ok(()) => Ok(Stage::Device(
                self.submit(context, open.operation()),
                status,
                open,
            )),
        }
    }

    fn opened(
        &mut self,
        opened: io::Result<OwnedFd>,
        status: &FileStatus,
        open: &DeviceOpen,
    ) -> io::Result<Stage<F>> {
        let device = opened.map(|opened| open.opened(F::from(opened)));
        self.device = device.as_ref().ok().cloned();
        self.reads(device.map_err(|_| DirectReason::Refused), status)
    }

    fn reads(
        &mut self,
        device: Result<DeviceFile<F>, DirectReason>,
        status: &FileStatus,
    ) -> io::Result<Stage<F>> {
        let (file, direct) = (self.file.clone(), self.options.direct);
        let mut reads = RangeReads::new(file, device, status, &self.ranges, direct)?;
        if !self.memory.is_empty() {
            let memory = std::mem::take(&mut self.memory);
            // SAFETY: by the caller of `into_memory`.
            reads = unsafe { reads.into_memory(memory) };
        }
        if let Some(errno) = self.stopped {
            reads.stop(errno);
        }
        Ok(Stage::Reads(Box::new(reads), Vec::new()))
    }

    /// Takes the reads that have finished, and starts further ones.
    fn read(
        &mut self,
        context: &mut Context,
        reads: &mut RangeReads<F>,
        tickets: &mut Vec<PieceTicket<F>>,
    ) {
        for ticket in std::mem::take(tickets) {
            match context.take(ticket) {
                // Its ranges keep the error.
                Ok(output) => drop(reads.done(output)),
                Err(ticket) => tickets.push(ticket),
            }
        }
        let depth = self.options.depth.max(1);
        // Several at once: the context submits operations in batches.
        while tickets.len() <= depth - depth.div_ceil(4) {
            let Ok(next) = reads.next(depth - tickets.len()) else {
                continue;
            };
            if next.is_empty() {
                return;
            }
            for read in next {
                match self.submit(context, read) {
                    Outcome::Done(output) => drop(reads.done(output)),
                    Outcome::Pending(ticket) => tickets.push(ticket),
                }
            }
        }
    }
}

/// The output of an operation, if its completion was delivered.
fn taken<O: Operation>(context: &mut Context, submitted: Submitted<O>) -> Submitted<O> {
    match submitted {
        Outcome::Pending(ticket) => match context.take(ticket) {
            Ok(output) => Outcome::Done(output),
            Err(ticket) => Outcome::Pending(ticket),
        },
        done => done,
    }
}

impl<F: AsFd + Clone + 'static> fmt::Debug for RangeRequest<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = formatter.debug_struct("RangeRequest");
        text.field("ranges", &self.ranges.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
