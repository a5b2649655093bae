//! The workers: threads with a runtime, whose tasks copy one file after the other.

use crate::copy;
use crate::outcome::{Failure, count};
use crate::schedule::listing::Listing;
use crate::schedule::walk;
use crate::schedule::worker::{Schedule, WorkItem, Worker};
use crate::session::Session;
use crate::tree::Entry;
use laio::BackendKind;
use laio_rt::{JoinHandle, Runtime};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::thread;

/// The stack size of a worker, in bytes. No recursion depends on the depth of the tree.
const STACK: usize = 1 << 20;

/// Starts the workers, and waits until no work is left. Returns the number of operations that went
/// to the background.
pub(crate) fn run(
    session: &Arc<Session>,
    schedule: &Arc<Schedule>,
    jobs: usize,
    depth: usize,
    arguments: Listing,
) -> Result<u64, Failure> {
    let mut threads = Vec::new();
    for index in 1..jobs {
        let (session, schedule) = (session.clone(), schedule.clone());
        let thread = thread::Builder::new()
            .name(format!("laio-cp-{index}"))
            .stack_size(STACK)
            .spawn(move || run_worker(session, schedule, index, depth, None));
        match thread {
            Ok(thread) => threads.push(thread),
            // The workers started so far can do all the work.
            Err(_) => break,
        }
    }
    // The first worker runs on the calling thread, so copying one file starts no thread.
    let first = run_worker(session.clone(), schedule.clone(), 0, depth, Some(arguments));
    schedule.pool.stop();
    join(first, threads)
}

/// The result of a worker: the number of operations that went to the background.
type Ended = io::Result<u64>;

/// Waits for all workers, also if one has failed: they use the destination.
fn join(first: Ended, threads: Vec<thread::JoinHandle<Ended>>) -> Result<u64, Failure> {
    let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    let mut background =
        first.map_err(|error| Failure::from_error(error, "cannot start a worker"))?;
    for ended in joined {
        match ended {
            Ok(Ok(count)) => background += count,
            // The other workers have done all the work.
            Ok(Err(_)) => {}
            Err(_) => {
                return Err(Failure::from_message(
                    "a worker has panicked; the copy is not complete",
                ));
            }
        }
    }
    Ok(background)
}

/// Runs a worker on the calling thread until no work is left.
fn run_worker(
    session: Arc<Session>,
    schedule: Arc<Schedule>,
    index: usize,
    depth: usize,
    arguments: Option<Listing>,
) -> Ended {
    let options = &session.options;
    // Sources are opened through the engine with O_NONBLOCK, so `open` never waits for the peer of
    // a FIFO. Special files whose data is copied are opened by a blocking call.
    let mut engine = laio::Options::new()
        .trust_names(true)
        .rights(laio::Rights::Settled);
    // Where no thread can be started, the copy makes its calls itself.
    engine = engine.call_without_threads(true);
    if let Some(backend) = options.backend {
        engine = engine.backend(backend);
    }
    let runtime = Runtime::new(engine.clone()).or_else(|error| match error.raw_os_error() {
        // The back end cannot start its thread: this worker makes the calls itself.
        Some(libc::EAGAIN) => Runtime::new(engine.backend(BackendKind::Sync)),
        _ => Err(error),
    })?;
    let worker = Rc::new(Worker::new(session.clone(), schedule, index)?);
    arguments
        .into_iter()
        .for_each(|listing| worker.add_listing(listing));
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
                    count(&worker.io.counters().failures);
                    worker.schedule.pool.stop();
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
        // Dropping the runtime would wait for operations on a remote file system that may never
        // answer.
        std::mem::forget(runtime);
    }
    Ok(operations)
}

/// The loop of a worker task: copies one file after the other.
async fn worker_task(worker: Rc<Worker>) {
    let (io, session, pool) = (&worker.io, &*worker.session, &worker.schedule.pool);
    loop {
        if session.stop.is_requested() {
            pool.stop();
        }
        if pool.is_stopped() {
            break;
        }
        let in_order = worker.schedule.in_order;
        let first = in_order.then(|| pool.pop(worker.index)).flatten();
        if let Some(item) = first {
            start_item(&worker, item).await;
        } else if let Some(mut next) = next_entry(&worker) {
            copy::copy(&worker, &mut next).await;
            walk::end_entry(&worker, &next.directory);
        } else if let Some(item) = pool.pop(worker.index) {
            start_item(&worker, item).await;
        } else if let Some(mut listing) = worker.next_unread() {
            listing.read(io, session, &worker.open_directories).await;
            worker.add_listing(listing);
        } else if let Some(item) = pool.steal(worker.index) {
            count(&io.counters().stolen);
            start_item(&worker, item).await;
        } else {
            worker.wait_for_work().await;
        }
    }
    worker.wake_all();
}

/// The next file of a listed directory. First finishes directories whose entries have all been
/// handed out, so that they can be closed before others are opened.
fn next_entry(worker: &Worker) -> Option<Entry> {
    while let Some(directory) = worker.next_exhausted() {
        walk::end_entry(worker, &directory);
    }
    worker.next_entry()
}

/// Starts a work item. The item counts as one pending entry of its parent until it ends.
async fn start_item(worker: &Worker, item: WorkItem) {
    let (io, session) = (&worker.io, &*worker.session);
    let entry = match item {
        WorkItem::Directory(entry) => entry,
        WorkItem::Task(task) => return task(worker).await,
        WorkItem::Files(listing) => return worker.add_listing(listing),
    };
    let parent = entry.directory.clone();
    match walk::enter(worker, entry).await {
        Ok(Some(mut listing)) => {
            listing.read(io, session, &worker.open_directories).await;
            worker.add_listing(listing);
        }
        Ok(None) => {}
        Err(failure) => {
            session.report_failure(&failure);
            walk::end_entry(worker, &parent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_workers_are_joined_if_one_has_failed() {
        let ended = Arc::new(AtomicUsize::new(0));
        let worker = |panics: bool| {
            let ended = ended.clone();
            thread::spawn(move || {
                // Long enough for a `join` that returns early.
                (0..10_000).for_each(|_| thread::yield_now());
                ended.fetch_add(1, Ordering::Relaxed);
                assert!(!panics, "on purpose");
                Ok(1)
            })
        };
        let failed = join(Err(io::ErrorKind::OutOfMemory.into()), vec![worker(false)]);
        let text = failed.unwrap_err().to_string();
        assert!(text.starts_with("cannot start a worker"), "{text}");
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        let failed = join(Ok(0), vec![worker(true), worker(false)]);
        let text = failed.unwrap_err().to_string();
        assert!(text.starts_with("a worker has panicked"), "{text}");
        assert_eq!(ended.load(Ordering::Relaxed), 3);
        assert_eq!(join(Ok(2), vec![worker(false)]).unwrap(), 3);
    }
}
