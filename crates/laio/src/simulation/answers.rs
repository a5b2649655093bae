//! What the simulated kernel answers to the steps that it has.

use super::kernel::{Now, Request};
use super::program::Kind;
use super::world::World;
use crate::Errno;
use crate::operations::{Part, Slot, State};
use crate::step::{self, Next, total};
use crate::transfer::remaining;

/// What errors of a ring or AIO may mean: interrupted, unsupported, forbidden.
const REFUSALS: [Errno; 8] = [
    Errno::INTR,
    Errno::AGAIN,
    Errno::ACCES,
    Errno::PERM,
    Errno::INVAL,
    Errno::OPNOTSUPP,
    Errno::NOSYS,
    Errno::CANCELED,
];

impl World {
    /// Lets the kernel go on with one of its steps. Returns what comes next, if the step is over.
    pub(super) fn answer(&mut self, at: usize) -> Option<(Slot, Next)> {
        self.kernel.requests[at].begun = true;
        let Request {
            slot,
            number,
            part,
            is_notification,
            ..
        } = self.kernel.requests[at];
        if is_notification {
            return self.notify(at);
        }
        let bound = self.bound;
        let rights_changed = self.chance(1, 3);
        let next = match part {
            Part::Readiness => {
                if !self.is_ready(at) {
                    return None;
                }
                if self.operations[slot].cancelled {
                    Next::Finished(total(self.operations[slot].done, Err(Errno::CANCELED)))
                } else {
                    Next::Attempt
                }
            }
            Part::Helper => {
                let result = self.plain_call(at)?;
                Next::Finished(total(self.operations[slot].done, result))
            }
            Part::Aio => {
                let cut = self.kernel.requests[at].cut;
                let result = self.kernel_step(at, rights_changed)?;
                let operation = &mut self.operations[slot];
                let next = step::after_request(operation, result, cut, bound, rights_changed);
                self.check_end(slot, result, next)
            }
            Part::Ring | Part::RingWorker => {
                let result = self.kernel_step(at, rights_changed)?;
                self.lend(at);
                let operation = &mut self.operations[slot];
                let next = step::after_result(operation, result, bound, rights_changed);
                self.check_end(slot, result, next)
            }
            Part::Carrier => unreachable!("no placement leads to a carrier"),
        };
        self.say(|| format!("{number}: {part:?} answers: {next:?}"));
        self.kernel.requests.remove(at);
        Some((slot, next))
    }

    /// An operation whose step was cancelled on request does not go on.
    fn check_end(&self, slot: Slot, result: Result<usize, Errno>, next: Next) -> Next {
        let operation = &self.operations[slot];
        let was_cancelled = operation.cancelled && result == Err(Errno::CANCELED);
        let is_over = matches!(next, Next::Finished(_));
        let call = &self.calls[operation.user_data as usize];
        assert!(is_over || !was_cancelled, "{call} goes on");
        next
    }

    /// A zero-copy send has its result, and the kernel keeps its memory until a second CQE.
    fn lend(&mut self, at: usize) {
        let slot = self.kernel.requests[at].slot;
        if self.operations[slot].zero_copy {
            self.operations[slot].awaiting_notif += 1;
            let notification = self.kernel.requests[at].notification();
            self.kernel.requests.push(notification);
        }
    }

    /// The second CQE of a zero-copy send.
    fn notify(&mut self, at: usize) -> Option<(Slot, Next)> {
        let slot = self.kernel.requests.remove(at).slot;
        let operation = &mut self.operations[slot];
        operation.awaiting_notif -= 1;
        let is_over = operation.state == State::AwaitingNotif && operation.awaiting_notif == 0;
        is_over.then_some((slot, Next::Finished(operation.result)))
    }

    fn is_ready(&mut self, at: usize) -> bool {
        let Request {
            number, cancelled, ..
        } = self.kernel.requests[at];
        let now = self.kernel.now(&self.calls[number], 1);
        cancelled || !matches!(now, Now::Waits) || self.chance(1, 10)
    }

    /// One CQE or AIO event. `None` if the kernel waits.
    fn kernel_step(&mut self, at: usize, rights_changed: bool) -> Option<Result<usize, Errno>> {
        let Request {
            number,
            step,
            cancelled,
            part,
            cut,
            ..
        } = self.kernel.requests[at];
        if self.chance(1, 6) && !self.calls[number].kind.closes() {
            let errno = *self.random.pick(&REFUSALS);
            // Without the rights of before, the rest is not moved. Nothing else excuses a short transfer.
            let forbidden = matches!(errno, Errno::PERM | Errno::ACCES);
            self.calls[number].excused |= forbidden && rights_changed;
            return Some(Err(errno));
        }
        if cancelled && (self.ending || self.random.chance(2, 3)) {
            return Some(Err(Errno::CANCELED));
        }
        let call = &self.calls[number];
        let (kind, regular) = (call.kind, call.regular);
        let asked = call.wants(&step, self.bound > 0);
        let wanted = cut.map_or(asked, |cut| asked.min(cut));
        let mut count = match self.kernel.now(call, wanted) {
            Now::Done(result) => return Some(result),
            Now::Waits => return None,
            Now::Moves(count) => count,
        };
        let at_end = kind.moves_bytes() && count < wanted;
        self.calls[number].excused |= at_end && (regular || count == 0);
        if part != Part::Aio && count > 1 && self.random.chance(1, 3) {
            count = self.random.between(1..count);
            // A file is written to the end, or to a limit.
            self.calls[number].excused |= regular && kind.writes();
        }
        Some(Ok(self.kernel.act(number, &mut self.calls, &step, count)))
    }

    /// The plain call of a helper, which waits until it is complete. `None` if it goes on waiting.
    fn plain_call(&mut self, at: usize) -> Option<Result<usize, Errno>> {
        let Request {
            number,
            step: whole,
            cancelled,
            done,
            ..
        } = self.kernel.requests[at];
        let kind = self.calls[number].kind;
        if self.chance(1, 20) && !kind.closes() {
            self.calls[number].excused = true;
            return Some(ended(done, Errno::IO));
        }
        if cancelled && (self.ending || self.random.chance(1, 2)) {
            return Some(ended(done, Errno::CANCELED));
        }
        let mut scratch = None;
        let call = &self.calls[number];
        // SAFETY: the memory of the call lives as long as the world.
        let step = unsafe { remaining(call.row, &whole, done, &mut scratch) };
        let wanted = call.wants(&step, false);
        let nonblocking = call.excused && !call.regular;
        let count = match self.kernel.now(call, wanted) {
            Now::Done(result) => return Some(result.or_else(|errno| ended(done, errno))),
            Now::Waits if nonblocking => return Some(ended(done, Errno::AGAIN)),
            Now::Waits => return None,
            Now::Moves(count) => count,
        };
        let short = kind.moves_bytes() && count < wanted;
        self.calls[number].excused |= short && (self.calls[number].regular || count == 0);
        let value = self.kernel.act(number, &mut self.calls, &step, count);
        if !kind.moves_bytes() {
            return Some(Ok(value));
        }
        self.kernel.requests[at].done += count;
        let waits = short && count > 0 && (kind.writes() || kind == Kind::RecvAll);
        let waits = waits && !self.calls[number].regular && !nonblocking;
        (!waits).then_some(Ok(done + count))
    }
}

fn ended(done: usize, errno: Errno) -> Result<usize, Errno> {
    total(done, Err(errno))
}
