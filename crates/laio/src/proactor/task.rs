//! A task: an operation in the background, shared by its future and the thread that makes its call.
//!
//! The state decides who may use the operation's value. While the operation is in flight, only the
//! kernel uses its memory. When it is over, its future takes the value. If the future was dropped
//! before, the thread that has the result drops the output.

use super::batch_end::BatchEnd;
use super::busy::Hold;
use crate::background::after_open::{AfterOpen, AfterOpenAddress};
use crate::operation::Operation;
use crate::operations::Link;
use crate::sys::fork::Life;
use crate::{Call, Errno, Examined, Handle};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

/// An operation and its state. Its address does not change.
pub(super) struct Task<O> {
    core: TaskCore,
    operation: UnsafeCell<Option<O>>,
}

/// The part of a task that does not depend on the type of its operation.
pub(super) struct TaskCore {
    pub(super) call: Call,
    state: Mutex<TaskState>,
    /// The process whose memory the kernel uses.
    life: Life,
    /// The handle in the driver's context, 0 before the driver has started the operation. Only the
    /// driver uses it.
    handle: AtomicU64,
    /// Whether the operation is over, for a thread that spins.
    is_over: AtomicBool,
    /// The batch to which the task belongs, which is woken instead of a waker of its own.
    batch: Option<Arc<BatchEnd>>,
    /// For an operation that wants the file that it opens loaded. While the operation is in flight, only
    /// the thread that makes the call uses this; then its future.
    after_open: UnsafeCell<Option<AfterOpen>>,
}

enum TaskState {
    InFlight(Option<Waker>),
    Over(Result<usize, Errno>),
    /// The future was dropped before the operation was over.
    Abandoned,
    Taken,
}

/// An operation that is over.
pub(super) struct Over<O> {
    pub(super) operation: O,
    pub(super) result: Result<usize, Errno>,
    /// What the thread that has opened the file has learned of it.
    pub(super) after_open: Option<AfterOpen>,
}

// SAFETY: the state passes the operation, and what is learned of its file, from one thread to another,
// and never lets two use them.
unsafe impl<O: Send> Sync for Task<O> {}

/// A task of any operation.
pub(super) trait AnyTask: Send + Sync {
    fn core(&self) -> &TaskCore;

    /// Drops the output of an abandoned operation that is over, which closes a descriptor that it
    /// holds.
    fn discard(&self, result: Result<usize, Errno>);
}

impl<O: Operation + Send> Task<O> {
    /// Moves an operation to its final address.
    pub(super) fn new(operation: O, batch: Option<Arc<BatchEnd>>) -> Arc<Task<O>> {
        let loaded = operation.wants_loaded();
        let mut task = Arc::new(Task {
            core: TaskCore {
                call: Call::new(0, []),
                state: Mutex::new(TaskState::InFlight(None)),
                life: Life::current(),
                handle: AtomicU64::new(0),
                is_over: AtomicBool::new(false),
                batch,
                after_open: UnsafeCell::new((loaded > 0).then(|| AfterOpen::new(loaded))),
            },
            operation: UnsafeCell::new(Some(operation)),
        });
        let own = Arc::get_mut(&mut task).expect("no other thread has it yet");
        own.core.call = own
            .operation
            .get_mut()
            .as_mut()
            .expect("put in above")
            .call();
        task
    }

    /// Returns the operation if it is over; otherwise keeps the waker for its end.
    ///
    /// # Panics
    /// In a forked child: the kernel uses the memory of the parent.
    pub(super) fn take(&self, waker: Option<&Waker>) -> Option<Over<O>> {
        let core = &self.core;
        assert!(
            core.life.is_current(),
            "laio: an operation that was in flight at a fork is polled in the child"
        );
        // Cloned and dropped without the lock: both run the program's code.
        let waker = waker.cloned();
        let mut state = core.lock();
        match &mut *state {
            TaskState::InFlight(kept) => {
                let before = std::mem::replace(kept, waker);
                drop(state);
                drop(before);
                None
            }
            TaskState::Over(result) => {
                let result = *result;
                *state = TaskState::Taken;
                drop(state);
                // SAFETY: the operation is over, and `Taken` lets only this thread pass.
                let (operation, after_open) = unsafe {
                    (
                        (*self.operation.get()).take(),
                        (*core.after_open.get()).take(),
                    )
                };
                Some(Over {
                    operation: operation.expect("it is taken once"),
                    result,
                    after_open,
                })
            }
            TaskState::Abandoned | TaskState::Taken => panic!("a future was polled after its end"),
        }
    }

    /// Marks the task as abandoned. Returns whether it must be cancelled; one that is over is
    /// dropped here.
    pub(super) fn abandon(&self) -> bool {
        let mut state = self.core.lock();
        match std::mem::replace(&mut *state, TaskState::Abandoned) {
            TaskState::InFlight(waker) => {
                drop(state);
                drop(waker);
                true
            }
            TaskState::Over(result) => {
                drop(state);
                self.discard(result);
                false
            }
            before @ (TaskState::Abandoned | TaskState::Taken) => {
                *state = before;
                false
            }
        }
    }

    /// Whether it was started in this process, rather than in the parent of a fork.
    pub(super) fn is_own(&self) -> bool {
        self.core.life.is_current()
    }
}

impl<O: Operation + Send> AnyTask for Task<O> {
    fn core(&self) -> &TaskCore {
        &self.core
    }

    fn discard(&self, result: Result<usize, Errno>) {
        // SAFETY: the operation is over, and its future, which was dropped, does not use it.
        let operation = unsafe { (*self.operation.get()).take() };
        if let Some(operation) = operation {
            drop(operation.finish(result));
        }
    }
}

impl TaskCore {
    pub(super) fn handle(&self) -> Option<Handle> {
        Handle::from_raw(self.handle.load(Relaxed))
    }

    pub(super) fn set_handle(&self, handle: Handle) {
        self.handle.store(handle.to_raw(), Relaxed);
    }

    /// Whether the operation is over. The lock orders what follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Whether the future was dropped before the operation was over.
    pub(super) fn is_abandoned(&self) -> bool {
        matches!(*self.lock(), TaskState::Abandoned)
    }

    fn lock(&self) -> MutexGuard<'_, TaskState> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The duty to complete a task, exactly once: dropping this without a result completes it with
/// `ECANCELED`. It is itself the operation that the driver's context owns, so that the task lives
/// until the kernel no longer uses its memory.
pub(super) struct Duty {
    /// `None` when the task was completed.
    task: Option<Arc<dyn AnyTask>>,
    hold: Option<Hold>,
}

impl Duty {
    pub(super) fn new(task: Arc<dyn AnyTask>, hold: Hold) -> Duty {
        Duty {
            task: Some(task),
            hold: Some(hold),
        }
    }

    pub(super) fn task(&self) -> &Arc<dyn AnyTask> {
        self.task.as_ref().expect("not yet completed")
    }

    pub(super) fn core(&self) -> &TaskCore {
        self.task().core()
    }

    /// The descriptors on which the operation has an order to keep.
    pub(super) fn links(&self) -> [Link; 2] {
        self.hold.as_ref().map_or([Link::UNUSED; 2], Hold::links)
    }

    /// Whether this is the duty for that task.
    pub(super) fn is_for(&self, other: &Arc<dyn AnyTask>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(self.task()), Arc::as_ptr(other))
    }

    /// What the thread that makes the call does with a file that it opens. For this thread only.
    pub(super) fn after_open(&self) -> Option<AfterOpenAddress> {
        // SAFETY: the operation is in flight, so nothing else uses it.
        let after_open = unsafe { &mut *self.core().after_open.get() };
        after_open.as_mut().map(AfterOpen::address)
    }

    pub(super) fn complete(mut self, result: Result<usize, Errno>) {
        self.complete_once(result);
    }

    fn complete_once(&mut self, result: Result<usize, Errno>) {
        let Some(task) = self.task.take() else {
            return;
        };
        // Before the future is woken, which may start the next operation on the descriptor.
        self.hold = None;
        // The program's code: wakers and destructors.
        guarded(move || {
            let core = task.core();
            let mut state = core.lock();
            match &mut *state {
                TaskState::InFlight(waker) => {
                    let waker = waker.take();
                    *state = TaskState::Over(result);
                    drop(state);
                    // A thread that spins takes the lock next.
                    core.is_over.store(true, Relaxed);
                    let waker = match &core.batch {
                        Some(batch) => batch.count_one(),
                        None => waker,
                    };
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
                TaskState::Abandoned => {
                    drop(state);
                    task.discard(result);
                }
                TaskState::Over(_) | TaskState::Taken => {}
            }
        });
    }
}

impl Drop for Duty {
    fn drop(&mut self) {
        self.complete_once(Err(Errno::CANCELED));
    }
}

// SAFETY: the call is that of the task's operation, whose memory lives as long as the task does.
unsafe impl Operation for Duty {
    type Output = ();

    fn call(&mut self) -> Call {
        self.core().call
    }

    fn wants_loaded(&self) -> usize {
        // SAFETY: the operation is in flight, and the driver has its duty.
        let after_open = unsafe { &*self.core().after_open.get() };
        after_open.as_ref().map_or(0, AfterOpen::wanted)
    }

    fn examined(&mut self, examined: &Examined) {
        // SAFETY: as above.
        let after_open = unsafe { &mut *self.core().after_open.get() };
        if let Some(after_open) = after_open {
            after_open.status = examined.status();
            after_open.loaded = examined.loaded();
        }
    }

    fn finish(self, result: Result<usize, Errno>) {
        self.complete(result);
    }
}

/// Runs code of the program on a thread of the engine, which a panic must not end.
pub(super) fn guarded(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // Its destructor could panic again.
        std::mem::forget(payload);
    }
}
