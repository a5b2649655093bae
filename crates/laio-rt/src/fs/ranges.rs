//! Many ranges of one file at a time, past the page cache if the program wants that.

use super::File;
use crate::Descriptor;
use crate::submission::{Submission, submit};
use laio::ops::{FileStatus, ReadAt, StatFile, StatFileSystem};
use laio::ranges::{DeviceAccess, DeviceFile, PieceRead, RangeReads};
use laio::ranges::{Direct, DirectReason, RangeBytes, RangeOptions, RangeStats};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;

impl File {
    /// Reads ranges of the file, in any order, and returns their bytes in the order of `ranges`, and what
    /// was done. A range has fewer bytes than it asks for only at the end of the file.
    ///
    /// Ranges with gaps of at most [`laio::ranges::GAP`] between them are read together, and share memory.
    /// A direct read that fails is repeated through the page cache: the result is what a plain read
    /// returns. [`laio::ranges`] says what is promised of a file that is being written.
    ///
    /// Direct reads use a second descriptor of the file, which is closed with this one. As every `close`,
    /// that ends the process's locks of `fcntl` (`F_SETLK`) on the file; locks of `flock` and `F_OFD_SETLK`
    /// stay.
    ///
    /// ```
    /// use laio_rt::fs::{Direct, File};
    /// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
    /// runtime.block_on(async {
    ///     let file = File::open("/proc/self/exe").await?;
    ///     let (bytes, stats) = file.read_ranges(&[1..4, 100_000..100_200], Direct::Always).await?;
    ///     assert_eq!((&bytes[0][..], bytes[1].len()), (&b"ELF"[..], 200));
    ///     assert_eq!(stats.reads, 2);
    ///     file.close().await
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error of a read; `InvalidInput` for a range that ends before it begins; `OutOfMemory`.
    pub async fn read_ranges(
        &self,
        ranges: &[Range<u64>],
        options: impl Into<RangeOptions>,
    ) -> io::Result<(Vec<RangeBytes>, RangeStats)> {
        let RangeOptions { direct, depth, .. } = options.into();
        let file = self.handle().clone();
        let status = submit(StatFile::new(file.clone())).await?;
        let device = self.device(&status, direct).await;
        let mut reads = RangeReads::new(file, device, &status, ranges, direct)?;
        read_all(&mut reads, depth.max(1)).await?;
        Ok(reads.finish())
    }

    /// The descriptor for direct reads, or the reason not to read directly.
    async fn device(
        &self,
        status: &FileStatus,
        direct: Direct,
    ) -> Result<DeviceFile<Descriptor>, DirectReason> {
        let access = DeviceAccess::new(self.handle(), status, direct)?;
        let (open, asks) = match access {
            DeviceAccess::Own(device) => return Ok(device),
            DeviceAccess::Open(open) => (open, false),
            DeviceAccess::Ask(open) => (open, true),
        };
        if let Some(device) = self.devices().first() {
            return Ok(device);
        }
        if asks {
            let on = submit(StatFileSystem::new(self.handle().clone())).await;
            open.allowed(&on.map_err(|_| DirectReason::FileSystem)?, direct)?;
        }
        let opened = submit(open.operation()).await;
        let opened = opened.map_err(|_| DirectReason::Refused)?;
        let device = open.opened(Descriptor::from(opened));
        self.devices().add(device.clone());
        Ok(device)
    }
}

/// The descriptors of a file for direct reads: one, or some more if tasks have opened them at the same
/// time. They are closed with the file: to close one before would end the locks of the process on it.
#[derive(Debug, Default)]
pub(super) struct Devices(RefCell<Vec<DeviceFile<Descriptor>>>);

impl Devices {
    fn first(&self) -> Option<DeviceFile<Descriptor>> {
        self.0.borrow().first().cloned()
    }

    fn add(&self, device: DeviceFile<Descriptor>) {
        self.0.borrow_mut().push(device);
    }
}

/// Makes all reads, so many at a time.
async fn read_all(reads: &mut RangeReads<Descriptor>, depth: usize) -> io::Result<()> {
    let mut in_flight: Vec<Submission<ReadAt<Descriptor, PieceRead>>> = Vec::new();
    while !reads.is_over() {
        // Several at once: the context submits operations in batches.
        if in_flight.len() <= depth - depth / 4 {
            let next = reads.next(depth - in_flight.len())?;
            in_flight.extend(next.into_iter().map(submit));
        }
        if in_flight.is_empty() {
            // All ranges that were left are empty.
            continue;
        }
        let mut outputs = Vec::new();
        poll_fn(|context| {
            in_flight.retain_mut(|read| match Pin::new(read).poll(context) {
                Poll::Ready(output) => {
                    outputs.push(output);
                    false
                }
                Poll::Pending => true,
            });
            if outputs.is_empty() {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        for output in outputs {
            reads.done(output)?;
        }
    }
    Ok(())
}
