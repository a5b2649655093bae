//! The progress line on a terminal.

use crate::outcome::Tally;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A line on standard error that shows the progress; `None` if progress is off.
#[derive(Clone)]
pub(crate) struct Progress(Option<ProgressBar>);

/// The refresh interval.
const PERIOD: Duration = Duration::from_millis(200);

impl Progress {
    pub(crate) fn new(wanted: bool) -> Progress {
        Progress(wanted.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is a valid constant.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        }))
    }

    /// Runs an action that writes to the terminal, with the line hidden.
    pub(crate) fn while_hidden<R>(&self, action: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(action),
            None => action(),
        }
    }

    /// Starts a thread that draws the line until [`Drawing::stop`].
    pub(crate) fn start(&self, tally: Arc<Tally>) -> Option<Drawing> {
        let bar = self.0.clone()?;
        let over = Arc::new(AtomicBool::new(false));
        let stop_requested = over.clone();
        let thread = std::thread::Builder::new()
            .name("laio-cp-progress".to_owned())
            .spawn(move || {
                let started = Instant::now();
                while !stop_requested.load(Ordering::Relaxed) {
                    bar.set_message(line(&tally, started.elapsed()));
                    bar.tick();
                    std::thread::park_timeout(PERIOD);
                }
                bar.finish_and_clear();
            });
        Some(Drawing {
            over,
            thread: thread.ok()?,
        })
    }
}

/// The drawing thread.
pub(crate) struct Drawing {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Drawing {
    /// Stops the thread and clears the line.
    pub(crate) fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        // Its panic was printed by the panic hook, and affects only the display.
        let _ = self.thread.join();
    }
}

/// The text of the line. The total is unknown until the walk ends, so the remaining time refers to
/// the files found so far.
fn line(tally: &Tally, elapsed: Duration) -> String {
    let done = tally.sum(|all| &all.files)
        + tally.sum(|all| &all.others)
        + tally.sum(|all| &all.linked)
        + tally.sum(|all| &all.skipped);
    let found = tally.sum(|all| &all.found).max(done);
    let bytes = tally.sum(|all| &all.bytes);
    let seconds = elapsed.as_secs_f64().max(0.001);
    let rate = HumanBytes((bytes as f64 / seconds) as u64);
    let mut line = format!(
        "{} of {} files, {} directories, {}, {rate}/s",
        HumanCount(done),
        HumanCount(found),
        HumanCount(tally.sum(|all| &all.directories)),
        HumanBytes(bytes),
    );
    let failures = tally.sum(|all| &all.failures);
    if failures > 0 {
        line.push_str(&format!(", {} failed", HumanCount(failures)));
    }
    if done > 0 && found > done {
        let left = seconds * (found - done) as f64 / done as f64;
        line.push_str(&format!(", {} s left", left.ceil() as u64));
    }
    line
}
