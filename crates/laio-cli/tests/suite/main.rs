//! The command's tests, in one program: they start `laio` as a user does. The tests of `cp` are a separate
//! program.

mod acme;
mod activation;
mod announced_sizes;
mod bench_cp;
mod bench_published;
mod command;
mod common;
mod descriptors;
mod ending;
mod few_threads;
mod forbidden;
mod load;
mod operation;
mod sites;
mod stalls;
