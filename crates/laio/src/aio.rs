//! Operations on files by POSIX AIO and Linux AIO: starting them and handling their completions.

use crate::background::aio::{Aio, Completed, Started, Step};
use crate::background::helpers::Cancelled;
use crate::context::Context;
use crate::operation::{Slot, State};
use crate::step;
use crate::{BackendKind, Call, Errno, Handle};

impl Context {
    /// Starts an AIO request for an operation's next step. Returns false if the back end has no AIO
    /// library, or the library has no request for this call: then a helper makes it.
    pub(crate) fn take_to_aio(&mut self, slot: Slot, call: &Call) -> bool {
        if self.aio.is_none() {
            return false;
        }
        let Some(step) = Step::of(self.operations[slot].row, call) else {
            return false;
        };
        let allowed = match self.kind {
            BackendKind::PosixAio => self.posix_aio_may_take(),
            _ => self.linux_aio_may_take(),
        };
        let Some(aio) = self.aio.as_mut().filter(|_| allowed) else {
            return false;
        };
        let handle = self.operations.handle(slot);
        // SAFETY: the call's memory is the caller's promise until the completion is delivered; scratch memory
        // lives as long as the operation.
        match unsafe { aio.start(slot, handle, &step, &mut self.stats.aio) } {
            Started::Taken | Started::Full => {
                self.operations[slot].state = State::Aio;
                true
            }
            Started::Declined => false,
        }
    }

    /// Submits prepared requests, as many as the library takes.
    pub(crate) fn submit_to_aio(&mut self) {
        let Some(aio) = &mut self.aio else { return };
        let mut refused = Vec::new();
        aio.submit(&mut self.stats.aio, &mut refused);
        for handle in refused {
            self.stats.aio.refused += 1;
            let slot = self.operations.find(handle).expect("a request's operation");
            self.proceed(slot, step::Step::Helper);
        }
    }

    /// Whether completions wait that no descriptor reports.
    pub(crate) fn any_finished_in_aio(&self) -> bool {
        self.aio.as_ref().is_some_and(Aio::any_finished)
    }

    /// Reaps completions and starts operations that waited for a free request. `ready_fd`: the
    /// library's descriptor was readable.
    pub(crate) fn reap_aio(&mut self, ready_fd: bool) -> Result<(), Errno> {
        let Some(aio) = &mut self.aio else {
            return Ok(());
        };
        let mut completed = Vec::new();
        let result = aio.collect(ready_fd, &mut completed);
        for one in completed {
            self.aio_completed(one);
        }
        while let Some(slot) = self.aio.as_mut().and_then(Aio::next_waiting) {
            self.proceed(slot, step::Step::Again(crate::attempt::Why::NotTried));
        }
        self.submit_to_aio();
        result
    }

    fn aio_completed(&mut self, completed: Completed) {
        let handle = completed.handle;
        let slot = self.operations.find(handle).expect("a request's operation");
        let rights_changed = self.refused_by_other_rights(slot, completed.result);
        let short = self.inject.short_transfer;
        let operation = &mut self.operations[slot];
        let step = step::after_request(operation, &completed, short, rights_changed);
        // A helper makes the plain call, whose result counts.
        self.stats.aio.refused += u64::from(step == step::Step::Helper);
        self.proceed(slot, step);
    }

    /// Cancels an operation that the library has, or that waits for a request.
    pub(crate) fn cancel_in_aio(&mut self, slot: Slot, handle: Handle) {
        let aio = self.aio.as_mut().expect("an operation is in it");
        if aio.cancel(slot, handle) == Cancelled::Removed {
            self.finish_cancelled(slot);
        }
    }
}
