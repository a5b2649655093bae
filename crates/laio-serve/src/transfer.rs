//! Sending files with `sendfile`, from the file or through shared memory, with `splice`, or with
//! zero-copy sends. Except for zero-copy sends, which io_uring queues in the kernel, the socket is
//! non-blocking, and the worker waits for its readiness while the client is slow, so that no helper
//! is occupied.

mod pools;
mod send_deadline;
mod zero_copy;

use crate::contents::{Contents, shorter};
use crate::io_contexts;
use crate::observe::{self, Stage};
use crate::options::{IoStep, Limits, Transfer};
use crate::stream::Stream;
use crate::worker::Worker;
use laio::ops::{Part, Send, SendFile, SharedBuffer, Splice};
use laio_http::ByteRange;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::net::{SendFlags, sockopt};
use std::io;

pub(crate) use pools::Pools;
pub(crate) use send_deadline::SendDeadline;

/// A transfer of a file to a client.
struct KernelTransfer<'a> {
    worker: &'a Worker,
    socket: &'a Descriptor,
    file: &'a Descriptor,
    deadline: SendDeadline,
}

impl Worker {
    /// Returns the socket and the file if the configured transfer applies to them.
    pub(crate) fn transfer_descriptors<'a>(
        &self,
        stream: &'a Stream,
        contents: &'a Contents,
    ) -> Option<(&'a Descriptor, &'a Descriptor)> {
        match (self.io.transfer, contents) {
            (Transfer::Buffer, _) | (_, Contents::Memory(_)) => None,
            (_, Contents::File(file)) => Some((stream.plain()?, file)),
            (_, Contents::Open(open)) => Some((stream.plain()?, &open.file)),
        }
    }

    /// Sends `out` and a range of a file, and returns `out` empty.
    ///
    /// # Errors
    /// Like [`Worker::send`].
    pub(crate) async fn send_by_kernel(
        &self,
        stream: &Stream,
        (socket, file): (&Descriptor, &Descriptor),
        out: Vec<u8>,
        range: ByteRange,
    ) -> io::Result<Vec<u8>> {
        let out = self.send_head(stream, socket, out).await?;
        if self.io.transfer == Transfer::ZeroCopy {
            self.send_zero_copy(socket, file, range).await?;
            return Ok(out);
        }
        let _mode = (!self.is_sync()).then(|| NonBlocking::new(socket));
        let transfer = KernelTransfer {
            worker: self,
            socket,
            file,
            deadline: SendDeadline::new(self),
        };
        let (mut offset, mut left, mut sent) = (range.start, range.len(), 0);
        let mut pipe = None;
        let mut buffer = None;
        while left > 0 {
            let most = left.min(self.chunk as u64) as usize;
            let count = match self.io.transfer {
                Transfer::Splice => transfer.splice(&mut pipe, offset, most).await?,
                Transfer::ShmSendfile => transfer.through_memory(&mut buffer, offset, most).await?,
                _ => transfer.sendfile(offset, most).await?,
            };
            offset += count;
            left -= count;
            sent += count;
            if sent >= Limits::BYTES_BEFORE_YIELD && left > 0 {
                sent = 0;
                laio_rt::give_way().await;
            }
        }
        self.pools.keep(pipe, buffer);
        Ok(out)
    }

    /// Whether packets are held back until they are full (`TCP_CORK`). Zero-copy sends are not
    /// corked: they finish only at the acknowledgement, and the corked tail would wait 200 ms.
    pub(crate) fn corks(&self) -> bool {
        self.io.cork && self.io.transfer != Transfer::ZeroCopy
    }

    /// Sends the head with `MSG_MORE`, so that head and first bytes share a packet. Not where the
    /// socket is corked, which has the same effect.
    async fn send_head(
        &self,
        stream: &Stream,
        socket: &Descriptor,
        out: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        if self.corks() || out.is_empty() || io_contexts::sends_by_readiness() {
            return self.send_all(stream, out).await;
        }
        let more = SendFlags::MORE.bits() as i32;
        let length = out.len();
        let send = Send::new(socket.clone(), out).flags(more);
        self.sent(length, io_contexts::submit(IoStep::Send, send))
            .await
    }

    /// Sends a whole buffer without occupying a helper while the client is slow.
    pub(crate) async fn send_by_readiness(
        &self,
        socket: &Descriptor,
        mut out: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        let deadline = SendDeadline::new(self);
        let begun = observe::begin();
        let mut done = 0;
        while done < out.len() {
            let part = Part::new(out, done..);
            let dontwait = SendFlags::DONTWAIT.bits() as i32;
            let send = Send::new(socket.clone(), part).flags(dontwait);
            let permit = self.concurrency.permit(IoStep::Send).await;
            let (result, part) = io_contexts::submit(IoStep::Send, send).await;
            drop(permit);
            out = part.into_inner();
            match result {
                Ok(count) => {
                    done += count;
                    deadline.add_sent(count as u64);
                }
                Err(error) if would_block(&error) => {
                    deadline.wait_until_writable(self, socket).await?
                }
                Err(error) => return Err(error),
            }
        }
        observe::end(Stage::Send, begun);
        out.clear();
        Ok(out)
    }
}

impl KernelTransfer<'_> {
    /// Sends at least one byte of the file, at most `most`, with `sendfile`.
    async fn sendfile(&self, offset: u64, most: usize) -> io::Result<u64> {
        self.send_some(most, |most| {
            SendFile::new(self.socket.clone(), self.file.clone(), Some(offset), most)
        })
        .await
    }

    /// Reads a chunk into shared memory, and sends it from there with `sendfile`.
    async fn through_memory(
        &self,
        buffer: &mut Option<SharedBuffer>,
        offset: u64,
        most: usize,
    ) -> io::Result<u64> {
        let worker = self.worker;
        let mut filled = match buffer.take() {
            // Replace its memory, because the client may not have acknowledged the bytes sent from
            // it yet.
            Some(mut used) => {
                used.renew()?;
                used
            }
            None => match worker.pools.buffer() {
                Some(kept) => kept,
                None => SharedBuffer::new(worker.chunk)?,
            },
        };
        filled = worker.read_into(self.file, filled, offset).await?;
        let count = filled.len().min(most);
        let mut sent = 0;
        while sent < count {
            let memory = filled.file().clone();
            let from = sent as u64;
            sent += self
                .send_some(count - sent, |most| {
                    SendFile::new(self.socket.clone(), memory.clone(), Some(from), most)
                })
                .await? as usize;
        }
        *buffer = Some(filled);
        Ok(count as u64)
    }

    /// Sends a chunk through a pipe.
    async fn splice(
        &self,
        pipe: &mut Option<pools::Pipe>,
        offset: u64,
        most: usize,
    ) -> io::Result<u64> {
        let worker = self.worker;
        // Taken out of `pipe`, so that after an error it is closed: it may still hold bytes.
        let used = match pipe.take() {
            Some(used) => used,
            None => worker.pools.pipe(worker.chunk)?,
        };
        let most = most.min(used.capacity);
        let begun = observe::begin();
        let permit = worker.concurrency.permit(IoStep::FileRead).await;
        let fill = Splice::new(self.file.clone(), used.writer.clone(), most).from_offset(offset);
        let fill = io_contexts::submit(IoStep::FileRead, fill);
        let count = laio_rt::time::timeout(worker.limits().read_time, fill).await;
        drop(permit);
        observe::end(Stage::Read, begun);
        let count = count.map_err(|_| io::ErrorKind::TimedOut)??;
        if count == 0 {
            return Err(shorter());
        }
        let mut sent = 0;
        while sent < count {
            let reader = used.reader.clone();
            sent += self
                .send_some(count - sent, |most| {
                    Splice::new(reader.clone(), self.socket.clone(), most)
                })
                .await? as usize;
        }
        *pipe = Some(used);
        Ok(count as u64)
    }

    /// Repeats an operation that sends bytes until it has sent some.
    async fn send_some<O>(&self, most: usize, operation: impl Fn(usize) -> O) -> io::Result<u64>
    where
        O: laio::Operation<Output = io::Result<usize>>,
    {
        let begun = observe::begin();
        loop {
            let permit = self.worker.concurrency.permit(IoStep::Sendfile).await;
            let moved = io_contexts::submit(IoStep::Sendfile, operation(most)).await;
            drop(permit);
            if moved.is_ok() {
                observe::end(Stage::Send, begun);
            }
            match moved {
                Ok(0) => return Err(shorter()),
                Ok(count) => {
                    self.deadline.add_sent(count as u64);
                    return Ok(count as u64);
                }
                Err(error) if would_block(&error) => {
                    self.deadline
                        .wait_until_writable(self.worker, self.socket)
                        .await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// A socket in non-blocking mode, until dropped.
struct NonBlocking<'a>(&'a Descriptor);

impl NonBlocking<'_> {
    fn new(socket: &Descriptor) -> NonBlocking<'_> {
        // No other flag is set. If it fails, calls block a helper.
        let _ = rustix::fs::fcntl_setfl(socket, OFlags::NONBLOCK);
        NonBlocking(socket)
    }
}

impl Drop for NonBlocking<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_setfl(self.0, OFlags::empty());
    }
}

/// A corked socket (`TCP_CORK`), until dropped.
pub(crate) struct Corked<'a>(&'a Descriptor);

impl Corked<'_> {
    /// Returns none for sockets without packets.
    pub(crate) fn new(socket: &Descriptor) -> Option<Corked<'_>> {
        sockopt::set_tcp_cork(socket, true).ok()?;
        Some(Corked(socket))
    }
}

impl Drop for Corked<'_> {
    fn drop(&mut self) {
        let _ = sockopt::set_tcp_cork(self.0, false);
    }
}
