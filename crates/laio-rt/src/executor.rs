//! The executor's loop: it polls ready tasks, then reaps completions, and sleeps only if no task is ready.

use crate::contexts::Contexts;
use crate::join::JoinHandle;
use crate::limits;
use crate::ready::{ReadyQueue, TaskId, TaskWaker};
use crate::task::Tasks;
use crate::timers::Timers;
use crate::turns::Turns;
use laio::{Options, Rights};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// The state of a runtime. No `RefCell` of it stays borrowed while foreign code (a future, a waker, a destructor
/// of a task) runs.
pub(crate) struct Core {
    pub(crate) contexts: Contexts,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) tasks: Rc<Tasks>,
    ready: Arc<ReadyQueue>,
    /// Wakers of the tasks that have called [`give_way`](crate::give_way).
    yielded: RefCell<VecDeque<Waker>>,
    /// The number of operations that the current poll of a task may still start.
    budget: Cell<u32>,
    /// The number of operations started since completions were last reaped.
    started: Cell<u32>,
    running: Cell<bool>,
    /// A vector that is reused in each turn.
    woken: RefCell<Vec<Waker>>,
    pub(crate) turns: Arc<Turns>,
    /// The time of the present turn, once something has asked for it.
    turn_time: Cell<Option<Instant>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Makes a core the current one of the thread. When dropped, also by a panic, restores the previous one.
struct Entered {
    before: Option<Rc<Core>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        if let Some(ours) = CURRENT.with(|current| current.replace(before)) {
            ours.turns.end();
            ours.running.set(false);
        }
    }
}

impl Core {
    pub(crate) fn new(options: Options) -> io::Result<Rc<Core>> {
        let mut context = laio::Context::new(options.default_rights(Rights::Process))?;
        Ok(Rc::new(Core {
            ready: ReadyQueue::new(context.notifier()),
            contexts: Contexts::new(context),
            timers: RefCell::default(),
            tasks: Rc::default(),
            yielded: RefCell::default(),
            budget: Cell::new(limits::OPERATIONS_PER_POLL),
            started: Cell::new(0),
            running: Cell::new(false),
            woken: RefCell::default(),
            turns: Arc::default(),
            turn_time: Cell::new(None),
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

    fn enter(self: &Rc<Core>) -> Entered {
        let before = CURRENT.with(|current| current.replace(Some(self.clone())));
        self.turns.begin();
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

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (id, output) = self.tasks.spawn(future, &self.ready);
        JoinHandle::new(id, Rc::downgrade(&self.tasks), output)
    }

    /// Runs the executor until the future is ready.
    pub(crate) fn block_on<F: Future>(self: &Rc<Core>, future: F) -> F::Output {
        assert!(
            !self.running.replace(true),
            "Runtime::block_on was called from within itself"
        );
        let _entered = self.enter();
        let mut future = pin!(future);
        let queued = TaskWaker::start(TaskId::MAIN, &self.ready);
        let waker = Waker::from(queued.clone());
        loop {
            self.contexts.do_deferred();
            self.fire_timers();
            for _ in 0..limits::TASKS_PER_TURN {
                let Some(id) = self.next_ready() else { break };
                self.budget.set(limits::OPERATIONS_PER_POLL);
                if id == TaskId::MAIN {
                    queued.unqueue();
                    let mut context = Context::from_waker(&waker);
                    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                        return output;
                    }
                } else {
                    self.tasks.poll(id);
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
        self.ready.pop()
    }

    /// Returns the time of the present turn. The clock is read at most once in a turn.
    pub(crate) fn turn_time(&self) -> Instant {
        let time = self.turn_time.get().unwrap_or_else(Instant::now);
        self.turn_time.set(Some(time));
        time
    }

    fn fire_timers(&self) {
        // Without a timer the clock is not read.
        if self.timers.borrow().next().is_none() {
            return;
        }
        let now = self.turn_time();
        let mut due = std::mem::take(&mut *self.woken.borrow_mut());
        self.timers.borrow_mut().take_due(now, &mut due);
        due.drain(..).for_each(Waker::wake);
        self.woken.replace(due);
    }

    /// Wakes the tasks whose operations have finished. Sleeps if no task is ready.
    fn reap(&self) {
        self.started.set(0);
        self.turns.end();
        let mut woken = std::mem::take(&mut *self.woken.borrow_mut());
        self.ready.set_reaping(true);
        let result = self.contexts.reap(|| self.time_to_sleep(), &mut woken);
        self.ready.set_reaping(false);
        self.turns.begin();
        self.turn_time.set(None);
        woken.drain(..).for_each(Waker::wake);
        self.woken.replace(woken);
        match result {
            Ok(()) => {}
            // The operations stay, and the next turn waits for them again.
            Err(error) if laio::Errno::from(&error).is_shortage() => {
                std::thread::sleep(limits::SHORTAGE_PAUSE);
            }
            // No waiting task could ever continue.
            Err(error) => panic!("laio_rt cannot wait for operations any more: {error}"),
        }
    }

    /// Returns how long the executor may sleep: not at all while tasks are ready, else until the next timer expires.
    fn time_to_sleep(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let next = self.timers.borrow().next();
        next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Ends all tasks, and abandons their operations in flight.
    pub(crate) fn close(self: &Rc<Core>) {
        let _entered = self.enter();
        self.tasks.close();
        self.ready.clear();
        self.contexts.do_deferred();
    }
}
