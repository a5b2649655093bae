//! Reading from a stream so that a future that is dropped loses no byte.
//!
//! A read whose future is dropped is cancelled, but may have taken bytes out of the stream before that, or do so
//! before the kernel notices. A task of its own waits for its end, and leaves the bytes with the descriptor, where
//! the next read finds them.

use crate::Descriptor;
use crate::executor::Core;
use crate::submission::{Submission, submit};
use laio::ops::Sink;
use laio::{Errno, ReadsStream};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Returns the future of a read. `make` makes the operation.
pub(crate) fn read<B, O>(descriptor: &Descriptor, buffer: B, make: Make<B, O>) -> ReadFuture<B, O>
where
    B: Sink,
    O: ReadsStream<Output = (io::Result<usize>, B)>,
{
    ReadFuture {
        descriptor: descriptor.clone(),
        state: State::New(buffer, make),
        takes: true,
    }
}

/// As [`read`], for a read that leaves the bytes where they are.
pub(crate) fn peek<B, O>(descriptor: &Descriptor, buffer: B, make: Make<B, O>) -> ReadFuture<B, O>
where
    B: Sink,
    O: ReadsStream<Output = (io::Result<usize>, B)>,
{
    let mut peek = read(descriptor, buffer, make);
    peek.takes = false;
    peek
}

type Make<B, O> = fn(Descriptor, B) -> O;

/// The future of a read from a stream.
#[must_use = "the call is made when the future is polled"]
pub(crate) struct ReadFuture<B: Sink, O: ReadsStream<Output = (io::Result<usize>, B)>> {
    descriptor: Descriptor,
    state: State<B, O>,
    /// Whether it takes the bytes out of the stream.
    takes: bool,
}

enum State<B, O: ReadsStream> {
    New(B, Make<B, O>),
    Started(Submission<O>),
    Over,
}

// A buffer moves to the heap, with its operation, before its address is passed to the kernel.
impl<B: Sink, O: ReadsStream<Output = (io::Result<usize>, B)>> Unpin for ReadFuture<B, O> {}

impl<B: Sink, O: ReadsStream<Output = (io::Result<usize>, B)>> Future for ReadFuture<B, O> {
    type Output = O::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O::Output> {
        let this = &mut *self;
        let mut submission = match std::mem::replace(&mut this.state, State::Over) {
            State::New(mut buffer, make) => {
                let leftover = this.descriptor.leftover();
                match leftover.poll_fill(&mut buffer, this.takes, context) {
                    Poll::Ready(Some(result)) => return Poll::Ready((result, buffer)),
                    Poll::Ready(None) => submit(make(this.descriptor.clone(), buffer)),
                    Poll::Pending => {
                        this.state = State::New(buffer, make);
                        return Poll::Pending;
                    }
                }
            }
            State::Started(submission) => submission,
            State::Over => panic!("a read was polled after it had completed"),
        };
        let polled = Pin::new(&mut submission).poll(context);
        if polled.is_pending() {
            this.state = State::Started(submission);
        }
        polled
    }
}

impl<B: Sink, O: ReadsStream<Output = (io::Result<usize>, B)>> Drop for ReadFuture<B, O> {
    fn drop(&mut self) {
        if let State::Started(submission) = std::mem::replace(&mut self.state, State::Over)
            && self.takes
        {
            leave(&self.descriptor, submission);
        }
    }
}

/// Cancels a read whose future is dropped, and leaves its bytes for the next one. Outside of the read's runtime it
/// is abandoned: no task can wait for it.
fn leave<O: ReadsStream>(descriptor: &Descriptor, mut submission: Submission<O>) {
    let (Some(own), Some(current)) = (submission.in_flight_in(), Core::try_current()) else {
        return;
    };
    if !Rc::ptr_eq(own, &current) {
        return;
    }
    submission.cancel();
    descriptor.leftover().begin();
    let leaving = Leaving {
        descriptor: descriptor.clone(),
        result: None,
    };
    let wait = async move {
        let result = poll_fn(|context| submission.poll_bytes(context)).await;
        leaving.end(result);
    };
    current.spawn(wait).detach();
}

/// A cancelled read in flight. Its end is recorded also if the runtime ends first.
struct Leaving {
    descriptor: Descriptor,
    result: Option<io::Result<Vec<u8>>>,
}

impl Leaving {
    fn end(mut self, result: io::Result<Vec<u8>>) {
        self.result = match result {
            // It was cancelled before there was anything to read.
            Err(error) if error.raw_os_error() == Some(Errno::CANCELED.raw()) => None,
            result => Some(result),
        };
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.descriptor.leftover().end(self.result.take());
    }
}
