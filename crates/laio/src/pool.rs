//! The pool of helper threads: the queue of its jobs, how many helpers there are, who is woken for a job,
//! and how long a helper looks for one before it sleeps. The user of the pool says what a helper does
//! with a job and with its result: a context ([`crate::background::threads`]) or a driver
//! ([`crate::proactor`]).

pub(crate) mod crew;
pub(crate) mod growth;
pub(crate) mod lanes;
pub(crate) mod loads;
mod locks;
pub(crate) mod patience;
pub(crate) mod queue;
