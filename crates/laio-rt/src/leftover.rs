//! What cancelled reads have left with their descriptor; see [`crate::read`].

use laio::ops::{Sink, fill};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::task::{Context, Poll, Waker};

/// What reads whose futures were dropped have left for the next one.
#[derive(Default)]
pub(crate) struct Leftover(RefCell<Left>);

#[derive(Default)]
struct Left {
    /// Cancelled reads that are still in flight.
    in_flight: usize,
    waiting: Vec<Waker>,
    /// Their bytes and errors, in order; no bytes are the end of the stream.
    results: VecDeque<io::Result<Vec<u8>>>,
}

impl Leftover {
    /// Fills a buffer with what is left. Returns `None` if nothing is.
    pub(crate) fn poll_fill(
        &self,
        buffer: &mut impl Sink,
        takes: bool,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<usize>>> {
        let mut left = self.0.borrow_mut();
        let Some(first) = left.results.front_mut() else {
            if left.in_flight == 0 {
                return Poll::Ready(None);
            }
            left.waiting.push(context.waker().clone());
            return Poll::Pending;
        };
        let filled = match first {
            Ok(bytes) => {
                let count = fill(buffer, bytes);
                if takes {
                    bytes.drain(..count);
                }
                let is_over = bytes.is_empty();
                if takes && is_over {
                    left.results.pop_front();
                }
                Ok(count)
            }
            Err(error) => {
                let again = error.raw_os_error().map(io::Error::from_raw_os_error);
                let error = match (takes, again) {
                    (false, Some(again)) => again,
                    _ => match left.results.pop_front() {
                        Some(Err(error)) => error,
                        _ => unreachable!("the first is an error"),
                    },
                };
                Err(error)
            }
        };
        Poll::Ready(Some(filled))
    }

    /// Records that a read was cancelled, and is still in flight.
    pub(crate) fn begin(&self) {
        self.0.borrow_mut().in_flight += 1;
    }

    /// Records that a cancelled read is over.
    pub(crate) fn end(&self, result: Option<io::Result<Vec<u8>>>) {
        let waiting = {
            let mut left = self.0.borrow_mut();
            left.in_flight -= 1;
            left.results.extend(result);
            std::mem::take(&mut left.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}
