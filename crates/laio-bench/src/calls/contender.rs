//! What is compared with the plain call.

use laio::{BackendKind, Options};
use std::fmt;
use std::str::FromStr;

/// A way to make calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// A context with this back end.
    Backend(BackendKind),
    /// `lazy` without io_uring, as in a container that forbids it.
    LazyEpoll,
    /// `linux-aio` that lets `io_submit` block, as programs do that use it for buffered I/O.
    LinuxAioBlocking,
    /// io_uring with nothing around it, in the rows where calls block.
    BareRing,
    /// The library's own system-call instruction with nothing around it, against that of the C library.
    Direct,
}

impl Contender {
    /// Those that are measured unless some are named.
    pub const USUAL: &[Contender] = &[
        Contender::Backend(BackendKind::Sync),
        Contender::Backend(BackendKind::Threads),
        Contender::Backend(BackendKind::Hybrid),
        Contender::Backend(BackendKind::PosixAio),
        Contender::Backend(BackendKind::LinuxAio),
        Contender::Backend(BackendKind::Uring),
        Contender::Backend(BackendKind::Lazy),
        Contender::Backend(BackendKind::Activations),
        Contender::LazyEpoll,
        Contender::BareRing,
    ];

    /// All that can be named.
    pub fn all() -> impl Iterator<Item = Contender> {
        Contender::USUAL
            .iter()
            .copied()
            .chain([Contender::LinuxAioBlocking, Contender::Direct])
    }

    /// The name in tables and arguments.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Backend(kind) => kind.name(),
            Contender::LazyEpoll => "lazy-epoll",
            Contender::LinuxAioBlocking => "linux-aio-blocking",
            Contender::BareRing => "bare-ring",
            Contender::Direct => "direct",
        }
    }

    /// How its context is made; none if it has no context.
    pub(crate) fn options(self, trust_names: bool) -> Option<Options> {
        let options = match self {
            Contender::Backend(kind) => Options::new().backend(kind),
            Contender::LazyEpoll => Options::new().backend(BackendKind::Lazy).without_ring(true),
            Contender::LinuxAioBlocking => Options::new()
                .backend(BackendKind::LinuxAio)
                .aio_blocking(true),
            Contender::BareRing | Contender::Direct => return None,
        };
        // Measurements keep their rights.
        Some(options.trust_names(trust_names).settled_rights(true))
    }

    /// Whether it has threads make calls that another way would make itself.
    pub(super) fn delegates(self) -> bool {
        let delegating = [
            BackendKind::Threads,
            BackendKind::Hybrid,
            BackendKind::PosixAio,
            BackendKind::LinuxAio,
        ];
        delegating.map(Contender::Backend).contains(&self)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(name: &str) -> Result<Contender, String> {
        Contender::all()
            .find(|contender| contender.name() == name)
            .ok_or_else(|| {
                let known: Vec<_> = Contender::all().map(Contender::name).collect();
                format!(
                    "there is no back end `{name}`; there are {}",
                    known.join(", ")
                )
            })
    }
}
