//! Which way a class of calls goes in each back end.

use crate::table::Class;
use crate::{BackendKind, Options};

/// The way of each class in a back end.
pub(crate) fn of(kind: BackendKind, options: &Options) -> [Way; Class::COUNT] {
    let inject = options.inject;
    let mut ways = [Way::Plain; Class::COUNT];
    for class in Class::ALL {
        let way = match (kind, class) {
            (_, Class::Thread | Class::Refused) | (BackendKind::Sync, _) => Way::Plain,
            (BackendKind::Threads, _) => Way::Background,
            (_, Class::Instant) => Way::Plain,
            (kind, Class::Stream) if kind.is_hybrid() => Way::Try,
            (BackendKind::Hybrid | BackendKind::Uring, _) => Way::Background,
            (BackendKind::PosixAio | BackendKind::LinuxAio, _) => Way::Background,
            (BackendKind::Lazy, _) => Way::Try,
            (BackendKind::Activations, Class::Stream) if !options.pure => Way::Try,
            // In pieces: a helper puts them together.
            (BackendKind::Activations, _) if inject.short_transfer > 0 => Way::Background,
            (BackendKind::Activations, _) => Way::Carry,
        };
        ways[class as usize] = match way {
            Way::Try | Way::Carry | Way::Background if inject.force_inline => Way::Plain,
            Way::Try | Way::Carry if inject.force_block => Way::Background,
            way => way,
        };
    }
    ways
}

/// How a class of calls goes in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The call itself.
    Plain,
    /// An attempt first.
    Try,
    /// The call itself, carried on elsewhere if it blocks.
    Carry,
    /// To the background at once.
    Background,
}
