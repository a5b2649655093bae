//! Who does the work of a comparison: plain threads, or one thread with a back end of laio.

use crate::calls::Contender;
use laio::{BackendKind, Options};

/// A way to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Threads that make plain calls, as many as may be in flight.
    Plain,
    /// One thread and a back end.
    Backend(Contender),
    /// `lazy`, where names are promised to be harmless.
    Trusting,
}

/// The name of what others are compared with.
pub(crate) const PLAIN: &str = "plain threads";
pub(crate) const TRUSTING: &str = "lazy-trusting";

impl Way {
    pub(crate) const ALL: [Way; 10] = [
        Way::Plain,
        Way::Backend(Contender::Backend(BackendKind::Threads)),
        Way::Backend(Contender::Backend(BackendKind::Hybrid)),
        Way::Backend(Contender::Backend(BackendKind::PosixAio)),
        Way::Backend(Contender::Backend(BackendKind::LinuxAio)),
        Way::Backend(Contender::Backend(BackendKind::Uring)),
        Way::Backend(Contender::LazyEpoll),
        Way::Backend(Contender::Backend(BackendKind::Lazy)),
        Way::Trusting,
        Way::Backend(Contender::Backend(BackendKind::Activations)),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Plain => PLAIN,
            Way::Backend(contender) => contender.name(),
            Way::Trusting => TRUSTING,
        }
    }

    /// How its context is made, if it has one, for so many calls in flight.
    pub(crate) fn options(self, in_flight: usize) -> Option<Options> {
        let options = match self {
            Way::Plain => return None,
            Way::Backend(contender) => contender.options(false)?,
            Way::Trusting => Options::new()
                .backend(BackendKind::Lazy)
                .trust_names(true)
                .settled_rights(true),
        };
        // As published: as many helpers as operations.
        Some(options.helpers(in_flight as u32))
    }
}
