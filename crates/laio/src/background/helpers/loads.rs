//! Loads ([`Queued::is_load`]): files that a helper opens and brings into memory.
//!
//! A helper opens queued files and asks the kernel to read them, up to [`LOADS_AT_ONCE`], before it waits
//! for the first. So the disk has many requests, and few threads wait for them: when a helper wakes up, the
//! requests for its other files have often ended too. A slow file delays at most the files of its helper.
//! Other loads wait for a helper that makes no progress for at most [`super::Helpers::SHARED_AT_MOST`].

use super::HelperShared;
use crate::Errno;
use crate::background::job::{Job, begin_load, end_load};
use crate::pool::crew::Member;
use crate::pool::lanes::{LOADS_AT_ONCE, Queued};
use crate::pool::queue::AfterLoad;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// A load whose file is open, or could not be opened.
struct Begun {
    job: Job,
    opened: Result<usize, Errno>,
    at: Instant,
}

impl HelperShared {
    /// Serves a load that the helper has taken, and others as long as some are queued.
    pub(super) fn serve_loads(&self, first: Job, member: &Member) {
        let interruptible = &*member.interruptible;
        let mut begun = VecDeque::with_capacity(LOADS_AT_ONCE);
        let mut next = Some(first);
        loop {
            while let Some(job) = next {
                let at = Instant::now();
                let opened = begin_load(&job, interruptible);
                begun.push_back(Begun { job, opened, at });
                next = self.begin(self.jobs.begun_load(member, begun.len() < LOADS_AT_ONCE));
            }
            let Some(oldest) = begun.pop_front() else {
                return;
            };
            self.jobs.waits_for(member, oldest.job.id());
            end_load(&oldest.job, oldest.opened, interruptible);
            oldest.job.publish_status(oldest.opened);
            self.patience.note_call(oldest.at.elapsed());
            next = self.begin(self.jobs.ended_load(member, begun.is_empty()));
            self.report(oldest.job.handle, oldest.opened);
        }
    }

    /// Returns the load that a helper begins next. Only the context's own thread may start more helpers.
    fn begin(&self, AfterLoad { next, is_short }: AfterLoad<Job>) -> Option<Job> {
        if is_short {
            self.short_of_helpers.store(true, SeqCst);
            self.ring();
        }
        next
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::background::after_open::AfterOpen;
    use crate::background::doorbell::Doorbell;
    use crate::background::helpers::Helpers;
    use crate::pool::lanes::Lane;
    use crate::{Call, Handle, Limits, table};
    use std::collections::HashMap;
    use std::ffi::CString;
    use std::os::fd::{FromRawFd, OwnedFd, RawFd};
    use std::sync::Arc;

    const LENGTH: usize = 5000;

    fn job(number: u64, call: Call) -> Job {
        Job {
            handle: Handle::from_raw(number).expect("not 0"),
            ..Job::new(table::row(call.number), call)
        }
    }

    fn open(name: &CString) -> Call {
        let flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) as usize;
        let directory = libc::AT_FDCWD as usize;
        Call::new(libc::SYS_openat, [directory, name.as_ptr() as usize, flags])
    }

    fn helpers(limits: &Limits) -> Helpers {
        Helpers::new(Arc::new(Doorbell::new().unwrap()), limits, false, None)
    }

    fn reap_all(helpers: &mut Helpers) -> HashMap<u64, Result<usize, Errno>> {
        let mut results = HashMap::new();
        while helpers.outstanding() > 0 {
            let reaped = helpers.reap(|_| ()).into_iter();
            results.extend(reaped.map(|(handle, result)| (handle.to_raw(), result)));
            std::thread::yield_now();
        }
        results
    }

    /// Every third job is no load, and every seventh load finds no file.
    fn run_round(helpers: &mut Helpers, file: &CString, absent: &CString) {
        let mut after: Vec<_> = (0..40).map(|_| AfterOpen::new(1 << 20)).collect();
        for (number, after) in (1..).zip(&mut after) {
            let call = match number {
                _ if number % 3 == 0 => Call::new(libc::SYS_getppid, []),
                _ if number % 7 == 0 => open(absent),
                _ => open(file),
            };
            let mut job = job(number, call);
            job.after_open = (number % 3 != 0).then(|| after.address());
            helpers.start(Lane::Bounded, job).unwrap();
        }
        let results = reap_all(helpers);
        for (number, after) in (1..).zip(&after) {
            let result = results[&number];
            match number {
                _ if number % 3 == 0 => assert!(result.is_ok()),
                _ if number % 7 == 0 => assert_eq!(result, Err(Errno::NOENT)),
                _ => {
                    // SAFETY: the helper has opened it for this test.
                    drop(unsafe { OwnedFd::from_raw_fd(result.unwrap() as RawFd) });
                    assert_eq!(after.loaded, LENGTH);
                }
            }
        }
    }

    #[test]
    fn loads_between_other_jobs_all_end() {
        let directory = tempfile::tempdir().unwrap();
        let name = |name| CString::new(directory.path().join(name).to_str().unwrap()).unwrap();
        std::fs::write(directory.path().join("file"), [7; LENGTH]).unwrap();
        for most in [1, 3, 64] {
            let limits = Limits {
                helpers: most,
                ..Limits::default()
            };
            let mut helpers = helpers(&limits);
            for _ in 0..100 {
                run_round(&mut helpers, &name("file"), &name("absent"));
            }
        }
    }

    #[test]
    fn a_load_that_no_helper_has_begun_can_be_cancelled() {
        let mut helpers = helpers(&Limits::default());
        let name = c"/absent".to_owned();
        let mut after = AfterOpen::new(1);
        let mut job = job(1, open(&name));
        job.after_open = Some(after.address());
        helpers.start(Lane::Bounded, job).unwrap();
        helpers.cancel(job.handle);
        for result in reap_all(&mut helpers).values() {
            assert!(result.is_err());
        }
    }
}
