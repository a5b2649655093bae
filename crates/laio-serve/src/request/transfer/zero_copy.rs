//! Zero-copy sends. A buffer belongs to the kernel until the client has acknowledged its bytes, so
//! several are in flight.

use crate::files::read::read_into;
use crate::options::{IoStep, Limits};
use crate::request::send_buffer::await_send;
use crate::services::Services;
use laio::ops::{Limit, Send};
use laio_http::ByteRange;
use laio_rt::{Descriptor, Submission};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

/// Chunks that the client has not acknowledged.
struct InFlight<'a> {
    services: &'a Services,
    socket: &'a Descriptor,
    /// Oldest first.
    chunks: VecDeque<Chunk>,
    /// The oldest chunk is being awaited, or failed.
    failed: bool,
}

struct Chunk {
    length: usize,
    state: State,
}

enum State {
    Sending(Submission<Send<Descriptor, Vec<u8>>>),
    Done((io::Result<usize>, Vec<u8>)),
}

/// Sends a range of a file, and waits until the client has acknowledged it.
pub(super) async fn send_zero_copy(
    services: &Services,
    socket: &Descriptor,
    file: &Descriptor,
    range: ByteRange,
) -> io::Result<()> {
    let mut in_flight = InFlight {
        services,
        socket,
        chunks: VecDeque::with_capacity(Limits::ZEROCOPY_CHUNKS),
        failed: false,
    };
    let (mut offset, mut sent) = (range.start, 0);
    while offset < range.end {
        let mut buffer = if in_flight.chunks.len() < Limits::ZEROCOPY_CHUNKS {
            services.transfer_pools.chunk()
        } else {
            in_flight.finish_oldest().await?
        };
        // Read at multiples of the chunk size, which suits disks.
        let most = services.chunk as u64 - offset % services.chunk as u64;
        let most = most.min(range.end - offset) as usize;
        buffer.reserve_exact(most);
        match read_into(
            &services.contexts,
            &services.limits,
            file,
            Limit::new(buffer, most),
            offset,
        )
        .await
        {
            Ok(filled) => buffer = filled.into_inner(),
            Err(error) => {
                // Finish sending the chunks that were read before.
                in_flight.finish_all().await?;
                return Err(error);
            }
        }
        let count = buffer.len() as u64;
        offset += count;
        sent += count;
        in_flight.send(buffer).await;
        if sent >= Limits::BYTES_BEFORE_YIELD && offset < range.end {
            sent = 0;
            laio_rt::give_way().await;
        }
    }
    in_flight.finish_all().await
}

impl InFlight<'_> {
    /// Sends a buffer after the others. Returns when the operation is started, so that the next one
    /// cannot overtake it.
    async fn send(&mut self, buffer: Vec<u8>) {
        let length = buffer.len();
        let send = Send::new(self.socket.clone(), buffer).zero_copy();
        let mut sending = Some(self.services.contexts.submit(IoStep::Send, send));
        let state = poll_fn(|context| {
            let Some(submission) = &mut sending else {
                unreachable!("taken only when ready")
            };
            match Pin::new(&mut *submission).poll(context) {
                Poll::Ready(output) => Poll::Ready(State::Done(output)),
                Poll::Pending if submission.is_started() => {
                    Poll::Ready(State::Sending(sending.take().expect("checked above")))
                }
                Poll::Pending => Poll::Pending,
            }
        });
        let state = state.await;
        self.chunks.push_back(Chunk { length, state });
    }

    /// Waits within the time limit until the client has acknowledged the oldest chunk, and returns
    /// its buffer empty.
    async fn finish_oldest(&mut self) -> io::Result<Vec<u8>> {
        let Some(Chunk { length, state }) = self.chunks.pop_front() else {
            return Ok(Vec::new());
        };
        self.failed = true;
        let buffer = match state {
            State::Sending(submission) => await_send(self.services, length, submission).await?,
            State::Done(output) => {
                await_send(self.services, length, std::future::ready(output)).await?
            }
        };
        self.failed = false;
        Ok(buffer)
    }

    /// Waits until the client has acknowledged everything.
    async fn finish_all(&mut self) -> io::Result<()> {
        while !self.chunks.is_empty() {
            let buffer = self.finish_oldest().await?;
            self.services.transfer_pools.keep_chunk(buffer);
        }
        Ok(())
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.failed || !self.chunks.is_empty() {
            // Without this the kernel would keep retransmitting, and hold the buffers, for a
            // quarter of an hour. An error means that the connection has ended already.
            let _ = rustix::net::connect_unspec(self.socket);
        }
    }
}
