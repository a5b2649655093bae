//! Tests specific to the back end `activations`. The contract suite has the tests for all back
//! ends.

mod forbidden;
mod identity;
mod library;
mod placement;
mod signals;
mod stress;
pub(crate) mod support;
