//! Additional contexts of a runtime, for operations that need another back end than the runtime's own.

use crate::executor::Core;
use crate::limits;
use crate::submission::Engine;
use laio::ops::Readiness;
use laio::{Options, Outcome, Ticket};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Identifies a context of a runtime; see [`Runtime::add_context`](crate::Runtime::add_context).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextId(usize);

impl ContextId {
    /// The runtime's own context.
    pub const OWN: ContextId = ContextId(0);
}

/// The additional contexts of a runtime. Only the runtime's own context sleeps: for each additional one that
/// has operations in flight, it runs an operation that waits until that context's descriptor is readable.
#[derive(Default)]
pub(crate) struct ExtraContexts([OnceCell<ExtraContext>; limits::EXTRA_CONTEXTS]);

struct ExtraContext {
    engine: RefCell<Engine>,
    /// The context's pollable descriptor: readable when it has completions.
    events: EventsFd,
    /// The readiness operation on `events`, if one is in flight in the runtime's own context.
    wait: Cell<Option<Ticket<Readiness<EventsFd>>>>,
    /// Set when `wait` has completed.
    readable: Arc<ReadableFlag>,
}

#[derive(Clone)]
struct EventsFd(Rc<OwnedFd>);

impl AsFd for EventsFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A waker that sets a flag.
#[derive(Default)]
struct ReadableFlag(AtomicBool);

impl Wake for ReadableFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Core {
    pub(crate) fn add_context(&self, options: Options) -> io::Result<ContextId> {
        let mut context = laio::Context::new(options)?;
        let events = context.descriptor()?.try_clone_to_owned()?;
        let extra = ExtraContext {
            engine: RefCell::new(Engine::new(context)),
            events: EventsFd(Rc::new(events)),
            wait: Cell::default(),
            readable: Arc::default(),
        };
        let free = self.extra.0.iter().position(|slot| slot.get().is_none());
        let full = || {
            let most = limits::EXTRA_CONTEXTS;
            io::Error::other(format!(
                "a runtime has at most {most} contexts besides its own"
            ))
        };
        let index = free.ok_or_else(full)?;
        let _ = self.extra.0[index].set(extra);
        Ok(ContextId(index + 1))
    }

    /// Returns the engine of a context of this runtime.
    #[inline]
    pub(crate) fn engine_of(&self, id: ContextId) -> &RefCell<Engine> {
        match id {
            ContextId::OWN => &self.engine,
            ContextId(number) => self.extra_engine(number),
        }
    }

    #[cold]
    fn extra_engine(&self, number: usize) -> &RefCell<Engine> {
        let extra = self.extra.0.get(number - 1).and_then(OnceCell::get);
        &extra.expect("the context is another runtime's").engine
    }

    /// Adds the wakers of operations that have finished in the additional contexts to `woken`, and starts the
    /// readiness operations that wake the runtime's own context for the next ones. Returns whether further
    /// completions are available now.
    pub(crate) fn reap_extra(&self, woken: &mut Vec<Waker>) -> io::Result<bool> {
        let mut more = false;
        for extra in self.extra.0.iter().map_while(OnceCell::get) {
            if extra.readable.0.swap(false, Ordering::Relaxed) {
                if let Some(wait) = extra.wait.take() {
                    // Only frees the slot: the poll below finds the completions.
                    let _ = self.engine.borrow_mut().context.take(wait);
                }
                let mut engine = extra.engine.borrow_mut();
                engine.reap(Some(Duration::ZERO), woken)?;
            }
            more |= self.wait_for_events(extra)?;
        }
        Ok(more)
    }

    /// Starts the readiness operation of a context that has operations in flight, unless one runs already.
    /// Returns whether the context has completions now.
    fn wait_for_events(&self, extra: &ExtraContext) -> io::Result<bool> {
        let wait = extra.wait.take();
        let is_waiting = wait.is_some();
        extra.wait.set(wait);
        if is_waiting || extra.engine.borrow().context.pending() == 0 {
            return Ok(false);
        }
        let waker = Waker::from(extra.readable.clone());
        let readable = Readiness::readable(extra.events.clone());
        match self.engine.borrow_mut().start(readable, &waker) {
            Outcome::Pending(wait) => extra.wait.set(Some(wait)),
            Outcome::Done(result) => {
                result?;
                waker.wake();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the additional contexts drop their cached facts about a descriptor that is about to be closed.
    pub(crate) fn forget_in_extra(&self, fd: RawFd) {
        for extra in self.extra.0.iter().map_while(OnceCell::get) {
            if let Ok(mut engine) = extra.engine.try_borrow_mut() {
                engine.context.forget(fd);
            }
        }
    }
}
