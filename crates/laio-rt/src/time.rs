//! Waiting for a time, and for something at most so long.
//!
//! Timers are the executor's own: they take no operation, and the next one bounds its sleep.

use crate::executor::Core;
use crate::timers::TimerId;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Waits that long, at least.
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

/// Waits until that time.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        timer: None,
    }
}

/// The time that much later; if there is no such time, one in thirty years.
fn after(duration: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FOR_EVER)
}

/// The future of [`sleep`] and [`sleep_until`]. Dropped, it takes its timer with it.
#[must_use = "the time is waited for when the future is polled"]
pub struct Sleep {
    deadline: Instant,
    timer: Option<(Rc<Core>, TimerId)>,
}

impl Sleep {
    /// When it ends.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    fn stop(&mut self) {
        if let Some((core, id)) = self.timer.take() {
            let waker = core.timers.borrow_mut().remove(id);
            drop(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            self.stop();
            return Poll::Ready(());
        }
        if let Some((core, id)) = &self.timer
            && core.timers.borrow_mut().update(*id, context.waker())
        {
            return Poll::Pending;
        }
        let core = Core::current();
        let waker = context.waker().clone();
        let id = core.timers.borrow_mut().insert(self.deadline, waker);
        self.timer = Some((core, id));
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

/// Waits for a future, but at most that long. If the time is up the future is dropped, which abandons
/// its operations.
///
/// A future that is ready at once costs no timer, not even a look at the clock.
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut limit = None;
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        let limit = limit.get_or_insert_with(|| sleep(duration));
        Pin::new(limit).poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// As [`timeout`], until that time.
///
/// # Errors
/// [`Elapsed`] if it comes first.
pub async fn timeout_at<F: Future>(deadline: Instant, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut limit = sleep_until(deadline);
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut limit).poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// The time was up.
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

/// Ticks every `period`, for the first time after one.
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

/// Ticks of [`interval`].
#[derive(Debug)]
pub struct Interval {
    period: Duration,
    sleep: Sleep,
}

impl Interval {
    /// Waits for the next tick; returns when it was due. Ticks that were missed are left out.
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
