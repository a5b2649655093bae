//! What a context consists of and what it has noticed, for reports and diagnostics.

use crate::background::activations::Activations;
use crate::context::Context;
use crate::knowledge::mounts::Mount;
use crate::knowledge::tracer;
use crate::operations::Slot;
use crate::step::Next;
use crate::{BackendKind, Detector, Limits};
use std::fmt;

impl Context {
    /// Describes the context.
    ///
    /// ```
    /// use laio::{BackendKind, Context, Options};
    /// let context = Context::new(Options::new().backend(BackendKind::Lazy).ring(false))?;
    /// let info = context.info();
    /// assert_eq!((info.backend(), info.has_ring()), (BackendKind::Lazy, false));
    /// println!("{info:?}");
    /// # Ok::<(), laio::Errno>(())
    /// ```
    pub fn info(&self) -> Info<'_> {
        Info(self)
    }
}

/// The description of a context; see [`Context::info`].
#[derive(Clone, Copy)]
pub struct Info<'a>(&'a Context);

impl<'a> Info<'a> {
    /// The back end in use.
    pub fn backend(self) -> BackendKind {
        self.0.kind
    }

    /// Whether operations go to an io_uring.
    pub fn has_ring(self) -> bool {
        self.0.has_ring()
    }

    /// The program that traces this process and may change the names in its calls, as `NAME (PID)`;
    /// found when the process first made a context. `lazy` then uses no io_uring and no non-blocking
    /// `open`, whose names it would not change. A debugger (strace, gdb, lldb, ltrace) is none.
    pub fn traced_by(self) -> Option<&'static str> {
        tracer::rewriting()
    }

    /// Whether reads of files can be tried without waiting (`RWF_NOWAIT`) where the file system can.
    pub fn can_try_reads(self) -> bool {
        self.0.knowledge.facts.nowait
    }

    /// Whether names can be opened without waiting (`RESOLVE_CACHED`) where they are cached.
    pub fn can_try_opens(self) -> bool {
        self.0.knowledge.facts.cached_open
    }

    /// The limits in force.
    pub fn limits(self) -> &'a Limits {
        &self.0.limits
    }

    /// The file systems seen so far, which non-blocking attempts each is known not to support, and
    /// how calls on its files went. A file system is listed as soon as a call on one of its files
    /// would have blocked, or had no attempt.
    pub fn mounts(self) -> impl Iterator<Item = &'a Mount> {
        self.0.knowledge.mounts.iter()
    }

    /// The file systems that hang: remote ones that have answered none of the calls that helpers make for
    /// [`Limits::HUNG_AFTER`]. Their calls wait for helpers of their own; calls on other file systems go on.
    pub fn hung_mounts(self) -> impl Iterator<Item = &'a Mount> {
        let hung: Vec<u64> = self.0.background.unanswered().hung().collect();
        self.mounts()
            .filter(move |mount| hung.contains(&mount.device))
    }

    /// The number of live helper threads, including those that make a single call (see
    /// [`Rights::Settled`](crate::Rights::Settled)).
    pub fn helper_threads(self) -> usize {
        self.0.background.helper_threads()
    }

    /// The number of kernel threads of `activations`, without the thread's own; the contexts of a
    /// thread share them.
    pub fn carriers(self) -> usize {
        self.0
            .background
            .carriers()
            .map_or(0, Activations::carriers)
    }

    /// The detector by which `activations` notices that a call blocks.
    pub fn detector(self) -> Option<Detector> {
        self.0.background.carriers().map(Activations::detector)
    }

    /// Whether the kernel threads of `activations` have the same credentials, filters and
    /// namespaces. They differ if the program changed its own other than through laio, which it
    /// must not do while the context lives.
    pub fn carriers_agree(self) -> bool {
        let activations = self.0.background.carriers();
        activations.is_none_or(Activations::carriers_agree)
    }

    /// Bytes of memory that the context holds for operations and descriptors, without the stacks of
    /// helpers and the kernel's side of the ring.
    pub fn memory(self) -> usize {
        let context = self.0;
        size_of::<Context>()
            + context.operations.memory()
            + context.background.memory()
            + context.knowledge.hints.memory()
            + context.steps.capacity() * size_of::<(Slot, Next)>()
            + context.stats.calls.len() * size_of::<crate::Counts>()
    }
}

impl fmt::Debug for Info<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("backend", &self.backend())
            .field("has_ring", &self.has_ring())
            .field("traced_by", &self.traced_by())
            .field("can_try_reads", &self.can_try_reads())
            .field("can_try_opens", &self.can_try_opens())
            .field("limits", self.limits())
            .field("helper_threads", &self.helper_threads())
            .field("carriers", &self.carriers())
            .field("detector", &self.detector())
            .field("memory", &self.memory())
            .finish()
    }
}
