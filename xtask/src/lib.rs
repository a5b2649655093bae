#![forbid(unsafe_code)]
//! Builds, installs and removes the command and the C library: the code of `cargo xtask`, for its `main` and
//! for the tests.
//!
//! It needs a Rust toolchain and a C compiler with its binutils, and runs no other programs. The modules, in
//! the order in which an installation uses them:
//!
//! | module | purpose |
//! | --- | --- |
//! | [`programs`] | runs other programs, and reports their errors |
//! | [`compile`] | finds the C compiler and its binutils |
//! | [`library`] | builds `liblaio.so` and `liblaio.a` from the crate |
//! | [`program`] | builds the command, and completions for shells |
//! | [`install`] | installs files, and removes them |
//! | [`files`] | writes files atomically |
//! | [`advice`] | prints how to use the installed files |
//! | [`kernels`] | runs the suites under other kernels, in virtual machines |
//! | [`targets`] | runs the suites on other processors and C libraries |
//! | [`skips`] | summarizes the skips of a test run |
//! | [`repository`] | the root and the version of the repository, and the type of a failure |
//! | [`workspace`] | the packages and dependencies, as cargo describes them |
//! | [`links`] | finds links that lead nowhere |
//! | [`tidy`] | checks the structure of the tree |
//! | [`book`] | makes the book of the documentation |
//! | [`package`] | makes the packages for distributions |
//! | [`release`] | checks that a version can be released, and releases it |

pub mod advice;
pub mod book;
pub mod compile;
pub mod files;
pub mod install;
pub mod kernels;
pub mod library;
pub mod links;
pub mod package;
pub mod program;
pub mod programs;
pub mod release;
pub mod repository;
pub mod skips;
pub mod targets;
pub mod tidy;
pub mod workspace;

pub use repository::{Failure, VERSION, capi, root};
