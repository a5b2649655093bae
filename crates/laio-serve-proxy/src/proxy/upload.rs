//! Sending the body of a request in HTTP/2, which may go on during the response.

use super::proxy_request::Source;
use bytes::Bytes;
use h2::SendStream;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::link::Deadline;
use std::future::poll_fn;
use std::task::{Poll, ready};

/// What sends the body of a request.
pub(super) struct Upload {
    stream: SendStream<Bytes>,
    /// What was taken from the source and not yet sent.
    chunk: Bytes,
    /// Whether the chunk is the last one.
    last: bool,
    state: UploadState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UploadState {
    Running,
    /// The whole body was sent, or the upstream accepts no more.
    Ended,
}

impl Upload {
    /// Begins with the stream of a request, which may have no body.
    pub(super) fn new(stream: SendStream<Bytes>, bodiless: bool) -> Upload {
        Upload {
            stream,
            chunk: Bytes::new(),
            last: bodiless,
            state: if bodiless {
                UploadState::Ended
            } else {
                UploadState::Running
            },
        }
    }

    /// Whether there is more to send.
    pub(super) fn is_running(&self) -> bool {
        self.state == UploadState::Running
    }

    /// Sends the body until its end, or until the upstream accepts no more. May be dropped and called
    /// again, if `source` may.
    pub(super) async fn run(
        &mut self,
        source: &mut impl Source,
        limits: &UpstreamLimits,
        deadline: Deadline,
    ) -> Result<(), UpstreamError> {
        while self.is_running() {
            if self.chunk.is_empty() && !self.last {
                let mut chunk = Vec::new();
                self.last = source.next(&mut chunk).await?;
                self.chunk = Bytes::from(chunk);
            }
            let time = deadline.within(limits.between_time);
            let sent = laio_rt::time::timeout(time, self.send()).await;
            sent.map_err(|_| {
                UpstreamError::timed_out("the upstream did not accept the request in time")
                    .at(Progress::NothingReceived)
            })?;
        }
        Ok(())
    }

    /// Sends the chunk, as flow control allows.
    async fn send(&mut self) {
        while !self.chunk.is_empty() {
            self.stream.reserve_capacity(self.chunk.len());
            let granted = poll_fn(|context| {
                loop {
                    if self.stream.capacity() > 0 {
                        return Poll::Ready(Some(self.stream.capacity()));
                    }
                    match ready!(self.stream.poll_capacity(context)) {
                        Some(Ok(_)) => {}
                        Some(Err(_)) | None => return Poll::Ready(None),
                    }
                }
            });
            let Some(granted) = granted.await else {
                self.state = UploadState::Ended;
                return;
            };
            let piece = self.chunk.split_to(granted.min(self.chunk.len()));
            let ends = self.last && self.chunk.is_empty();
            if self.stream.send_data(piece, ends).is_err() || ends {
                self.state = UploadState::Ended;
                return;
            }
        }
        if self.last {
            let _ = self.stream.send_data(Bytes::new(), true);
            self.state = UploadState::Ended;
        }
    }
}
