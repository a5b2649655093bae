//! Sending files with `sendfile`, from the file or through shared memory, with `splice`, or with
//! zero-copy sends. Except for zero-copy sends, which io_uring queues in the kernel, the socket is
//! non-blocking, and the worker waits for its readiness while the client is slow, so that no helper
//! is occupied.

mod zero_copy;

use super::send_buffer::{send_all, send_deadline, send_more, would_block};
use super::send_deadline::SendDeadline;
use crate::files::contents::{Contents, shorter};
use crate::files::read::read_into;
use crate::net::stream::Stream;
use crate::observe::{self, Stage};
use crate::options::{IoStep, Limits, Transfer};
use crate::services::Services;
use crate::transfer_pools::Pipe;
use laio::ops::{SendFile, SharedBuffer, Splice};
use laio_http::ByteRange;
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use zero_copy::send_zero_copy;

/// A transfer of a file to a client.
struct KernelTransfer<'a> {
    services: &'a Services,
    socket: &'a Descriptor,
    file: &'a Descriptor,
    deadline: SendDeadline,
}

/// Returns the socket and the file if the configured transfer applies to them.
pub(super) fn transfer_descriptors<'a>(
    services: &Services,
    stream: &'a Stream,
    contents: &'a Contents,
) -> Option<(&'a Descriptor, &'a Descriptor)> {
    match (services.io.transfer, contents) {
        (Transfer::PageCache | Transfer::Buffer, _) | (_, Contents::Memory(_)) => None,
        _ if services.contexts.cannot_transfer.get() => None,
        (_, Contents::File(file)) => Some((stream.plain()?, file)),
        (_, Contents::Open(open)) => Some((stream.plain()?, &open.file)),
    }
}

/// Sends `out` and a range of a file, and returns `out` empty. Also returns whether the range was sent: none of
/// it is where the kernel or a filter does not have the call.
///
/// # Errors
/// Like [`crate::request::send_response::send_response`].
pub(super) async fn send_by_kernel(
    services: &Services,
    stream: &Stream,
    (socket, file): (&Descriptor, &Descriptor),
    out: Vec<u8>,
    range: ByteRange,
) -> io::Result<(Vec<u8>, bool)> {
    let out = send_head(services, stream, out).await?;
    if services.io.transfer == Transfer::ZeroCopy {
        send_zero_copy(services, socket, file, range).await?;
        return Ok((out, true));
    }
    // If it fails, calls block a helper.
    let _mode = (!services.contexts.sync).then(|| NonBlocking::new(socket).ok());
    let transfer = KernelTransfer {
        services,
        socket,
        file,
        deadline: send_deadline(services),
    };
    let (mut offset, mut left, mut sent) = (range.start, range.len(), 0);
    let mut pipe = None;
    let mut buffer = None;
    while left > 0 {
        let most = left.min(services.chunk as u64) as usize;
        let count = match services.io.transfer {
            Transfer::Splice => transfer.splice(&mut pipe, offset, most).await,
            Transfer::ShmSendfile => transfer.through_memory(&mut buffer, offset, most).await,
            _ => transfer.sendfile(offset, most).await,
        };
        let count = match count {
            Err(error) if is_missing(&error) && offset == range.start => {
                services.contexts.cannot_transfer.set(true);
                return Ok((out, false));
            }
            count => count?,
        };
        offset += count;
        left -= count;
        sent += count;
        if sent >= Limits::BYTES_BEFORE_YIELD && left > 0 {
            sent = 0;
            laio_rt::give_way().await;
        }
    }
    services.transfer_pools.keep(pipe, buffer);
    Ok((out, true))
}

/// Whether a call failed because the kernel or a filter does not have it.
pub(super) fn is_missing(error: &io::Error) -> bool {
    const ERRNOS: [Errno; 3] = [Errno::NOSYS, Errno::PERM, Errno::ACCESS];
    ERRNOS
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&error.raw_os_error())
}

/// Whether packets are held back until they are full (`TCP_CORK`). Zero-copy sends are not
/// corked: they finish only at the acknowledgement, and the corked tail would wait 200 ms.
pub(super) fn corks(services: &Services) -> bool {
    services.io.cork && services.io.transfer != Transfer::ZeroCopy
}

/// Sends the head with `MSG_MORE`, so that head and first bytes share a packet. Not where the
/// socket is corked, which has the same effect.
async fn send_head(services: &Services, stream: &Stream, out: Vec<u8>) -> io::Result<Vec<u8>> {
    if corks(services) || out.is_empty() {
        send_all(services, stream, out).await
    } else {
        send_more(services, stream, out).await
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
        let services = self.services;
        let mut filled = match buffer.take() {
            // Replace its memory, because the client may not have acknowledged the bytes sent from
            // it yet.
            Some(mut used) => {
                used.renew()?;
                used
            }
            None => match services.transfer_pools.buffer() {
                Some(kept) => kept,
                None => SharedBuffer::new(services.chunk)?,
            },
        };
        filled = read_into(
            &services.contexts,
            &services.limits,
            self.file,
            filled,
            offset,
        )
        .await?;
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
    async fn splice(&self, pipe: &mut Option<Pipe>, offset: u64, most: usize) -> io::Result<u64> {
        let services = self.services;
        // Taken out of `pipe`, so that after an error it is closed: it may still hold bytes.
        let used = match pipe.take() {
            Some(used) => used,
            None => services.transfer_pools.pipe(services.chunk)?,
        };
        let most = most.min(used.capacity);
        let begun = observe::begin();
        let permit = services.contexts.permit(IoStep::FileRead).await;
        let fill = Splice::new(self.file.clone(), used.writer.clone(), most).from_offset(offset);
        let fill = services.contexts.submit(IoStep::FileRead, fill);
        let count = laio_rt::time::timeout(services.limits.read_time, fill).await;
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
            let permit = self.services.contexts.permit(IoStep::Sendfile).await;
            let moved = operation(most);
            let moved = self.services.contexts.submit(IoStep::Sendfile, moved).await;
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
                        .wait_until_writable(self.services, self.socket)
                        .await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A socket in non-blocking mode, until dropped.
pub(super) struct NonBlocking<'a>(&'a Descriptor);

impl NonBlocking<'_> {
    pub(super) fn new(socket: &Descriptor) -> io::Result<NonBlocking<'_>> {
        // No other flag is set.
        rustix::fs::fcntl_setfl(socket, OFlags::NONBLOCK)?;
        Ok(NonBlocking(socket))
    }
}

impl Drop for NonBlocking<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_setfl(self.0, OFlags::empty());
    }
}

/// A corked socket (`TCP_CORK`), until dropped.
pub(super) struct Corked<'a>(&'a Descriptor);

impl Corked<'_> {
    /// Returns none for sockets without packets.
    pub(super) fn new(socket: &Descriptor) -> Option<Corked<'_>> {
        sockopt::set_tcp_cork(socket, true).ok()?;
        Some(Corked(socket))
    }
}

impl Drop for Corked<'_> {
    fn drop(&mut self) {
        let _ = sockopt::set_tcp_cork(self.0, false);
    }
}
