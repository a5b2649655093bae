//! Contexts with carriers, in each way of noticing that a call blocks.

use laio::{BackendKind, Call, Context, Detector, Options, Outcome};
use std::time::{Duration, Instant};

/// Contexts that carry all calls, streams too, with each detector that works here.
pub(crate) fn for_each_detector(body: impl Fn(Context)) {
    for detector in [Detector::Perf, Detector::Idle] {
        let options = Options::new().backend(BackendKind::Activations);
        match Context::new(options.pure(true).detector(detector)) {
            Ok(context) => body(context),
            Err(errno) => println!("skipped: the detector {detector}: {errno}"),
        }
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

/// Fails when something has gone on for much too long.
pub(crate) struct Patience(Instant);

impl Patience {
    pub(crate) fn new() -> Patience {
        Patience(Instant::now())
    }

    #[track_caller]
    pub(crate) fn check(&self, what: impl FnOnce() -> String) {
        assert!(self.0.elapsed() < Duration::from_secs(60), "{}", what());
    }
}
