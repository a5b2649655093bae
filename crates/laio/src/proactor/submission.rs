//! The future of one operation.

use super::batch_end::BatchEnd;
use super::busy::Hold;
use super::driver::Driver;
use super::generation::Generation;
use super::helper_pool;
use super::inbox::Rest;
use super::local::{self, Request};
use super::loop_ring::{self, FindLoopRing, LoopRing};
use super::one_shot::{self, OneShot, Reservation};
use super::rights::{Maker, maker};
use super::shared::Shared;
use super::task::{AnyTask, Duty, Task};
use crate::attempt::{Attempted, Examined, Why};
use crate::operation::Operation;
use crate::operations::Link;
use crate::step::total;
use crate::table::{self, Attempt};
use crate::{Call, Errno};
use std::fmt;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

/// The future of an operation; see [`Proactor::submit`](crate::Proactor::submit).
#[must_use = "the call is made when the future is polled"]
pub struct Submission<O: Operation + Send> {
    shared: Arc<Shared>,
    state: State<O>,
    find_loop: Option<FindLoopRing>,
}

enum State<O: Operation + Send> {
    New(O),
    /// Attempted, and waiting until a thread may be started for it.
    Waiting(O, Rest),
    InFlight(InFlight<O>),
    Over,
}

/// An operation that was handed over. Dropping this cancels it.
pub(super) struct InFlight<O: Operation + Send> {
    /// `None` when the output was taken.
    task: Option<Arc<Task<O>>>,
    maker: Running,
    shared: Arc<Shared>,
}

/// Who makes the call.
enum Running {
    Driver(Arc<Driver>),
    /// A helper of the driver, without a wakeup of the driver.
    Helper(Arc<Driver>),
    /// The ring of the event loop of the calling thread, watched by the driver.
    Loop(Arc<Driver>, LoopRing),
    OneShot(Arc<OneShot>),
    /// A one-shot thread that was not started yet.
    Reserved(Reservation),
    /// No thread could be started: the operation has failed.
    None,
}

// The operation moves to the heap before its address is passed to the kernel.
impl<O: Operation + Send> Unpin for Submission<O> {}

impl<O: Operation + Send> Submission<O> {
    pub(super) fn new(shared: Arc<Shared>, operation: O) -> Submission<O> {
        Submission {
            shared,
            state: State::New(operation),
            find_loop: None,
        }
    }

    /// Submits a read of a file that would block to the ring of the event loop that runs on the calling
    /// thread, if `find` returns one. `find` is called only then. Other operations go to the background as
    /// without it.
    pub fn in_loop(mut self, find: FindLoopRing) -> Submission<O> {
        self.find_loop = Some(find);
        self
    }

    /// Lets an operation that was started finish without the future: its output is dropped then.
    pub fn detach(mut self) {
        if let State::InFlight(in_flight) = &mut self.state {
            in_flight.detach();
        }
    }

    /// Whether the call was attempted or made.
    pub fn is_started(&self) -> bool {
        !matches!(self.state, State::New(_))
    }
}

impl<O: Operation + Send> Future for Submission<O> {
    type Output = O::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<O::Output> {
        let Submission {
            shared,
            state,
            find_loop,
        } = self.get_mut();
        let find_loop = *find_loop;
        let handed_over = match std::mem::replace(state, State::Over) {
            State::New(operation) => match attempt(shared, operation) {
                Ok(output) => return Poll::Ready(output),
                Err((operation, rest)) => {
                    hand_over(shared, operation, rest, context.waker(), find_loop)
                }
            },
            State::Waiting(operation, rest) => {
                hand_over(shared, operation, rest, context.waker(), find_loop)
            }
            State::InFlight(mut in_flight) => match in_flight.take(Some(context.waker())) {
                Some(output) => return Poll::Ready(output),
                None => HandedOver::Yes(in_flight),
            },
            State::Over => panic!("a Submission was polled after it had completed"),
        };
        *state = match handed_over {
            HandedOver::Yes(in_flight) => State::InFlight(in_flight),
            HandedOver::Later(operation, rest) => State::Waiting(operation, rest),
            HandedOver::Over(output) => return Poll::Ready(output),
        };
        Poll::Pending
    }
}

/// Attempts an operation on the calling thread. Returns it if it must go to the background.
#[inline]
pub(super) fn attempt<O: Operation + Send>(
    shared: &Arc<Shared>,
    mut operation: O,
) -> Result<O::Output, (O, Rest)> {
    let examined = operation.wants_status().then(Examined::default);
    let request = Request {
        call: operation.call(),
        file: operation.file_identity(),
        skip: skipped(shared, &operation),
        examined: examined.as_ref(),
    };
    let attempt = |local: &mut local::Local| {
        // SAFETY: the operation owns what the call points to, and stays where it is.
        unsafe { local.attempt(shared, &request) }
    };
    // While the thread ends, it has no knowledge to attempt calls by.
    let attempted = local::with(shared, attempt);
    match attempted.unwrap_or(Attempted::blocked(0, Why::NotTried)) {
        Attempted::Done(result) | Attempted::OverBudget(result) => {
            if let (Some(examined), Ok(_)) = (&examined, result) {
                operation.examined(examined);
            }
            Ok(operation.finish(result))
        }
        Attempted::Blocked(blocked) => Err((operation, blocked.into())),
    }
}

/// Why no attempt is made, if a driver has what the operation asks for instead.
#[inline]
fn skipped<O: Operation>(shared: &Shared, operation: &O) -> Option<Why> {
    let (expects, zero_copy) = (operation.expects_to_block(), operation.is_zero_copy());
    if !expects && !zero_copy {
        return None;
    }
    let driver = shared.generation().started().next()?;
    match () {
        () if expects && driver.has_ring => Some(Why::ExpectedToBlock),
        () if zero_copy && driver.sends_without_copy => Some(Why::ZeroCopy),
        () => None,
    }
}

pub(super) enum HandedOver<O: Operation + Send> {
    Yes(InFlight<O>),
    /// As many threads are running as there may be; the waker is woken when one has ended.
    Later(O, Rest),
    Over(O::Output),
}

/// Hands an operation over that was attempted.
fn hand_over<O: Operation + Send>(
    shared: &Arc<Shared>,
    operation: O,
    rest: Rest,
    waker: &Waker,
    find_loop: Option<FindLoopRing>,
) -> HandedOver<O> {
    let placed = match place(shared, operation, rest, waker, None, find_loop) {
        Ok(placed) => placed,
        Err(other) => return other,
    };
    let Placed {
        in_flight,
        duty,
        rest,
    } = placed;
    let task = in_flight.task.clone().expect("it was put in just now");
    let Running::Helper(driver) = &in_flight.maker else {
        let none = task.take(Some(waker));
        debug_assert!(none.is_none(), "no thread has it yet");
        let in_flight = in_flight.start(duty, rest);
        if let Some(ring) = in_flight.ring() {
            ring.enter();
        }
        return HandedOver::Yes(in_flight);
    };
    driver.helpers.call(duty, rest);
    let helpers = &driver.helpers;
    local::with(shared, |local| {
        local.spin(helpers, || task.core().is_over())
    });
    let mut in_flight = in_flight;
    match in_flight.take(Some(waker)) {
        Some(output) => HandedOver::Over(output),
        None => HandedOver::Yes(in_flight),
    }
}

/// An operation at its final address, for which it is decided who makes the call.
pub(super) struct Placed<O: Operation + Send> {
    pub(super) in_flight: InFlight<O>,
    pub(super) duty: Duty,
    pub(super) rest: Rest,
}

/// Decides who makes the call of an operation, and moves the operation to its final address.
pub(super) fn place<O: Operation + Send>(
    shared: &Arc<Shared>,
    mut operation: O,
    rest: Rest,
    waker: &Waker,
    batch: Option<Arc<BatchEnd>>,
    find_loop: Option<FindLoopRing>,
) -> Result<Placed<O>, HandedOver<O>> {
    let call = operation.call();
    let generation = shared.generation_arc();
    if generation.is_closed() {
        return Err(fail(operation, &call, rest, Errno::CANCELED));
    }
    let decide = |local: &mut local::Local| {
        Decision::of(
            shared,
            &generation,
            local,
            &call,
            &rest,
            find_loop.is_some(),
        )
    };
    let decision = local::with(shared, decide);
    let Decision {
        made_by,
        links,
        hop,
    } = decision.unwrap_or(Decision::WHILE_THE_THREAD_ENDS);
    let maker = match made_by {
        Ok(maker) => maker,
        Err(errno) => return Err(fail(operation, &call, rest, errno)),
    };
    let reserved = match maker {
        Maker::Driver(_) => None,
        Maker::OneShot => {
            let asked = |local: &mut local::Local| {
                let regular = local.is_regular(table::row(call.number), &call);
                local.asked_remote(&call, &rest, regular)
            };
            let remote = local::with(shared, asked).flatten();
            match generation.one_shots.reserve(remote, waker) {
                None => return Err(HandedOver::Later(operation, rest)),
                reserved => reserved,
            }
        }
    };
    generation.handed_over.fetch_add(1, Relaxed);
    let maker = match maker {
        Maker::Driver(driver) => running(shared, &generation, driver, hop, find_loop),
        Maker::OneShot => reserved.map_or(Running::None, Running::Reserved),
    };
    let task = Task::new(operation, batch);
    let duty = Duty::new(task.clone(), Hold::new(&generation.busy, links));
    Ok(Placed {
        in_flight: InFlight {
            task: Some(task),
            maker,
            shared: shared.clone(),
        },
        duty,
        rest,
    })
}

/// Who makes the call of an operation.
struct Decision {
    made_by: Result<Maker, Errno>,
    links: [Link; 2],
    hop: Hop,
}

impl Decision {
    /// Only a thread that the ending thread starts has its rights for certain.
    const WHILE_THE_THREAD_ENDS: Decision = Decision {
        made_by: Ok(Maker::OneShot),
        links: [Link::UNUSED; 2],
        hop: Hop::Driver,
    };

    fn of(
        shared: &Shared,
        generation: &Generation,
        local: &mut local::Local,
        call: &Call,
        rest: &Rest,
        has_loop: bool,
    ) -> Decision {
        let row = table::row(call.number);
        let regular = local.is_regular(row, call);
        let links = local.links_in_flight(row, call, regular);
        let made_by = maker(generation, &shared.options, local, row, call, &links);
        let waits = || generation.must_wait(&links);
        let hop = match &made_by {
            Ok(Maker::Driver(driver)) => {
                if helper_pool::takes(shared, driver.has_ring, row, rest, &links)
                    && local.asked_remote(call, rest, regular).is_none()
                    && !waits()
                {
                    Hop::Helper
                } else if has_loop
                    && loop_ring::takes(shared, driver.has_ring, row, rest, &links)
                    && regular
                    && local.asked_remote(call, rest, regular).is_none()
                    && !waits()
                {
                    Hop::Loop
                } else {
                    Hop::Driver
                }
            }
            _ => Hop::Driver,
        };
        // A number may belong to another file before its close ends: see `Operations::begin_remote_close`.
        let closes =
            row.attempt == Attempt::Close && local.asked_remote(call, rest, regular).is_some();
        Decision {
            made_by,
            links: if closes { [Link::UNUSED; 2] } else { links },
            hop,
        }
    }
}

/// Where an operation of a driver goes first.
enum Hop {
    Driver,
    Helper,
    Loop,
}

fn running(
    shared: &Arc<Shared>,
    generation: &Generation,
    driver: Arc<Driver>,
    hop: Hop,
    find_loop: Option<FindLoopRing>,
) -> Running {
    match hop {
        Hop::Helper => {
            generation.direct.fetch_add(1, Relaxed);
            Running::Helper(driver)
        }
        Hop::Loop => match find_loop
            .and_then(|find| find())
            .filter(|ring| ring.is_of(shared))
        {
            Some(ring) => Running::Loop(driver, ring),
            None => Running::Driver(driver),
        },
        Hop::Driver => Running::Driver(driver),
    }
}

/// The outcome of an operation that cannot go to the background. A `close` is made: an error would leave
/// the program in doubt whether the descriptor is still open.
fn fail<O: Operation + Send>(operation: O, call: &Call, rest: Rest, errno: Errno) -> HandedOver<O> {
    let result = match table::row(call.number).attempt {
        Attempt::Close => crate::sys::close(call.descriptor(0)),
        _ => total(rest.done, Err(errno)),
    };
    HandedOver::Over(operation.finish(result))
}

impl<O: Operation + Send> InFlight<O> {
    pub(super) fn start(mut self, duty: Duty, rest: Rest) -> InFlight<O> {
        match &self.maker {
            Running::Driver(driver) => driver.submit([(duty, rest)]),
            Running::Loop(driver, ring) => match ring.push(duty, rest, &driver.helpers) {
                Ok(()) => {
                    let generation = self.shared.generation();
                    generation.in_loops.fetch_add(1, Relaxed);
                }
                Err(refused) => {
                    driver.submit([refused]);
                    self.maker = Running::Driver(driver.clone());
                }
            },
            Running::Helper(driver) => driver.helpers.call(duty, rest),
            Running::Reserved(reserved) => {
                let generation = self.shared.generation_arc();
                let started = one_shot::start(&generation.one_shots, *reserved, duty, rest);
                self.maker = started.map_or(Running::None, Running::OneShot);
            }
            Running::OneShot(_) | Running::None => unreachable!("it is started once"),
        }
        self
    }

    /// The ring of an event loop to which the operation was added.
    pub(super) fn ring(&self) -> Option<&LoopRing> {
        match &self.maker {
            Running::Loop(_, ring) => Some(ring),
            _ => None,
        }
    }

    /// The driver that makes the call; `None` if another thread does.
    pub(super) fn driver(&self) -> Option<&Arc<Driver>> {
        match &self.maker {
            Running::Driver(driver) => Some(driver),
            _ => None,
        }
    }

    /// Gives the output up without cancelling the operation.
    fn detach(&mut self) {
        match self.task.take() {
            Some(task) if task.is_own() => drop(task.abandon()),
            // A forked child: the memory is that of the parent's operation.
            task => std::mem::forget(task),
        }
    }

    /// Returns the output if the operation is over; otherwise keeps the waker for its end.
    pub(super) fn take(&mut self, waker: Option<&Waker>) -> Option<O::Output> {
        let over = self.task.as_ref().expect("not taken yet").take(waker)?;
        self.task = None;
        let mut operation = over.operation;
        if let (Some(after_open), Ok(fd)) = (over.after_open, over.result) {
            let learn = |local: &mut local::Local| local.learn_opened(fd as RawFd, &after_open);
            // While the thread ends, it has no knowledge of file systems.
            if let Some(examined) = local::with(&self.shared, learn) {
                operation.examined(&examined);
            }
        }
        Some(operation.finish(over.result))
    }
}

impl<O: Operation + Send> Drop for InFlight<O> {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else {
            return;
        };
        if !task.is_own() {
            // A forked child: the memory is that of the parent's operation.
            std::mem::forget(task);
            return;
        }
        if task.abandon() {
            self.shared.generation().cancelled.fetch_add(1, Relaxed);
            match &self.maker {
                Running::Driver(driver) | Running::Helper(driver) => driver.cancel(task),
                Running::OneShot(thread) => thread.cancel(),
                Running::Loop(driver, ring) => {
                    let task: Arc<dyn AnyTask> = task;
                    if !ring.cancel(&task) {
                        driver.cancel(task);
                    }
                }
                Running::Reserved(_) | Running::None => {}
            }
        }
    }
}

impl<O: Operation + Send> fmt::Debug for Submission<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.state {
            State::New(_) => "Submission(not started)",
            State::Waiting(..) => "Submission(waiting)",
            State::InFlight(_) => "Submission(in flight)",
            State::Over => "Submission(over)",
        })
    }
}
