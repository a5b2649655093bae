//! What the helpers of a context do with loads.
//!
//! Other loads wait for a helper that makes no progress for at most [`super::Helpers::SHARED_AT_MOST`].

use super::HelperShared;
use crate::background::job::{Job, begin_load, end_load};
use crate::pool::crew::Member;
use crate::pool::lanes::Queued;
use crate::pool::loads::{self, Loads};
use crate::pool::queue::Coming;
use crate::{Errno, Handle};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

impl HelperShared {
    /// Serves a load that the helper has taken, and others as long as some are queued.
    pub(super) fn serve_loads(&self, first: Job, member: &Member) {
        let mut loads = OfContext {
            shared: self,
            member,
        };
        loads::serve(&self.jobs, member, first, &mut loads);
    }
}

struct OfContext<'a> {
    shared: &'a HelperShared,
    member: &'a Member,
}

/// A load whose file is open, or could not be opened.
struct Begun {
    job: Job,
    opened: Result<usize, Errno>,
    at: Instant,
}

impl Loads<Job> for OfContext<'_> {
    type Begun = Begun;

    fn begin(&mut self, job: Job) -> Option<Begun> {
        let at = Instant::now();
        let opened = begin_load(&job, &self.member.interruptible);
        Some(Begun { job, opened, at })
    }

    fn id(begun: &Begun) -> Option<Handle> {
        begun.job.id()
    }

    fn wait(&mut self, begun: &Begun) {
        end_load(&begun.job, begun.opened, &self.member.interruptible);
        begun.job.publish_status(begun.opened);
        self.shared.patience.note_call(begun.at.elapsed());
    }

    fn report(&mut self, begun: Begun) {
        self.shared.report(begun.job.handle, begun.opened);
    }

    /// Only the context's own thread may start more helpers.
    fn bring(&mut self, _coming: Coming, is_short: bool) {
        if is_short {
            self.shared.short_of_helpers.store(true, SeqCst);
            self.shared.ring();
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::background::after_open::AfterOpen;
    use crate::background::doorbell::Doorbell;
    use crate::background::helpers::Helpers;
    use crate::pool::lanes::Lane;
    use crate::{Call, Limits, table};
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
