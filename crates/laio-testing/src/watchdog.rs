//! No test hangs for ever: when one makes no progress for too long, the program says where it stands, and ends.
//!
//! The harness of Rust has no limit for a test. Here every helper of this crate notes the test that calls it
//! ([`enter`]), and a thread looks at all of them. A test that takes long for good reasons says what it does next
//! ([`step`]), which gives it as long again. The report names the tests that run, for how long, and at which step; and what
//! each thread of the process waits for in the kernel.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::child;

/// The name of the variable that says for how many seconds a test may make no progress.
pub const LIMIT: &str = "LAIO_TEST_LIMIT";

/// The limit without that variable. It is about "hangs", not about "slow".
const DEFAULT_LIMIT: Duration = Duration::from_secs(300);

/// How often the watchdog looks.
const PERIOD: Duration = Duration::from_millis(500);

/// What is being watched, one for each test or part of one.
static RUNNING: Mutex<Vec<Watch>> = Mutex::new(Vec::new());

struct Watch {
    id: u64,
    what: String,
    since: Instant,
    step: Option<String>,
    /// Moved on by each step.
    end: Instant,
}

std::thread_local! {
    /// The watch over the test that this thread runs. It ends with the thread, and a test has one of its own.
    static OF_THREAD: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

/// Notes that the calling thread runs a test, if it does: the harness gives the thread the test's name.
///
/// Children of [`child::run`] are not watched by it: their parent has a limit for them.
pub fn enter() {
    // The thread may be about to end.
    let _ = OF_THREAD.try_with(|own| {
        let Ok(mut own) = own.try_borrow_mut() else {
            return;
        };
        if own.is_none() && !child::is_child() {
            let thread = std::thread::current();
            let name = thread.name().filter(|name| name.contains("::"));
            *own = name.map(watch);
        }
    });
}

/// Notes what the calling thread's test does next, and gives it the whole limit again.
pub fn step(what: impl fmt::Display) {
    extend(limit(), Some(what.to_string()));
}

/// Gives the calling thread's test so much time for what it does next, and the usual limit besides.
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

/// Stops watching when dropped.
#[derive(Debug)]
#[must_use = "it watches for as long as it lives"]
pub struct Watched(u64);

/// Watches something on whatever thread, in children too: from now on the process ends when it takes longer than the limit.
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
    let what = match test == what {
        true => test,
        false => format!("{test} in {what}"),
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
            // Not through the harness, which keeps what tests print until they end.
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
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    for task in tasks.flatten() {
        thread(&mut text, &task.path());
    }
    text
}

/// What the kernel shows of a thread; to most users it shows no stack.
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
                // As if this were no child.
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
