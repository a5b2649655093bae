//! Storing a request body of unknown length until it is complete. A FastCGI program gets the length
//! before the body; without a length it reads no body.

use super::proxy_request::Source;
use laio::ops::{Limit, Part, ReadAt, WriteAt};
use laio_http::Rejection;
use laio_rt::Descriptor;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::group_limits::{GroupLimits, SpoolMemory};
use laio_serve_upstream::spool_files::create;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// A complete request body.
pub(super) struct Spool {
    /// The whole body, or a buffer for chunks if there is a file.
    memory: Vec<u8>,
    file: Option<Descriptor>,
    length: u64,
    /// Bytes read so far.
    taken: u64,
    /// Time limit for each read and write.
    time: Duration,
    /// Reserved memory of the worker's limit.
    reserved: Option<SpoolMemory>,
}

impl Spool {
    /// Receives a whole body: into memory while it is short, then into an unnamed file.
    pub(super) async fn fill(
        source: &mut impl Source,
        group: &Rc<GroupLimits>,
        limits: &UpstreamLimits,
    ) -> Result<Spool, UpstreamError> {
        let mut spool = Spool {
            memory: Vec::new(),
            file: None,
            length: 0,
            taken: 0,
            time: limits.between_time,
            reserved: limits.spool.is_none().then(|| SpoolMemory::new(group)),
        };
        loop {
            let last = source.next(&mut spool.memory).await?;
            let overflows = spool.memory.len() > UpstreamLimits::CHUNK;
            if overflows || (last && spool.file.is_some()) {
                spool.store(limits).await?;
            }
            if last {
                break;
            }
        }
        if spool.file.is_none() {
            spool.length = spool.memory.len() as u64;
        }
        Ok(spool)
    }

    /// Returns the length of the body.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends the buffer to the file.
    async fn store(&mut self, limits: &UpstreamLimits) -> Result<(), UpstreamError> {
        let directory = limits.spool.as_deref();
        let count = self.memory.len();
        if let Some(reserved) = &mut self.reserved {
            let whole = self.length + count as u64;
            if whole > UpstreamLimits::SPOOLED {
                return Err(UpstreamError::bad_body(Rejection::BodyTooLarge));
            }
            if !reserved.take(count as u64) {
                let most = UpstreamLimits::SPOOLED;
                return Err(UpstreamError::busy(format_args!(
                    "{most} bytes of request bodies are already in memory; use --upstream-spool DIR to store bodies in files"
                )));
            }
        }
        let failed = |error: io::Error| {
            let directory = directory.map_or("memory".into(), Path::to_string_lossy);
            UpstreamError::busy(format_args!(
                "cannot store the request body in {directory}: {error}"
            ))
        };
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let file = timed(self.time, create(directory)).await.map_err(failed)?;
                self.file.insert(file).clone()
            }
        };
        let mut chunk = std::mem::take(&mut self.memory);
        let mut done = 0;
        while done < count {
            let part = Part::new(chunk, done..);
            let write = laio_rt::submit(WriteAt::new(file.clone(), part, self.length));
            let (written, part) = timed(self.time, async { Ok(write.await) })
                .await
                .map_err(failed)?;
            chunk = part.into_inner();
            // A write stops short at an error; that of the rest returns it.
            match written.map_err(failed)? {
                0 => return Err(failed(io::ErrorKind::WriteZero.into())),
                more => {
                    done += more;
                    self.length += more as u64;
                }
            }
        }
        self.memory = chunk;
        self.memory.clear();
        Ok(())
    }

    async fn read(&mut self, file: Descriptor, out: &mut Vec<u8>) -> io::Result<()> {
        let before = out.len();
        out.reserve(UpstreamLimits::CHUNK);
        let buffer = Limit::new(std::mem::take(out), UpstreamLimits::CHUNK);
        let read = laio_rt::submit(ReadAt::new(file, buffer, self.taken));
        let (read, buffer) = timed(self.time, async { Ok(read.await) }).await?;
        *out = buffer.into_inner();
        match read? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {
                self.taken += (out.len() - before) as u64;
                Ok(())
            }
        }
    }
}

impl Source for Spool {
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, UpstreamError> {
        if self.is_done() {
            return Ok(true);
        }
        match self.file.clone() {
            Some(file) => {
                let read = self.read(file, out).await;
                read.map_err(|error| {
                    UpstreamError::busy(format_args!(
                        "cannot read the stored request body: {error}"
                    ))
                })?;
            }
            None => {
                let chunk = &self.memory[self.taken as usize..]; // at most what is in memory
                out.extend_from_slice(chunk);
                self.taken = self.length;
            }
        }
        Ok(self.is_done())
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn rewind(&mut self) -> bool {
        self.taken = 0;
        true
    }

    fn is_done(&self) -> bool {
        self.taken == self.length
    }
}

/// Limits the time of a disk access, so that an unresponsive disk does not hold a request forever.
async fn timed<T>(time: Duration, done: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let done = laio_rt::time::timeout(time, done).await;
    done.unwrap_or_else(|late| Err(late.into()))
}
