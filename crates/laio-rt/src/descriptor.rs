//! Descriptors that operations share and the context closes.

use crate::contexts::ContextId;
use crate::executor::Core;
use crate::leftover::Leftover;
use crate::submission::submit;
use laio::ops::Close;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A reference-counted descriptor, which any number of operations may use. Dropping the last reference closes it
/// through the runtime's context, so that a close that waits for a file server does not stall other tasks.
///
/// Use it with [`submit`] for operations for which this crate has no method.
#[derive(Clone)]
pub struct Descriptor(Rc<Inner>);

struct Inner {
    /// `None` only while dropped.
    descriptor: Option<OwnedFd>,
    /// Receives the result of the close, if a task waits for it.
    closing: Cell<Option<Rc<Closing>>>,
    /// What reads whose futures were dropped have left for the next one.
    leftover: Leftover,
}

#[derive(Default)]
struct Closing {
    result: Cell<Option<io::Result<()>>>,
    waker: Cell<Option<Waker>>,
}

impl Descriptor {
    /// Drops this reference and waits until the descriptor is closed, which happens when all other references
    /// are dropped. Only one reference may call this.
    pub(crate) async fn close(self) -> io::Result<()> {
        let closing = Rc::new(Closing::default());
        self.0.closing.set(Some(closing.clone()));
        drop(self);
        poll_fn(|context| match closing.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                closing.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

impl Descriptor {
    pub(crate) fn leftover(&self) -> &Leftover {
        &self.0.leftover
    }
}

impl Closing {
    fn finish(&self, result: io::Result<()>) {
        self.result.set(Some(result));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(descriptor) = self.descriptor.take() else {
            return;
        };
        let core = Core::try_current();
        if let Some(core) = &core {
            core.contexts.forget_in_extra(descriptor.as_raw_fd());
        }
        let operation = Close::new(descriptor);
        match (core, self.closing.take()) {
            (Some(core), Some(closing)) => {
                let close = async move { closing.finish(submit(operation).await) };
                core.spawn(close).detach();
            }
            (Some(core), None) => core
                .contexts
                .with_engine(ContextId::OWN, |engine| engine.start_detached(operation)),
            // No runtime: dropping the operation closes the descriptor.
            (None, closing) => {
                drop(operation);
                if let Some(closing) = closing {
                    closing.finish(Ok(()));
                }
            }
        }
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(descriptor: OwnedFd) -> Descriptor {
        Descriptor(Rc::new(Inner {
            descriptor: Some(descriptor),
            closing: Cell::new(None),
            leftover: Leftover::default(),
        }))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let descriptor = self.0.descriptor.as_ref();
        descriptor.expect("taken only when dropped").as_fd()
    }
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Descriptor({})", self.as_fd().as_raw_fd())
    }
}
