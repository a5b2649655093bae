//! Waiting for two futures at a time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

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
pub async fn race<A: Future, B: Future>(left: A, right: B) -> Either<A::Output, B::Output> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| {
        if let Poll::Ready(output) = left.as_mut().poll(context) {
            return Poll::Ready(Either::Left(output));
        }
        right.as_mut().poll(context).map(Either::Right)
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
