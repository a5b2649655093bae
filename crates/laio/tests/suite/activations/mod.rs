//! Tests specific to the back end `activations`. The contract suite has those that it shares with
//! others.

mod forbidden;
mod identity;
mod library;
mod signals;
mod stress;
pub(crate) mod support;
