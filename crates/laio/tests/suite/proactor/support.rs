//! A thread that waits for one future, buffers that show when they are freed, and proactors of each kind.

use crate::harness::LIMIT;
use laio::ops::Sink;
use laio::testing::Inject;
use laio::{BackendKind, Options, Proactor, Rights};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

/// A proactor for each back end that needs nothing special, and each way in which an attempt ends.
pub(super) fn all() -> Vec<(String, Proactor)> {
    let kinds = [
        BackendKind::Sync,
        BackendKind::Threads,
        BackendKind::Hybrid,
        BackendKind::Lazy,
    ];
    let plain = kinds.map(|kind| (kind.name().to_owned(), Options::new().backend(kind)));
    let lazy = || Options::new().backend(BackendKind::Lazy);
    let inject = |inject| lazy().inject(inject);
    let others = [
        ("lazy without a ring", lazy().ring(false)),
        ("lazy with three drivers", lazy().drivers(3)),
        (
            "lazy, rights of the process",
            lazy().rights(Rights::Process),
        ),
        ("lazy, settled rights", lazy().rights(Rights::Settled)),
        (
            "lazy, attempts fail",
            inject(Inject {
                attempts_fail: true,
                ..Inject::default()
            }),
        ),
        (
            "lazy, short transfers",
            inject(Inject {
                short_transfer: 3,
                ..Inject::default()
            }),
        ),
    ];
    let others = others.map(|(name, options)| (name.to_owned(), options));
    let all = plain.into_iter().chain(others);
    all.map(|(name, options)| (name, Proactor::new(options).expect("a proactor")))
        .collect()
}

/// Those of [`all`] whose calls do not block the thread that polls.
pub(super) fn all_lazy() -> impl Iterator<Item = (String, Proactor)> {
    let blocks = |(_, proactor): &(String, Proactor)| proactor.backend() == BackendKind::Sync;
    all().into_iter().filter(move |one| !blocks(one))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let begin = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park_timeout(LIMIT);
        assert!(begin.elapsed() < LIMIT, "no wakeup");
    }
}

/// Polls once, with a waker that does nothing.
pub(super) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A buffer that counts its end.
pub(super) struct Counted {
    bytes: Vec<u8>,
    dropped: Arc<AtomicUsize>,
}

impl Counted {
    pub(super) fn new(capacity: usize, dropped: &Arc<AtomicUsize>) -> Counted {
        Counted {
            bytes: Vec::with_capacity(capacity),
            dropped: dropped.clone(),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

// SAFETY: the memory is that of the vector.
unsafe impl Sink for Counted {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        Sink::spare_capacity(&mut self.bytes)
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: by the caller.
        unsafe { Sink::append(&mut self.bytes, count) };
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
    }
}
