//! Timers.

use crate::common::{all, each, waiting};
use laio_rt::future::poll_once;
use laio_rt::net::UnixStream;
use laio_rt::time::{self, Elapsed};
use laio_rt::{Runtime, spawn, submit};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

#[test]
fn timers_are_due_in_order() {
    each(all(), async |_| {
        let mut unit = Duration::from_millis(5);
        let (start, begun, seen) = loop {
            // All must sleep before the first is due. On a busy machine that may take longer, so retry with longer
            // times.
            unit *= 2;
            let (start, begun, seen) = three_units_in_disorder(unit).await;
            if begun < unit {
                break (start, begun, seen);
            }
        };
        assert_eq!(seen, [0, 1, 1, 2, 3], "begun within {begun:?} of {unit:?}");
        assert!(start.elapsed() >= 3 * unit);
    });
}

/// Returns when the timers started, how long starting all took, and the order in which they expired.
async fn three_units_in_disorder(unit: Duration) -> (Instant, Duration, Vec<u32>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let start = Instant::now();
    let tasks: Vec<_> = [3, 1, 2, 0, 1]
        .into_iter()
        .map(|units| {
            let seen = seen.clone();
            spawn(async move {
                time::sleep_until(start + units * unit).await;
                seen.borrow_mut().push(units);
            })
        })
        .collect();
    laio_rt::yield_now().await;
    let begun = start.elapsed();
    for task in tasks {
        task.await.unwrap();
    }
    (start, begun, seen.take())
}

#[test]
fn ten_thousand_timers() {
    for (_, options) in all() {
        let runtime = Runtime::new(options).unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..10_000u64)
                .map(|i| {
                    spawn(async move {
                        let start = Instant::now();
                        let wait = Duration::from_micros(i * 7919 % 20_000);
                        time::sleep(wait).await;
                        assert!(start.elapsed() >= wait);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(runtime.timers(), 0);
    }
}

#[test]
fn dropped_timers_are_gone() {
    let runtime = Runtime::new(laio::Options::new()).unwrap();
    let tasks = runtime.block_on(async {
        let tasks: Vec<_> = (0..1000)
            .map(|_| spawn(time::sleep(Duration::from_secs(1000))))
            .collect();
        laio_rt::yield_now().await;
        tasks
    });
    assert_eq!(runtime.timers(), 1000);
    runtime.block_on(async {
        tasks[1..].iter().for_each(|task| task.abort());
    });
    assert_eq!(runtime.timers(), 1);
}

#[test]
fn a_sleep_that_is_reset_has_one_timer() {
    let runtime = Runtime::new(laio::Options::new()).unwrap();
    let mut sleep = time::sleep(Duration::from_millis(1));
    runtime.block_on(async {
        assert!(poll_once(&mut sleep).await.is_none() || sleep.deadline() <= Instant::now());
        // Later, twice, without being polled between; it is still waiting when the first timer expires.
        let end = Instant::now() + Duration::from_millis(10);
        sleep.reset(end + Duration::from_secs(1000));
        sleep.reset(end);
        (&mut sleep).await;
        assert!(Instant::now() >= end);
        // Earlier, and after it has ended.
        sleep.reset(end + Duration::from_secs(1000));
        assert!(poll_once(&mut sleep).await.is_none());
        sleep.reset(end);
        (&mut sleep).await;
        sleep.reset(end + Duration::from_secs(1000));
        assert!(poll_once(&mut sleep).await.is_none());
    });
    assert_eq!(runtime.timers(), 1);
    drop(sleep);
    assert_eq!(runtime.timers(), 0);
}

#[test]
fn timeouts() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let short = Duration::from_millis(5);
        let read = other.read(Vec::with_capacity(8));
        assert_eq!(time::timeout(short, read).await.unwrap_err(), Elapsed);
        let deadline = Instant::now() + short;
        let read = other.read(Vec::with_capacity(8));
        assert!(time::timeout_at(deadline, read).await.is_err());
        one.write_all("x").await.0.unwrap();
        let read = other.read(Vec::with_capacity(8));
        let (result, _) = time::timeout(Duration::from_secs(100), read).await.unwrap();
        assert_eq!(result.unwrap(), 1);
        let error = std::io::Error::from(Elapsed);
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        // A time-out that `Instant` cannot represent.
        assert_eq!(time::timeout(Duration::MAX, async { 1 }).await, Ok(1));
        assert!(
            time::timeout(short, time::sleep(Duration::MAX))
                .await
                .is_err()
        );
    });
}

#[test]
fn intervals_leave_out_what_they_missed() {
    each(all(), async |_| {
        let period = Duration::from_millis(10);
        let start = Instant::now();
        let mut interval = time::interval(period);
        let first = interval.tick().await;
        assert!(first >= start + period);
        let mut before = first;
        for _ in 0..3 {
            // Blocks all tasks: three ticks are missed, or more on a busy machine.
            let asleep = Instant::now();
            std::thread::sleep(3 * period);
            let due = interval.tick().await;
            assert!(due > before && (due - first).as_nanos() % period.as_nanos() == 0);
            before = due;
            let next = interval.tick().await;
            assert!(
                next >= asleep + 3 * period,
                "ticks that were missed came in a burst"
            );
            before = before.max(next);
        }
    });
}

#[test]
fn the_clock_of_the_kernel() {
    each(all(), async |_| {
        let start = Instant::now();
        submit(laio::ops::Sleep::new(Duration::from_millis(10)))
            .await
            .unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10));
    });
}
