//! How a worker makes calls: lazily, blocking, or as the options say.

pub(crate) mod device_limits;
mod latency;

use crate::options::{Options, Writes};
use crate::outcome::{Counters, Tally};
use device_limits::KnownLimits;
use laio::ops::AlignedBuffer;
use laio::{BackendKind, Context, Operation, Outcome};
use laio_rt::{Submission, submit};
use latency::Latency;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// A worker's calls and buffers, what it has learned about devices, and its counters.
pub(crate) struct Io {
    /// The context for blocking calls; `None` if the runtime's context blocks.
    blocking: Option<RefCell<Context>>,
    writes: Writes,
    /// Data goes through a back end that was requested.
    routes_data: bool,
    /// A back end other than `lazy` was requested, so calls go through it even where a blocking
    /// call is cheaper. `sync` counts as requested here, but not in `routes_data`.
    pub(crate) avoids_blocking: bool,
    buffer_size: usize,
    buffers: RefCell<Vec<AlignedBuffer>>,
    /// The latency of calls on the source.
    pub(crate) latency: Latency,
    pub(crate) device_limits: KnownLimits,
    tally: Arc<Tally>,
    worker: usize,
}

/// The maximum number of unused buffers that are kept.
const BUFFERS_KEPT: usize = 32;

impl Io {
    pub(crate) fn new(options: &Options, tally: Arc<Tally>, worker: usize) -> io::Result<Io> {
        let blocking = match options.backend {
            Some(BackendKind::Sync) => None,
            _ => {
                let sync = laio::Options::new().backend(BackendKind::Sync);
                Some(RefCell::new(Context::new(sync)?))
            }
        };
        let backend = options.backend;
        Ok(Io {
            blocking,
            writes: options.writes,
            routes_data: options.routes_data_through_backend(),
            avoids_blocking: backend.is_some_and(|backend| backend != BackendKind::Lazy),
            buffer_size: options.buffer,
            buffers: RefCell::default(),
            latency: Latency::default(),
            device_limits: KnownLimits::default(),
            tally,
            worker,
        })
    }

    /// The counters of this worker.
    pub(crate) fn counters(&self) -> &Counters {
        self.tally.of(self.worker)
    }

    /// Makes a call through the back end; if it waits, other files continue. For calls on the
    /// source, and `fsync` of the destination.
    pub(crate) fn call_backend<O: Operation>(&self, operation: O) -> Submission<O> {
        submit(operation)
    }

    /// Like [`Io::call_backend`]; also returns whether the call was done inline, without
    /// waiting.
    pub(crate) async fn call_backend_observed<O: Operation>(
        &self,
        operation: O,
    ) -> (O::Output, bool) {
        let mut submission = submit(operation);
        let mut inline = true;
        let output = poll_fn(|context| {
            let polled = Pin::new(&mut submission).poll(context);
            inline &= polled.is_ready();
            polled
        });
        (output.await, inline)
    }

    /// Makes a call that has no non-blocking form. If its data is probably cached, a blocking call
    /// is cheaper than one in the background.
    pub(crate) async fn maybe_inline<O: Operation>(
        &self,
        operation: O,
        is_in_memory: bool,
    ) -> O::Output {
        if is_in_memory && !self.avoids_blocking {
            self.call_blocking(operation)
        } else {
            submit(operation).await
        }
    }

    /// Makes a blocking call on the calling thread.
    pub(crate) fn call_blocking<O: Operation>(&self, operation: O) -> O::Output {
        let Some(blocking) = &self.blocking else {
            return laio_rt::now(operation);
        };
        let mut context = blocking.borrow_mut();
        match context.submit(operation) {
            Outcome::Done(output) => output,
            Outcome::Pending(mut ticket) => loop {
                // The `sync` back end never returns `Pending`, but handle it.
                let mut completions = Vec::new();
                match context.poll(&mut completions, None) {
                    Ok(_) => {}
                    Err(error) if error.is_shortage() => std::thread::yield_now(),
                    Err(error) => panic!("a call cannot be waited for: {error}"),
                }
                match context.take(ticket) {
                    Ok(output) => return output,
                    Err(back) => ticket = back,
                }
            },
        }
    }

    /// Makes a call on the destination, as [`Writes`] says.
    #[inline]
    pub(crate) async fn call_target<O: Operation>(&self, operation: O) -> O::Output {
        match self.writes {
            Writes::Plain => self.call_blocking(operation),
            Writes::Backend => submit(operation).await,
        }
    }

    /// Writes data; through the back end if one was requested that data must go through.
    pub(crate) async fn write_data<O: Operation>(&self, operation: O) -> O::Output {
        if self.routes_data {
            submit(operation).await
        } else {
            self.call_target(operation).await
        }
    }

    /// Returns an empty buffer.
    pub(crate) fn take_buffer(&self) -> AlignedBuffer {
        let kept = self.buffers.borrow_mut().pop();
        kept.unwrap_or_else(|| AlignedBuffer::with_capacity(self.buffer_size))
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle_buffer(&self, mut buffer: AlignedBuffer) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < BUFFERS_KEPT && buffer.capacity() >= self.buffer_size {
            buffer.clear();
            buffers.push(buffer);
        }
    }
}
