//! An open source and its open destination, whose data is copied piece by piece.

use crate::digest::Hashing;
use crate::io::Io;
use crate::io::device_limits::DeviceLimits;
use crate::session::Session;
use crate::tree::{Handle, StorageClass};
use laio::Errno;
use laio::ops::{AlignedBuffer, Limit, Part, ReadAt, Write, WriteAt};
use laio_rt::fs::Metadata;
use std::cell::RefCell;
use std::io;
use std::ops::Range;
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

type ReadLimited = ReadAt<Handle, Limit<AlignedBuffer>>;

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

impl OpenPair<'_> {
    /// Reads a piece of the source. A first read of probably uncached data is submitted without an
    /// attempt, together with the first reads of other files, so that the block layer can merge
    /// adjacent requests.
    pub(crate) async fn read(
        &self,
        read: ReadLimited,
        is_first: bool,
    ) -> (io::Result<usize>, Limit<AlignedBuffer>) {
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

    /// Writes a range of the buffer, which begins at the offset `at` of the file.
    pub(crate) async fn write_at(
        &self,
        mut buffer: AlignedBuffer,
        range: Range<usize>,
        at: u64,
    ) -> Result<AlignedBuffer, CopyError> {
        let mut done = range.start;
        while done < range.end {
            let part = Part::new(buffer, done..range.end);
            let write = WriteAt::new(self.target.clone(), part, at + done as u64);
            let (result, part) = self.io.write_data(write).await;
            buffer = part.into_inner();
            match result {
                // A full device returns ENOSPC; a write of 0 bytes must not be retried forever.
                Ok(0) => return Err(CopyError::Write(Errno::NOSPC.into())),
                Ok(count) => done += count,
                // Some files of procfs, for example, have no positions.
                Err(error) if error.raw_os_error() == Some(Errno::SPIPE.raw()) => {
                    return self.write(buffer, done..range.end).await;
                }
                Err(error) => return Err(CopyError::Write(error)),
            }
        }
        Ok(buffer)
    }

    /// Writes a range of the buffer at the file position.
    pub(crate) async fn write(
        &self,
        mut buffer: AlignedBuffer,
        range: Range<usize>,
    ) -> Result<AlignedBuffer, CopyError> {
        let mut done = range.start;
        while done < range.end {
            let part = Part::new(buffer, done..range.end);
            let write = Write::new(self.target.clone(), part);
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
        if self.session.stop.is_requested() {
            Err(CopyError::Stopped)
        } else {
            Ok(())
        }
    }

    /// The maximum number of bytes per call.
    pub(crate) fn piece_size(&self) -> usize {
        let rate = self.session.rate.as_ref();
        rate.map_or(usize::MAX, |rate| rate.piece_size())
    }

    pub(crate) fn count_bytes(&self, bytes: u64) {
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
    pub(crate) fn device_limits(&self) -> DeviceLimits {
        self.io
            .device_limits
            .between((self.status.device(), self.target_device))
    }

    pub(crate) fn note_limit(&self, change: impl FnOnce(&mut DeviceLimits)) {
        let devices = (self.status.device(), self.target_device);
        self.io.device_limits.change(devices, change);
    }
}

/// Whether a file has fewer blocks than its size needs: it has holes, or is compressed.
pub(crate) fn has_holes(status: &Metadata) -> bool {
    status.blocks() < status.size() / 512
}
