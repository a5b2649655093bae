//! The state words of the back end `activations`, the queue of a driver and that of its helpers, checked by
//! loom in all interleavings of threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p laio --release --test model`; without `--cfg loom` there is
//! nothing here.
#![cfg(loom)]

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(super) fn set(word: &AtomicU64, value: u64) {
        word.swap(value, Ordering::AcqRel);
    }
}

mod locks {
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

/// What the queue of a pool knows of its helpers' system calls.
mod sys {
    pub(super) mod interrupt {
        #[derive(Debug, Default)]
        pub(crate) struct Interruptible;

        impl Interruptible {
            pub(crate) fn is_interrupted(&self) -> bool {
                false
            }

            pub(crate) fn rearm(&self) {}
        }
    }
}

#[path = "../src/background/activations/state.rs"]
mod state;

#[path = "../src/proactor/queue.rs"]
mod messages;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/pool/growth.rs"]
mod growth;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/pool/lanes.rs"]
mod lanes;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/pool/crew.rs"]
mod crew;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/pool/queue.rs"]
mod queue;

#[path = "../src/pool/loads.rs"]
mod loads;

use crew::{Member, Starts};
use laio::{Errno, Limits};
use lanes::{Lane, Lanes, Queued};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};
use loom::thread;
use queue::{Coming, JobQueue};
use state::{
    APP, CALL, Chained, Gate, SPARE, TAKEN, announce, become_, begin, leave, push, take, take_all,
    with_state,
};
use std::time::Duration;

/// The application, which at most one thread may run at a time: loom finds two that touch it.
struct Application(UnsafeCell<u32>);

impl Application {
    fn run(&self) {
        // SAFETY: whether only one thread is here is what loom checks.
        self.0.with_mut(|steps| unsafe { *steps += 1 });
    }
}

/// Steal against return: one of the two goes on with the application, and sees what was saved before.
#[test]
fn the_application_goes_on_in_one_place() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(APP));
        let saved = Arc::new(AtomicUsize::new(0));
        let application = Arc::new(Application(UnsafeCell::new(0)));
        let owner = {
            let (word, saved, application) = (word.clone(), saved.clone(), application.clone());
            thread::spawn(move || {
                application.run();
                saved.store(7, Relaxed);
                let calling = begin(&word);
                let stays = leave(&word, calling);
                if stays {
                    application.run();
                } else {
                    become_(&word, SPARE);
                }
                stays
            })
        };
        let seen = word.load(SeqCst);
        let taken = state::state(seen) == CALL && take(&word, seen);
        if taken {
            assert_eq!(saved.load(Relaxed), 7);
            application.run();
        }
        let stays = owner.join().unwrap();
        assert_ne!(stays, taken);
        let last = word.load(SeqCst);
        assert_eq!(state::state(last), if taken { SPARE } else { APP });
    });
}

/// Evidence about one call does not take the next one away.
#[test]
fn the_next_call_is_another() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(APP));
        let owner = {
            let word = word.clone();
            thread::spawn(move || {
                let first = begin(&word);
                let stayed = leave(&word, first);
                if stayed {
                    let second = begin(&word);
                    assert!(leave(&word, second), "nobody has seen it block");
                }
                stayed
            })
        };
        // What was looked at is the first call, always.
        let first = with_state(4, CALL);
        let taken = take(&word, first);
        assert_ne!(owner.join().unwrap(), taken);
    });
}

/// Preempt against rearm: closing the gate for a thread that was preempted in one call leaves that of its
/// next call open.
#[test]
fn a_gate_is_closed_for_its_own_call_only() {
    loom::model(|| {
        // The kernel has recorded a switch in the first call: 8 bytes.
        let ring = Arc::new([AtomicU64::new(8), AtomicU64::new(0)]);
        let owner = {
            let ring = ring.clone();
            thread::spawn(move || {
                // The first call returns; the next one begins.
                Gate(&ring).close();
                Gate(&ring).open();
            })
        };
        if let Some(tail) = Gate(&ring).evidence() {
            Gate(&ring).close_for(tail);
        }
        owner.join().unwrap();
        // Not a plain load: loom lets those see an older store that has raced with the exchange.
        let [head, tail] = [0, 1].map(|at: usize| ring[at].fetch_add(0, SeqCst));
        assert_eq!(tail, head, "open: the next switch is recorded");
    });
}

struct Node {
    next: AtomicPtr<Node>,
    value: AtomicUsize,
}

impl Chained for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

/// Flights that land while others are collected: none lost, none twice, results seen.
#[test]
fn what_lands_is_collected_once() {
    loom::model(|| {
        let list = Arc::new(AtomicPtr::new(std::ptr::null_mut::<Node>()));
        let landing = [1, 2].map(|value| {
            let list = list.clone();
            thread::spawn(move || {
                let node = Box::into_raw(Box::new(Node {
                    next: AtomicPtr::new(std::ptr::null_mut()),
                    value: AtomicUsize::new(0),
                }));
                // SAFETY: nobody else knows it yet.
                unsafe { &*node }.value.store(value, Relaxed);
                push(&list, node);
            })
        });
        let collect = |sum: &mut usize| {
            let mut node = take_all(&list);
            while !node.is_null() {
                // SAFETY: taken off the list, so ours.
                let taken = unsafe { Box::from_raw(node) };
                *sum += taken.value.load(Relaxed);
                node = taken.next.load(Relaxed);
            }
        };
        let mut sum = 0;
        collect(&mut sum);
        for thread in landing {
            thread.join().unwrap();
        }
        collect(&mut sum);
        assert_eq!(sum, 3);
    });
}

/// Sleep against news: a context announces that it sleeps, and looks once more; who lands a flight rings if
/// so. One of them sees the other.
#[test]
fn no_landing_is_slept_through() {
    loom::model(|| {
        let list = Arc::new(AtomicPtr::new(std::ptr::null_mut::<Node>()));
        let armed = Arc::new(AtomicU64::new(0));
        let rang = Arc::new(AtomicU64::new(0));
        let landing = {
            let (list, armed, rang) = (list.clone(), armed.clone(), rang.clone());
            thread::spawn(move || {
                let node = Box::into_raw(Box::new(Node {
                    next: AtomicPtr::new(std::ptr::null_mut()),
                    value: AtomicUsize::new(1),
                }));
                push(&list, node);
                // Loom takes SeqCst for AcqRel; the fences stand for it.
                fence(SeqCst);
                if armed.swap(0, SeqCst) != 0 {
                    rang.store(1, SeqCst);
                }
            })
        };
        armed.store(1, SeqCst);
        fence(SeqCst);
        let seen = !list.load(SeqCst).is_null();
        landing.join().unwrap();
        assert!(seen || rang.load(SeqCst) == 1);
        // SAFETY: the list is ours by now.
        drop(unsafe { Box::from_raw(take_all(&list)) });
    });
}

/// Cancel against return: who interrupts announces it first and then looks whether the call goes on; who
/// returns says so first and then waits for those announced. No interruption reaches what the thread does
/// next.
#[test]
fn no_interruption_comes_late() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(with_state(4, TAKEN)));
        let announced = Arc::new(AtomicU32::new(0));
        let gone_on = Arc::new(AtomicU64::new(0));
        let carrier = {
            let (word, announced, gone_on) = (word.clone(), announced.clone(), gone_on.clone());
            thread::spawn(move || {
                become_(&word, SPARE);
                while announced.load(SeqCst) != 0 {
                    thread::yield_now();
                }
                gone_on.store(1, SeqCst);
            })
        };
        announce(&announced);
        if state::state(word.load(SeqCst)) == TAKEN {
            assert_eq!(gone_on.load(SeqCst), 0, "the signal hits the call");
        }
        announced.fetch_sub(1, SeqCst);
        carrier.join().unwrap();
    });
}

/// Messages of two threads arrive once, in the order of each thread; and while there are any, the driver
/// was notified after it last looked.
#[test]
fn a_driver_misses_no_message() {
    loom::model(|| {
        let queue = Arc::new(messages::Queue::new());
        let notified = Arc::new(AtomicU32::new(0));
        let producer = |first: u32| {
            let (queue, notified) = (queue.clone(), notified.clone());
            thread::spawn(move || {
                for messages in [vec![first], vec![first + 1, first + 2]] {
                    if queue.push(messages) {
                        notified.store(1, SeqCst);
                    }
                }
            })
        };
        let producers = [producer(0), producer(10)];
        let mut found = Vec::new();
        for _ in 0..2 {
            notified.swap(0, SeqCst);
            found.extend(queue.take_all());
        }
        for producer in producers {
            producer.join().unwrap();
        }
        let left = queue.take_all();
        assert!(left.is_empty() || notified.load(SeqCst) == 1);
        found.extend(left);
        let of = |range: std::ops::Range<u32>| -> Vec<u32> {
            found
                .iter()
                .copied()
                .filter(|message| range.contains(message))
                .collect()
        };
        assert_eq!((of(0..10), of(10..20)), (vec![0, 1, 2], vec![10, 11, 12]));
    });
}

/// A job that adds to a sum: a brief one adds 1, a load 100 or more. A load of 1000 and more takes until
/// others have added what it exceeds 1000 by.
impl Queued for usize {
    type Id = usize;

    fn id(&self) -> Option<usize> {
        Some(*self)
    }

    fn is_brief(&self) -> bool {
        *self == 1
    }

    fn is_load(&self, _lane: Lane) -> bool {
        *self >= 100
    }
}

/// A pool whose helpers add up what they take.
#[derive(Clone)]
struct Pool {
    jobs: Arc<JobQueue<usize>>,
    sum: Arc<(locks::Mutex<usize>, locks::Condvar)>,
}

impl Pool {
    fn new(most: u32, starts: Starts) -> Pool {
        let limits = Limits {
            helpers: most,
            waiting_helpers: 1,
            ..Limits::default()
        };
        Pool {
            jobs: Arc::new(JobQueue::new(Lanes::new(&limits, true), starts)),
            sum: Arc::new((locks::Mutex::new(0), locks::Condvar::new())),
        }
    }

    /// Adds a job, and starts a helper if one must be started.
    fn add(&self, lane: Lane, job: usize) -> Option<thread::JoinHandle<()>> {
        self.come(self.jobs.add(lane, job, None).expect("open"))
    }

    fn come(&self, coming: Coming) -> Option<thread::JoinHandle<()>> {
        match coming {
            Coming::ToBeStarted(member) => Some(self.start(member)),
            _ => None,
        }
    }

    fn start(&self, member: Member) -> thread::JoinHandle<()> {
        let own = self.clone();
        thread::spawn(move || own.serve(&member))
    }

    fn serve(&self, member: &Member) {
        let mut others = Vec::new();
        let spin = |_, look: &dyn Fn() -> bool| {
            look();
        };
        while let Ok(taken) = self.jobs.next(member, Duration::MAX, spin) {
            others.extend(self.come(taken.coming));
            if taken.job.is_load(taken.lane) {
                loads::serve(
                    &self.jobs,
                    member,
                    taken.job,
                    &mut OfModel(self, &mut others),
                );
                continue;
            }
            self.count(taken.job);
            self.jobs.done(member, taken.lane, taken.job.is_brief());
        }
        for other in others {
            other.join().unwrap();
        }
    }

    /// A load that takes long. The context finds that no other job begins.
    fn hang(&self, load: usize) -> Vec<thread::JoinHandle<()>> {
        let mut started = Vec::new();
        if load > 1000 {
            self.jobs.help_shared();
            while let Some(member) = self.jobs.order() {
                started.push(self.start(member));
            }
            self.wait_for(load - 1000);
        }
        started
    }

    fn wait_for(&self, sum: usize) {
        let mut now = self.sum.0.lock().unwrap();
        while *now < sum {
            now = self.sum.1.wait(now).unwrap();
        }
    }

    fn count(&self, job: usize) {
        *self.sum.0.lock().unwrap() += job;
        self.sum.1.notify_all();
    }

    fn finish(&self, helpers: impl IntoIterator<Item = thread::JoinHandle<()>>, sum: usize) {
        // Before the end, which wakes all helpers.
        self.wait_for(sum);
        self.jobs.finish();
        for helper in helpers {
            helper.join().unwrap();
        }
        assert!(self.jobs.is_empty());
        assert_eq!(*self.sum.0.lock().unwrap(), sum);
    }
}

/// Loads that add to the sum, with the helpers that were started for others.
struct OfModel<'a>(&'a Pool, &'a mut Vec<thread::JoinHandle<()>>);

impl loads::Loads<usize> for OfModel<'_> {
    type Begun = usize;

    fn begin(&mut self, load: usize) -> Option<usize> {
        self.1.extend(self.0.hang(load));
        Some(load)
    }

    fn id(load: &usize) -> Option<usize> {
        Some(*load)
    }

    fn wait(&mut self, _load: &usize) {}

    fn report(&mut self, load: usize) {
        self.0.count(load);
    }

    fn bring(&mut self, coming: Coming, _is_short: bool) {
        self.1.extend(self.0.come(coming));
    }
}

/// Jobs that two threads add are taken once, and no helper sleeps while there is one that it may take: loom
/// reports that as a deadlock, because its locks know no timeouts.
#[test]
fn no_job_is_left_while_a_helper_sleeps() {
    for most in [1, 2] {
        loom::model(move || {
            let pool = Pool::new(most, Starts::Ordered);
            let own = pool.clone();
            let adder = thread::spawn(move || own.add(Lane::Bounded, 2));
            let helper = pool.add(Lane::Unbounded, 10);
            let helpers = [helper, adder.join().unwrap()];
            pool.finish(helpers.into_iter().flatten(), 12);
        });
    }
}

/// The same for a thread that starts the helpers itself, and for jobs that share one.
#[test]
fn no_shared_job_is_left_while_a_helper_sleeps() {
    for jobs in [[10, 20], [1, 1], [10, 1], [1, 10]] {
        loom::model(move || {
            let pool = Pool::new(2, Starts::Adder);
            let mut helpers = Vec::new();
            for job in jobs {
                helpers.extend(pool.add(Lane::Bounded, job));
            }
            pool.jobs.unshare();
            while let Some(member) = pool.jobs.order() {
                helpers.push(pool.start(member));
            }
            pool.finish(helpers, jobs.iter().sum());
        });
    }
}

/// The same for loads, of which a helper begins several.
#[test]
fn no_load_is_left_while_a_helper_sleeps() {
    for jobs in [&[100, 200][..], &[100, 10], &[10, 100], &[100, 200, 300]] {
        for (most, starts) in [
            (1, Starts::Adder),
            (2, Starts::Adder),
            (1, Starts::Ordered),
            (2, Starts::Ordered),
        ] {
            loom::model(move || {
                let pool = Pool::new(most, starts);
                let mut helpers = Vec::new();
                for job in jobs {
                    helpers.extend(pool.add(Lane::Bounded, *job));
                }
                while starts == Starts::Adder
                    && let Some(member) = pool.jobs.order()
                {
                    helpers.push(pool.start(member));
                }
                pool.finish(helpers, jobs.iter().sum());
            });
        }
    }
}

/// Loads wait no longer for a helper that opens a file, as soon as that took too long.
#[test]
fn no_load_waits_for_an_open_that_hangs() {
    for jobs in [[1100, 100], [1010, 10]] {
        loom::model(move || {
            let pool = Pool::new(2, Starts::Adder);
            let mut helpers = Vec::new();
            for job in jobs {
                helpers.extend(pool.add(Lane::Bounded, job));
            }
            pool.finish(helpers, jobs.iter().sum());
        });
    }
}

/// Helpers take what was queued before their generation ended, and end; later jobs get others.
#[test]
fn each_generation_takes_its_own_jobs() {
    loom::model(|| {
        let pool = Pool::new(1, Starts::Adder);
        let mut helpers = Vec::from_iter(pool.add(Lane::Bounded, 10));
        pool.jobs.renew();
        helpers.extend(pool.add(Lane::Bounded, 20));
        pool.finish(helpers, 30);
    });
}
