//! What each back end is composed of: a strategy for each class of calls, and the parts of the
//! background.

use crate::knowledge::tracer;
use crate::table::Class;
use crate::testing::Inject;
use crate::{BackendKind, Options};

/// What a context is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Composition {
    pub(crate) strategies: [Strategy; Class::COUNT],
    pub(crate) ring: RingUse,
    /// Whether streams are waited for by readiness, with epoll if there is no ring.
    pub(crate) readiness: bool,
    pub(crate) aio: Option<AioLibrary>,
    pub(crate) carriers: bool,
    /// Whether plain calls may block the caller.
    pub(crate) blocks_inline: bool,
}

/// Whether operations go to an io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingUse {
    Never,
    IfAvailable,
    /// Without io_uring there is no context.
    Required,
}

/// The library of asynchronous file I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AioLibrary {
    Posix,
    Linux,
}

impl Composition {
    pub(crate) fn for_backend(kind: BackendKind, options: &Options) -> Composition {
        use BackendKind::*;
        let has_epoll = matches!(kind, Hybrid | PosixAio | LinuxAio | Lazy | Activations);
        Composition {
            strategies: Class::ALL.map(|class| strategy(kind, class, options)),
            ring: match kind {
                Uring => RingUse::Required,
                Lazy if !options.no_ring && tracer::rewriting().is_none() => RingUse::IfAvailable,
                _ => RingUse::Never,
            },
            readiness: has_epoll || kind == Uring,
            aio: match kind {
                PosixAio => Some(AioLibrary::Posix),
                // Activations use it where the kernel has it, for direct I/O that is expected to block.
                LinuxAio | Activations => Some(AioLibrary::Linux),
                _ => None,
            },
            carriers: kind == Activations,
            blocks_inline: kind == Sync,
        }
    }
}

/// The strategy for a class in a back end.
fn strategy(kind: BackendKind, class: Class, options: &Options) -> Strategy {
    use BackendKind::*;
    let inject = options.inject;
    let strategy = match (kind, class) {
        (_, Class::Thread | Class::Refused) | (Sync, _) => Strategy::Plain,
        (Threads, _) => Strategy::Background,
        (_, Class::Instant) => Strategy::Plain,
        (Hybrid | PosixAio | LinuxAio, Class::Stream) => Strategy::Try,
        (Hybrid | PosixAio | LinuxAio | Uring, _) => Strategy::Background,
        (Lazy, _) => Strategy::Try,
        (Activations, Class::Stream) if !options.carry_streams => Strategy::Try,
        // A helper completes the injected short transfers.
        (Activations, _) if inject.short_transfer > 0 => Strategy::Background,
        (Activations, _) => Strategy::Carry,
    };
    match strategy {
        Strategy::Try | Strategy::Carry | Strategy::Background if inject.force_inline => {
            Strategy::Plain
        }
        Strategy::Try | Strategy::Carry if inject.force_block => Strategy::Background,
        strategy => strategy,
    }
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
