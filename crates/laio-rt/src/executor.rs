//! The executor's loop: it polls ready tasks, then reaps completions, and sleeps only if no task is ready.

use crate::extra_contexts::{ContextId, ExtraContexts};
use crate::join::{Aborted, Join, JoinHandle};
use crate::limits;
use crate::submission::Engine;
use crate::task::{Header, Remote, Task, TaskId, Tasks};
use crate::timers::Timers;
use laio::Options;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// An action on the engine that was postponed because the engine was borrowed.
type Deferred = Box<dyn FnOnce(&mut Engine)>;

/// The state of a runtime. No `RefCell` of it stays borrowed while foreign code (a future, a waker, a destructor
/// of a task) runs.
pub(crate) struct Core {
    pub(crate) engine: RefCell<Engine>,
    pub(crate) extra: ExtraContexts,
    pub(crate) timers: RefCell<Timers>,
    tasks: RefCell<Tasks>,
    ready: RefCell<VecDeque<TaskId>>,
    /// Wakers of the tasks that have called [`give_way`](crate::give_way).
    yielded: RefCell<VecDeque<Waker>>,
    remote: Arc<Remote>,
    deferred: RefCell<Vec<(ContextId, Deferred)>>,
    /// The number of operations that the current poll of a task may still start.
    budget: Cell<u32>,
    /// The number of operations started since completions were last reaped.
    started: Cell<u32>,
    running: Cell<bool>,
    /// Whether the engine is being polled for completions, and may sleep.
    reaping: Cell<bool>,
    /// Whether the runtime is being dropped, and refuses new tasks.
    closing: Cell<bool>,
    /// A vector that is reused in each turn.
    woken: RefCell<Vec<Waker>>,
    /// The number of times that completions were reaped.
    turn: Cell<u64>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Makes a core the current one of the thread, and restores the previous one when dropped.
struct Entered {
    before: Option<Rc<Core>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let ours = CURRENT.with(|current| current.replace(before));
        drop(ours);
    }
}

impl Core {
    pub(crate) fn new(options: Options) -> io::Result<Rc<Core>> {
        let mut context = laio::Context::new(options)?;
        let remote = Remote::new(context.notifier());
        Ok(Rc::new(Core {
            engine: RefCell::new(Engine::new(context)),
            extra: ExtraContexts::default(),
            timers: RefCell::default(),
            tasks: RefCell::default(),
            ready: RefCell::default(),
            yielded: RefCell::default(),
            remote,
            deferred: RefCell::default(),
            budget: Cell::new(limits::OPERATIONS_PER_POLL),
            started: Cell::new(0),
            running: Cell::new(false),
            reaping: Cell::new(false),
            closing: Cell::new(false),
            woken: RefCell::default(),
            turn: Cell::new(0),
        }))
    }

    /// Returns the core whose `block_on` runs the calling code.
    pub(crate) fn current() -> Rc<Core> {
        Core::try_current().expect("laio_rt is used outside of Runtime::block_on")
    }

    /// As [`Core::current`], but returns `None` outside of `block_on` and while the thread's locals are destroyed.
    pub(crate) fn try_current() -> Option<Rc<Core>> {
        CURRENT
            .try_with(|current| current.borrow().clone())
            .ok()
            .flatten()
    }

    /// Queues a task without the notifier if the calling thread runs the task's core. Returns whether it did.
    pub(crate) fn queue_here(remote: &Arc<Remote>, id: TaskId) -> bool {
        let queued = CURRENT.try_with(|current| match &*current.borrow() {
            Some(core) if Arc::ptr_eq(&core.remote, remote) => {
                core.ready.borrow_mut().push_back(id);
                if core.reaping.get() {
                    // A destructor that the engine runs has woken the task: the engine must not go to sleep.
                    remote.notify();
                }
                true
            }
            _ => false,
        });
        queued.unwrap_or(false)
    }

    fn enter(self: &Rc<Core>) -> Entered {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        Entered { before }
    }

    /// Counts an operation that is about to start. Returns false if the current poll has used up its budget.
    pub(crate) fn spend_budget(&self) -> bool {
        let left = self.budget.get();
        if left == 0 {
            return false;
        }
        self.budget.set(left - 1);
        self.started.set(self.started.get() + 1);
        true
    }

    /// Runs an action on the engine: now, or, if a destructor that the engine runs calls this, before the
    /// executor sleeps.
    pub(crate) fn with_engine(&self, id: ContextId, action: impl FnOnce(&mut Engine) + 'static) {
        match self.engine_of(id).try_borrow_mut() {
            Ok(mut engine) => action(&mut engine),
            Err(_) => {
                self.deferred.borrow_mut().push((id, Box::new(action)));
                self.remote.notify();
            }
        }
    }

    fn do_deferred(&self) {
        loop {
            let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
            if deferred.is_empty() {
                return;
            }
            for (id, action) in deferred {
                action(&mut self.engine_of(id).borrow_mut());
            }
        }
    }

    pub(crate) fn spawn<F>(self: &Rc<Core>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let join = Join::new();
        if self.closing.get() {
            join.finish(Err(Aborted::on_request()));
            return JoinHandle::new(TaskId::MAIN, Rc::downgrade(self), join);
        }
        let output_slot = join.clone();
        // Boxed separately: an async block that awaited the future would contain it twice.
        let mut future = Box::pin(future);
        let future = Box::pin(poll_fn(move |context| {
            let polled = future.as_mut().poll(context);
            polled.map(|output| output_slot.finish(Ok(output)))
        }));
        let mut wakes = None;
        let id = self.tasks.borrow_mut().insert(|id| {
            let header = Header::new(id, self.remote.clone());
            let waker = Waker::from(header.clone());
            wakes = Some(waker.clone());
            Task {
                future,
                header,
                waker,
                join: join.clone(),
            }
        });
        if let Some(waker) = wakes {
            waker.wake();
        }
        JoinHandle::new(id, Rc::downgrade(self), join)
    }

    pub(crate) fn abort(&self, id: TaskId) {
        let task = self.tasks.borrow_mut().abort(id);
        if let Some(task) = task {
            end(task, Aborted::on_request());
        }
    }

    pub(crate) fn turn(&self) -> u64 {
        self.turn.get()
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.borrow().count()
    }

    /// Runs the executor until the future is ready.
    pub(crate) fn block_on<F: Future>(self: &Rc<Core>, future: F) -> F::Output {
        assert!(
            !self.running.replace(true),
            "Runtime::block_on was called from within itself"
        );
        let _entered = self.enter();
        let _running = Running(&self.running);
        let mut future = pin!(future);
        let header = Header::new(TaskId::MAIN, self.remote.clone());
        let waker = Waker::from(header.clone());
        waker.wake_by_ref();
        loop {
            self.ready.borrow_mut().extend(self.remote.take());
            self.do_deferred();
            self.fire_timers();
            for _ in 0..limits::TASKS_PER_TURN {
                let Some(id) = self.next_ready() else { break };
                self.budget.set(limits::OPERATIONS_PER_POLL);
                if id == TaskId::MAIN {
                    header.unqueue();
                    let mut context = Context::from_waker(&waker);
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        return output;
                    }
                } else {
                    self.run(id);
                }
            }
            self.requeue_yielded();
            self.reap();
        }
    }

    /// Wakes a task after the other ready tasks have run.
    pub(crate) fn give_way(&self, waker: Waker) {
        self.yielded.borrow_mut().push_back(waker);
    }

    /// Queues some of the tasks that have yielded behind those that are ready.
    fn requeue_yielded(&self) {
        for _ in 0..limits::GIVEN_WAY_PER_TURN {
            let Some(waker) = self.yielded.borrow_mut().pop_front() else {
                return;
            };
            waker.wake();
        }
    }

    /// Returns the next task of this turn, if the turn's budget of operations is not used up.
    fn next_ready(&self) -> Option<TaskId> {
        if self.started.get() >= limits::OPERATIONS_PER_TURN {
            return None;
        }
        self.ready.borrow_mut().pop_front()
    }

    /// Polls a task, unless it has ended.
    fn run(&self, id: TaskId) {
        let Some(mut task) = self.tasks.borrow_mut().take_to_poll(id) else {
            return;
        };
        task.header.unqueue();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let mut context = Context::from_waker(&task.waker);
            task.future.as_mut().poll(&mut context)
        }));
        match polled {
            Ok(Poll::Pending) => {
                let put_back = self.tasks.borrow_mut().put_back(id, task);
                if let Err(task) = put_back {
                    end(task, Aborted::on_request());
                }
            }
            Ok(Poll::Ready(())) => {
                self.tasks.borrow_mut().remove(id);
                drop_quietly(task);
            }
            Err(payload) => {
                self.tasks.borrow_mut().remove(id);
                end(task, Aborted::by_panic(payload));
            }
        }
    }

    fn fire_timers(&self) {
        // Without a timer the clock is not read.
        if self.timers.borrow().next().is_none() {
            return;
        }
        let mut due = std::mem::take(&mut *self.woken.borrow_mut());
        self.timers.borrow_mut().take_due(Instant::now(), &mut due);
        due.drain(..).for_each(Waker::wake);
        self.woken.replace(due);
    }

    /// Wakes the tasks whose operations have finished. Sleeps if no task is ready.
    fn reap(&self) {
        self.started.set(0);
        self.turn.set(self.turn.get() + 1);
        let mut woken = std::mem::take(&mut *self.woken.borrow_mut());
        self.reaping.set(true);
        let extra = self.reap_extra(&mut woken);
        let busy = !matches!(extra, Ok(false))
            || !self.ready.borrow().is_empty()
            || !self.deferred.borrow().is_empty()
            || !woken.is_empty();
        let timeout = if busy {
            Some(Duration::ZERO)
        } else {
            let next = self.timers.borrow().next();
            next.map(|next| next.saturating_duration_since(Instant::now()))
        };
        let result = self.engine.borrow_mut().reap(timeout, &mut woken);
        self.reaping.set(false);
        woken.drain(..).for_each(Waker::wake);
        self.woken.replace(woken);
        if let Err(error) = extra.and(result) {
            // No waiting task could ever continue.
            panic!("laio_rt cannot wait for operations any more: {error}");
        }
    }

    /// Ends all tasks, and abandons their operations in flight.
    pub(crate) fn close(self: &Rc<Core>) {
        let _entered = self.enter();
        self.closing.set(true);
        let tasks = self.tasks.borrow_mut().drain();
        for task in tasks {
            end(task, Aborted::on_request());
        }
        self.ready.borrow_mut().clear();
        self.do_deferred();
    }
}

/// Clears the core's `running` flag when `block_on` ends, also if its future panics.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Drops a task that has no output, then wakes the task that awaits it.
fn end(task: Task, why: Aborted) {
    let join = task.join.clone();
    drop_quietly(task);
    join.fail(why);
}

/// Drops a task. The panic hook has reported a panicking destructor, which must not end other tasks.
fn drop_quietly(task: Task) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(task))) {
        // The payload's own destructor could panic again.
        std::mem::forget(payload);
    }
}
