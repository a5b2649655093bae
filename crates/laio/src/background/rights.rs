//! Rights: a call in the background has the rights that the calling thread has when the context
//! hands the call over, to a helper or to the ring. An operation that is queued behind another one
//! is handed over only after that one, with the rights of then. If the rights change between two
//! hand-overs of one operation (the ring, then a helper), it fails with `EAGAIN`.
//!
//! The kernel keeps rights per thread. A thread can drop some of its own (`capset`, `setfsuid`,
//! filters, Landlock, `unshare`, `setns`), while a helper that was started before still has them.
//! So, before a call goes to another thread, the context examines the calling thread's rights, and
//! starts new helpers if they have changed. Rights that the kernel does not report are assumed to
//! have changed: a call that depends on them gets a new thread, which inherits the rights of its
//! creator. The FS state of a thread (root, working directory and umask, which threads with
//! `CLONE_FS` share) is compared separately.
//!
//! io_uring uses the submitting thread's credentials, and with them its Landlock domain, from the
//! time of submission, so operations that depend on rights are submitted at once. It applies no
//! seccomp filters, and its workers keep the root and working directory with which they were
//! started; where these matter, helpers make the calls.

use super::helpers::Helpers;
use crate::operations::InFlight;
use crate::rights::{
    FsRoots, ReportedRights, by_name, depends_on_rights, has_filters, needs_own_thread,
    shares_fs_state_with,
};
use crate::table::Row;
use crate::{Call, Errno, Rights as Whose};
use std::cell::Cell;
use std::sync::Mutex;

/// The rights of the calling thread as the context last saw them.
#[derive(Debug)]
pub(crate) struct Rights {
    whose: Whose,
    /// The rights version: incremented when the rights have changed. Each new version also renews
    /// the pool of helpers, whose own generation counts renewals: a change of only the FS state
    /// renews the pool and leaves this version as it is.
    version: u32,
    /// Whether [`Rights::take_new`] has not reported this version yet.
    is_new: bool,
    known: Option<ReportedRights>,
    /// The root and working directory when the helpers of the current generation were started.
    fs_roots: Option<FsRoots>,
    /// Whether a call through the context has changed the rights.
    changed_by_call: bool,
    /// Whether a call through the context may have given the thread an FS state (`CLONE_FS`) of its
    /// own.
    own_root_or_cwd: bool,
}

/// Which threads may make a call for the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    /// Any helper of the pool.
    Helper,
    /// A thread started for this call.
    OneShotThreads,
}

impl Rights {
    pub(crate) fn new(whose: Whose) -> Rights {
        Rights {
            whose,
            version: 0,
            is_new: false,
            known: None,
            fs_roots: None,
            changed_by_call: false,
            own_root_or_cwd: false,
        }
    }

    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Whether calls have the rights of the process, so that the calling thread's own need no comparison.
    fn are_of_process(&self) -> bool {
        self.whose != Whose::Thread
    }

    /// Whether the program has promised that filters forbid nothing that it calls, or there are no
    /// filters. The kernel applies none to what it does by itself.
    fn ring_obeys_filters(&self) -> bool {
        self.whose == Whose::Settled || !has_filters()
    }

    fn are_filtered(&self) -> bool {
        self.known.as_ref().is_some_and(ReportedRights::is_filtered)
    }

    /// Returns which threads may make a call in the background; `most`: the number of helpers of all
    /// generations above which calls go to one-shot threads. Afterwards the helpers have the
    /// calling thread's rights, as far as the kernel reports them.
    pub(super) fn maker(
        &mut self,
        pool: &mut Helpers,
        most: usize,
        row: &Row,
        call: &Call,
    ) -> Maker {
        if self.are_of_process() {
            return Maker::Helper;
        }
        if !self.note(pool) {
            return Maker::OneShotThreads;
        }
        let reported = self.known.as_ref();
        if reported.is_some_and(|reported| needs_own_thread(reported, row, call)) {
            return Maker::OneShotThreads;
        }
        // False: kcmp is not available, or a filter might kill the process for it.
        let is_compared = self.note_fs_state(pool);
        if !is_compared && by_name(row) {
            return Maker::OneShotThreads;
        }
        // Too many helpers of earlier generations are still busy. The call goes to the one-shot
        // threads, which have their own limit.
        if pool.threads() > most {
            Maker::OneShotThreads
        } else {
            Maker::Helper
        }
    }

    /// Whether the ring may take a call of this row. Operations that depend on rights must then be
    /// submitted at once.
    pub(super) fn ring_may_take(&mut self, pool: &mut Helpers, row: &Row) -> bool {
        if self.are_of_process() {
            return self.ring_obeys_filters() && !(self.own_root_or_cwd && by_name(row));
        }
        if !depends_on_rights(row) {
            return !has_filters();
        }
        self.note(pool)
            && !self.are_filtered()
            && (!by_name(row) || FsRoots::of_this_thread() == ROOTS_OF_RINGS.get())
    }

    /// Whether POSIX AIO may take a call. Its threads serve the whole process, and have the rights
    /// of the thread that started the first of them.
    pub(super) fn posix_aio_may_take(&mut self, pool: &mut Helpers) -> bool {
        static FIRST: Mutex<Option<ReportedRights>> = Mutex::new(None);
        if self.are_of_process() && !self.changed_by_call {
            return true;
        }
        if !self.note(pool) || self.are_filtered() {
            return false;
        }
        let mut first = FIRST.lock().unwrap_or_else(|error| error.into_inner());
        if first.is_none() {
            first.clone_from(&self.known);
        }
        *first == self.known
    }

    /// Whether Linux AIO may take a call: the kernel uses the submitting thread's credentials, but
    /// applies no filters.
    pub(super) fn linux_aio_may_take(&self) -> bool {
        self.ring_obeys_filters()
    }

    /// Records the rights with which an operation is handed over. Fails if they differ from the rights
    /// at its first hand-over: the call might be allowed now although it was not when the program made
    /// it.
    ///
    /// # Errors
    /// `EAGAIN`
    pub(super) fn stamp(&self, operation: &mut InFlight) -> Result<(), Errno> {
        if self.are_of_process() || !depends_on_rights(operation.row) {
            return Ok(());
        }
        match operation.rights.replace(self.version) {
            Some(before) if before != self.version => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }

    /// Whether a call was refused, and the calling thread's rights have changed since it handed
    /// over the operation.
    pub(super) fn have_refused(
        &mut self,
        pool: &mut Helpers,
        operation: &InFlight,
        result: Result<usize, Errno>,
    ) -> bool {
        matches!(result, Err(Errno::PERM | Errno::ACCES))
            && operation
                .rights
                .is_some_and(|version| !self.note(pool) || version != self.version)
    }

    /// Whether a new version has begun since this was last asked.
    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Starts a new version after a call through the context has changed the calling thread's rights:
    /// helpers started before make no later call.
    pub(super) fn change(&mut self, pool: &mut Helpers, by: &Row) {
        self.changed_by_call = true;
        self.own_root_or_cwd |= matches!(by.name, "unshare" | "setns");
        self.known = ReportedRights::of_this_thread();
        self.start_new_version(pool);
    }

    /// Compares the calling thread's rights with the last ones. Returns false if the kernel does
    /// not report them.
    pub(super) fn note(&mut self, pool: &mut Helpers) -> bool {
        let now = ReportedRights::of_this_thread();
        let shows = now.is_some();
        if !shows || now != self.known {
            self.known = now;
            self.start_new_version(pool);
        }
        shows
    }

    /// Begins a new generation of helpers if the calling thread's rights or FS state are no longer those with which it
    /// queued jobs: a helper that it started for them now would have the new ones.
    pub(super) fn renew_if_changed(&mut self, pool: &mut Helpers) {
        if !self.are_of_process() && self.note(pool) {
            self.note_fs_state(pool);
        }
    }

    /// Compares the calling thread's FS state (root, working directory and umask) with that of the helpers. Returns false
    /// if it cannot be compared.
    fn note_fs_state(&mut self, pool: &mut Helpers) -> bool {
        if self.are_filtered() {
            return false;
        }
        let is_shared = match pool.sample_thread() {
            // The first helper starts with this state.
            None => {
                self.fs_roots = FsRoots::of_this_thread();
                return true;
            }
            // All of them were started after the rights were last compared, and none has run yet.
            Some(0) => Ok(FsRoots::of_this_thread() == self.fs_roots),
            Some(thread) => shares_fs_state_with(thread),
        };
        match is_shared {
            Ok(true) => true,
            // `ESRCH`: the helper that was compared has ended meanwhile.
            Ok(false) | Err(Errno::SRCH) => {
                self.fs_roots = FsRoots::of_this_thread();
                pool.renew();
                true
            }
            Err(_) => false,
        }
    }

    fn start_new_version(&mut self, pool: &mut Helpers) {
        self.version = self.version.wrapping_add(1);
        self.fs_roots = FsRoots::of_this_thread();
        self.is_new = true;
        pool.renew();
    }
}

std::thread_local! {
    /// The thread's root and working directory when it made its first ring. The kernel keeps one
    /// set of io_uring workers per thread, not per ring, and they keep those.
    static ROOTS_OF_RINGS: Cell<Option<FsRoots>> = const { Cell::new(None) };
}

/// Records root and working directory when the calling thread makes a ring.
pub(crate) fn note_ring() {
    if ROOTS_OF_RINGS.get().is_none() {
        ROOTS_OF_RINGS.set(FsRoots::of_this_thread());
    }
}
