//! Operations on files, each within the limits of its step and within a time limit.

use super::change_services::ChangeServices;
use super::problem::of_own;
use laio::Operation;
use laio::ops::{Part, WriteAt};
use laio_rt::Descriptor;
use laio_serve_base::options::IoStep;
use laio_serve_core::services::Services;
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Makes the operations of a worker on files.
#[derive(Clone, Copy)]
pub(super) struct Disk<'a> {
    pub(super) services: &'a Services,
    pub(super) changes: &'a ChangeServices,
}

impl Disk<'_> {
    /// Makes an operation on names or metadata.
    ///
    /// # Errors
    /// Those of the operation. `TimedOut` when it takes too long; it may then finish in the background.
    pub(super) async fn names<O, T>(self, operation: O) -> io::Result<T>
    where
        O: Operation<Output = io::Result<T>>,
    {
        let limit = self.services.limits.open_time;
        self.within(limit, async {
            let contexts = &self.services.contexts;
            let _permit = contexts.permit(IoStep::Open).await;
            contexts.submit(IoStep::Open, operation).await
        })
        .await
    }

    /// Makes an operation on the data of a file, within a time limit.
    ///
    /// # Errors
    /// Like [`Disk::names`].
    pub(super) async fn data<O: Operation>(
        self,
        limit: Duration,
        operation: O,
    ) -> io::Result<O::Output> {
        self.within(limit, async {
            let contexts = &self.services.contexts;
            let _permit = contexts.permit(IoStep::FileRead).await;
            Ok(contexts.submit(IoStep::FileRead, operation).await)
        })
        .await
    }

    /// Writes all of a buffer at byte `offset` of a file, and returns the buffer. A write stops short at an error;
    /// the write of the rest returns that error.
    ///
    /// # Errors
    /// Like [`Disk::names`].
    pub(super) async fn write_all_at(
        self,
        limit: Duration,
        file: &Descriptor,
        mut buffer: Vec<u8>,
        offset: u64,
    ) -> io::Result<Vec<u8>> {
        let mut done = 0;
        while done < buffer.len() {
            let part = Part::new(buffer, done..);
            let write = WriteAt::new(file.clone(), part, offset + done as u64);
            let (written, part) = self.data(limit, write).await?;
            buffer = part.into_inner();
            match written.map_err(of_own)? {
                0 => return Err(Errno::NOSPC.into()),
                count => done += count,
            }
        }
        Ok(buffer)
    }

    /// Limits the time of some operations.
    ///
    /// # Errors
    /// `TimedOut`, or those of the operations.
    pub(super) async fn within<T>(
        self,
        limit: Duration,
        operations: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let done = laio_rt::time::timeout(limit, operations).await;
        done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
