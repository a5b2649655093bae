//! The simulated program with its context: starts calls, lets the kernel act, and checks what is delivered.

use super::kernel::{Kernel, Now, Request};
use super::program::{Fate, KINDS, Kind, ProgramCall, Target};
use crate::attempt::{Attempted, Blocked, Why};
use crate::background::job::Cancelled;
use crate::background::{Parts, Steps};
use crate::knowledge::hints::Hints;
use crate::lifecycle::Lifecycle;
use crate::operations::{Operations, Part, Payload, Slot, State, links};
use crate::placement::{Case, offer};
use crate::step::total;
use crate::table::{Attempt, Class};
use crate::transfer::{only_plain, uses_position};
use crate::{Call, Completion, Errno, Handle};
use laio_testing::Random;
use std::cell::Cell;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(super) struct World {
    pub(super) random: Random,
    pub(super) operations: Operations,
    hints: Hints,
    pub(super) kernel: Kernel,
    pub(super) calls: Vec<ProgramCall>,
    parts: Parts,
    /// Whether calls are attempted before they go to the background.
    attempts: bool,
    pub(super) bound: usize,
    pub(super) failed_cancels: Vec<Handle>,
    now: Instant,
    /// At the end the kernel refuses nothing.
    pub(super) ending: bool,
    trace: bool,
    pub(super) events: u64,
}

/// The value of a typed operation, which owns the memory of its call.
struct Owner(Rc<Cell<bool>>);

impl Drop for Owner {
    fn drop(&mut self) {
        assert!(!self.0.replace(true), "a value is dropped twice");
    }
}

impl World {
    pub(super) fn new(mut random: Random, trace: bool) -> World {
        let limit = random.between(1..12) as u32;
        let ring = random.chance(1, 2);
        World {
            operations: Operations::new(limit),
            hints: Hints::default(),
            kernel: Kernel::new(&mut random),
            calls: Vec::new(),
            parts: Parts {
                ring,
                readiness: ring || random.chance(2, 3),
                aio: !ring && random.chance(1, 3),
            },
            attempts: random.chance(3, 4),
            bound: if random.chance(1, 10) {
                random.between(1..9)
            } else {
                0
            },
            failed_cancels: Vec::new(),
            now: Instant::now(),
            ending: false,
            trace,
            events: 0,
            random,
        }
    }

    /// Runs the program to its end. Returns the number of events.
    pub(super) fn run(mut self) -> u64 {
        for index in 0..self.kernel.files.len() {
            let ordered = self.random.chance(1, 8);
            self.hints.set_ordered(self.kernel.files[index].fd, ordered);
        }
        for _ in 0..self.random.between(10..80) {
            self.turn();
        }
        if self.random.chance(1, 5) {
            self.shut_down();
        }
        self.end();
        self.events
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{}", what());
        }
    }

    pub(super) fn chance(&mut self, times: usize, of: usize) -> bool {
        !self.ending && self.random.chance(times, of)
    }

    fn turn(&mut self) {
        self.events += 1;
        match self.random.below(20) {
            0..=8 => self.start_call(),
            9..=12 => self.poll(),
            13..=15 => self.kernel.stir(&mut self.random),
            16 => self.with_pending(World::cancel),
            17 => self.with_pending(World::abandon),
            18 => self.with_pending(World::set_timeout),
            _ if self.random.chance(1, 4) => self.fork(),
            _ => self.take_values(),
        }
        self.check_values();
    }

    /// Does something to one of the calls in flight.
    fn with_pending(&mut self, act: fn(&mut World, usize, Handle)) {
        let pending = |(number, call): (usize, &ProgramCall)| match call.fate {
            Fate::Pending(handle) => Some((number, handle)),
            _ => None,
        };
        let all: Vec<_> = self.calls.iter().enumerate().filter_map(pending).collect();
        if !all.is_empty() {
            let (number, handle) = *self.random.pick(&all);
            act(self, number, handle);
        }
    }
}

/// Starting calls.
impl World {
    fn start_call(&mut self) {
        if self.operations.is_full() {
            return;
        }
        let kind = *self.random.pick(&KINDS);
        let index = self.random.below(self.kernel.files.len());
        let last = self.random.below(self.kernel.files.len());
        let (file, last) = (&self.kernel.files[index], self.kernel.files[last].fd);
        let of_sockets = matches!(kind, Kind::Recv | Kind::RecvAll | Kind::Send | Kind::Accept);
        if (of_sockets && !file.is_socket) || (kind.is_positioned() && !file.is_regular) {
            return;
        }
        let number = self.calls.len();
        let fd = file.fd;
        let target = Target {
            fd,
            is_regular: file.is_regular,
            size: file.size,
        };
        if !file.open
            && !self
                .calls
                .iter()
                .any(|call| call.names(fd) && !is_settled(call))
        {
            return self.kernel.reopen(fd);
        }
        // Closing ends much, so it is rare.
        if kind.closes() && !self.random.chance(1, 6) {
            return;
        }
        let mut call = ProgramCall::new(kind, target, last.max(fd), number, &mut self.random);
        call.excused = file.nonblocking;
        call.ordered = self.hints.is_ordered(fd) && kind != Kind::Open;
        let (row, system_call) = (call.row, call.call);
        self.calls.push(call);
        let waits = match row.attempt {
            Attempt::Close | Attempt::CloseRange => self.cancel_on(number),
            _ => {
                let links = links(row, &system_call, false, &self.hints);
                links
                    .iter()
                    .any(|link| self.operations.order.must_wait(link))
            }
        };
        let attempted = if waits {
            Attempted::blocked(0, Why::Ordered)
        } else if kind == Kind::Send && self.parts.ring && self.random.chance(1, 3) {
            Attempted::blocked(0, Why::ZeroCopy)
        } else if self.attempts || kind.closes() {
            self.attempt(number, &system_call)
        } else {
            Attempted::blocked(0, Why::NotTried)
        };
        self.say(|| format!("{number}: {}: {attempted:?}", self.calls[number]));
        match attempted {
            Attempted::Done(result) if self.random.chance(1, 10) => {
                // Over the inline budget.
                let slot = self.operations.insert(row, &system_call, number as u64);
                self.note_pending(number, slot);
                self.finish(slot, result);
            }
            Attempted::Done(result) => self.over(number, result),
            Attempted::OverBudget(_) => unreachable!("attempts have no budget"),
            Attempted::Blocked(blocked) => self.go_on(number, blocked),
        }
    }

    /// Cancels the operations on the descriptors that a call closes. Returns whether it must wait for them.
    fn cancel_on(&mut self, number: usize) -> bool {
        let (first, last) = self.calls[number].fds;
        let busy: Vec<RawFd> = self.operations.order.busy_in(first, last).collect();
        for &fd in &busy {
            self.cancel_all_on(fd);
        }
        for slot in busy.iter().flat_map(|&fd| self.operations.on(fd)) {
            let operation = &self.operations[slot];
            let call = &self.calls[operation.user_data as usize];
            let ends = operation.cancelled || call.finished || call.kind.closes();
            assert!(
                ends,
                "{call} is not cancelled before its descriptor is closed"
            );
        }
        !busy.is_empty()
    }

    /// Makes an operation of a call.
    fn go_on(&mut self, number: usize, blocked: Blocked) {
        let call = &mut self.calls[number];
        call.why = blocked.why;
        let (row, system_call, regular) = (call.row, call.call, call.regular);
        let links = links(row, &system_call, regular, &self.hints);
        let slot = self.operations.insert(row, &system_call, number as u64);
        let operation = &mut self.operations[slot];
        (operation.done, operation.regular, operation.links) = (blocked.done, regular, links);
        operation.zero_copy = blocked.why == Why::ZeroCopy;
        self.note_pending(number, slot);
        if self.queue(slot) {
            return;
        }
        if let Err(errno) = self.start_step(slot, blocked.why) {
            self.say(|| format!("{number}: not started, {errno:?}"));
            drop(self.operations.payloads.take(slot));
            self.calls[number].excused = true;
            if self.calls[number].kind.closes() {
                let step = self.calls[number].call;
                let closed = self.kernel.act(number, &mut self.calls, &step, 0);
                self.over(number, Ok(closed));
            } else {
                self.over(number, total(blocked.done, Err(errno)))
            }
        }
    }

    fn note_pending(&mut self, number: usize, slot: Slot) {
        let handle = self.operations.handle(slot);
        let mut calls = self.calls.iter();
        assert!(
            calls.all(|call| call.handle != Some(handle)),
            "a handle is used twice"
        );
        let operation = &self.operations[slot];
        let marks = operation.cancelled || operation.timed_out || operation.abandoned;
        let left = operation.scratch.is_some() || operation.deadline.is_some();
        assert!(!marks && !left, "a slot is not cleared");
        let call = &mut self.calls[number];
        call.handle = Some(handle);
        call.fate = Fate::Pending(handle);
        if let Some(dropped) = &call.dropped {
            let owner = Box::leak(Box::new(Owner(dropped.clone())));
            // SAFETY: it comes from a box, which nothing else frees.
            let payload = unsafe { Payload::new(NonNull::from(owner)) };
            self.operations.payloads.put(slot, payload);
        }
    }

    /// The non-blocking form of a call.
    fn attempt(&mut self, number: usize, step: &Call) -> Attempted {
        let kind = self.calls[number].kind;
        if self.chance(1, 12) && !kind.closes() {
            let whys = [Why::Unsupported, Why::KnownUnsupported, Why::WouldBlock];
            return Attempted::blocked(0, *self.random.pick(&whys));
        }
        let call = &self.calls[number];
        let wanted = call.wants(step, self.bound > 0);
        let nonblocking = call.kind != Kind::Open && self.kernel.file(call.fds.0).nonblocking;
        let count = match self.kernel.now(call, wanted) {
            Now::Done(result) => return Attempted::Done(result),
            Now::Waits if nonblocking => return Attempted::Done(Err(Errno::AGAIN)),
            Now::Waits => return Attempted::WOULD_BLOCK,
            Now::Moves(count) => count,
        };
        let regular = call.regular;
        if regular && self.chance(1, 3) {
            // A part is cached, or the file system refuses.
            if kind.writes() {
                return Attempted::blocked(0, Why::Unsupported);
            }
            let cached = self.random.below(count + 1);
            self.kernel.act(number, &mut self.calls, step, cached);
            return Attempted::blocked(cached, Why::WouldBlock);
        }
        let short = kind.moves_bytes() && count < wanted;
        self.calls[number].excused |= short && (regular || count == 0);
        let value = self.kernel.act(number, &mut self.calls, step, count);
        let goes_on = short && !regular && !nonblocking && count > 0;
        if goes_on && (kind.writes() || kind == Kind::RecvAll) {
            Attempted::blocked(count, Why::WouldBlock)
        } else {
            Attempted::Done(Ok(value))
        }
    }
}

/// The context's part: what a [`crate::Context`] does by its background and its knowledge.
impl Lifecycle for World {
    fn operations(&mut self) -> &mut Operations {
        &mut self.operations
    }

    fn store_result(&mut self, slot: Slot, result: Result<usize, Errno>) -> Option<RawFd> {
        let operation = &self.operations[slot];
        let number = operation.user_data as usize;
        assert!(
            operation.state.is_in_flight(),
            "{} is over",
            self.calls[number]
        );
        let call = &mut self.calls[number];
        call.cancelled |= operation.cancelled;
        call.timed_out |= operation.timed_out;
        call.finished = true;
        let mut requests = self.kernel.requests.iter();
        let used = requests.any(|request| request.number == number);
        let lent = operation.awaiting_notif > 0;
        assert!(!used || lent, "the kernel still has {call}");
        let unwanted = self.operations.finish(slot, result, &mut self.hints);
        if call.fate == Fate::Abandoned && !lent {
            call.completions += 1;
        }
        unwanted
    }

    fn close_descriptor(&mut self, fd: RawFd) {
        self.kernel.close(fd);
    }

    fn step_bound(&self) -> usize {
        self.bound
    }

    fn place_step(&mut self, slot: Slot, call: &Call, why: Why) -> Result<bool, Errno> {
        let case = self.case(slot, call, why);
        offer(case, |part| self.take_step(part, slot, call))
    }

    fn start_helper(&mut self, slot: Slot, call: &Call) -> Result<(), Errno> {
        self.take_step(Part::Helper, slot, call).map(drop)
    }

    fn attempt_step(&mut self, slot: Slot, call: &Call) -> Attempted {
        let number = self.operations[slot].user_data as usize;
        let attempted = self.attempt(number, call);
        self.say(|| format!("{number}: attempt: {attempted:?}"));
        attempted
    }

    fn cancel_step(&mut self, part: Part, slot: Slot) -> Cancelled {
        let handle = self.operations.handle(slot);
        let mut requests = self.kernel.requests.iter();
        let at = requests.position(|request| request.handle == handle && !request.is_notification);
        let at = at.expect("a part has the step");
        let of_reactor = part == Part::Readiness && !self.parts.ring;
        let may_remove =
            matches!(part, Part::Helper | Part::Aio) && !self.kernel.requests[at].begun;
        if of_reactor || (may_remove && self.random.chance(1, 2)) {
            self.kernel.requests.remove(at);
            return Cancelled::Removed;
        }
        // The kernel may not find it, because it is about to start.
        if part != Part::Helper && self.chance(1, 4) {
            self.failed_cancels.push(handle)
        } else {
            self.kernel.requests[at].cancelled = true
        }
        Cancelled::Running
    }

    /// Nothing here refuses a cancellation.
    fn retry_cancel(&mut self, slot: Slot) {
        unreachable!("the cancellation of slot {slot} is refused");
    }
}

impl World {
    /// What decides the placement of a step; see [`Case::gather`].
    fn case(&mut self, slot: Slot, call: &Call, why: Why) -> Case {
        let operation = &self.operations[slot];
        let (row, regular, number) = (operation.row, operation.regular, operation.user_data);
        let kind = self.calls[number as usize].kind;
        let usual = Case::usual(row, why, self.parts);
        let stream = row.class == Class::Stream && !regular;
        let nonblocking = stream && self.kernel.file(call.descriptor(0)).nonblocking;
        Case {
            is_retriable: usual.is_retriable && stream,
            may_open_device: kind == Kind::Open && self.random.chance(1, 8),
            has_timeout_or_mode: nonblocking && why != Why::WouldBlock,
            moves_file_position: regular && uses_position(row, call),
            is_brief_write: self.parts.ring
                && why == Why::KnownUnsupported
                && row.attempt == Attempt::NowaitWrite,
            only_plain: only_plain(row, call),
            waits_in_submission: kind == Kind::Open && self.random.chance(1, 4),
            ..usual
        }
    }

    /// Gives a step to a part. Returns false if the part declines it.
    fn take_step(&mut self, part: Part, slot: Slot, call: &Call) -> Result<bool, Errno> {
        let row = self.operations[slot].row;
        let declines = self.chance(1, 20);
        let takes = match part {
            Part::Ring | Part::RingWorker => row.opcode.is_some() && !declines,
            Part::Aio => matches!(row.class, Class::FileRead | Class::FileWrite) && !declines,
            Part::Readiness => self.parts.ring || !declines,
            Part::Helper if self.chance(1, 60) => {
                // No helper can be started.
                let number = self.operations[slot].user_data as usize;
                self.calls[number].excused = true;
                return Err(Errno::AGAIN);
            }
            Part::Helper | Part::Carrier => true,
        };
        if !takes {
            return Ok(false);
        }
        let step = match part {
            Part::Helper => self.operations[slot].rest(),
            _ => *call,
        };
        let number = self.operations[slot].user_data as usize;
        self.say(|| format!("{number}: to {part:?}"));
        let cut =
            (part == Part::Aio && self.random.chance(1, 4)).then(|| self.random.between(1..9));
        self.kernel.requests.push(Request {
            number,
            slot,
            handle: self.operations.handle(slot),
            part,
            step,
            cancelled: false,
            begun: false,
            done: 0,
            cut,
            is_notification: false,
        });
        self.operations[slot].state = State::With(part);
        Ok(true)
    }
}

pub(super) fn is_settled(call: &ProgramCall) -> bool {
    call.is_over() || (call.fate == Fate::Abandoned && call.completions > 0)
}

/// Polling, and what else the program does to its operations.
impl World {
    pub(super) fn poll(&mut self) {
        self.now += Duration::from_millis(self.random.below(3) as u64);
        while let Some(slot) = self.operations.next_expired(self.now) {
            self.cancel_slot(slot);
        }
        self.unblock_queued();
        let mut steps = Steps::new();
        for _ in 0..self.random.below(5) {
            if self.kernel.requests.is_empty() {
                break;
            }
            let at = self.random.below(self.kernel.requests.len());
            steps.extend(self.answer(at));
        }
        self.run_steps(&mut steps);
        for handle in std::mem::take(&mut self.failed_cancels) {
            if let Ok(slot) = self.operations.in_flight(handle) {
                self.cancel_again(slot);
                self.check_cancelled(handle);
            }
        }
        self.unblock_queued();
        let most = self.random.below(4);
        for _ in 0..most {
            let Some(slot) = self.operations.ready.pop_front() else {
                break;
            };
            let completion = self.operations.take_completion(slot);
            self.deliver(completion);
        }
        self.drop_discarded();
    }

    fn deliver(&mut self, completion: Completion) {
        let number = completion.user_data as usize;
        let call = &mut self.calls[number];
        assert_eq!(
            call.fate,
            Fate::Pending(completion.handle),
            "delivered: {call}"
        );
        call.completions += 1;
        self.over(number, completion.result);
        let call = &mut self.calls[number];
        if call.dropped.is_some() {
            call.fate = Fate::Delivered(completion.handle);
        }
    }

    /// Checks the result of a call.
    fn over(&mut self, number: usize, result: Result<usize, Errno>) {
        self.say(|| format!("{number}: {result:?}"));
        let call = &mut self.calls[number];
        call.check(result);
        call.fate = Fate::Over;
        if call.kind.opens() {
            let opened = self.kernel.opened_by(number);
            assert_eq!(
                opened,
                result.ok().map(|fd| fd as RawFd),
                "opened by {call}"
            );
            opened.into_iter().for_each(|fd| self.kernel.close(fd));
        }
    }

    fn cancel(&mut self, number: usize, handle: Handle) {
        self.say(|| format!("{number}: cancel"));
        if let Ok(slot) = self.operations.in_flight(handle) {
            self.cancel_slot(slot);
            self.unblock_queued();
        }
    }

    fn set_timeout(&mut self, _: usize, handle: Handle) {
        if let Ok(slot) = self.operations.in_flight(handle) {
            let deadline = self.now + Duration::from_millis(self.random.below(5) as u64);
            self.operations.set_deadline(slot, Some(deadline));
        }
    }

    /// Abandons a typed operation, as dropping its ticket does.
    fn abandon(&mut self, number: usize, handle: Handle) {
        if self.calls[number].dropped.is_none() {
            return;
        }
        self.say(|| format!("{number}: abandon"));
        let slot = self.operations.find(handle).expect("it is not delivered");
        match self.operations[slot].state {
            State::Finished => {
                self.operations.ready.retain(|&ready| ready != slot);
                let completion = self.operations.take_completion(slot);
                self.deliver(completion);
                self.take_value(number, handle);
            }
            _ => {
                self.calls[number].fate = Fate::Abandoned;
                self.abandon_in_flight(slot);
                self.drop_discarded();
            }
        }
    }

    pub(super) fn drop_discarded(&mut self) {
        while let Some(value) = self.operations.payloads.take_discarded() {
            drop(value);
        }
    }

    pub(super) fn take_values(&mut self) {
        for number in 0..self.calls.len() {
            if let Fate::Delivered(handle) = self.calls[number].fate {
                self.take_value(number, handle);
            }
        }
    }

    fn take_value(&mut self, number: usize, handle: Handle) {
        let slot = self
            .operations
            .find(handle)
            .expect("its value is not taken");
        assert_eq!(self.operations[slot].state, State::Delivered);
        drop(self.operations.payloads.take(slot).expect("it has a value"));
        self.operations.remove(slot);
        self.calls[number].fate = Fate::Over;
    }

    /// A child begins with nothing, and knows no handle of its parent. The parent goes on afterwards.
    fn fork(&mut self) {
        self.say(|| "fork".to_owned());
        let limit = self.random.between(1..12) as u32;
        let mut child = World {
            operations: Operations::new(limit),
            kernel: Kernel::new(&mut self.random),
            hints: Hints::default(),
            calls: Vec::new(),
            failed_cancels: Vec::new(),
            random: Random::new(self.random.bits()),
            ..*self
        };
        for call in &self.calls {
            if let Fate::Pending(handle) | Fate::Delivered(handle) = call.fate {
                assert!(child.operations.find(handle).is_none());
            }
        }
        for _ in 0..10 {
            child.start_call();
            child.poll();
        }
        child.end();
        self.events += 10;
    }

    /// Cancels everything, as dropping a context does.
    fn shut_down(&mut self) {
        self.say(|| "shut down".to_owned());
        for number in 0..self.calls.len() {
            let Fate::Pending(handle) = self.calls[number].fate else {
                continue;
            };
            match self.operations.in_flight(handle) {
                Ok(slot) if self.calls[number].dropped.is_some() => {
                    self.calls[number].fate = Fate::Abandoned;
                    self.abandon_in_flight(slot);
                }
                Ok(_) => self.cancel(number, handle),
                Err(_) => {}
            }
        }
    }
}
