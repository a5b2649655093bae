//! The pool of helper threads: how many helpers there are, and how long a helper looks for a job before it
//! sleeps.

pub(crate) mod growth;
pub(crate) mod patience;
