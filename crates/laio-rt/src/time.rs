//! Sleeping, time-outs and intervals.
//!
//! The executor keeps its timers itself: a timer needs no operation, and the earliest deadline bounds the
//! executor's sleep.

use crate::executor::Core;
use crate::timers::TimerId;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Waits for at least `duration`.
///
/// ```
/// use std::time::Duration;
/// let runtime = laio_rt::Runtime::new(laio::Options::new())?;
/// runtime.block_on(laio_rt::time::sleep(Duration::from_millis(1)));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(after(duration))
}

/// Waits until `deadline`.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        timer: None,
    }
}

/// Returns the time of the executor's present turn: when it was first asked for since completions were last reaped. The
/// clock is read at most once in a turn, so this is cheap, and late by no more than the turn has taken so far.
///
/// # Panics
/// Outside of [`Runtime::block_on`](crate::Runtime::block_on).
pub fn turn_time() -> Instant {
    Core::current().turn_time()
}

/// Returns the time `duration` from now, or in thirty years if an `Instant` cannot represent that.
fn after(duration: Duration) -> Instant {
    const FAR_FUTURE: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration)
        .unwrap_or_else(|| now + FAR_FUTURE)
}

/// The future of [`sleep`] and [`sleep_until`]. Dropping it removes its timer.
#[must_use = "the timer starts when the future is polled"]
pub struct Sleep {
    deadline: Instant,
    timer: Option<Timer>,
}

/// A timer of the executor's, which wakes the task at its deadline or earlier.
struct Timer {
    core: Rc<Core>,
    id: TimerId,
    waker: Waker,
}

impl Sleep {
    /// Returns the time at which the sleep ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Changes the time at which the sleep ends, also after it has ended.
    ///
    /// A later deadline costs nothing until the earlier one: the timer stays, and is started again when it has
    /// expired. So one `Sleep` can limit many waits, one after the other, without a timer for each.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        if self
            .timer
            .as_ref()
            .is_some_and(|timer| timer.at() > deadline)
        {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if let Some(Timer { core, id, .. }) = self.timer.take() {
            let waker = core.timers.borrow_mut().remove(id);
            drop(waker);
        }
    }
}

impl Timer {
    fn at(&self) -> Instant {
        self.id.0
    }

    /// Whether the timer will wake `waker`. Timers expire at the start of a turn, so one whose time is after that of
    /// the turn has not expired.
    fn will_wake(&self, waker: &Waker, turn_time: Instant) -> bool {
        self.at() > turn_time && self.waker.will_wake(waker)
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let core = Core::current();
        let turn_time = core.turn_time();
        if turn_time >= self.deadline {
            self.stop();
            return Poll::Ready(());
        }
        let waker = context.waker();
        if self
            .timer
            .as_ref()
            .is_some_and(|timer| timer.will_wake(waker, turn_time))
        {
            return Poll::Pending;
        }
        self.stop();
        let waker = waker.clone();
        let id = core
            .timers
            .borrow_mut()
            .insert(self.deadline, waker.clone());
        self.timer = Some(Timer { core, id, waker });
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Waits for a future for at most `duration`. When the time has elapsed, the future is dropped, which abandons
/// its operations.
///
/// A future that is ready at its first poll costs no timer, and the clock is not read.
///
/// # Errors
/// [`Elapsed`] if the time elapses first.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        limit: Limit::After(duration),
    }
}

/// As [`timeout`], with an absolute deadline.
///
/// # Errors
/// [`Elapsed`] if the deadline passes first.
pub fn timeout_at<F: Future>(deadline: Instant, future: F) -> Timeout<F> {
    Timeout {
        future,
        limit: Limit::Started(sleep_until(deadline)),
    }
}

/// As [`timeout`], until a sleep ends. Waits that follow each other can share the sleep, which is
/// [reset](Sleep::reset) before each: that costs no timer for each.
///
/// # Errors
/// [`Elapsed`] if the sleep ends first.
pub fn timeout_by<F: Future>(limit: &mut Sleep, future: F) -> TimeoutBy<'_, F> {
    TimeoutBy { future, limit }
}

pin_project! {
    /// The future of [`timeout`] and [`timeout_at`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Limit,
    }
}

/// When a wait ends.
#[derive(Debug)]
enum Limit {
    /// This long after the first poll.
    After(Duration),
    Started(Sleep),
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        if let Limit::After(duration) = *this.limit {
            *this.limit = Limit::Started(sleep(duration));
        }
        match this.limit {
            Limit::Started(sleep) => Pin::new(sleep).poll(context).map(|()| Err(Elapsed)),
            Limit::After(_) => unreachable!("it was started above"),
        }
    }
}

pin_project! {
    /// The future of [`timeout_by`].
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct TimeoutBy<'s, F> {
        #[pin]
        future: F,
        limit: &'s mut Sleep,
    }
}

impl<F: Future> Future for TimeoutBy<'_, F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut **this.limit)
            .poll(context)
            .map(|()| Err(Elapsed))
    }
}

/// The error of [`timeout`] and [`timeout_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is up")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(elapsed: Elapsed) -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed)
    }
}

/// Returns an interval that ticks every `period`, first after one period.
///
/// # Panics
/// If the period is zero.
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval of no time");
    Interval {
        period,
        sleep: sleep(period),
    }
}

/// A periodic timer; see [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    sleep: Sleep,
}

impl Interval {
    /// Waits for the next tick, and returns the time at which it was due. Missed ticks are skipped.
    pub async fn tick(&mut self) -> Instant {
        Pin::new(&mut self.sleep).await;
        let due = self.sleep.deadline();
        let late = due.elapsed().as_nanos() / self.period.as_nanos();
        let periods = u32::try_from(late + 1).unwrap_or(u32::MAX);
        let next = due.checked_add(self.period.saturating_mul(periods));
        self.sleep = next.map_or_else(|| sleep(self.period), sleep_until);
        due
    }
}
