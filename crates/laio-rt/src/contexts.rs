//! The contexts of a runtime: its own, and additional ones for operations that need another back end.

use crate::engine::Engine;
use crate::limits;
use laio::ops::Readiness;
use laio::{Notifier, Options, Outcome, Rights, Ticket};
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

/// An action on an engine that was postponed because the engine was borrowed.
type Deferred = Box<dyn FnOnce(&mut Engine)>;

/// All contexts of a runtime. Only its own context sleeps: for each additional one that has operations in flight, it
/// runs an operation that waits until that context's descriptor is readable.
pub(crate) struct Contexts {
    own: RefCell<Engine>,
    extra: [OnceCell<ExtraContext>; limits::EXTRA_CONTEXTS],
    deferred: RefCell<Vec<(ContextId, Deferred)>>,
    /// Keeps the runtime's own context from sleeping while an action is deferred.
    notifier: Notifier,
}

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

impl Contexts {
    pub(crate) fn new(mut own: laio::Context) -> Contexts {
        Contexts {
            notifier: own.notifier(),
            own: RefCell::new(Engine::new(own)),
            extra: Default::default(),
            deferred: RefCell::default(),
        }
    }

    pub(crate) fn add(&self, options: Options) -> io::Result<ContextId> {
        let mut context = laio::Context::new(options.default_rights(Rights::Process))?;
        let events = context.descriptor()?.try_clone_to_owned()?;
        let extra = ExtraContext {
            engine: RefCell::new(Engine::new(context)),
            events: EventsFd(Rc::new(events)),
            wait: Cell::default(),
            readable: Arc::default(),
        };
        let free = self.extra.iter().position(|slot| slot.get().is_none());
        let full = || {
            let most = limits::EXTRA_CONTEXTS;
            io::Error::other(format!(
                "a runtime has at most {most} contexts besides its own"
            ))
        };
        let index = free.ok_or_else(full)?;
        let _ = self.extra[index].set(extra);
        Ok(ContextId(index + 1))
    }

    /// Returns the engine of a context of this runtime.
    #[inline]
    pub(crate) fn engine(&self, id: ContextId) -> &RefCell<Engine> {
        match id {
            ContextId::OWN => &self.own,
            ContextId(number) => self.extra_engine(number),
        }
    }

    #[cold]
    fn extra_engine(&self, number: usize) -> &RefCell<Engine> {
        let extra = self.extra.get(number - 1).and_then(OnceCell::get);
        &extra.expect("the context is another runtime's").engine
    }

    /// Runs an action on an engine: now, or, if a destructor that the engine runs calls this, before the
    /// executor sleeps.
    pub(crate) fn with_engine(&self, id: ContextId, action: impl FnOnce(&mut Engine) + 'static) {
        match self.engine(id).try_borrow_mut() {
            Ok(mut engine) => action(&mut engine),
            Err(_) => {
                self.deferred.borrow_mut().push((id, Box::new(action)));
                self.notifier.notify();
            }
        }
    }

    pub(crate) fn do_deferred(&self) {
        loop {
            let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
            if deferred.is_empty() {
                return;
            }
            for (id, action) in deferred {
                action(&mut self.engine(id).borrow_mut());
            }
        }
    }

    /// Adds the wakers of finished operations to `woken`. If there are none, and no deferred actions, waits up to
    /// `timeout` for the first in the runtime's own context.
    pub(crate) fn reap(
        &self,
        timeout: impl FnOnce() -> Option<Duration>,
        woken: &mut Vec<Waker>,
    ) -> io::Result<()> {
        let extra = self.reap_extra(woken);
        let may_sleep =
            matches!(extra, Ok(false)) && woken.is_empty() && self.deferred.borrow().is_empty();
        let timeout = if may_sleep {
            timeout()
        } else {
            Some(Duration::ZERO)
        };
        let own = self.own.borrow_mut().reap(timeout, woken);
        extra.and(own)
    }

    /// Adds the wakers of operations that have finished in the additional contexts to `woken`, and starts the
    /// readiness operations that wake the runtime's own context for the next ones. Returns whether further
    /// completions are available now.
    fn reap_extra(&self, woken: &mut Vec<Waker>) -> io::Result<bool> {
        let mut more = false;
        for extra in self.extra.iter().map_while(OnceCell::get) {
            if extra.readable.0.swap(false, Ordering::Relaxed) {
                if let Some(wait) = extra.wait.take() {
                    // Only frees the slot: the poll below finds the completions.
                    let _ = self.own.borrow_mut().context.take(wait);
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
        match self.own.borrow_mut().start(readable, &waker) {
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
        for extra in self.extra.iter().map_while(OnceCell::get) {
            if let Ok(mut engine) = extra.engine.try_borrow_mut() {
                engine.context.forget(fd);
            }
        }
    }
}
