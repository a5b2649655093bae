//! Copies the data of a file: by reflink, by `copy_file_range`, or through a buffer.
//!
//! A file is written from its beginning to its end, and never beyond the data that is complete:
//! `--resume` takes the size of a partial file for its progress.

use crate::device_limits::DeviceLimits;
use crate::digest::Hashing;
use crate::handles::Handle;
use crate::io::Io;
use crate::options::{Method, Reflink as Wanted, Sparse};
use crate::outcome::{Copied, DebugDetail, Done};
use crate::queued;
use crate::session::Session;
use crate::sparse;
use crate::storage_class::StorageClass;
use laio::Errno;
use laio::ops::{
    Advice, Advise, Allocate, CopyRange, Limit, Part, Read, ReadAt, Reflink, Write, WriteAt,
};
use laio_rt::fs::Metadata;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering;

/// An open source and its open destination.
pub(crate) struct OpenPair<'a> {
    pub(crate) io: &'a Io,
    pub(crate) session: &'a Session,
    pub(crate) source: &'a Handle,
    pub(crate) status: &'a Metadata,
    pub(crate) target: &'a Handle,
    pub(crate) target_device: u64,
    /// Both are regular files.
    pub(crate) is_regular: bool,
    /// An earlier run has copied the bytes before this offset.
    pub(crate) start: u64,
    /// The running hash of the source, if one is computed.
    pub(crate) hashing: Option<RefCell<Hashing>>,
    /// The storage class of the source's file system.
    pub(crate) storage_class: StorageClass,
}

type ReadLimited = ReadAt<Handle, Limit<Vec<u8>>>;

/// The step of a copy that failed.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
    Copy(io::Error),
    Reflink(io::Error),
    Extend(io::Error),
    /// A stop was requested.
    Stopped,
}

/// Files up to this size are copied by one read and one write: as many calls as `copy_file_range`
/// needs, and the read shows whether the data is cached.
const ONE_PIECE_MAX: u64 = 256 << 10;
/// Bytes per `copy_file_range` call: between calls a stop is checked and progress is shown.
const RANGE_MAX: u64 = 128 << 20;

/// Copies the data of a file.
pub(crate) async fn copy(pair: &OpenPair<'_>) -> Result<Copied, CopyError> {
    let options = &pair.session.options;
    // Reflinks share holes, too; `--sparse=never` forbids holes.
    let never = options.reflink == Wanted::Never || options.sparse == Sparse::Never;
    let mut detail = DebugDetail {
        offload: "unknown",
        reflink: if never { "no" } else { "unknown" },
        sparse: "unknown",
    };
    if reflink(pair, &mut detail)? {
        let bytes = pair.status.size();
        pair.count_bytes(bytes);
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

/// Hashes the part of the source that an earlier run has copied.
pub(crate) async fn hash_existing_prefix(pair: &OpenPair<'_>) -> Result<(), CopyError> {
    let Some(hashing) = pair.hashing.as_ref().filter(|_| pair.start > 0) else {
        return Ok(());
    };
    let mut buffer = pair.io.take_buffer();
    loop {
        pair.check_stop()?;
        let at = hashing.borrow().at();
        buffer.clear();
        let count = (pair.start - at).min(buffer.capacity() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.io.call_backend(read).await;
        buffer = filled.into_inner();
        if result.map_err(CopyError::Read)? == 0 {
            break;
        }
        pair.hash(at, &buffer)?;
    }
    pair.io.recycle_buffer(buffer);
    Ok(())
}

async fn move_data(
    pair: &OpenPair<'_>,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let options = &pair.session.options;
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

fn advise(pair: &OpenPair<'_>) {
    if let Some(advice) = pair.session.options.advise {
        let advise = Advise::new(pair.source.clone(), 0, 0, advice);
        // Advice may be ignored.
        let _ = pair.io.call_blocking(advise);
    }
}

/// Copies one region of a file; other processes copy the other regions.
pub(crate) async fn copy_region(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
) -> Result<(), CopyError> {
    let mut detail = DebugDetail {
        offload: "unknown",
        reflink: "no",
        sparse: "no",
    };
    match looks_for_holes(pair) {
        true => sparse::copy_region(pair, start, end, &mut detail).await,
        false => copy_range(pair, start, end, &mut detail).await.map(drop),
    }
}

fn looks_for_holes(pair: &OpenPair<'_>) -> bool {
    match pair.session.options.sparse {
        Sparse::Always => true,
        Sparse::Auto => has_holes(pair.status),
        Sparse::Never => false,
    }
}

/// Whether a file has fewer blocks than its size needs: it has holes, or is compressed.
pub(crate) fn has_holes(status: &Metadata) -> bool {
    status.blocks() < status.size() / 512
}

/// Tries a reflink.
fn reflink(pair: &OpenPair<'_>, detail: &mut DebugDetail) -> Result<bool, CopyError> {
    let options = &pair.session.options;
    let wanted = match (options.reflink, options.method) {
        (Wanted::Always, _) => true,
        (Wanted::Never, _) => false,
        (Wanted::Auto, Method::Auto) if options.through_memory() => false,
        (Wanted::Auto, Method::Auto | Method::Reflink) => options.sparse == Sparse::Auto,
        (Wanted::Auto, _) => false,
    };
    let must = options.reflink == Wanted::Always;
    let known_unsupported = pair.device_limits().reflink_unsupported;
    if !wanted || !pair.is_regular || pair.start > 0 || (known_unsupported && !must) {
        if known_unsupported {
            detail.reflink = "unsupported";
        }
        return Ok(false);
    }
    match pair
        .io
        .call_blocking(Reflink::new(pair.source.clone(), pair.target.clone()))
    {
        Ok(()) => {
            detail.reflink = "yes";
            detail.offload = "unknown";
            Ok(true)
        }
        Err(error) if must => Err(CopyError::Reflink(error)),
        Err(error) => {
            detail.reflink = "unsupported";
            let errno = error.raw_os_error().map(Errno::from_raw);
            if matches!(
                errno,
                Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS)
            ) {
                pair.note_limit(|limit| limit.reflink_unsupported = true);
            }
            Ok(false)
        }
    }
}

/// Reserves disk space for data that begins at `start`, if `--fallocate` asks for it.
pub(crate) fn preallocate(pair: &OpenPair<'_>, start: u64, length: u64) -> Result<(), CopyError> {
    if !pair.session.options.preallocate || length == 0 {
        return Ok(());
    }
    let allocate =
        Allocate::new(pair.target.clone(), start, length).mode(libc::FALLOC_FL_KEEP_SIZE);
    match pair.io.call_blocking(allocate) {
        Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw()) => {
            Err(CopyError::Write(error))
        }
        // Preallocation is an optimization; other errors are ignored.
        _ => Ok(()),
    }
}

/// Copies the bytes from `start` to `end`, or to the end of the file, by `copy_file_range` or
/// through a buffer.
pub(crate) async fn copy_range(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
    detail: &mut DebugDetail,
) -> Result<(Done, u64), CopyError> {
    let options = &pair.session.options;
    let by_range = match options.method {
        Method::ReadWrite => false,
        Method::CopyRange => true,
        // Data can only be hashed in memory.
        _ if pair.hashing.is_some() => false,
        Method::Auto if options.through_memory() => false,
        Method::Auto | Method::Reflink => end - start > ONE_PIECE_MAX && end != u64::MAX,
    };
    let allowed = options.reflink != Wanted::Never && options.sparse != Sparse::Never;
    let is_unsupported = pair.device_limits().copy_range_unsupported;
    if !by_range || !allowed || is_unsupported {
        let tries = by_range && allowed;
        detail.offload = if tries { "unsupported" } else { "avoided" };
        let bytes = through_memory(pair, start, end).await?;
        return Ok((Done::ReadWrite, bytes));
    }
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        let count = (end - at).min(RANGE_MAX).min(pair.piece_size() as u64) as usize;
        let copy = CopyRange::new(pair.source.clone(), at, pair.target.clone(), at, count);
        match pair.io.call_target(copy).await {
            // The end of the file; or a file system such as procfs, where `copy_file_range` returns
            // 0 although there is data.
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
                pair.count_and_throttle(count).await;
            }
            Err(error) => match fallback(&error) {
                Fallback::None => return Err(CopyError::Copy(error)),
                kind => {
                    detail.offload = "unsupported";
                    if kind == Fallback::Always {
                        pair.note_limit(|limit| limit.copy_range_unsupported = true);
                    }
                    let more = through_memory(pair, at, end).await?;
                    return Ok((Done::ReadWrite, at - start + more));
                }
            },
        }
    }
    Ok((Done::CopyRange, at - start))
}

/// Whether a failed `copy_file_range` is replaced by a copy through a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fallback {
    None,
    /// For this file.
    Once,
    /// For all files on this pair of devices.
    Always,
}

/// Whether an error means that `copy_file_range` does not work here.
fn fallback(error: &io::Error) -> Fallback {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => Fallback::Always,
        // EPERM: a seccomp filter or an immutable file; ENOENT: CIFS; ETXTBSY: a swap file; EBADF:
        // append-only.
        Some(
            Errno::INVAL | Errno::PERM | Errno::NOENT | Errno::TXTBSY | Errno::BADF | Errno::FBIG,
        ) => Fallback::Once,
        _ => Fallback::None,
    }
}

/// Copies through a buffer.
pub(crate) async fn through_memory(
    pair: &OpenPair<'_>,
    start: u64,
    end: u64,
) -> Result<u64, CopyError> {
    let (io, session) = (pair.io, pair.session);
    let options = &session.options;
    let is_queued = options.direct || (options.queue() > 1 && end - start > options.buffer as u64);
    // Hashing needs the bytes in order, and `--resume` needs a file that grows in order.
    let in_order = options.resume || pair.hashing.is_some();
    if pair.is_regular && end != u64::MAX && is_queued && !in_order {
        return queued::copy(pair, start, end).await;
    }
    let mut buffer = io.take_buffer();
    let mut at = start;
    while at < end {
        pair.check_stop()?;
        buffer.clear();
        let count = (end - at)
            .min(buffer.capacity() as u64)
            .min(pair.piece_size() as u64) as usize;
        let read = ReadAt::new(pair.source.clone(), Limit::new(buffer, count), at);
        let (result, filled) = pair.read(read, at == start).await;
        buffer = filled.into_inner();
        // The file was truncated since it was opened.
        if result.map_err(CopyError::Read)? == 0 {
            break;
        }
        let count = buffer.len();
        pair.hash(at, &buffer)?;
        buffer = pair.write_at(buffer, at).await?;
        at += count as u64;
        pair.count_and_throttle(count).await;
    }
    io.recycle_buffer(buffer);
    Ok(at - start)
}

/// Copies a file without positions: a pipe, a terminal, a device.
async fn stream(pair: &OpenPair<'_>) -> Result<u64, CopyError> {
    let io = pair.io;
    let mut buffer = io.take_buffer();
    let mut bytes = 0;
    loop {
        pair.check_stop()?;
        buffer.clear();
        let capacity = buffer.capacity().min(pair.piece_size());
        let read = Read::new(pair.source.clone(), Limit::new(buffer, capacity));
        let (result, filled) = io.call_backend(read).await;
        buffer = filled.into_inner();
        let count = result.map_err(CopyError::Read)?;
        if count == 0 {
            io.recycle_buffer(buffer);
            return Ok(bytes);
        }
        pair.hash(bytes, &buffer)?;
        buffer = pair.write(buffer, 0).await?;
        bytes += count as u64;
        pair.count_and_throttle(count).await;
    }
}

impl OpenPair<'_> {
    /// Reads a piece of the source. A first read of probably uncached data is submitted without an
    /// attempt, together with the first reads of other files, so that the block layer can merge
    /// adjacent requests.
    async fn read(&self, read: ReadLimited, is_first: bool) -> (io::Result<usize>, Limit<Vec<u8>>) {
        let io = self.io;
        if self.storage_class == StorageClass::Memory {
            return io.maybe_inline(read, true).await;
        }
        if is_first && io.latency.take_uncached_prediction() {
            return io.call_backend(read.expect_block()).await;
        }
        let (output, inline) = io.call_backend_observed(read).await;
        io.latency.record_read(inline);
        output
    }

    /// Writes the whole buffer at an offset.
    pub(crate) async fn write_at(
        &self,
        mut buffer: Vec<u8>,
        at: u64,
    ) -> Result<Vec<u8>, CopyError> {
        let mut done = 0;
        while done < buffer.len() {
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(self.target.clone(), part, at + done as u64);
            let (result, part) = self.io.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device returns ENOSPC; a write of 0 bytes must not be retried forever.
                Ok(0) => return Err(CopyError::Write(Errno::NOSPC.into())),
                Ok(count) => done += count,
                // Some files of procfs, for example, have no positions.
                Err(error) if error.raw_os_error() == Some(Errno::SPIPE.raw()) => {
                    return self.write(buffer, done).await;
                }
                Err(error) => return Err(CopyError::Write(error)),
            }
        }
        Ok(buffer)
    }

    /// Writes a buffer from its byte `done` on, at the file position.
    async fn write(&self, mut buffer: Vec<u8>, mut done: usize) -> Result<Vec<u8>, CopyError> {
        while done < buffer.len() {
            let write = Write::new(self.target.clone(), Part::new(buffer, done..));
            let (result, part) = self.io.write_data(write).await;
            buffer = part.into_inner();
            match result.map_err(CopyError::Write)? {
                0 => return Err(CopyError::Write(Errno::NOSPC.into())),
                count => done += count,
            }
        }
        Ok(buffer)
    }

    /// Hashes the data read at an offset, and zeros for the hole before it.
    pub(crate) fn hash(&self, at: u64, bytes: &[u8]) -> Result<(), CopyError> {
        let Some(hashing) = &self.hashing else {
            return Ok(());
        };
        while hashing.borrow().at() < at {
            self.check_stop()?;
            hashing.borrow_mut().update_zeros(at);
        }
        hashing.borrow_mut().update(bytes);
        Ok(())
    }

    /// Fails if a stop was requested. Called between two pieces of a file.
    pub(crate) fn check_stop(&self) -> Result<(), CopyError> {
        match self.session.stop.is_requested() {
            true => Err(CopyError::Stopped),
            false => Ok(()),
        }
    }

    /// The maximum number of bytes per call.
    pub(crate) fn piece_size(&self) -> usize {
        let rate = self.session.rate.as_ref();
        rate.map_or(usize::MAX, |rate| rate.piece_size())
    }

    fn count_bytes(&self, bytes: u64) {
        let counters = self.io.counters();
        counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts copied bytes, and sleeps as long as the rate limit requires.
    pub(crate) async fn count_and_throttle(&self, bytes: usize) {
        self.count_bytes(bytes as u64);
        if let Some(rate) = &self.session.rate {
            let wait = rate.take(bytes);
            if !wait.is_zero() {
                laio_rt::time::sleep(wait).await;
            }
        }
    }

    /// The known limits of copying between the two devices.
    fn device_limits(&self) -> DeviceLimits {
        self.io
            .device_limits
            .between((self.status.device(), self.target_device))
    }

    fn note_limit(&self, change: impl FnOnce(&mut DeviceLimits)) {
        let devices = (self.status.device(), self.target_device);
        self.io.device_limits.change(devices, change);
    }
}
