//! The runtime's tests, in one program. `cancellation` is one of its own: it counts the descriptors of its process.

mod attributes;
mod beside;
mod common;
mod files;
mod operations;
mod processes;
mod sockets;
mod tasks;
mod threads;
mod timers;
