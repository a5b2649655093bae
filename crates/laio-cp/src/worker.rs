//! A worker: a thread with a runtime, on which several files are in flight.

use crate::descriptors::Opened;
use crate::directory::{Directory, Entry};
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::{Options, Writes};
use crate::outcome::Counters;
use crate::pool::Task;
use crate::shared::Shared;
use crate::waits::Waits;
use crate::{entry, plan, walk};
use laio::ops::Open;
use laio::{BackendKind, Context, Operation, Submitted};
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

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    /// Makes calls plainly; none if the runtime does.
    plain: Option<RefCell<Context>>,
    writes: Writes,
    buffers: RefCell<Vec<Vec<u8>>>,
    listings: RefCell<Vec<Listing>>,
    /// A lane waits for other workers to have something to do.
    scouting: Cell<bool>,
    /// Lanes that wait for this worker to have something to do.
    sleeping: RefCell<Vec<Waker>>,
    pub(crate) opened: RefCell<Opened>,
    /// How long calls on the source wait.
    pub(crate) waits: Waits,
    /// What cannot be done with these devices: source, destination.
    pub(crate) limits: RefCell<Vec<PairLimit>>,
}

/// What was found out about copying from one device to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PairLimit {
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) no_reflink: bool,
    pub(crate) no_range: bool,
}

/// Buffers that are kept for later; a worker with more files in flight allocates.
const BUFFERS_KEPT: usize = 32;

/// Runs a worker on the calling thread until there is nothing left to do. Returns how many operations went
/// to the background.
pub(crate) fn run(
    shared: Arc<Shared>,
    index: usize,
    depth: usize,
    arguments: Option<Listing>,
) -> io::Result<u64> {
    let options = &shared.options;
    // Files are opened in non-blocking mode, so that no name makes `open` wait for a peer.
    let mut engine = laio::Options::new().trust_names(true).settled_rights(true);
    if let Some(backend) = options.backend {
        engine = engine.backend(backend);
    }
    let plain = match options.backend {
        Some(BackendKind::Sync) => None,
        _ => {
            let sync = laio::Options::new().backend(BackendKind::Sync);
            Some(RefCell::new(Context::new(sync)?))
        }
    };
    let runtime = Runtime::new(engine)?;
    let worker = Rc::new(Worker {
        writes: options.writes,
        plain,
        buffers: RefCell::default(),
        listings: RefCell::default(),
        scouting: Cell::new(false),
        sleeping: RefCell::default(),
        limits: RefCell::default(),
        opened: RefCell::default(),
        waits: Waits::default(),
        shared: shared.clone(),
        index,
    });
    worker.listings.borrow_mut().extend(arguments);
    let completed = runtime.block_on(async {
        let mut lanes: Vec<_> = (0..depth)
            .map(|_| laio_rt::spawn(lane(worker.clone())))
            .collect();
        let mut stopped = pin!(shared.stop.asked());
        for index in 0..lanes.len() {
            let lane = &mut lanes[index];
            let ended = poll_fn(|context| match Pin::new(&mut *lane).poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => stopped.as_mut().poll(context).map(|()| None),
            });
            match ended.await {
                Some(Ok(())) => {}
                Some(Err(_)) => {
                    // It panicked, which has been reported; what it was at counts as failed.
                    crate::outcome::count(&worker.counters().failures);
                    shared.pool.stop();
                }
                None => {
                    // What waits for a source waits no longer; what is half-written is removed.
                    lanes.iter().for_each(JoinHandle::abort);
                    return false;
                }
            }
        }
        true
    });
    let operations = runtime.stats().operations;
    if !completed {
        // A server that does not answer would keep its operations, and us, for ever.
        std::mem::forget(runtime);
    }
    Ok(operations)
}

/// Copies one file after the other.
async fn lane(worker: Rc<Worker>) {
    loop {
        if worker.shared.stop.is_asked() {
            worker.shared.pool.stop();
        }
        if worker.shared.pool.is_over() {
            break;
        }
        let first = if worker.shared.in_order {
            worker.shared.pool.pop(worker.index)
        } else {
            None
        };
        if let Some(task) = first {
            worker.begin(task).await;
        } else if let Some(mut next) = worker.next_entry() {
            entry::copy(&worker, &mut next).await;
            worker.end(&next.directory);
        } else if let Some(task) = worker.shared.pool.pop(worker.index) {
            worker.begin(task).await;
        } else if let Some(mut listing) = worker.next_unread() {
            listing.read(&worker).await;
            worker.list(listing);
        } else if let Some(task) = worker.shared.pool.steal(worker.index) {
            crate::outcome::count(&worker.counters().stolen);
            worker.begin(task).await;
        } else {
            worker.wait().await;
        }
    }
    let sleeping = worker.sleeping.take();
    sleeping.into_iter().for_each(Waker::wake);
}

impl Worker {
    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.shared.tally.of(self.index)
    }

    /// Makes a call on the source: if it would wait, other files go on.
    pub(crate) fn lazily<O: Operation>(&self, operation: O) -> Submission<O> {
        submit(operation)
    }

    /// As [`Worker::lazily`]; also whether it was done without waiting.
    pub(crate) async fn attempt<O: Operation>(&self, operation: O) -> (O::Output, bool) {
        let mut submission = submit(operation);
        let mut at_once = true;
        let output = poll_fn(|context| {
            let polled = Pin::new(&mut submission).poll(context);
            at_once &= polled.is_ready();
            polled
        });
        (output.await, at_once)
    }

    /// A call that cannot be tried without waiting, for what may be in memory: if it is thought to be, the
    /// call is made plainly, which is faster than a hand-over.
    pub(crate) async fn perhaps<O: Operation>(
        &self,
        operation: O,
        is_in_memory: bool,
    ) -> O::Output {
        match is_in_memory && !self.is_forced() {
            true => self.plainly(operation),
            false => submit(operation).await,
        }
    }

    /// Opens a source; also whether others had not to wait for it. On a device that answers soon, to wait costs less
    /// than a hand-over.
    pub(crate) async fn open_source(
        &self,
        entry: &Entry,
        flags: i32,
    ) -> (io::Result<OwnedFd>, bool) {
        let is_near = match entry.medium() {
            Medium::Memory => true,
            Medium::Device => self.waits.opens_plainly(),
            Medium::Unknown => false,
        };
        if is_near && !self.is_forced() {
            // What is mounted there may have a server.
            let near = Open::new(entry.source(), flags).resolve(libc::RESOLVE_NO_XDEV);
            let begun = (entry.medium() == Medium::Device).then(Instant::now);
            let opened = self.plainly(near);
            if let Some(begun) = begun {
                self.waits.opened(begun.elapsed());
            }
            if opened.is_ok() {
                return (opened, true);
            }
        }
        self.attempt(Open::new(entry.source(), flags)).await
    }

    /// A back end was asked for, and not for what it costs.
    fn is_forced(&self) -> bool {
        let backend = self.options().backend;
        backend.is_some_and(|backend| backend != BackendKind::Lazy)
    }

    /// Makes a call on the calling thread, however long it takes.
    pub(crate) fn plainly<O: Operation>(&self, operation: O) -> O::Output {
        let Some(plain) = &self.plain else {
            return laio_rt::now(operation);
        };
        let mut context = plain.borrow_mut();
        match context.submit(operation, 0) {
            Submitted::Done(output) => output,
            Submitted::Pending(mut ticket) => loop {
                // Not with this back end; but nothing would be lost.
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

    /// Makes a call on the destination, as the options want it made.
    #[inline]
    pub(crate) async fn write<O: Operation>(&self, operation: O) -> O::Output {
        match self.writes {
            Writes::Plain => self.plainly(operation),
            Writes::Backend => submit(operation).await,
        }
    }

    /// Writes data: through the back end too, if one is named.
    pub(crate) async fn write_data<O: Operation>(&self, operation: O) -> O::Output {
        match self.options().names_backend() {
            true => submit(operation).await,
            false => self.write(operation).await,
        }
    }

    /// An empty buffer.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        let kept = self.buffers.borrow_mut().pop();
        kept.unwrap_or_else(|| Vec::with_capacity(self.options().buffer))
    }

    /// Keeps a buffer for later.
    pub(crate) fn keep(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < BUFFERS_KEPT && buffer.capacity() >= self.options().buffer {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    /// The next file of a directory that has been read.
    fn next_entry(&self) -> Option<Entry> {
        self.drop_finished();
        let mut listings = self.listings.borrow_mut();
        // In order: what an argument leads to comes before the next argument.
        let lowest = if self.shared.in_order {
            listings.len().saturating_sub(1)
        } else {
            0
        };
        for index in (lowest..listings.len()).rev() {
            if let Some(entry) = listings[index].next() {
                entry.directory.begin();
                return Some(entry);
            }
        }
        None
    }

    /// Ends the directories of which everything has been taken: before more of them are begun, or all those that
    /// a large one has would be there at the same time.
    fn drop_finished(&self) {
        loop {
            let mut listings = self.listings.borrow_mut();
            let finished = |listing: &Listing| listing.len() == 0 && listing.is_at_end();
            let Some(index) = listings.iter().rposition(finished) else {
                return;
            };
            let listing = listings.remove(index);
            drop(listings);
            self.end(&listing.into_directory());
        }
    }

    /// A directory of which more is to be read.
    fn next_unread(&self) -> Option<Listing> {
        let mut listings = self.listings.borrow_mut();
        let unread = |listing: &Listing| listing.len() == 0 && !listing.is_at_end();
        let index = listings.iter().rposition(unread)?;
        Some(listings.remove(index))
    }

    /// What has been read of a directory is copied from now on.
    pub(crate) fn list(&self, mut listing: Listing) {
        let directories = listing.take_directories();
        let count = directories.len();
        self.shared.pool.push(self.index, directories.into_iter());
        if self.shared.pool.is_shared() {
            let shares = listing.share();
            self.shared.pool.push(self.index, shares.into_iter());
        }
        let files = listing.len();
        self.listings.borrow_mut().push(listing);
        // The calling lane goes on by itself.
        let mut sleeping = self.sleeping.borrow_mut();
        for _ in 0..(files + count).saturating_sub(1).min(sleeping.len()) {
            if let Some(waker) = sleeping.pop() {
                waker.wake();
            }
        }
    }

    /// Begins a directory. What it owes its parent, it has then taken over.
    async fn begin(&self, task: Task) {
        let entry = match task {
            Task::Directory(entry) => entry,
            Task::Planned(step) => return plan::begin(self, &step).await,
            Task::Files(listing) => return self.list(listing),
        };
        let parent = entry.directory.clone();
        match walk::enter(self, entry).await {
            Ok(Some(mut listing)) => {
                listing.read(self).await;
                self.list(listing);
            }
            Ok(None) => {}
            Err(failure) => {
                self.shared.fail(&failure);
                self.end(&parent);
            }
        }
    }

    /// Something in a directory is done. After the last, the directory is finished, and so on upwards.
    pub(crate) fn end(&self, directory: &Arc<Directory>) {
        let mut directory = Some(directory);
        while let Some(ending) = directory.filter(|directory| directory.end()) {
            walk::leave(self, ending);
            if ending.parent.is_none() {
                self.shared.pool.stop();
            }
            directory = ending.parent.as_ref();
        }
    }

    /// Waits until there may be something to do. One lane listens to the other workers, the others to this
    /// one.
    async fn wait(&self) {
        let scout = !self.scouting.replace(true);
        let mut asleep = false;
        poll_fn(|context| {
            if std::mem::replace(&mut asleep, true) {
                return Poll::Ready(());
            }
            if !scout {
                self.sleeping.borrow_mut().push(context.waker().clone());
            } else if !self.shared.pool.wait(self.index, context.waker()) {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
        if scout {
            self.scouting.set(false);
            // Another is to listen, while this one works.
            let next = self.sleeping.borrow_mut().pop();
            next.into_iter().for_each(Waker::wake);
        }
    }
}
