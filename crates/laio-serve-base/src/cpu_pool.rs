//! A thread pool for long computations, so that they do not delay other connections.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// A pool of threads that runs jobs in order. Each caller limits how many of its jobs wait. The
/// threads start on first use and end when the last owner drops the pool.
#[allow(missing_debug_implementations)] // Jobs are functions.
pub struct CpuPool {
    state: Arc<PoolState>,
    /// With no threads, the caller runs its jobs.
    threads: usize,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolState {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl CpuPool {
    /// Returns a pool of at most so many threads. With 0, the caller runs its jobs.
    pub fn new(threads: usize) -> CpuPool {
        CpuPool {
            state: Arc::default(),
            threads,
        }
    }

    /// Runs a job. Returns `None` if it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.threads == 0 {
            return Some(job());
        }
        let slot = Arc::new(Mutex::new(JobSlot {
            outcome: JobState::Running,
            waker: None,
        }));
        let promise = Promise(slot.clone(), None);
        self.queue(Box::new(move || {
            let mut promise = promise;
            promise.1 = Some(job());
        }));
        JobFuture(slot).await
    }

    fn queue(&self, job: Job) {
        let mut queue = self.state.queue.lock().unwrap();
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && queue.threads < self.threads {
            let state = self.state.clone();
            // If no thread can be started, the running threads take the job, or else the caller
            // does.
            if laio::thread::start("laio-cpu", "a thread that compresses", move || work(&state))
                .is_ok()
            {
                queue.threads += 1;
            } else if queue.threads == 0 {
                let jobs = std::mem::take(&mut queue.jobs);
                drop(queue);
                jobs.into_iter().for_each(|job| job());
                return;
            }
        }
        self.state.changed.notify_one();
    }
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.state.queue.lock().unwrap().closed = true;
        self.state.changed.notify_all();
    }
}

fn work(state: &PoolState) {
    let mut queue = state.queue.lock().unwrap();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            // The promise reports the panic to the waiting task; the thread continues.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            queue = state.queue.lock().unwrap();
        } else if queue.closed {
            return;
        } else {
            queue.idle += 1;
            queue = state.changed.wait(queue).unwrap();
            queue.idle -= 1;
        }
    }
}

struct JobSlot<T> {
    outcome: JobState<T>,
    waker: Option<Waker>,
}

enum JobState<T> {
    Running,
    Over(Option<T>),
}

/// Delivers the job's result to the waiting task when dropped, or none if the job panicked or did
/// not run.
struct Promise<T>(Arc<Mutex<JobSlot<T>>>, Option<T>);

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap();
            slot.outcome = JobState::Over(self.1.take());
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct JobFuture<T>(Arc<Mutex<JobSlot<T>>>);

impl<T> Future for JobFuture<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.lock().unwrap();
        match std::mem::replace(&mut slot.outcome, JobState::Running) {
            JobState::Over(value) => Poll::Ready(value),
            JobState::Running => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_give_their_values_and_panics_are_survived() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        for threads in [0, 1, 3] {
            let cpu_pool = CpuPool::new(threads);
            runtime.block_on(async {
                for number in 0..100 {
                    assert_eq!(cpu_pool.run(move || number + 1).await, Some(number + 1));
                }
                if threads > 0 {
                    assert_eq!(cpu_pool.run(|| -> u8 { panic!("as expected") }).await, None);
                }
                assert_eq!(cpu_pool.run(|| 7).await, Some(7));
            });
        }
    }
}
