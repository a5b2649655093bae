//! Waiting for two futures at a time.

use pin_project_lite::pin_project;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// The output of the first of two futures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The output of the first argument.
    Left(A),
    /// The output of the second argument.
    Right(B),
}

/// Waits until one of two futures is ready, and drops the other, which abandons its operations. If both are
/// ready, the left one wins.
///
/// ```
/// use laio_rt::future::{Either, race};
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// let first = runtime.block_on(race(std::future::pending::<()>(), async { 7 }));
/// assert_eq!(first, Either::Right(7));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn race<A: Future, B: Future>(left: A, right: B) -> Race<A, B> {
    Race { left, right }
}

pin_project! {
    /// The future of [`race`]. It contains each of the two once; an `async fn` would contain its arguments twice.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Race<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.left.poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        this.right.poll(context).map(Either::Right)
    }
}

/// Polls a future once. Returns its output if it is ready.
pub async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for both of two futures.
pub async fn join<A: Future, B: Future>(left: A, right: B) -> (A::Output, B::Output) {
    let (mut left, mut right) = (pin!(left), pin!(right));
    let (mut one, mut other) = (None, None);
    poll_fn(|context| {
        if one.is_none()
            && let Poll::Ready(output) = left.as_mut().poll(context)
        {
            one = Some(output);
        }
        if other.is_none()
            && let Poll::Ready(output) = right.as_mut().poll(context)
        {
            other = Some(output);
        }
        match (one.take(), other.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            outputs => {
                (one, other) = outputs;
                Poll::Pending
            }
        }
    })
    .await
}
