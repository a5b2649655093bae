//! The strategies of a comparison: plain threads, or one thread with a back end of laio.

use crate::calls::CallVariant;
use laio::{BackendKind, Options};

/// A strategy to execute the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Threads that make plain calls, as many as requests in flight.
    Plain,
    /// One thread and a back end.
    Backend(CallVariant),
    /// `lazy` with `trust_names`.
    Trusting,
    /// Two threads with a context of `lazy` each.
    TwoThreads,
}

/// The name of the reference of all ratios.
pub(crate) const PLAIN: &str = "plain threads";
pub(crate) const TRUSTING: &str = "lazy-trusting";
const TWO_THREADS: &str = "lazy-2-threads";

impl Strategy {
    pub(crate) const ALL: [Strategy; 11] = [
        Strategy::Plain,
        Strategy::Backend(CallVariant::Backend(BackendKind::Threads)),
        Strategy::Backend(CallVariant::Backend(BackendKind::Hybrid)),
        Strategy::Backend(CallVariant::Backend(BackendKind::PosixAio)),
        Strategy::Backend(CallVariant::Backend(BackendKind::LinuxAio)),
        Strategy::Backend(CallVariant::Backend(BackendKind::Uring)),
        Strategy::Backend(CallVariant::LazyEpoll),
        Strategy::Backend(CallVariant::Backend(BackendKind::Lazy)),
        Strategy::Trusting,
        Strategy::TwoThreads,
        Strategy::Backend(CallVariant::Backend(BackendKind::Activations)),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Strategy::Plain => PLAIN,
            Strategy::Backend(variant) => variant.name(),
            Strategy::Trusting => TRUSTING,
            Strategy::TwoThreads => TWO_THREADS,
        }
    }

    /// The number of threads that have a context.
    pub(crate) fn threads(self) -> usize {
        match self {
            Strategy::TwoThreads => 2,
            _ => 1,
        }
    }

    /// Returns the options of its context, if it has one, for this many calls in flight.
    pub(crate) fn options(self, in_flight: usize) -> Option<Options> {
        let options = match self {
            Strategy::Plain => return None,
            Strategy::Backend(variant) => variant.options(false)?,
            Strategy::TwoThreads => Options::new()
                .backend(BackendKind::Lazy)
                .rights(laio::Rights::Settled),
            Strategy::Trusting => Options::new()
                .backend(BackendKind::Lazy)
                .trust_names(true)
                .rights(laio::Rights::Settled),
        };
        // As published: as many helpers as operations.
        Some(options.helpers(in_flight as u32))
    }
}
