//! What a thread keeps of a proactor: the knowledge by which it attempts calls, so that an attempt
//! takes no lock and writes no memory that other threads use.

use super::driver::Driver;
use super::generation::{Generation, ThreadCounts};
use super::helper_pool::HelperPool;
use super::inbox::Rest;
use super::shared::Shared;
use crate::attempt::{Attempted, Blocked, Examined, Try, Why};
use crate::background::after_open::AfterOpen;
use crate::composition::Strategy;
use crate::fd_table::FdTable;
use crate::knowledge::Knowledge;
use crate::operations::{Link, links};
use crate::pool::patience::Patience;
use crate::sys::fork::Life;
use crate::table::{self, Class, FastCall, Row};
use crate::{Call, Errno, Options};
use std::cell::RefCell;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What one thread keeps of one proactor.
pub(super) struct Local {
    /// Identifies the proactor.
    proactor: Weak<Shared>,
    life: Life,
    knowledge: Knowledge,
    /// For each descriptor the identity of the file that the hints are about, 0 for none.
    hinted: FdTable<u64>,
    counts: Arc<ThreadCounts>,
    /// Of this thread, which looks for the results of helpers.
    patience: Patience,
    /// The driver that this thread has started, because others have other rights.
    own: Option<OwnDriver>,
}

struct OwnDriver(Arc<Driver>);

impl Drop for OwnDriver {
    fn drop(&mut self) {
        self.0.finish();
    }
}

std::thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with what the calling thread keeps of a proactor. Returns `None` while the thread
/// ends.
#[inline]
pub(super) fn with<T>(shared: &Arc<Shared>, body: impl FnOnce(&mut Local) -> T) -> Option<T> {
    let mut body = Some(body);
    let with = |locals: &RefCell<Vec<Local>>| {
        let mut locals = locals.borrow_mut();
        let found = locals.iter().position(|local| local.is_of(shared));
        let index = found.unwrap_or_else(|| Local::add(&mut locals, shared));
        body.take().map(|body| body(&mut locals[index]))
    };
    LOCALS.try_with(with).ok().flatten()
}

/// What to attempt.
pub(super) struct Request<'a> {
    pub(super) call: Call,
    /// The identity of the file behind the first descriptor, if the operation owns one that has.
    pub(super) file: u64,
    /// The operation asks for no attempt, if the driver has what it needs instead.
    pub(super) skip: Option<Why>,
    /// Where an `open` records the status of the file, if the operation wants it.
    pub(super) examined: Option<&'a Examined>,
}

impl Local {
    #[inline]
    fn is_of(&self, shared: &Arc<Shared>) -> bool {
        std::ptr::eq(self.proactor.as_ptr(), Arc::as_ptr(shared)) && self.life.is_current()
    }

    #[cold]
    fn add(locals: &mut Vec<Local>, shared: &Arc<Shared>) -> usize {
        locals.retain(|local| local.proactor.strong_count() > 0 && local.life.is_current());
        let counts = Arc::new(ThreadCounts::default());
        shared.generation().add_thread(counts.clone());
        locals.push(Local {
            proactor: Arc::downgrade(shared),
            life: Life::current(),
            knowledge: Knowledge::new(&shared.composition, &shared.options),
            hinted: FdTable::default(),
            counts,
            patience: Patience::new(shared.options.limits.spin_us),
            own: None,
        });
        locals.len() - 1
    }

    /// Makes or attempts a call on this thread.
    ///
    /// # Safety
    /// As for the system call. The operation owns the memory.
    #[inline]
    pub(super) unsafe fn attempt(&mut self, shared: &Shared, request: &Request<'_>) -> Attempted {
        // SAFETY: by the caller.
        let attempted = unsafe { self.attempt_uncounted(shared, request) };
        let counter = match &attempted {
            Attempted::Done(_) | Attempted::OverBudget(_) => &self.counts.inline,
            Attempted::Blocked(blocked) => match blocked.why {
                Why::WouldBlock
                | Why::Ordered
                | Why::ExpectedToBlock
                | Why::UsuallyBlocks
                | Why::ZeroCopy => &self.counts.background,
                _ => &self.counts.fallback,
            },
        };
        // Only this thread writes it.
        counter.store(counter.load(Relaxed) + 1, Relaxed);
        attempted
    }

    #[inline]
    unsafe fn attempt_uncounted(&mut self, shared: &Shared, request: &Request<'_>) -> Attempted {
        let Request { call, file, .. } = request;
        if let Some(why) = request.skip {
            return Attempted::Blocked(Blocked::because(why));
        }
        let fd = call.descriptor(0);
        if let Some(fast_call) = table::find_fast_call(call.number) {
            self.note_file(fd, *file);
            let positioned = matches!(fast_call, FastCall::ReadAt | FastCall::WriteAt);
            if (positioned || !shared.generation().is_busy(fd))
                // SAFETY: by the caller.
                && let Some(attempted) = unsafe { self.knowledge.try_fast(fast_call, call) }
            {
                return attempted;
            }
        }
        // SAFETY: by the caller.
        unsafe { self.attempt_slow(shared, request) }
    }

    /// # Safety
    /// As for [`Local::attempt`].
    #[inline(never)]
    unsafe fn attempt_slow(&mut self, shared: &Shared, request: &Request<'_>) -> Attempted {
        let Request { call, file, .. } = request;
        let row = table::row(call.number);
        if let Class::Refused = row.class {
            return Attempted::Done(Err(row.refusal));
        }
        for (index, descriptor) in row.descriptors.iter().flatten().enumerate() {
            let file = if index == 0 { *file } else { 0 };
            self.note_file(call.descriptor(descriptor.arg), file);
        }
        if shared.generation().must_wait(&self.links(row, call)) {
            return Attempted::blocked(0, Why::Ordered);
        }
        let this = Try {
            memory_is_good: true,
            examined: request.examined,
            ..Try::new(call)
        };
        // SAFETY: by the caller.
        unsafe {
            match shared.composition.strategies[row.class as usize] {
                Strategy::Plain => self.knowledge.plain(&this),
                Strategy::Background | Strategy::Carry => Attempted::blocked(0, Why::NotTried),
                Strategy::Try if shared.options.inject.attempts_fail => Attempted::WOULD_BLOCK,
                Strategy::Try => self.knowledge.attempt(&this),
            }
        }
    }

    /// Forgets what is remembered of a descriptor, unless it is about this very file: another thread
    /// may have closed the descriptor, and the number may now belong to another file.
    #[inline]
    fn note_file(&mut self, fd: RawFd, file: u64) {
        if file != 0 && self.hinted.get(fd) == Some(&file) {
            return;
        }
        self.knowledge.hints.forget(fd);
        if let Some(hinted) = self.hinted.track(fd) {
            *hinted = file;
        }
    }

    /// Looks for the result of a helper, if the last call of one took less time than a wakeup.
    pub(super) fn spin(&mut self, helpers: &HelperPool, found: impl FnMut() -> bool) {
        if helpers.patience().spin_us() > 0 {
            self.patience.note_wait(helpers.patience().last_call());
            self.patience.spin(Duration::MAX, found);
        }
    }

    /// The descriptors on which an attempt of this call has an order to keep.
    fn links(&self, row: &Row, call: &Call) -> [Link; 2] {
        links(row, call, false, &self.knowledge.hints)
    }

    /// Whether a short transfer may be continued; see [`Knowledge::may_continue_short`].
    pub(super) fn is_regular(&mut self, row: &Row, call: &Call) -> bool {
        self.knowledge.may_continue_short(row, call)
    }

    /// The descriptors on which the operation for this call has an order to keep. `regular`: see
    /// [`Local::is_regular`].
    pub(super) fn links_in_flight(&self, row: &Row, call: &Call, regular: bool) -> [Link; 2] {
        links(row, call, regular, &self.knowledge.hints)
    }

    /// Takes what another thread has found out about a file that it has opened.
    pub(super) fn learn_opened(&mut self, fd: RawFd, after_open: &AfterOpen) -> Examined {
        self.knowledge.learn_opened(fd, after_open)
    }

    /// Whether a call on an open file sends no request to a remote file system.
    pub(super) fn is_local(&mut self, fd: RawFd) -> bool {
        self.knowledge.is_local(fd)
    }

    /// The device number of the remote file system that a call asks; see [`Knowledge::asked_remote`].
    pub(super) fn asked_remote(&mut self, call: &Call, rest: &Rest, regular: bool) -> Option<u64> {
        let row = table::row(call.number);
        let suspect = rest.why == Why::Unsupported;
        self.knowledge
            .asked_remote(row, call, regular, suspect, true)
    }

    pub(super) fn own_driver(&self) -> Option<&Arc<Driver>> {
        self.own.as_ref().map(|own| &own.0)
    }

    /// Starts a driver for this thread. It replaces the one started before, which had other rights.
    ///
    /// # Errors
    /// Those of [`Driver::start`].
    pub(super) fn start_own_driver(
        &mut self,
        generation: &Generation,
        options: &Options,
    ) -> Result<Arc<Driver>, Errno> {
        let driver = Driver::start(options)?;
        generation.add_driver(&driver);
        self.own = Some(OwnDriver(driver.clone()));
        Ok(driver)
    }
}

/// Returns a number that no other file of the process has had.
pub(crate) fn new_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}
