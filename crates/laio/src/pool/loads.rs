//! Loads ([`Queued::is_load`]): files that a helper opens and brings into memory.
//!
//! A helper opens queued files and asks the kernel to read them, up to [`LOADS_AT_ONCE`], before it waits
//! for the first. So the disk has many requests, and few threads wait for them: when a helper wakes up, the
//! requests for its other files have often ended too. A slow file delays at most the files of its helper.
//!
//! The model checker runs this file with the queue; see `tests/model.rs`.

use super::crew::Member;
use super::lanes::{LOADS_AT_ONCE, Queued};
use super::queue::{AfterLoad, Coming, JobQueue};
use std::collections::VecDeque;

/// What the user of a pool does with loads.
pub(crate) trait Loads<J: Queued> {
    /// A load that has begun.
    type Begun;

    /// Opens a file and asks the kernel to read it. `None` if another thread goes on with the job.
    fn begin(&mut self, job: J) -> Option<Self::Begun>;

    /// What a cancellation names that must interrupt [`Loads::wait`].
    fn id(begun: &Self::Begun) -> Option<J::Id>;

    /// Waits for the data.
    fn wait(&mut self, begun: &Self::Begun);

    /// Reports the result.
    fn report(&mut self, begun: Self::Begun);

    /// `coming`: who comes for jobs that are left. `is_short`: they need more helpers than there are.
    fn bring(&mut self, coming: Coming, is_short: bool);
}

/// Serves a load that a helper has taken, and others as long as some are queued.
pub(crate) fn serve<J: Queued, L: Loads<J>>(
    jobs: &JobQueue<J>,
    member: &Member,
    first: J,
    loads: &mut L,
) {
    let mut begun = VecDeque::with_capacity(LOADS_AT_ONCE);
    let mut next = Some(first);
    loop {
        while let Some(job) = next {
            begun.extend(loads.begin(job));
            next = goes_on(jobs.begun_load(member, begun.len()), loads);
        }
        let Some(oldest) = begun.pop_front() else {
            return;
        };
        jobs.waits_for(member, L::id(&oldest));
        loads.wait(&oldest);
        next = goes_on(jobs.ended_load(member, begun.is_empty()), loads);
        loads.report(oldest);
    }
}

/// Returns the load that the helper begins next.
fn goes_on<J: Queued>(after: AfterLoad<J>, loads: &mut impl Loads<J>) -> Option<J> {
    loads.bring(after.coming, after.is_short);
    after.next
}
