//! The tests of the watch. The threads that are watched belong to the test program itself, or to
//! programs that it starts.

#![forbid(unsafe_code)]

mod known_waits;
mod languages;
mod life;
mod loops;
