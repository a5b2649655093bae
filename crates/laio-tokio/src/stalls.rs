//! What shows that a worker of the runtime does not turn, and which thread it is.

#![allow(dead_code, reason = "the watch comes to use it")]

mod stall;
mod threads;
mod turns;

pub use stall::{Cause, Stall};
