//! The runtime's tests, in one program. `cancellation` is a separate program, because it counts the descriptors of its process.

mod attributes;
mod common;
mod extra_contexts;
mod files;
mod operations;
mod processes;
mod ranges;
mod sockets;
mod stalls;
mod tasks;
mod threads;
mod timers;
