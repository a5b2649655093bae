//! The strategy of each back end for each class of calls.

use crate::table::Class;
use crate::testing::Inject;
use crate::{BackendKind, Options};

/// Returns the strategy for each class in a back end.
pub(crate) fn of(kind: BackendKind, options: &Options) -> [Strategy; Class::COUNT] {
    let inject = options.inject;
    let mut strategies = [Strategy::Plain; Class::COUNT];
    for class in Class::ALL {
        let strategy = match (kind, class) {
            (_, Class::Thread | Class::Refused) | (BackendKind::Sync, _) => Strategy::Plain,
            (BackendKind::Threads, _) => Strategy::Background,
            (_, Class::Instant) => Strategy::Plain,
            (kind, Class::Stream) if kind.is_hybrid() => Strategy::Try,
            (BackendKind::Hybrid | BackendKind::Uring, _) => Strategy::Background,
            (BackendKind::PosixAio | BackendKind::LinuxAio, _) => Strategy::Background,
            (BackendKind::Lazy, _) => Strategy::Try,
            (BackendKind::Activations, Class::Stream) if !options.carry_streams => Strategy::Try,
            // A helper completes the injected short transfers.
            (BackendKind::Activations, _) if inject.short_transfer > 0 => Strategy::Background,
            (BackendKind::Activations, _) => Strategy::Carry,
        };
        strategies[class as usize] = match strategy {
            Strategy::Try | Strategy::Carry | Strategy::Background if inject.force_inline => {
                Strategy::Plain
            }
            Strategy::Try | Strategy::Carry if inject.force_block => Strategy::Background,
            strategy => strategy,
        };
    }
    strategies
}

/// How a context makes the calls of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Make the call itself, inline.
    Plain,
    /// Attempt it without blocking, then use the background.
    Try,
    /// Make the call itself; if it blocks, a spare carrier continues the program.
    Carry,
    /// Start it in the background without an attempt.
    Background,
}

/// Which calls a context attempts on the fast path; see [`crate::knowledge::Knowledge::try_fast`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FastPaths {
    pub(crate) streams: bool,
    pub(crate) files: bool,
}

impl FastPaths {
    pub(crate) fn new(
        strategies: &[Strategy; Class::COUNT],
        nowait: bool,
        inject: Inject,
    ) -> FastPaths {
        let no_injection = nowait && inject == Inject::default();
        FastPaths {
            streams: no_injection && strategies[Class::Stream as usize] == Strategy::Try,
            files: no_injection && strategies[Class::FileRead as usize] == Strategy::Try,
        }
    }
}
