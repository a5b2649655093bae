//! Which way a class of calls goes in each back end.

use crate::table::Class;
use crate::{BackendKind, Options};

/// The way of each class in a back end.
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
            (BackendKind::Activations, Class::Stream) if !options.pure => Strategy::Try,
            // In pieces: a helper puts them together.
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

/// How a class of calls goes in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The call itself.
    Plain,
    /// An attempt first.
    Try,
    /// The call itself, carried on elsewhere if it blocks.
    Carry,
    /// To the background at once.
    Background,
}
