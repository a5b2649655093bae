//! The lifecycle of operations (complete, once, in order, bounded, cancelled, delivered), in every
//! back end.
//!
//! `contract` compares results with those of plain calls; this module tests behaviour that plain calls do not
//! have.

mod parked;

mod aio;
mod attributes;
mod batches;
mod below;
mod borrowed;
mod cancelling;
mod closing;
mod completeness;
mod copying;
mod limits;
mod opening;
mod ownership;
mod placement;
mod polling;
mod signalling;
mod storm;
mod timeouts;
mod walking;
mod watching;
mod zero_copy;
