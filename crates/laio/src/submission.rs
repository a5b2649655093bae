//! Handing prepared steps to the kernel, and keeping the pollable descriptor informed of what comes.

use crate::Errno;
use crate::context::Context;

impl Context {
    /// Submits the prepared entries of the ring and of AIO to the kernel. `poll` does this itself;
    /// call it before sleeping elsewhere for longer.
    ///
    /// Operations queued behind earlier ones are not submitted: `poll` starts them. If the kernel
    /// takes no entries at present (`EAGAIN`, `EBUSY`), they stay queued for the next `poll` or
    /// `flush`, and this is no error.
    ///
    /// # Errors
    /// As for [`Context::poll`].
    pub fn flush(&mut self) -> Result<(), Errno> {
        self.notice_fork();
        self.submit_to_aio();
        self.background.submit_to_ring()
    }

    /// Makes sure that further events make the pollable descriptor readable by themselves, if it was
    /// handed out.
    pub(crate) fn arm_descriptor(&mut self) {
        if self.background.is_exposed() {
            self.operations.deadlines.set_timer();
            self.submit_to_aio();
            self.background
                .arm_descriptor(!self.operations.ready.is_empty());
        }
    }

    /// Submits the prepared requests of AIO; helpers make the calls that the kernel refuses.
    pub(crate) fn submit_to_aio(&mut self) {
        let mut steps = std::mem::take(&mut self.steps);
        self.background.submit_to_aio(&self.operations, &mut steps);
        self.run_steps(&mut steps);
        self.steps = steps;
    }

    /// Adds a timer to the pollable descriptor, if that was handed out and any operation has a
    /// deadline.
    pub(crate) fn prepare_timer(&mut self) -> Result<(), Errno> {
        if self.background.is_exposed()
            && let Some(timer) = self.operations.deadlines.new_timer()?
        {
            let added = self.background.set_timer(timer);
            if added.is_err() {
                self.operations.deadlines.drop_timer();
            }
            return added;
        }
        Ok(())
    }
}
