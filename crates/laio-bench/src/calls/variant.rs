//! The ways to make a call that are compared with the plain call.

use laio::{BackendKind, Options};
use std::fmt;
use std::str::FromStr;

/// A back end with options, or a raw system-call interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVariant {
    /// A context with this back end.
    Backend(BackendKind),
    /// `lazy` without io_uring, as in a container that forbids it.
    LazyEpoll,
    /// `linux-aio` whose `io_submit` may block, as in programs that use it for buffered I/O.
    LinuxAioBlocking,
    /// io_uring without laio, in the rows where calls block.
    BareRing,
    /// The library's own system-call instruction without laio, compared with that of the C library.
    Direct,
}

impl CallVariant {
    /// The variants measured by default.
    pub const USUAL: &[CallVariant] = &[
        CallVariant::Backend(BackendKind::Sync),
        CallVariant::Backend(BackendKind::Threads),
        CallVariant::Backend(BackendKind::Hybrid),
        CallVariant::Backend(BackendKind::PosixAio),
        CallVariant::Backend(BackendKind::LinuxAio),
        CallVariant::Backend(BackendKind::Uring),
        CallVariant::Backend(BackendKind::Lazy),
        CallVariant::Backend(BackendKind::Activations),
        CallVariant::LazyEpoll,
        CallVariant::BareRing,
    ];

    /// Returns all variants that can be named.
    pub fn all() -> impl Iterator<Item = CallVariant> {
        CallVariant::USUAL
            .iter()
            .copied()
            .chain([CallVariant::LinuxAioBlocking, CallVariant::Direct])
    }

    /// Returns the name in tables and arguments.
    pub fn name(self) -> &'static str {
        match self {
            CallVariant::Backend(kind) => kind.name(),
            CallVariant::LazyEpoll => "lazy-epoll",
            CallVariant::LinuxAioBlocking => "linux-aio-blocking",
            CallVariant::BareRing => "bare-ring",
            CallVariant::Direct => "direct",
        }
    }

    /// Returns the options of its context, if it has one.
    pub(crate) fn options(self, trust_names: bool) -> Option<Options> {
        let options = match self {
            CallVariant::Backend(kind) => Options::new().backend(kind),
            CallVariant::LazyEpoll => Options::new().backend(BackendKind::Lazy).ring(false),
            CallVariant::LinuxAioBlocking => Options::new()
                .backend(BackendKind::LinuxAio)
                .allow_blocking_aio(true),
            CallVariant::BareRing | CallVariant::Direct => return None,
        };
        // Measurements do not change their rights.
        Some(
            options
                .trust_names(trust_names)
                .rights(laio::Rights::Settled),
        )
    }

    /// Whether helper threads make calls that other back ends attempt inline.
    pub(super) fn delegates(self) -> bool {
        let delegating = [
            BackendKind::Threads,
            BackendKind::Hybrid,
            BackendKind::PosixAio,
            BackendKind::LinuxAio,
        ];
        delegating.map(CallVariant::Backend).contains(&self)
    }
}

impl fmt::Display for CallVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CallVariant {
    type Err = String;

    fn from_str(name: &str) -> Result<CallVariant, String> {
        CallVariant::all()
            .find(|variant| variant.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = CallVariant::all().map(CallVariant::name).collect();
                format!(
                    "there is no back end `{name}`; there are {}",
                    known.join(", ")
                )
            })
    }
}
