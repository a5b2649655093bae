//! The command's tests, in one program: they start `laio` as a user does. `cp` is one of its own.

mod activation;
mod bench_cp;
mod bench_published;
mod claims;
mod command;
mod common;
mod descriptors;
mod ending;
mod load;
mod operation;
