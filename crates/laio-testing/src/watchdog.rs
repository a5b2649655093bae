//! No test hangs without a limit: if a test makes no progress for too long, the program reports its state and
//! ends.
//!
//! Rust's test harness has no time limit for a test. Here every helper of this crate registers the test that
//! calls it ([`enter`]), and a thread checks all registered tests. A test that legitimately takes long names
//! its next step ([`step`]), which restarts its time limit. The report names the running tests, their
//! durations and current steps, and the kernel function in which each thread of the process waits.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::child_mark::is_child;

/// The name of the variable with the seconds for which a test may make no progress.
pub const LIMIT: &str = "LAIO_TEST_LIMIT";

/// The default limit. It detects hangs, not slowness.
const DEFAULT_LIMIT: Duration = Duration::from_secs(300);

/// The interval between two checks of the watchdog.
const PERIOD: Duration = Duration::from_millis(500);

/// The watched tests, or parts of tests.
static RUNNING: Mutex<Vec<Watch>> = Mutex::new(Vec::new());

struct Watch {
    id: u64,
    what: String,
    since: Instant,
    step: Option<String>,
    /// Advanced by each step.
    end: Instant,
}

std::thread_local! {
    /// The registration of the test that this thread runs, which ends with the thread. Each test has a thread
    /// of its own.
    static OF_THREAD: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Registers the test that the calling thread runs, if any: the harness names the thread after the test.
///
/// Children of [`child::run`](crate::child::run) are not registered: their parent has a limit for them.
pub fn enter() {
    // The thread may be exiting.
    let _ = OF_THREAD.try_with(|own| {
        let Ok(mut own) = own.try_borrow_mut() else {
            return;
        };
        if own.is_none() && !is_child() {
            let thread = std::thread::current();
            let name = thread.name().filter(|name| name.contains("::"));
            *own = name.map(watch);
        }
    });
}

/// Names the next step of the calling thread's test, and restarts its time limit.
pub fn step(what: impl fmt::Display) {
    extend(limit(), Some(what.to_string()));
}

/// Grants the calling thread's test this much additional time for its next step.
pub(crate) fn allow(time: Duration) {
    extend(limit() + time, None);
}

fn extend(time: Duration, step: Option<String>) {
    enter();
    let _ = OF_THREAD.try_with(|own| {
        let Ok(own) = own.try_borrow() else { return };
        let Some(Watched(id)) = *own else { return };
        if let Some(watch) = running().iter_mut().find(|watch| watch.id == id) {
            watch.end = Instant::now() + time;
            watch.step = step.or(watch.step.take());
        }
    });
}

/// Ends the watch when dropped.
#[derive(Debug)]
#[must_use = "it watches for as long as it lives"]
pub struct Watched(u64);

/// Watches code on any thread, in children too: the process ends if it takes longer than the limit.
pub fn watch(what: &str) -> Watched {
    static STARTED: OnceLock<()> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    STARTED.get_or_init(|| {
        let thread = std::thread::Builder::new().name("watchdog".into());
        thread.spawn(look).expect("a thread for the watchdog");
    });
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = Instant::now();
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let what = if test == what {
        test
    } else {
        format!("{test} in {what}")
    };
    running().push(Watch {
        id,
        what,
        since: now,
        step: None,
        end: now + limit(),
    });
    Watched(id)
}

impl Drop for Watched {
    fn drop(&mut self) {
        running().retain(|watch| watch.id != self.0);
    }
}

fn limit() -> Duration {
    static ASKED: OnceLock<Duration> = OnceLock::new();
    *ASKED.get_or_init(|| match std::env::var(LIMIT) {
        Err(_) => DEFAULT_LIMIT,
        Ok(text) => {
            let seconds = text.parse();
            Duration::from_secs(seconds.unwrap_or_else(|_| panic!("{LIMIT}={text}: no seconds")))
        }
    })
}

/// How many times as long as usual anything may take here: as the variable says, and at least once.
pub(crate) fn slowness() -> u32 {
    let times = limit().as_secs() / DEFAULT_LIMIT.as_secs();
    u32::try_from(times).unwrap_or(u32::MAX).max(1)
}

fn running() -> MutexGuard<'static, Vec<Watch>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look() {
    loop {
        std::thread::sleep(PERIOD);
        let report = {
            let running = running();
            let now = Instant::now();
            let mut late = running.iter().filter(|watch| watch.end < now);
            late.next().map(|late| report(late, &running))
        };
        if let Some(report) = report {
            // Not through the harness, which captures the output of tests until they end.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), report.as_bytes());
            std::process::abort();
        }
    }
}

fn report(late: &Watch, running: &[Watch]) -> String {
    let mut text = format!(
        "\nwatchdog: {} makes no progress ({LIMIT} says for how many seconds it may not): the program ends\n",
        late.what
    );
    text.push_str("tests that run:\n");
    for watch in running {
        let (what, age) = (&watch.what, watch.since.elapsed().as_secs());
        let _ = write!(text, "    {what}, for {age} s");
        if let Some(step) = &watch.step {
            let _ = write!(text, ", at step: {step}");
        }
        text.push('\n');
    }
    text.push_str("threads, and what they wait for in the kernel:\n");
    text.push_str(&threads());
    text
}

/// A line for each thread of this process: its name, where it waits in the kernel, and the system call.
pub fn threads() -> String {
    let mut text = String::new();
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    for task in tasks.flatten() {
        thread(&mut text, &task.path());
    }
    text
}

/// The kernel's state of a thread; most users may not read its stack.
fn thread(text: &mut String, task: &Path) {
    let shown = |name: &str| {
        let contents = std::fs::read_to_string(task.join(name)).unwrap_or_default();
        contents.trim().to_owned()
    };
    let id = task.file_name().unwrap_or_default().to_string_lossy();
    let (name, wait, call) = (shown("comm"), shown("wchan"), shown("syscall"));
    let _ = writeln!(text, "    {id} {name}: {wait}; call {call}");
    for line in shown("stack").lines().take(8) {
        let _ = writeln!(text, "        {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{child, test_name};

    /// In a child with a limit of a second.
    #[test]
    fn a_hang_ends_the_program_and_says_where() {
        let limit = Duration::from_secs(120);
        let ended = child::run_with(limit, test_name!(), "hangs", &[(LIMIT, "1")], || {
            let test = std::thread::Builder::new().name("suite::a_test".into());
            let hangs = test.spawn(|| {
                // As if this were not a child.
                OF_THREAD.set(Some(watch("suite::a_test")));
                step("the last one");
                loop {
                    std::thread::park();
                }
            });
            let _ = hangs.expect("a thread").join();
        });
        let Some(ended) = ended else { return };
        assert!(!ended.finished);
        for words in [
            "watchdog: suite::a_test makes no progress",
            "at step: the last one",
            "suite::a_test: ",
        ] {
            assert!(ended.output.contains(words), "{words}: {}", ended.output);
        }
    }

    #[test]
    fn a_test_is_watched_until_its_thread_ends() {
        let test = |name: &'static str| {
            let thread = std::thread::Builder::new().name(name.into());
            let body = move || {
                enter();
                running().iter().any(|watch| watch.what == name)
            };
            thread
                .spawn(body)
                .expect("a thread")
                .join()
                .expect("it ends")
        };
        assert!(test("watched::test"));
        assert!(!test("not a test"));
        assert!(running().iter().all(|watch| watch.what != "watched::test"));
    }
}
