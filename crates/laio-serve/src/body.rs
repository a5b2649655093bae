//! Sending the answer.

use crate::contents::Contents;
use crate::io_contexts;
use crate::observe::{self, Stage};
use crate::options::Limits;
use crate::reply::Body;
use crate::stream::Stream;
use crate::transfer::Corked;
use crate::worker::Worker;
use laio_http::{ByteRange, Multipart};
use std::io;
use std::time::Duration;

impl Worker {
    /// Sends `out` and then the body, and returns the emptied buffer. The head is sent together
    /// with the first bytes of the file.
    ///
    /// # Errors
    /// Returns the errors of reading and sending. `UnexpectedEof` if the file has become shorter
    /// than the announced length: the connection must end, so that the client notices the
    /// truncation.
    pub(crate) async fn send(
        &self,
        stream: &Stream,
        out: Vec<u8>,
        body: Body,
    ) -> io::Result<Vec<u8>> {
        let with_file = matches!(body, Body::File(..) | Body::Parts(..));
        let corks = self.corks() && with_file;
        let _corked = stream.plain().filter(|_| corks).and_then(Corked::new);
        match body {
            Body::Nothing => self.send_all(stream, out).await,
            Body::File(contents, range) => {
                let out = self.send_range(stream, out, &contents, range).await?;
                self.send_all(stream, out).await
            }
            Body::Parts(contents, parts) => self.send_parts(stream, out, &contents, &parts).await,
            Body::Gzip(mut gzip) => {
                let (mut out, framed) = (out, !stream.is_http2_stream());
                loop {
                    let last = self.next_chunk(&mut gzip, &mut out, framed).await?;
                    out = self.send_all(stream, out).await?;
                    if last {
                        return Ok(out);
                    }
                }
            }
        }
    }

    /// Sends `out` and a range of a file; leaves the last bytes unsent in `out`.
    async fn send_range(
        &self,
        stream: &Stream,
        mut out: Vec<u8>,
        contents: &Contents,
        range: ByteRange,
    ) -> io::Result<Vec<u8>> {
        if range.len() > Limits::SENDFILE_BYTES_BEFORE_YIELD {
            // The first piece is long, and many requests may start at once.
            laio_rt::give_way().await;
        }
        if let Some(ends) = self.transfer_descriptors(stream, contents) {
            return self.send_by_kernel(stream, ends, out, range).await;
        }
        let (mut offset, mut sent) = (range.start, 0);
        while offset < range.end {
            let left = ByteRange {
                start: offset,
                end: range.end,
            };
            let (buffer, mut count) = self.send_resident(stream, out, contents, left).await?;
            out = buffer;
            if count == 0 {
                let piece = (self.chunk as u64 - offset % self.chunk as u64).min(left.len());
                if out.len() > self.chunk {
                    out = self.send_all(stream, out).await?;
                }
                let before = out.len();
                out.reserve_exact(piece as usize);
                out = self.read(contents, out, piece as usize, offset).await?;
                count = (out.len() - before) as u64;
                contents.was_read(offset, offset + count);
                if count < left.len() {
                    out = self.send_all(stream, out).await?;
                }
            }
            offset += count;
            sent += count;
            if sent >= Limits::BYTES_BEFORE_YIELD && offset < range.end {
                sent = 0;
                laio_rt::give_way().await;
            }
        }
        Ok(out)
    }

    async fn send_parts(
        &self,
        stream: &Stream,
        mut out: Vec<u8>,
        contents: &Contents,
        parts: &Multipart,
    ) -> io::Result<Vec<u8>> {
        for (number, &range) in parts.ranges().iter().enumerate() {
            parts.push_head(number, &mut out);
            out = self.send_range(stream, out, contents, range).await?;
        }
        parts.push_end(&mut out);
        self.send_all(stream, out).await
    }

    /// Sends a whole buffer within the time limits, and returns it empty.
    pub(crate) async fn send_all(&self, stream: &Stream, out: Vec<u8>) -> io::Result<Vec<u8>> {
        if io_contexts::sends_by_readiness()
            && let Some(socket) = stream.plain()
        {
            return self.send_by_readiness(socket, out).await;
        }
        let length = out.len();
        self.sent(length, stream.send(out)).await
    }

    /// Sends a buffer that is followed by more data at once (`MSG_MORE`), so that the kernel can
    /// merge both.
    pub(crate) async fn send_before(&self, stream: &Stream, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let length = out.len();
        self.sent(length, stream.send_more(out)).await
    }

    /// Awaits a send within its time limit, and returns the buffer empty.
    pub(crate) async fn sent(
        &self,
        length: usize,
        sent: impl Future<Output = (io::Result<usize>, Vec<u8>)>,
    ) -> io::Result<Vec<u8>> {
        let begun = observe::begin();
        let sent = laio_rt::time::timeout(self.time_to_send(length), sent).await;
        observe::end(Stage::Send, begun);
        match sent {
            // With the back end sync, the socket's own timeout ended the send.
            Ok((Ok(count), _)) if count < length => Err(io::ErrorKind::TimedOut.into()),
            Ok((Ok(_), mut out)) => {
                out.clear();
                Ok(out)
            }
            Ok((Err(error), _)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Returns the time limit for sending `length` bytes. A slower client would occupy a connection
    /// and a buffer for too long.
    pub(crate) fn time_to_send(&self, length: usize) -> Duration {
        let limits = self.limits();
        let at_rate = length as u64 / limits.write_rate.max(1);
        limits.write_time.max(Duration::from_secs(at_rate))
    }
}
