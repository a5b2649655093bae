//! Moving the data of a file: shared, copied inside the kernel, or through memory.
//!
//! A file grows from its beginning to its end, and nothing is written beyond what is complete: `--resume` takes
//! the size of what was begun for how far it got.

use crate::directory::Handle;
use crate::entry::{Copied, add_bytes};
use crate::medium::Medium;
use crate::options::{Method, Reflink as Wanted, Sparse};
use crate::outcome::Done;
use crate::queued;
use crate::sparse;
use crate::verify::Hashing;
use crate::worker::{PairLimit, Worker};
use laio::Errno;
use laio::ops::{
    Advice, Advise, Allocate, CopyRange, Limit, Part, Read, ReadAt, Reflink, Write, WriteAt,
};
use laio_rt::fs::Metadata;
use std::cell::RefCell;
use std::fmt;
use std::io;

/// A source and its destination, both open.
pub(crate) struct Pair<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) source: &'a Handle,
    pub(crate) status: &'a Metadata,
    pub(crate) target: &'a Handle,
    pub(crate) target_device: u64,
    /// Both are regular files.
    pub(crate) is_regular: bool,
    /// What comes before is there already.
    pub(crate) start: u64,
    /// The hash of what is read, if one is taken.
    pub(crate) seen: Option<RefCell<Hashing>>,
    /// What the source is on.
    pub(crate) medium: Medium,
}

type ReadLimited = ReadAt<Handle, Limit<Vec<u8>>>;

/// Where it failed.
pub(crate) enum Broken {
    Read(io::Error),
    Write(io::Error),
    Copy(io::Error),
    Reflink(io::Error),
    Extend(io::Error),
    /// Somebody asked to stop.
    Stopped,
}

/// What was tried, in the words of GNU's `cp --debug`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    pub(crate) offload: &'static str,
    pub(crate) reflink: &'static str,
    pub(crate) sparse: &'static str,
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "copy offload: {}, reflink: {}, sparse detection: {}",
            self.offload, self.reflink, self.sparse
        )
    }
}

/// Files up to this size are read and written in one piece: two calls, as `copy_file_range` would take
/// too, and it finds out whether the source must be waited for.
const SMALL: u64 = 256 << 10;
/// Bytes of one `copy_file_range`: so that a copy can be stopped, and its progress be seen.
const RANGE_MAX: u64 = 128 << 20;

/// Copies the data of a file.
pub(crate) async fn copy(pair: &Pair<'_>) -> Result<Copied, Broken> {
    let options = pair.worker.options();
    // Blocks with holes in them are not shared either, where there are to be none.
    let never = options.reflink == Wanted::Never || options.sparse == Sparse::Never;
    let mut detail = Detail {
        offload: "unknown",
        reflink: if never { "no" } else { "unknown" },
        sparse: "unknown",
    };
    if reflink(pair, &mut detail)? {
        let bytes = pair.status.size();
        add_bytes(pair.worker, bytes as usize);
        return Ok(Copied {
            done: Done::Reflink,
            bytes,
            detail: Some(detail),
            digest: None,
        });
    }
    let (done, bytes) = move_data(pair, &mut detail).await?;
    Ok(Copied {
        done,
        bytes,
        detail: Some(detail),
        digest: None,
    })
}

/// Hashes what an earlier run has copied of the source.
pub(crate) async fn see_start(pair: &Pair<'_>) -> Result<(), Broken> {
    let Some(seen) = pair.seen.as_ref().filter(|_| pair.start > 0) else {
        return Ok(());
    };
    let mut buffer = pair.worker.buffer();
    loop {
        pair.go_on()?;
        let at = seen.borrow().at();
        buffer.clear();
        let count = (pair.start - at).min(buffer.capacity() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.worker.lazily(read).await;
        buffer = filled.into_inner();
        if result.map_err(Broken::Read)? == 0 {
            break;
        }
        pair.see(at, &buffer)?;
    }
    pair.worker.keep(buffer);
    Ok(())
}

async fn move_data(pair: &Pair<'_>, detail: &mut Detail) -> Result<(Done, u64), Broken> {
    let options = pair.worker.options();
    detail.sparse = "no";
    if !pair.is_regular {
        detail.offload = "unsupported";
        return stream(pair).await.map(|bytes| (Done::ReadWrite, bytes));
    }
    let size = pair.status.size();
    if options.advise != Some(Advice::DontNeed) {
        advise(pair);
    }
    if looks_for_holes(pair) {
        return sparse::copy(pair, detail).await;
    }
    preallocate(pair, 0, size)?;
    let end = if size == 0 { u64::MAX } else { size };
    let copied = copy_range(pair, pair.start, end, detail).await;
    if options.advise == Some(Advice::DontNeed) {
        advise(pair);
    }
    copied
}

fn advise(pair: &Pair<'_>) {
    if let Some(advice) = pair.worker.options().advise {
        let advise = Advise::new(pair.source.clone(), 0, 0, advice);
        // It is only an advice.
        let _ = pair.worker.plainly(advise);
    }
}

/// Copies a region of a file whose other regions others copy.
pub(crate) async fn copy_region(pair: &Pair<'_>, start: u64, end: u64) -> Result<(), Broken> {
    let mut detail = Detail {
        offload: "unknown",
        reflink: "no",
        sparse: "no",
    };
    match looks_for_holes(pair) {
        true => sparse::copy_region(pair, start, end, &mut detail).await,
        false => copy_range(pair, start, end, &mut detail).await.map(drop),
    }
}

fn looks_for_holes(pair: &Pair<'_>) -> bool {
    match pair.worker.options().sparse {
        Sparse::Always => true,
        Sparse::Auto => has_holes(pair.status),
        Sparse::Never => false,
    }
}

/// Fewer blocks than the size needs: holes, or data that is compressed.
pub(crate) fn has_holes(status: &Metadata) -> bool {
    status.blocks() < status.size() / 512
}

/// Tries to share the blocks.
fn reflink(pair: &Pair<'_>, detail: &mut Detail) -> Result<bool, Broken> {
    let options = pair.worker.options();
    let wanted = match (options.reflink, options.method) {
        (Wanted::Always, _) => true,
        (Wanted::Never, _) => false,
        (Wanted::Auto, Method::Auto) if options.through_memory() => false,
        (Wanted::Auto, Method::Auto | Method::Reflink) => options.sparse == Sparse::Auto,
        (Wanted::Auto, _) => false,
    };
    let must = options.reflink == Wanted::Always;
    let learnt = pair.worker.limit(pair).no_reflink;
    if !wanted || !pair.is_regular || pair.start > 0 || (learnt && !must) {
        if learnt {
            detail.reflink = "unsupported";
        }
        return Ok(false);
    }
    match pair
        .worker
        .plainly(Reflink::new(pair.source.clone(), pair.target.clone()))
    {
        Ok(()) => {
            detail.reflink = "yes";
            detail.offload = "unknown";
            Ok(true)
        }
        Err(error) if must => Err(Broken::Reflink(error)),
        Err(error) => {
            detail.reflink = "unsupported";
            let errno = error.raw_os_error().map(Errno::from_raw);
            if matches!(
                errno,
                Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS)
            ) {
                pair.worker.learn(pair, |limit| limit.no_reflink = true);
            }
            Ok(false)
        }
    }
}

/// Reserves room for data that begins at `start`, if that is wanted. A hole is no data.
pub(crate) fn preallocate(pair: &Pair<'_>, start: u64, length: u64) -> Result<(), Broken> {
    if !pair.worker.options().preallocate || length == 0 {
        return Ok(());
    }
    let allocate =
        Allocate::new(pair.target.clone(), start, length).mode(libc::FALLOC_FL_KEEP_SIZE);
    match pair.worker.plainly(allocate) {
        Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw()) => Err(Broken::Write(error)),
        // It is only to help.
        _ => Ok(()),
    }
}

/// Copies bytes from `start` up to `end`, or to the end of the file, in the way that suits.
pub(crate) async fn copy_range(
    pair: &Pair<'_>,
    start: u64,
    end: u64,
    detail: &mut Detail,
) -> Result<(Done, u64), Broken> {
    let options = pair.worker.options();
    let by_range = match options.method {
        Method::ReadWrite => false,
        Method::CopyRange => true,
        // What is hashed must come by.
        _ if pair.seen.is_some() => false,
        Method::Auto if options.through_memory() => false,
        Method::Auto | Method::Reflink => end - start > SMALL && end != u64::MAX,
    };
    let allowed = options.reflink != Wanted::Never && options.sparse != Sparse::Never;
    let is_unsupported = pair.worker.limit(pair).no_range;
    if !by_range || !allowed || is_unsupported {
        let tries = by_range && allowed;
        detail.offload = if tries { "unsupported" } else { "avoided" };
        let bytes = through_memory(pair, start, end).await?;
        return Ok((Done::ReadWrite, bytes));
    }
    let mut at = start;
    while at < end {
        pair.go_on()?;
        let count = (end - at).min(RANGE_MAX).min(pair.piece() as u64) as usize;
        let copy = CopyRange::new(pair.source.clone(), at, pair.target.clone(), at, count);
        match pair.worker.write(copy).await {
            // The end, or a file system (procfs) that copies nothing where there is something to read.
            Ok(0) => {
                let more = through_memory(pair, at, end).await?;
                let done = if at == start {
                    Done::ReadWrite
                } else {
                    Done::CopyRange
                };
                return Ok((done, at - start + more));
            }
            Ok(count) => {
                at += count as u64;
                detail.offload = "yes";
                pair.pace(count).await;
            }
            Err(error) => match fallback(&error) {
                Fallback::None => return Err(Broken::Copy(error)),
                kind => {
                    detail.offload = "unsupported";
                    if kind == Fallback::Always {
                        pair.worker.learn(pair, |limit| limit.no_range = true);
                    }
                    let more = through_memory(pair, at, end).await?;
                    return Ok((Done::ReadWrite, at - start + more));
                }
            },
        }
    }
    Ok((Done::CopyRange, at - start))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fallback {
    None,
    /// For this file.
    Once,
    /// For all files of these devices.
    Always,
}

/// Whether it says that these files cannot be copied inside the kernel.
fn fallback(error: &io::Error) -> Fallback {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => Fallback::Always,
        // EPERM: a filter, or an immutable file; ENOENT: CIFS; ETXTBSY: a swap file; EBADF: append-only.
        Some(
            Errno::INVAL | Errno::PERM | Errno::NOENT | Errno::TXTBSY | Errno::BADF | Errno::FBIG,
        ) => Fallback::Once,
        _ => Fallback::None,
    }
}

/// Copies through a buffer.
pub(crate) async fn through_memory(pair: &Pair<'_>, start: u64, end: u64) -> Result<u64, Broken> {
    let worker = pair.worker;
    let options = worker.options();
    let is_queued = options.direct || (options.queue() > 1 && end - start > options.buffer as u64);
    // What is hashed comes in order, and what is to be gone on with grows in order.
    let in_order = options.resume || pair.seen.is_some();
    if pair.is_regular && end != u64::MAX && is_queued && !in_order {
        return queued::copy(pair, start, end).await;
    }
    let mut buffer = worker.buffer();
    let mut at = start;
    while at < end {
        pair.go_on()?;
        buffer.clear();
        let count = (end - at)
            .min(buffer.capacity() as u64)
            .min(pair.piece() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.read(read, at == start).await;
        buffer = filled.into_inner();
        // The end, though the file was longer when it was opened.
        if result.map_err(Broken::Read)? == 0 {
            break;
        }
        let count = buffer.len();
        pair.see(at, &buffer)?;
        buffer = pair.write_at(buffer, at).await?;
        at += count as u64;
        pair.pace(count).await;
    }
    worker.keep(buffer);
    Ok(at - start)
}

/// Copies what has no positions: a pipe, a terminal, a device.
async fn stream(pair: &Pair<'_>) -> Result<u64, Broken> {
    let worker = pair.worker;
    let mut buffer = worker.buffer();
    let mut bytes = 0;
    loop {
        pair.go_on()?;
        buffer.clear();
        let room = buffer.capacity().min(pair.piece());
        let read = Read::new(pair.source.clone(), Limit::new(buffer, room));
        let (result, filled) = worker.lazily(read).await;
        buffer = filled.into_inner();
        let count = result.map_err(Broken::Read)?;
        if count == 0 {
            worker.keep(buffer);
            return Ok(bytes);
        }
        pair.see(bytes, &buffer)?;
        buffer = pair.write(buffer, 0).await?;
        bytes += count as u64;
        pair.pace(count).await;
    }
}

impl Pair<'_> {
    /// Reads a piece of the source. What is not in memory the kernel is asked for together with the beginnings of other
    /// files: what lies side by side on a device is one request then.
    async fn read(&self, read: ReadLimited, is_first: bool) -> (io::Result<usize>, Limit<Vec<u8>>) {
        let worker = self.worker;
        if self.medium == Medium::Memory {
            return worker.perhaps(read, true).await;
        }
        if is_first && worker.waits.is_cold() {
            return worker.lazily(read.expect_block()).await;
        }
        let (output, at_once) = worker.attempt(read).await;
        worker.waits.read(at_once);
        output
    }

    /// Writes all of a buffer at a position.
    pub(crate) async fn write_at(&self, mut buffer: Vec<u8>, at: u64) -> Result<Vec<u8>, Broken> {
        let mut done = 0;
        while done < buffer.len() {
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(self.target.clone(), part, at + done as u64);
            let (result, part) = self.worker.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device says so; nobody else should be asked for ever.
                Ok(0) => return Err(Broken::Write(Errno::NOSPC.into())),
                Ok(count) => done += count,
                // A file of procfs, for example, has no positions.
                Err(error) if error.raw_os_error() == Some(Errno::SPIPE.raw()) => {
                    return self.write(buffer, done).await;
                }
                Err(error) => return Err(Broken::Write(error)),
            }
        }
        Ok(buffer)
    }

    /// Writes a buffer, from its byte `done` on, where the destination is.
    async fn write(&self, mut buffer: Vec<u8>, mut done: usize) -> Result<Vec<u8>, Broken> {
        while done < buffer.len() {
            let write = Write::new(self.target.clone(), Part::new(buffer, done..));
            let (result, part) = self.worker.write_data(write).await;
            buffer = part.into_inner();
            match result.map_err(Broken::Write)? {
                0 => return Err(Broken::Write(Errno::NOSPC.into())),
                count => done += count,
            }
        }
        Ok(buffer)
    }

    /// Hashes what has been read at a position, after the hole before it.
    pub(crate) fn see(&self, at: u64, bytes: &[u8]) -> Result<(), Broken> {
        let Some(seen) = &self.seen else {
            return Ok(());
        };
        while seen.borrow().at() < at {
            self.go_on()?;
            seen.borrow_mut().take_zeros(at);
        }
        seen.borrow_mut().take(bytes);
        Ok(())
    }

    /// Between two pieces of a file.
    pub(crate) fn go_on(&self) -> Result<(), Broken> {
        match self.worker.shared.stop.is_asked() {
            true => Err(Broken::Stopped),
            false => Ok(()),
        }
    }

    /// Bytes to move at a time, at most.
    pub(crate) fn piece(&self) -> usize {
        let rate = self.worker.shared.rate.as_ref();
        rate.map_or(usize::MAX, |rate| rate.piece())
    }

    /// Counts what was moved, and waits as long as the rate wants it.
    pub(crate) async fn pace(&self, bytes: usize) {
        add_bytes(self.worker, bytes);
        if let Some(rate) = &self.worker.shared.rate {
            let wait = rate.take(bytes);
            if !wait.is_zero() {
                laio_rt::time::sleep(wait).await;
            }
        }
    }
}

impl Worker {
    /// What is known of copying between these devices.
    fn limit(&self, pair: &Pair<'_>) -> PairLimit {
        let (source, target) = (pair.status.device(), pair.target_device);
        let limits = self.limits.borrow();
        let known = limits
            .iter()
            .find(|limit| (limit.source, limit.target) == (source, target));
        known.copied().unwrap_or(PairLimit {
            source,
            target,
            no_reflink: false,
            no_range: false,
        })
    }

    fn learn(&self, pair: &Pair<'_>, lesson: impl FnOnce(&mut PairLimit)) {
        let mut limit = self.limit(pair);
        lesson(&mut limit);
        let mut limits = self.limits.borrow_mut();
        limits.retain(|known| (known.source, known.target) != (limit.source, limit.target));
        limits.push(limit);
    }
}
