//! Contexts with carriers, for each detector.

use laio::{BackendKind, Call, Context, Detector, Options, Outcome};
use std::time::{Duration, Instant};

/// Contexts that carry all calls, including streams, with each detector that works here.
pub(crate) fn for_each_detector(body: impl Fn(Context)) {
    for detector in [Detector::Perf, Detector::Idle] {
        laio_testing::watchdog::step(detector);
        let options = Options::new().backend(BackendKind::Activations);
        match Context::new(options.carry_streams(true).detector(detector)) {
            Ok(context) => body(context),
            Err(errno) => lacks_detector(detector, errno),
        }
    }
}

/// Reports that a detector is missing.
fn lacks_detector(detector: Detector, errno: laio::Errno) {
    let need = match detector {
        Detector::Perf => "perf",
        _ => "activations",
    };
    lacks(need, format!("the detector {detector}: {errno}"));
}

/// Reports what is missing here. A child process may lack it because of its own filter, which is not a skip: most
/// tests run in the parent process too.
pub(crate) fn lacks(need: &'static str, reason: String) {
    if laio_testing::child::is_child() {
        println!("not available in this process: {reason}")
    } else {
        laio_testing::skip(need, reason)
    }
}

/// Makes a call whose pointers the caller keeps valid until it is over.
pub(crate) fn start<const N: usize>(
    context: &mut Context,
    number: libc::c_long,
    args: [usize; N],
) -> Outcome {
    // SAFETY: by the caller.
    unsafe { context.call(Call::new(number, args)) }
}

/// Fails the test after a generous time limit.
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn new() -> Deadline {
        Deadline(Instant::now())
    }

    #[track_caller]
    pub(crate) fn check(&self, what: impl FnOnce() -> String) {
        assert!(self.0.elapsed() < Duration::from_secs(60), "{}", what());
    }
}
