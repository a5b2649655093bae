//! What the helpers of a driver do with loads.

use super::helper_pool::{HelperPool, Work, job_of, task_id};
use super::task::Duty;
use crate::Errno;
use crate::background::job::{Job, begin_load, end_load};
use crate::background::lane;
use crate::pool::crew::Member;
use crate::pool::loads::{self, Loads};
use crate::pool::queue::Coming;
use std::time::Instant;

impl HelperPool {
    /// Serves a load that a helper has taken, and others as long as some are queued.
    pub(super) fn serve_loads(&self, first: Work, member: &Member) {
        let mut loads = OfDriver { pool: self, member };
        loads::serve(self.jobs(), member, first, &mut loads);
    }
}

struct OfDriver<'a> {
    pool: &'a HelperPool,
    member: &'a Member,
}

/// A load whose file is open, or could not be opened.
struct Begun {
    duty: Duty,
    job: Job,
    opened: Result<usize, Errno>,
    at: Instant,
}

impl Loads<Work> for OfDriver<'_> {
    type Begun = Begun;

    fn begin(&mut self, work: Work) -> Option<Begun> {
        let Work::Load(mut duty, rest) = work else {
            unreachable!("the queue knows the loads");
        };
        let (at, interruptible) = (Instant::now(), &*self.member.interruptible);
        let job = job_of(&duty, duty.core().call);
        let opened = if lane::opens_blocking_file(&job, interruptible) {
            let mut crew = self.pool.jobs().lock();
            match self.pool.pass_open(duty, rest, interruptible) {
                Ok(()) => {
                    crew.set_current(self.member, None);
                    drop(crew);
                    self.pool.drop_if_ended();
                    return None;
                }
                Err(cancelled) => duty = cancelled,
            }
            Err(Errno::CANCELED)
        } else {
            begin_load(&job, interruptible)
        };
        Some(Begun {
            duty,
            job,
            opened,
            at,
        })
    }

    fn id(begun: &Begun) -> Option<usize> {
        Some(task_id(begun.duty.task()))
    }

    fn wait(&mut self, begun: &Begun) {
        end_load(&begun.job, begun.opened, &self.member.interruptible);
        self.pool.patience().note_call(begun.at.elapsed());
    }

    fn report(&mut self, begun: Begun) {
        self.pool.end_line_of(&begun.duty);
        begun.duty.complete(begun.opened);
    }

    fn bring(&mut self, coming: Coming, _is_short: bool) {
        self.pool.order(coming);
    }
}
