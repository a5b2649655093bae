//! The state words of the back end `activations`, the queue of a driver and that of its helpers, checked by loom in all
//! interleavings of threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p laio --release --test model`; without `--cfg loom` there is nothing here.
#![cfg(loom)]

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(super) fn set(word: &AtomicU64, value: u64) {
        word.swap(value, Ordering::AcqRel);
    }
}

mod locks {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../src/background/activations/state.rs"]
mod state;

#[path = "../src/proactor/queue.rs"]
mod queue;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/pool/growth.rs"]
mod growth;

#[allow(dead_code, reason = "what the model does not need")]
#[path = "../src/proactor/work_queue.rs"]
mod work_queue;

use growth::Growth;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};
use loom::thread;
use state::{
    APP, CALL, Chained, Gate, SPARE, TAKEN, announce, become_, begin, leave, push, take, take_all,
    with_state,
};
use std::time::Duration;
use work_queue::{Coming, Kind, WorkQueue};

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

/// Preempt against rearm: closing the gate for a thread that was preempted in one call leaves that of its next call
/// open.
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

/// Sleep against news: a context announces that it sleeps, and looks once more; who lands a flight rings if so.
/// One of them sees the other.
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

/// Cancel against return: who interrupts announces it first and then looks whether the call goes on; who returns says so
/// first and then waits for those announced. No interruption reaches what the thread does next.
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

/// Messages of two threads arrive once, in the order of each thread; and while there are any, the driver was notified
/// after it last looked.
#[test]
fn a_driver_misses_no_message() {
    loom::model(|| {
        let queue = Arc::new(queue::Queue::new());
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

/// Work that two threads add is taken once, and no helper sleeps while there is work that it may take: loom reports that
/// as a deadlock, because its locks know no timeouts.
#[test]
fn no_work_is_left_while_a_helper_sleeps() {
    for most in [1, 2] {
        loom::model(move || {
            let queue = Arc::new(WorkQueue::new(Growth::fixed(most), Growth::fixed(1)));
            let taken = Arc::new(AtomicUsize::new(0));
            let adder = {
                let (queue, taken) = (queue.clone(), taken.clone());
                thread::spawn(move || {
                    let coming = queue.add(Kind::Call, 1).expect("open");
                    come(coming, &queue, &taken)
                })
            };
            let coming = queue.add(Kind::Call, 10).expect("open");
            let helper = come(coming, &queue, &taken);
            let helpers = [helper, adder.join().unwrap()];
            queue.finish();
            for helper in helpers.into_iter().flatten() {
                helper.join().unwrap();
            }
            assert!(queue.is_empty());
            assert_eq!(taken.load(SeqCst), 11);
        });
    }
}

/// Starts a helper if one must be started.
fn come(
    coming: Coming,
    queue: &Arc<WorkQueue<usize>>,
    taken: &Arc<AtomicUsize>,
) -> Option<thread::JoinHandle<()>> {
    let (queue, taken) = (queue.clone(), taken.clone());
    let serve = move || {
        let mut others = Vec::new();
        let spin = |_, look: &dyn Fn() -> bool| {
            look();
        };
        while let Ok(work) = queue.next(Duration::MAX, spin) {
            others.extend(come(work.coming, &queue, &taken));
            taken.fetch_add(work.work, SeqCst);
            queue.done(work.kind);
        }
        for other in others {
            other.join().unwrap();
        }
    };
    (coming == Coming::ToBeStarted).then(|| thread::spawn(serve))
}
