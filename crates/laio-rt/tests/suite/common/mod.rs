//! Runs a test over all back ends, with a time limit.

#![allow(
    dead_code,
    reason = "`cancellation`, a program of its own, uses some of it"
)]

use laio::testing::Inject;
use laio::{BackendKind, Limits, Options};
use laio_rt::Runtime;
use laio_testing::watchdog;
use std::future::Future;
use std::time::{Duration, Instant};

/// A time limit far above the duration of any test, also for many back ends in turn on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Returns all back ends that the machine supports, with a name for each.
pub(crate) fn all() -> Vec<(&'static str, Options)> {
    let mut all = vec![("sync", Options::new().backend(BackendKind::Sync))];
    all.extend(waiting());
    all
}

/// Returns the back ends in which one task may wait while another runs.
pub(crate) fn waiting() -> Vec<(&'static str, Options)> {
    watchdog::enter();
    let kinds = BackendKind::ALL
        .into_iter()
        .filter(|&kind| kind != BackendKind::Sync);
    let mut all: Vec<_> = kinds
        .map(|kind| (kind.name(), Options::new().backend(kind)))
        .collect();
    let lazy = || Options::new().backend(BackendKind::Lazy);
    all.push(("lazy without a ring", lazy().ring(false)));
    // These force every call off the inline path.
    let inject = |change: fn(&mut Inject)| {
        let mut inject = Inject::default();
        change(&mut inject);
        lazy().inject(inject)
    };
    all.push((
        "lazy, always blocking",
        inject(|inject| inject.force_block = true),
    ));
    all.push((
        "lazy, attempts fail",
        inject(|inject| inject.attempts_fail = true),
    ));
    all.push(("lazy, short", inject(|inject| inject.short_transfer = 4099)));
    let short = inject(|inject| inject.short_transfer = 4099);
    all.push(("lazy without a ring, short", short.ring(false)));
    all.push(("lazy, false ends", inject(|inject| inject.false_eof = true)));
    let limits = Limits {
        inline_budget: 1,
        ..Limits::default()
    };
    all.push(("lazy, no budget", lazy().limits(limits)));
    for (_, options) in &mut all {
        // Every wait occupies a helper, so fewer helpers than waits would be a deadlock.
        *options = options.clone().helpers(1000);
    }
    all.retain(|(name, options)| is_there(name, options));
    all
}

/// Whether the machine supports a back end: io_uring, for example, may be forbidden.
fn is_there(name: &str, options: &Options) -> bool {
    let Err(errno) = laio::Context::new(options.clone()) else {
        return true;
    };
    let need = match name {
        "linux-aio" | "activations" => name,
        _ => "io_uring",
    };
    laio_testing::skip(need, format!("the back end {name}: {errno}"));
    false
}

/// Runs a test in a runtime for each of the back ends.
pub(crate) fn each<F>(back_ends: Vec<(&'static str, Options)>, test: impl Fn(&'static str) -> F)
where
    F: Future<Output = ()>,
{
    for (name, options) in back_ends {
        let started = Instant::now();
        watchdog::step(name);
        let runtime = Runtime::new(options).unwrap();
        runtime.block_on(test(name));
        drop(runtime);
        println!("{name}: {:?}", started.elapsed());
    }
}

/// Returns the number of open descriptors of the process.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until a condition holds; panics if it never does.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_async(what, async || holds()).await;
}

/// As [`eventually`], for an asynchronous condition.
pub(crate) async fn eventually_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        laio_rt::time::sleep(Duration::from_millis(2)).await;
    }
}
