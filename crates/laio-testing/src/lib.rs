//! Helpers for the tests of the other crates, which make blocking, failures and comparisons deterministic.
//!
//! | module | contents |
//! | --- | --- |
//! | [`fault_fs`] | a file system that delays, fails, hangs and shortens on command, and counts |
//! | [`forbid`] | system calls that fail, by seccomp, for a test or a program |
//! | [`nth_call`] | the n-th system call of a kind fails, by seccomp |
//! | [`child`] | one test in a process of its own |
//! | [`each_test`](crate::each_test!) | tests that differ in an argument, a line for each |
//! | [`sandbox`] | what deployments take away from a program |
//! | [`control_group`] | a program with a limit of memory or of processes |
//! | [`fail_nth`] | a program whose n-th call of a kind fails |
//! | [`bombardment`] | a thread that is bombarded with signals |
//! | [`oracle`] | random programs of system calls, run plainly and through the library, and compared |
//! | [`mapped`] | a byte of a mapped file, for page faults |
//! | [`temp`] | cold files, full pipes, connected sockets |
//! | [`process`] | the number of descriptors, threads and bytes of this process |
//! | [`random`] | random numbers with a seed that a failing test prints |
//! | [`watchdog`] | ends a program in which a test hangs, and reports its state |
//! | [`limit`] | time limits |
//! | [`needs`] | features that tests need, and whether this machine has them |
//!
//! The tests of a crate need few lines for each. A call that always blocks:
//!
//! ```
//! use laio_testing::fault_fs::{Fault, FaultFs, Kind, Released};
//! use std::time::Duration;
//!
//! let Some(fs) = laio_testing::or_skip(FaultFs::mount()) else { return };
//! fs.add_file("file", b"contents");
//! fs.set(Kind::Read, Fault::Hang);
//! let path = fs.join("file");
//! let reader = std::thread::spawn(move || std::fs::read(path));
//! assert!(fs.wait_hung(1, Duration::from_secs(60)));
//! fs.release(Released::Fail(libc::EIO));
//! assert_eq!(reader.join().unwrap().unwrap_err().raw_os_error(), Some(libc::EIO));
//! ```
//!
//! A test without io_uring, as in a container. It runs in a child process, because a filter cannot be
//! removed:
//!
//! ```no_run
//! use laio_testing::forbid::{self, Forbid};
//!
//! // #[test]
//! fn falls_back() {
//!     forbid::child(laio_testing::test_name!(), &Forbid::io_uring(libc::EPERM), || {
//!         // ...
//!     });
//! }
//! ```
//!
//! A file that is not in the page cache, a time limit, a seed:
//!
//! ```
//! use laio_testing::{Random, limit, or_skip, temp};
//! use std::io::Read;
//! use std::time::Duration;
//!
//! limit::within(Duration::from_secs(60), || {
//!     let mut random = Random::for_test();
//!     let contents = random.bytes(100_000);
//!     let directory = temp::scratch();
//!     let Some(mut file) = or_skip(temp::cold_file(directory.path(), &contents)) else { return };
//!     let mut read = Vec::new();
//!     file.read_to_end(&mut read).unwrap();
//!     assert!(read == contents);
//! });
//! ```
//!
//! Tests skip features that a machine lacks with the feature's name and a reason, never silently: [`skip`],
//! [`or_skip`], or a [`Skip`] recorded by a harness. The environment:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LAIO_TEST_SEED` | the seed of all random tests |
//! | `LAIO_TEST_PIPE_SIZE` | the capacity of the pipes of [`temp::pipe`] in bytes: 4096 finds tests that need
//! more |
//! | `LAIO_TEST_EXTENT` | by default tests try a part of their cases; `all`, as in `.ci/run`; `full`,
//! also every fault with every errno and every build of the C programs |
//! | `LAIO_TEST_DIR` | the directory in which [`temp::scratch`] creates its directories |
//! | `LAIO_TEST_LIMIT` | the number of seconds for which a test may make no progress; default 300. All other
//! limits grow in proportion |
//! | `LAIO_TEST_NO_SKIP` | a skip is a failure |
//! | `LAIO_TEST_MAY_SKIP` | except for these needs, separated by commas: `.ci/lacks` prints those that this
//! machine lacks |
//! | `LAIO_TEST_SKIPS` | a file that gets a line for each skip: `cargo xtask skips FILE` shows it |
//!
//! This crate must not depend on the others, which use it in their tests. It has unsafe code for raw system
//! calls in `bombardment`, `control_group`, `oracle` (arena, world), `fault_fs::watchdog`, `fail_nth`, `forbid`, `mapped`, `process`,
//! `sandbox` and `temp`.

pub mod bombardment;
pub mod child;
mod child_mark;
pub mod control_group;
mod each_test;
pub mod extent;
pub mod fail_nth;
pub mod fault_fs;
pub mod forbid;
pub mod limit;
pub mod mapped;
pub mod needs;
pub mod nth_call;
pub mod oracle;
pub mod process;
pub mod random;
pub mod sandbox;
mod skip;
pub mod temp;
pub mod watchdog;

pub use bombardment::Bombardment;
pub use fault_fs::FaultFs;
pub use random::Random;
pub use skip::{INAPPLICABLE, MAY_SKIP, NO_SKIP, SKIPS, Skip, lacks, or_skip, skip};
