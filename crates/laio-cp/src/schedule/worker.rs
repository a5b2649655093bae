//! A worker: its calls, and the work that is left for its tasks.

use crate::io::Io;
use crate::rules::links::Links;
use crate::schedule::listing::Listing;
use crate::schedule::pool::Pool;
use crate::session::Session;
use crate::sink::{LocalFuture, Sink};
use crate::tree::{CreatedFiles, Descriptors, Directory, Entry, OpenDirectories};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// What all workers share to divide the work.
pub(crate) struct Schedule {
    pub(crate) pool: Pool<WorkItem>,
    pub(crate) sink: Sink,
    /// Entries are copied one after the other: because destinations of arguments may overlap, one
    /// of several arguments is copied into itself, or the user is asked (`-i`).
    pub(crate) in_order: bool,
    pub(crate) descriptors: Descriptors,
    pub(crate) links: Links,
    /// Parent directories of arguments that this copy created (`--parents`).
    pub(crate) created_parents: CreatedFiles,
}

/// A unit of work.
pub(crate) enum WorkItem {
    /// A directory that has not been read.
    Directory(Entry),
    /// A share of the files of a large directory.
    Files(Listing),
    /// A task of a plan.
    Task(Task),
}

/// A task of a plan.
pub(crate) type Task = Box<dyn for<'a> FnOnce(&'a Worker) -> LocalFuture<'a, ()> + Send>;

/// A worker's state, shared by its tasks.
pub(crate) struct Worker {
    pub(crate) io: Io,
    pub(crate) session: Arc<Session>,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) index: usize,
    listings: RefCell<Vec<Listing>>,
    /// Whether a worker task waits for items of other workers.
    waits_for_pool: Cell<bool>,
    /// The wakers of worker tasks that wait for entries of this worker.
    idle_wakers: RefCell<Vec<Waker>>,
    pub(crate) open_directories: OpenDirectories,
}

impl Worker {
    pub(crate) fn new(
        session: Arc<Session>,
        schedule: Arc<Schedule>,
        index: usize,
    ) -> io::Result<Worker> {
        Ok(Worker {
            io: Io::new(&session.options, session.tally.clone(), index)?,
            open_directories: OpenDirectories::new(schedule.descriptors.clone()),
            session,
            schedule,
            index,
            listings: RefCell::default(),
            waits_for_pool: Cell::new(false),
            idle_wakers: RefCell::default(),
        })
    }

    /// Adds a directory, which a worker will enter. Its parent waits for it.
    pub(crate) fn push_directory(&self, entry: Entry) {
        entry.directory.add_pending();
        let item = WorkItem::Directory(entry);
        self.schedule.pool.push(self.index, std::iter::once(item));
    }

    /// The next file of a listed directory.
    pub(crate) fn next_entry(&self) -> Option<Entry> {
        let mut listings = self.listings.borrow_mut();
        // In order: finish the contents of one argument before the next.
        let lowest = if self.schedule.in_order {
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

    /// Takes a directory whose entries have all been handed out.
    pub(crate) fn next_exhausted(&self) -> Option<Arc<Directory>> {
        let mut listings = self.listings.borrow_mut();
        let finished = |listing: &Listing| listing.len() == 0 && listing.is_at_end();
        let index = listings.iter().rposition(finished)?;
        Some(listings.remove(index).into_directory())
    }

    /// A listing with more entries to read.
    pub(crate) fn next_unread(&self) -> Option<Listing> {
        let mut listings = self.listings.borrow_mut();
        let unread = |listing: &Listing| listing.len() == 0 && !listing.is_at_end();
        let index = listings.iter().rposition(unread)?;
        Some(listings.remove(index))
    }

    /// Adds a listing of entries to copy, and wakes idle worker tasks.
    pub(crate) fn add_listing(&self, mut listing: Listing) {
        let directories = listing.take_directories();
        let count = directories.len();
        self.schedule
            .pool
            .push(self.index, directories.into_iter().map(WorkItem::Directory));
        if self.schedule.pool.is_shared() {
            let shares = listing.split_off_shares();
            self.schedule
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

    /// Waits for work. One worker task waits for items of other workers, the others for entries of
    /// this one.
    pub(crate) async fn wait_for_work(&self) {
        let waits_for_pool = !self.waits_for_pool.replace(true);
        let mut asleep = false;
        poll_fn(|context| {
            if std::mem::replace(&mut asleep, true) {
                return Poll::Ready(());
            }
            if !waits_for_pool {
                self.idle_wakers.borrow_mut().push(context.waker().clone());
            } else if !self
                .schedule
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

    /// Wakes the worker tasks that wait for entries of this worker.
    pub(crate) fn wake_all(&self) {
        let idle_wakers = self.idle_wakers.take();
        idle_wakers.into_iter().for_each(Waker::wake);
    }
}
