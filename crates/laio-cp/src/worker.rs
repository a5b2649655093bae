//! A worker: a thread with a runtime and several files in flight.

use crate::descriptors::OpenDirectories;
use crate::directory::{Directory, Entry};
use crate::latency::Latency;
use crate::listing::Listing;
use crate::options::{Options, Writes};
use crate::outcome::Counters;
use crate::pool::WorkItem;
use crate::session::Session;
use crate::storage_class::StorageClass;
use crate::{entry, plan, walk};
use laio::ops::Open;
use laio::{BackendKind, Context, Operation, Outcome};
use laio_rt::{JoinHandle, Runtime, Submission, submit};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

/// A worker's state, shared by its tasks.
pub(crate) struct Worker {
    pub(crate) session: Arc<Session>,
    pub(crate) index: usize,
    /// The context for blocking calls; `None` if the runtime's context blocks.
    blocking: Option<RefCell<Context>>,
    writes: Writes,
    buffers: RefCell<Vec<Vec<u8>>>,
    listings: RefCell<Vec<Listing>>,
    /// Whether a worker task waits for items of other workers.
    waits_for_pool: Cell<bool>,
    /// The wakers of worker tasks that wait for entries of this worker.
    idle_wakers: RefCell<Vec<Waker>>,
    pub(crate) open_directories: RefCell<OpenDirectories>,
    /// The latency of calls on the source.
    pub(crate) latency: Latency,
    /// The copy methods that do not work between pairs of devices.
    pub(crate) device_limits: RefCell<Vec<DevicePairLimits>>,
}

/// The copy methods that do not work from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DevicePairLimits {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) reflink_unsupported: bool,
    pub(crate) copy_range_unsupported: bool,
}

/// The maximum number of unused buffers that are kept.
const BUFFERS_KEPT: usize = 32;

/// Runs a worker on the calling thread until no work is left. Returns the number of operations that
/// went to the background.
pub(crate) fn run(
    session: Arc<Session>,
    index: usize,
    depth: usize,
    arguments: Option<Listing>,
) -> io::Result<u64> {
    let options = &session.options;
    // Sources are opened through the engine with O_NONBLOCK, so `open` never waits for the peer of
    // a FIFO. Special files whose data is copied are opened by a blocking call.
    let mut engine = laio::Options::new().trust_names(true).settled_rights(true);
    if let Some(backend) = options.backend {
        engine = engine.backend(backend);
    }
    let blocking = match options.backend {
        Some(BackendKind::Sync) => None,
        _ => {
            let sync = laio::Options::new().backend(BackendKind::Sync);
            Some(RefCell::new(Context::new(sync)?))
        }
    };
    let runtime = Runtime::new(engine)?;
    let worker = Rc::new(Worker {
        writes: options.writes,
        blocking,
        buffers: RefCell::default(),
        listings: RefCell::default(),
        waits_for_pool: Cell::new(false),
        idle_wakers: RefCell::default(),
        device_limits: RefCell::default(),
        open_directories: RefCell::default(),
        latency: Latency::default(),
        session: session.clone(),
        index,
    });
    worker.listings.borrow_mut().extend(arguments);
    let completed = runtime.block_on(async {
        let mut tasks: Vec<_> = (0..depth)
            .map(|_| laio_rt::spawn(worker_task(worker.clone())))
            .collect();
        let mut stopped = pin!(session.stop.requested());
        for index in 0..tasks.len() {
            let task = &mut tasks[index];
            let ended = poll_fn(|context| match Pin::new(&mut *task).poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => stopped.as_mut().poll(context).map(|()| None),
            });
            match ended.await {
                Some(Ok(())) => {}
                Some(Err(_)) => {
                    // The panic hook has printed the message; the current file counts as failed.
                    crate::outcome::count(&worker.counters().failures);
                    session.pool.stop();
                }
                None => {
                    // Dropping the tasks cancels their waits and removes partial files, except
                    // those that a later run with `--resume` can continue.
                    tasks.iter().for_each(JoinHandle::abort);
                    return false;
                }
            }
        }
        true
    });
    let operations = runtime.stats().operations;
    if !completed {
        // Dropping the runtime would wait for operations on a file server that may never
        // answer.
        std::mem::forget(runtime);
    }
    Ok(operations)
}

/// The loop of a worker task: copies one file after the other.
async fn worker_task(worker: Rc<Worker>) {
    loop {
        if worker.session.stop.is_requested() {
            worker.session.pool.stop();
        }
        if worker.session.pool.is_stopped() {
            break;
        }
        let first = if worker.session.in_order {
            worker.session.pool.pop(worker.index)
        } else {
            None
        };
        if let Some(item) = first {
            worker.start_item(item).await;
        } else if let Some(mut next) = worker.next_entry() {
            entry::copy(&worker, &mut next).await;
            worker.end_entry(&next.directory);
        } else if let Some(item) = worker.session.pool.pop(worker.index) {
            worker.start_item(item).await;
        } else if let Some(mut listing) = worker.next_unread() {
            listing.read(&worker).await;
            worker.add_listing(listing);
        } else if let Some(item) = worker.session.pool.steal(worker.index) {
            crate::outcome::count(&worker.counters().stolen);
            worker.start_item(item).await;
        } else {
            worker.wait_for_work().await;
        }
    }
    let idle_wakers = worker.idle_wakers.take();
    idle_wakers.into_iter().for_each(Waker::wake);
}

impl Worker {
    pub(crate) fn options(&self) -> &Options {
        &self.session.options
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.session.tally.of(self.index)
    }

    /// Makes a call through the back end; if it waits, other files continue. For calls on the
    /// source, and `fsync` of the destination.
    pub(crate) fn call_backend<O: Operation>(&self, operation: O) -> Submission<O> {
        submit(operation)
    }

    /// Like [`Worker::call_backend`]; also returns whether the call was done inline, without
    /// waiting.
    pub(crate) async fn call_backend_observed<O: Operation>(
        &self,
        operation: O,
    ) -> (O::Output, bool) {
        let mut submission = submit(operation);
        let mut inline = true;
        let output = poll_fn(|context| {
            let polled = Pin::new(&mut submission).poll(context);
            inline &= polled.is_ready();
            polled
        });
        (output.await, inline)
    }

    /// Makes a call that has no non-blocking form. If its data is probably cached, a blocking call
    /// is cheaper than one in the background.
    pub(crate) async fn maybe_inline<O: Operation>(
        &self,
        operation: O,
        is_in_memory: bool,
    ) -> O::Output {
        match is_in_memory && !self.has_backend_other_than_lazy() {
            true => self.call_blocking(operation),
            false => submit(operation).await,
        }
    }

    /// Opens a source; also returns whether the call was done inline: by an attempt, or by a
    /// blocking call, which may have waited for the device. On a fast device, a blocking call is
    /// cheaper than one in the background.
    pub(crate) async fn open_source(
        &self,
        entry: &Entry,
        flags: i32,
    ) -> (io::Result<OwnedFd>, bool) {
        let prefers_blocking = match entry.storage_class() {
            StorageClass::Memory => true,
            StorageClass::Device => self.latency.next_open_blocks(),
            StorageClass::Unknown => false,
        };
        if prefers_blocking && !self.has_backend_other_than_lazy() {
            // A name below may cross into a network mount: leave that to the backend call (EXDEV).
            let open = Open::new(entry.source(), flags).resolve(libc::RESOLVE_NO_XDEV);
            let started = (entry.storage_class() == StorageClass::Device).then(Instant::now);
            let opened = self.call_blocking(open);
            if let Some(started) = started {
                self.latency.record_open(started.elapsed());
            }
            if opened.is_ok() {
                return (opened, true);
            }
            // EXDEV (a mount) and any other error: let the back end decide.
        }
        self.call_backend_observed(Open::new(entry.source(), flags))
            .await
    }

    /// Whether a back end other than `lazy` was requested, so that calls go through it even where a
    /// blocking call is cheaper. Unlike for `Options::routes_data_through_backend`, `sync` is one.
    fn has_backend_other_than_lazy(&self) -> bool {
        let backend = self.options().backend;
        backend.is_some_and(|backend| backend != BackendKind::Lazy)
    }

    /// Makes a blocking call on the calling thread.
    pub(crate) fn call_blocking<O: Operation>(&self, operation: O) -> O::Output {
        let Some(blocking) = &self.blocking else {
            return laio_rt::now(operation);
        };
        let mut context = blocking.borrow_mut();
        match context.submit(operation) {
            Outcome::Done(output) => output,
            Outcome::Pending(mut ticket) => loop {
                // The `sync` back end never returns `Pending`, but handle it.
                let mut completions = Vec::new();
                if let Err(error) = context.poll(&mut completions, None) {
                    panic!("a call cannot be waited for: {error}");
                }
                match context.take(ticket) {
                    Ok(output) => return output,
                    Err(back) => ticket = back,
                }
            },
        }
    }

    /// Makes a call on the destination, as [`Writes`] says.
    #[inline]
    pub(crate) async fn call_target<O: Operation>(&self, operation: O) -> O::Output {
        match self.writes {
            Writes::Plain => self.call_blocking(operation),
            Writes::Backend => submit(operation).await,
        }
    }

    /// Writes data; through the back end if one was requested that data must go through.
    pub(crate) async fn write_data<O: Operation>(&self, operation: O) -> O::Output {
        match self.options().routes_data_through_backend() {
            true => submit(operation).await,
            false => self.call_target(operation).await,
        }
    }

    /// Returns an empty buffer.
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        let kept = self.buffers.borrow_mut().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(self.options().buffer))
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle_buffer(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < BUFFERS_KEPT && buffer.capacity() >= self.options().buffer {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    /// The next file of a listed directory.
    fn next_entry(&self) -> Option<Entry> {
        self.end_exhausted_listings();
        let mut listings = self.listings.borrow_mut();
        // In order: finish the contents of one argument before the next.
        let lowest = if self.session.in_order {
            listings.len().saturating_sub(1)
        } else {
            0
        };
        for index in (lowest..listings.len()).rev() {
            if let Some(entry) = listings[index].next() {
                entry.directory.add_pending();
                return Some(entry);
            }
        }
        None
    }

    /// Finishes directories whose entries have all been handed out, so that they can be closed
    /// before others are opened.
    fn end_exhausted_listings(&self) {
        loop {
            let mut listings = self.listings.borrow_mut();
            let finished = |listing: &Listing| listing.len() == 0 && listing.is_at_end();
            let Some(index) = listings.iter().rposition(finished) else {
                return;
            };
            let listing = listings.remove(index);
            drop(listings);
            self.end_entry(&listing.into_directory());
        }
    }

    /// A listing with more entries to read.
    fn next_unread(&self) -> Option<Listing> {
        let mut listings = self.listings.borrow_mut();
        let unread = |listing: &Listing| listing.len() == 0 && !listing.is_at_end();
        let index = listings.iter().rposition(unread)?;
        Some(listings.remove(index))
    }

    /// Adds a listing of entries to copy, and wakes idle worker tasks.
    pub(crate) fn add_listing(&self, mut listing: Listing) {
        let directories = listing.take_directories();
        let count = directories.len();
        self.session.pool.push(self.index, directories.into_iter());
        if self.session.pool.is_shared() {
            let shares = listing.split_off_shares();
            self.session.pool.push(self.index, shares.into_iter());
        }
        let files = listing.len();
        self.listings.borrow_mut().push(listing);
        // The calling task takes the first entry itself.
        let mut idle_wakers = self.idle_wakers.borrow_mut();
        for _ in 0..(files + count).saturating_sub(1).min(idle_wakers.len()) {
            if let Some(waker) = idle_wakers.pop() {
                waker.wake();
            }
        }
    }

    /// Starts a work item. The item counts as one pending entry of its parent until it ends.
    async fn start_item(&self, item: WorkItem) {
        let entry = match item {
            WorkItem::Directory(entry) => entry,
            WorkItem::Planned(task) => return plan::run_task(self, &task).await,
            WorkItem::Files(listing) => return self.add_listing(listing),
        };
        let parent = entry.directory.clone();
        match walk::enter(self, entry).await {
            Ok(Some(mut listing)) => {
                listing.read(self).await;
                self.add_listing(listing);
            }
            Ok(None) => {}
            Err(failure) => {
                self.session.report_failure(&failure);
                self.end_entry(&parent);
            }
        }
    }

    /// Counts a finished entry. After the last entry, leaves the directory, and then its ancestors
    /// as they finish.
    pub(crate) fn end_entry(&self, directory: &Arc<Directory>) {
        let mut directory = Some(directory);
        while let Some(ending) = directory.filter(|directory| directory.finish_one()) {
            walk::leave(self, ending);
            if ending.parent.is_none() {
                self.session.pool.stop();
            }
            directory = ending.parent.as_ref();
        }
    }

    /// Waits for work. One worker task waits for items of other workers, the others for entries of
    /// this one.
    async fn wait_for_work(&self) {
        let waits_for_pool = !self.waits_for_pool.replace(true);
        let mut asleep = false;
        poll_fn(|context| {
            if std::mem::replace(&mut asleep, true) {
                return Poll::Ready(());
            }
            if !waits_for_pool {
                self.idle_wakers.borrow_mut().push(context.waker().clone());
            } else if !self
                .session
                .pool
                .register_waker(self.index, context.waker())
            {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        if waits_for_pool {
            self.waits_for_pool.set(false);
            // Another task takes over waiting for other workers.
            let next = self.idle_wakers.borrow_mut().pop();
            next.into_iter().for_each(Waker::wake);
        }
    }
}
