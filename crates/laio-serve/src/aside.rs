//! A thread pool for long computations, so that they do not delay other connections.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// A pool of threads that runs jobs in order. Each caller limits how many of its jobs wait. The
/// threads start on first use and end when the last owner drops the pool.
pub(crate) struct Aside {
    shared: Arc<Shared>,
    /// With no threads, the caller runs its jobs.
    threads: usize,
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
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

impl Aside {
    pub(crate) fn new(threads: usize) -> Aside {
        Aside {
            shared: Arc::default(),
            threads,
        }
    }

    /// Runs a job. Returns none if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.threads == 0 {
            return Some(job());
        }
        let place = Arc::new(Mutex::new(Place {
            state: State::Running,
            waker: None,
        }));
        let promise = Promise(place.clone(), None);
        self.queue(Box::new(move || {
            let mut promise = promise;
            promise.1 = Some(job());
        }));
        Wait(place).await
    }

    fn queue(&self, job: Job) {
        let mut queue = self.shared.queue.lock().unwrap();
        queue.jobs.push_back(job);
        if queue.idle < queue.jobs.len() && queue.threads < self.threads {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name("laio-aside".to_owned());
            // If no thread can be started, the running threads take the job, or else the caller
            // does.
            if thread.spawn(move || work(&shared)).is_ok() {
                queue.threads += 1;
            } else if queue.threads == 0 {
                let jobs = std::mem::take(&mut queue.jobs);
                drop(queue);
                jobs.into_iter().for_each(|job| job());
                return;
            }
        }
        self.shared.changed.notify_one();
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap().closed = true;
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut queue = shared.queue.lock().unwrap();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            // The promise reports the panic to the waiting task; the thread continues.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            queue = shared.queue.lock().unwrap();
        } else if queue.closed {
            return;
        } else {
            queue.idle += 1;
            queue = shared.changed.wait(queue).unwrap();
            queue.idle -= 1;
        }
    }
}

struct Place<T> {
    state: State<T>,
    waker: Option<Waker>,
}

enum State<T> {
    Running,
    Over(Option<T>),
}

/// Delivers the job's result to the waiting task when dropped, or none if the job panicked or did
/// not run.
struct Promise<T>(Arc<Mutex<Place<T>>>, Option<T>);

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let waker = {
            let mut place = self.0.lock().unwrap();
            place.state = State::Over(self.1.take());
            place.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Wait<T>(Arc<Mutex<Place<T>>>);

impl<T> Future for Wait<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut place = self.0.lock().unwrap();
        match std::mem::replace(&mut place.state, State::Running) {
            State::Over(value) => Poll::Ready(value),
            State::Running => {
                place.waker = Some(context.waker().clone());
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
            let aside = Aside::new(threads);
            runtime.block_on(async {
                for number in 0..100 {
                    assert_eq!(aside.run(move || number + 1).await, Some(number + 1));
                }
                if threads > 0 {
                    assert_eq!(aside.run(|| -> u8 { panic!("as expected") }).await, None);
                }
                assert_eq!(aside.run(|| 7).await, Some(7));
            });
        }
    }
}
