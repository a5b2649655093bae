//! Nothing hangs for ever: a test that takes too long ends the process with a word about which it was.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// When something takes this long, the process is aborted with a word about what it was.
const WATCHDOG: Duration = Duration::from_secs(300);

/// The tests that run, for the watchdog.
static RUNNING: Mutex<Vec<(u64, String, Instant)>> = Mutex::new(Vec::new());

/// Stops watching when dropped.
pub(crate) struct Watched(u64);

/// From now on the process is aborted when this takes too long: nothing hangs for ever.
pub(crate) fn watch(what: &str) -> Watched {
    static STARTED: OnceLock<()> = OnceLock::new();
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    STARTED.get_or_init(|| {
        std::thread::Builder::new()
            .name("watchdog".into())
            .spawn(watchdog)
            .expect("a thread for the watchdog");
    });
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    running().push((id, format!("{test} in {what}"), Instant::now()));
    Watched(id)
}

impl Drop for Watched {
    fn drop(&mut self) {
        running().retain(|(id, ..)| *id != self.0);
    }
}

fn running() -> std::sync::MutexGuard<'static, Vec<(u64, String, Instant)>> {
    RUNNING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn watchdog() {
    loop {
        std::thread::sleep(Duration::from_millis(500));
        for (_, what, since) in running().iter() {
            if since.elapsed() > WATCHDOG {
                eprintln!("watchdog: {what} has not ended after {WATCHDOG:?}: aborting");
                std::process::abort();
            }
        }
    }
}
