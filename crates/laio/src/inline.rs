//! Making a call inline, with the strategy of its class and in order with the operations in flight.

use crate::attempt::{Attempted, Try, Why, descriptor_range};
use crate::background::activations::CarryOutcome;
use crate::carry::{carried, carry, is_whole};
use crate::composition::Strategy;
use crate::context::Context;
use crate::lifecycle::Lifecycle;
use crate::operations::links;
use crate::placement::link_of_poll;
use crate::table::{self, Attempt, Class, Descriptor, Row};
use crate::{Call, Errno, sys};
use std::os::fd::RawFd;

impl Context {
    /// Makes or attempts a call with this strategy, in order with the operations in flight.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn make(&mut self, strategy: Strategy, this: &Try<'_>) -> Attempted {
        let Try { row, call, .. } = *this;
        match row.class {
            Class::Refused => return Attempted::Done(Err(row.refusal)),
            Class::Thread => {
                // SAFETY: by the caller.
                return Attempted::Done(unsafe { self.thread_bound(row, call) });
            }
            _ => {}
        }
        // SAFETY: by the caller.
        if let Some(decided) = unsafe { self.behind_others(row, call) } {
            return decided;
        }
        // SAFETY: by the caller, for all calls below.
        unsafe {
            match (strategy, row.attempt) {
                (Strategy::Plain, _) => self.knowledge.plain(this),
                (Strategy::Background, _) => Attempted::blocked(0, Why::NotTried),
                // A poll of a stream waits by readiness, which needs no thread.
                (Strategy::Carry, _) if row.polls && self.waits_by_readiness(this) => {
                    self.knowledge.attempt(this)
                }
                (Strategy::Carry, _) => self.carry(this),
                (Strategy::Try, Attempt::NowaitRead | Attempt::NowaitWrite)
                    if self.background.carriers().is_some()
                        && self.knowledge.is_known_file(call) =>
                {
                    self.carry(this)
                }
                (Strategy::Try, Attempt::Never)
                    if self.background.carriers().is_some() && waits_for_no_peer(row, call) =>
                {
                    self.carry(this)
                }
                (Strategy::Try, _) if self.inject.attempts_fail => Attempted::WOULD_BLOCK,
                (Strategy::Try, _) => self.knowledge.attempt(this),
            }
        }
    }

    /// Whether a poll waits by readiness rather than on a carrier.
    fn waits_by_readiness(&self, this: &Try<'_>) -> bool {
        let waits = self.background.reports_readiness() && !self.options.carry_streams;
        link_of_poll(this, waits, &self.operations.order, &self.knowledge.hints).is_some()
    }

    /// Keeps the order on the call's descriptors: whether it must wait for an operation in flight.
    /// A call that closes descriptors cancels the operations on them first.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    unsafe fn behind_others(&mut self, row: &Row, call: &Call) -> Option<Attempted> {
        let (first, last) = match row.attempt {
            // Marks the descriptors, or gives the thread a descriptor table of its own, or fails.
            // Descriptors closed in a new table stay open in that of the operations.
            Attempt::CloseRange if call.args[2] != 0 => {
                // SAFETY: by the caller.
                let result = unsafe { sys::syscall(call) };
                if result.is_ok() && call.args[2] & libc::CLOSE_RANGE_CLOEXEC as usize == 0 {
                    let (first, last) = descriptor_range(call);
                    self.knowledge.hints.forget_range(first, last);
                }
                return Some(Attempted::Done(result));
            }
            _ if self.operations.live() == 0 => return None,
            Attempt::Close => (call.descriptor(0), call.descriptor(0)),
            Attempt::Duplicate(arg) => {
                let onto = call.descriptor(arg);
                if onto == call.descriptor(0) || !self.operations.order.is_busy(onto) {
                    return None;
                }
                if !may_duplicate(row, call) {
                    // The call fails, and operations in flight continue.
                    // SAFETY: by the caller.
                    return Some(Attempted::Done(unsafe { sys::syscall(call) }));
                }
                (onto, onto)
            }
            Attempt::CloseRange => descriptor_range(call),
            _ => {
                let links = links(row, call, false, &self.knowledge.hints);
                let waits = links
                    .iter()
                    .any(|link| self.operations.order.must_wait(link));
                return waits.then(|| Attempted::blocked(0, Why::Ordered));
            }
        };
        let busy: Vec<RawFd> = self.operations.order.busy_in(first, last).collect();
        for &fd in &busy {
            self.cancel_all_on(fd);
        }
        (!busy.is_empty()).then(|| Attempted::blocked(0, Why::Ordered))
    }

    /// Makes a call that reads or changes state of the calling thread.
    ///
    /// # Errors
    /// Those of the call, and those of [`Context::flush`], which then are the call's result.
    ///
    /// # Safety
    /// As for the system call.
    #[cold]
    unsafe fn thread_bound(&mut self, row: &Row, call: &Call) -> Result<usize, Errno> {
        // Submit queued ring and AIO entries first: they must not run with credentials, directory
        // or umask that are set here. If that fails, the call is not made.
        self.flush()?;
        // SAFETY: by the caller.
        let make = || unsafe { sys::syscall(call) };
        let result = match self.background.carriers() {
            Some(carriers) if row.changes_identity => carriers.change_identity(make),
            _ => make(),
        };
        if row.changes_identity && result.is_ok() {
            self.background.rights_changed(row);
            self.note_new_rights();
        }
        self.background.note_mask();
        result
    }

    /// Makes the call itself on a carrier, if one is free and the call is not expected to block.
    ///
    /// # Safety
    /// As for the system call. The operation of a call that is still in flight keeps what the call
    /// points to.
    unsafe fn carry(&mut self, this: &Try<'_>) -> Attempted {
        let full = self.operations.is_full();
        let Try { row, call, .. } = *this;
        if !full && !this.has_status && self.knowledge.skips(row, call) {
            return Attempted::blocked(0, Why::UsuallyBlocks);
        }
        let activations = self.background.carriers_mut().filter(|_| !full);
        let before = self
            .knowledge
            .has_blocked(row, call)
            .then(sys::voluntary_switches);
        // SAFETY: by the caller.
        let attempted = unsafe { carry(&mut self.knowledge, activations, this) };
        if let (Some(before), Attempted::Done(_)) = (before, &attempted) {
            // A call that slept blocks the program even if it returns before a hand-off.
            let slept = sys::voluntary_switches() != before;
            self.knowledge.note_tried(row, call, slept);
        }
        attempted
    }

    /// Makes a call on a carrier while nothing is in flight, so that there is no order, budget or
    /// limit to check. Returns `None`, without having made the call, if it must take the slow path.
    ///
    /// # Safety
    /// As for the system call.
    #[inline]
    pub(crate) unsafe fn carry_fast(&mut self, call: &Call) -> Option<Attempted> {
        let activations = self.background.carriers_mut()?;
        let row = table::row(call.number);
        if self.strategies[row.class as usize] != Strategy::Carry
            || self.operations.live() > 0
            || self.knowledge.has_blocked(row, call)
        {
            return None;
        }
        // SAFETY: by the caller.
        match unsafe { activations.call(call) } {
            CarryOutcome::Returned(result) if is_whole(row, call, result) => {
                self.stats.calls[row.index as usize].inline += 1;
                Some(Attempted::Done(result))
            }
            outcome => {
                // SAFETY: by the caller.
                let attempted = unsafe { carried(&mut self.knowledge, &Try::new(call), outcome) };
                Some(self.count(row, Strategy::Carry, attempted))
            }
        }
    }
}

/// Whether a call on streams does not wait for their peers, because they are in non-blocking mode: a
/// `sendfile` then waits for the file only.
fn waits_for_no_peer(row: &Row, call: &Call) -> bool {
    // A descriptor with an offset of its own is a file.
    let is_stream = |used: &&Descriptor| {
        let offset = used.offset_pointer.map_or(0, |arg| call.args[arg as usize]);
        offset == 0
    };
    let mut streams = row.descriptors.iter().flatten().filter(is_stream);
    row.class == Class::Stream && streams.all(|used| sys::is_nonblocking(call.descriptor(used.arg)))
}

/// Whether a `dup2` or `dup3` has valid arguments, so that it closes the descriptor it replaces.
fn may_duplicate(row: &Row, call: &Call) -> bool {
    let known = row.flags_of(call) & !libc::O_CLOEXEC == 0;
    let open = sys::borrow(call.descriptor(0)).map(rustix::io::fcntl_getfd);
    known && matches!(open, Some(Ok(_)))
}
