//! A worker: a thread with a runtime and several files in flight.

use crate::descriptors::OpenDirectories;
use crate::directory::{Directory, Entry};
use crate::io::Io;
use crate::listing::Listing;
use crate::pool::WorkItem;
use crate::session::Session;
use crate::{entry, plan, walk};
use laio_rt::{JoinHandle, Runtime};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A worker's state, shared by its tasks.
pub(crate) struct Worker {
    pub(crate) io: Io,
    pub(crate) session: Arc<Session>,
    pub(crate) index: usize,
    listings: RefCell<Vec<Listing>>,
    /// Whether a worker task waits for items of other workers.
    waits_for_pool: Cell<bool>,
    /// The wakers of worker tasks that wait for entries of this worker.
    idle_wakers: RefCell<Vec<Waker>>,
    pub(crate) open_directories: OpenDirectories,
}

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
    let io = Io::new(options, session.tally.clone(), index)?;
    let runtime = Runtime::new(engine)?;
    let worker = Rc::new(Worker {
        io,
        listings: RefCell::default(),
        waits_for_pool: Cell::new(false),
        idle_wakers: RefCell::default(),
        open_directories: OpenDirectories::new(session.descriptors.clone()),
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
                    crate::outcome::count(&worker.io.counters().failures);
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
            listing
                .read(&worker.io, &worker.session, &worker.open_directories)
                .await;
            worker.add_listing(listing);
        } else if let Some(item) = worker.session.pool.steal(worker.index) {
            crate::outcome::count(&worker.io.counters().stolen);
            worker.start_item(item).await;
        } else {
            worker.wait_for_work().await;
        }
    }
    let idle_wakers = worker.idle_wakers.take();
    idle_wakers.into_iter().for_each(Waker::wake);
}

impl Worker {
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
        self.session
            .pool
            .push(self.index, directories.into_iter().map(WorkItem::Directory));
        if self.session.pool.is_shared() {
            let shares = listing.split_off_shares();
            self.session
                .pool
                .push(self.index, shares.into_iter().map(WorkItem::Files));
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
                listing
                    .read(&self.io, &self.session, &self.open_directories)
                    .await;
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
