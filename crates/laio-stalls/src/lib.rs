#![forbid(unsafe_code)]
#![allow(dead_code)]
//! Finds what blocks the event loops of other programs: system calls, locks, page faults, and waits
//! for a processor.

mod proc_files;
