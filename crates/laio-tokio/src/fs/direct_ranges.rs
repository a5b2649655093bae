//! Many ranges of one file at a time, in shared memory, and past the page cache if the program wants that.

use super::File;
use crate::{proactor, run};
use bytes::Bytes;
use laio::ops::{FileStatus, OpenFile, ReadAt, StatFile, StatFileSystem};
use laio::ranges::{DeviceAccess, DeviceFile, PieceRead, RangeReads};
use laio::ranges::{Direct, DirectReason, RangeOptions, RangeStats};
use laio::{Batch, Proactor};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;

/// Ranges of a file, and how they were read.
#[derive(Clone, Debug, Default)]
pub struct RangesRead {
    /// The bytes of each range, in the order of the request: fewer than the range has only at the end of
    /// the file.
    ///
    /// Ranges that were read together share memory. It goes back to a pool when all of them are dropped.
    pub bytes: Vec<Bytes>,
    /// What was done, and why.
    pub stats: RangeStats,
}

impl File {
    /// Reads ranges of the file, in any order, as [`File::read_ranges`], with the choice to read past the
    /// page cache. The bytes are in memory that begins on a page, and are not copied.
    ///
    /// A direct read that fails is repeated through the page cache: the result is what a plain read returns.
    /// [`laio::ranges`] says what is promised of a file that is being written.
    ///
    /// Direct reads use a second descriptor of the file, which is closed with this one. As every `close`,
    /// that ends the process's locks of `fcntl` (`F_SETLK`) on the file; locks of `flock` and `F_OFD_SETLK`
    /// stay.
    ///
    /// ```
    /// use laio_tokio::fs::{Direct, File};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let file = File::open("Cargo.toml").await?;
    /// let read = file.read_ranges_with(&[0..9, 2..5], Direct::Always).await?;
    /// assert_eq!((&read.bytes[0][..], &read.bytes[1][..]), (&b"[package]"[..], &b"ack"[..]));
    /// println!("{}", read.stats.reason);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of a read; `InvalidInput` for a range that ends before it begins; `OutOfMemory`.
    pub async fn read_ranges_with(
        &self,
        ranges: &[Range<u64>],
        options: impl Into<RangeOptions>,
    ) -> io::Result<RangesRead> {
        let RangeOptions { direct, depth, .. } = options.into();
        let status = run(StatFile::new(self.open.clone())).await?;
        let device = self.device(&status, direct).await;
        let mut reads = RangeReads::new(self.open.clone(), device, &status, ranges, direct)?;
        read_all(proactor()?, &mut reads, depth).await?;
        let (bytes, stats) = reads.finish();
        let bytes = bytes.into_iter().map(Bytes::from_owner).collect();
        Ok(RangesRead { bytes, stats })
    }

    /// The descriptor for direct reads, or the reason not to read directly.
    async fn device(
        &self,
        status: &FileStatus,
        direct: Direct,
    ) -> Result<DeviceFile<OpenFile>, DirectReason> {
        let access = DeviceAccess::new(&*self.open, status, direct)?;
        let (open, asks) = match access {
            DeviceAccess::Own(device) => return Ok(device),
            DeviceAccess::Open(open) => (open, false),
            DeviceAccess::Ask(open) => (open, true),
        };
        if let Some(device) = self.devices.first() {
            return Ok(device);
        }
        if asks {
            let on = run(StatFileSystem::new(self.open.clone())).await;
            open.allowed(&on.map_err(|_| DirectReason::FileSystem)?, direct)?;
        }
        let opened = run(open.operation()).await;
        let opened = opened.map_err(|_| DirectReason::Refused)?;
        let device = open.opened(OpenFile::from(opened));
        self.devices.add(device.clone());
        Ok(device)
    }
}

/// The descriptors of a file for direct reads: one, or some more if tasks have opened them at the same
/// time. None is closed before the file: that would end the locks of the process on it.
#[derive(Default)]
pub(super) struct Devices(Mutex<Vec<DeviceFile<OpenFile>>>);

impl Devices {
    fn first(&self) -> Option<DeviceFile<OpenFile>> {
        let devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        devices.first().cloned()
    }

    fn add(&self, device: DeviceFile<OpenFile>) {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        devices.push(device);
    }
}

/// Makes all reads, in batches that wake the task once. While one batch is being waited for, another is in
/// flight, so that the device always has work.
async fn read_all(
    proactor: &Proactor,
    reads: &mut RangeReads<OpenFile>,
    depth: usize,
) -> io::Result<()> {
    let mut batches: Vec<Batch<ReadAt<OpenFile, PieceRead>>> = Vec::new();
    while !reads.is_over() {
        tokio::task::coop::consume_budget().await;
        while batches.len() < BATCHES.min(depth.max(1)) {
            let next = reads.next((depth / BATCHES).max(1))?;
            if next.is_empty() {
                break;
            }
            batches.push(proactor.submit_all(next));
        }
        if batches.is_empty() {
            // All ranges that were left are empty.
            continue;
        }
        // The first batch that is over. The others are polled again before the task waits.
        let outputs = poll_fn(|context| {
            for index in 0..batches.len() {
                if let Poll::Ready(outputs) = Pin::new(&mut batches[index]).poll(context) {
                    drop(batches.swap_remove(index));
                    return Poll::Ready(outputs);
                }
            }
            Poll::Pending
        });
        for output in outputs.await {
            reads.done(output)?;
        }
    }
    Ok(())
}

/// The number of batches in flight.
const BATCHES: usize = 2;
