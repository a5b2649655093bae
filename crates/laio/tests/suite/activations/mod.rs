//! The back end `activations`: what only it has. What it has in common with others is in the contract suite.

mod forbidden;
mod identity;
mod library;
mod signals;
mod stress;
pub(crate) mod support;
