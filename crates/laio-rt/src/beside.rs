//! Contexts beside the runtime's own: for calls that are to go another way than the rest.

use crate::executor::Core;
use crate::limits;
use crate::submission::Engine;
use laio::ops::Readiness;
use laio::{Options, Submitted, Ticket};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Which context of a runtime; see [`Runtime::add_context`](crate::Runtime::add_context).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextId(usize);

impl ContextId {
    /// The runtime's own.
    pub const OWN: ContextId = ContextId(0);
}

/// Contexts beside the runtime's own. Each is waited for inside that: an operation there waits until the other
/// one's pollable descriptor is readable.
#[derive(Default)]
pub(crate) struct AllBeside([OnceCell<Beside>; limits::CONTEXTS_BESIDE]);

struct Beside {
    engine: RefCell<Engine>,
    /// Readable when the context has completions.
    news: Shared,
    /// The wait for that, if there is one.
    watch: Cell<Option<Ticket<Readiness<Shared>>>>,
    told: Arc<Told>,
}

#[derive(Clone)]
struct Shared(Rc<OwnedFd>);

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Raised when the wait for a context is over.
#[derive(Default)]
struct Told(AtomicBool);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Core {
    pub(crate) fn add_context(&self, options: Options) -> io::Result<ContextId> {
        let mut context = laio::Context::new(options)?;
        let news = context.descriptor()?.try_clone_to_owned()?;
        let beside = Beside {
            engine: RefCell::new(Engine::new(context)),
            news: Shared(Rc::new(news)),
            watch: Cell::default(),
            told: Arc::default(),
        };
        let free = self.beside.0.iter().position(|place| place.get().is_none());
        let full = || {
            let most = limits::CONTEXTS_BESIDE;
            io::Error::other(format!(
                "a runtime has at most {most} contexts beside its own"
            ))
        };
        let place = free.ok_or_else(full)?;
        let _ = self.beside.0[place].set(beside);
        Ok(ContextId(place + 1))
    }

    /// The engine of a context of this runtime.
    #[inline]
    pub(crate) fn engine_of(&self, id: ContextId) -> &RefCell<Engine> {
        match id {
            ContextId::OWN => &self.engine,
            ContextId(number) => self.engine_beside(number),
        }
    }

    #[cold]
    fn engine_beside(&self, number: usize) -> &RefCell<Engine> {
        let beside = self.beside.0.get(number - 1).and_then(OnceCell::get);
        &beside.expect("the context is another runtime's").engine
    }

    /// Adds the wakers of operations that have finished in the contexts beside, and sees to it that the own
    /// context does not sleep through the next. Tells whether there is more to be gathered at once.
    pub(crate) fn gather_beside(&self, woken: &mut Vec<Waker>) -> io::Result<bool> {
        let mut more = false;
        let there = self.beside.0.iter().map_while(OnceCell::get);
        for beside in there {
            if beside.told.0.swap(false, Ordering::Relaxed) {
                if let Some(watch) = beside.watch.take() {
                    // Delivered, so there is an output; what was seen, the poll below shows.
                    let _ = self.engine.borrow_mut().context.take(watch);
                }
                let mut engine = beside.engine.borrow_mut();
                engine.gather(Some(Duration::ZERO), woken)?;
            }
            more |= self.watch(beside)?;
        }
        Ok(more)
    }

    /// Waits for the news of a context that has operations in flight. True if there is some already.
    fn watch(&self, beside: &Beside) -> io::Result<bool> {
        let watched = beside.watch.take();
        let is_watched = watched.is_some();
        beside.watch.set(watched);
        if is_watched || beside.engine.borrow().context.pending() == 0 {
            return Ok(false);
        }
        let waker = Waker::from(beside.told.clone());
        let wait = Readiness::readable(beside.news.clone());
        match self.engine.borrow_mut().start(wait, &waker) {
            Submitted::Pending(watch) => beside.watch.set(Some(watch)),
            Submitted::Done(seen) => {
                seen?;
                waker.wake();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Has the contexts beside forget what they knew of a descriptor that is about to be closed.
    pub(crate) fn forget_beside(&self, fd: RawFd) {
        for beside in self.beside.0.iter().map_while(OnceCell::get) {
            if let Ok(mut engine) = beside.engine.try_borrow_mut() {
                engine.context.forget(fd);
            }
        }
    }
}
