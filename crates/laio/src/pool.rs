//! The pool of helper threads: the queue of its jobs, how many helpers there are, and how long a helper
//! looks for a job before it sleeps.

#[allow(dead_code, reason = "contexts and drivers do not use it yet")]
pub(crate) mod crew;
pub(crate) mod growth;
#[allow(dead_code, reason = "contexts and drivers do not use it yet")]
pub(crate) mod lanes;
pub(crate) mod patience;
