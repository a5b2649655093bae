//! For the tests of the other crates: what makes blocking, failing and comparing deterministic.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`fault_fs`] | a file system that delays, fails, hangs and shortens on command, and counts |
//! | [`forbid`] | system calls that are not there, by seccomp, for a test or a program |
//! | [`child`] | one test in a process of its own |
//! | [`bombardment`] | a thread that is sent signals all the time |
//! | [`oracle`] | random programs of system calls, run plainly and in another way, and compared |
//! | [`temp`] | cold files, full pipes, connected sockets |
//! | [`process`] | how many descriptors, threads and bytes this process has |
//! | [`random`] | random numbers with a seed that a failing test prints |
//! | [`watchdog`] | the end of a program in which a test hangs, and where it stood |
//! | [`limit`] | hard limits of time |
//! | [`needs`] | what tests need of a machine, and whether this one has it |
//!
//! The tests of a crate need few lines for each. A call that blocks for certain:
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
//! A test without io_uring, as in a container. It runs in a child process, since a filter stays:
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
//! A file that is not in memory, a hard limit, a seed:
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
//! What a machine does not offer is skipped with its name and a reason, never silently: [`skip`], [`or_skip`], or a
//! [`Skip`] that is recorded by a harness of one's own. The environment:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LAIO_TEST_SEED` | the seed of all random tests |
//! | `LAIO_TEST_PIPE_SIZE` | how many bytes the pipes of [`temp::pipe`] hold: 4096 finds tests that need more |
//! | `LAIO_TEST_DIR` | where [`temp::scratch`] makes its directories |
//! | `LAIO_TEST_LIMIT` | for how many seconds a test may make no progress; else 300. All other limits grow with it |
//! | `LAIO_TEST_NO_SKIP` | a skip is a failure |
//! | `LAIO_TEST_MAY_SKIP` | but for these needs, with commas between: `.ci/lacks` finds those that this machine lacks |
//! | `LAIO_TEST_SKIPS` | a file that gets a line for each skip: `cargo xtask skips FILE` shows it |
//!
//! This crate must not know the others: they use it in their tests. It has unsafe code where it makes
//! raw system calls: `bombardment`, `oracle` (arena, world), `fault_fs::watchdog`, `forbid`, `temp`.

pub mod bombardment;
pub mod child;
pub mod fault_fs;
pub mod forbid;
pub mod limit;
pub mod needs;
pub mod oracle;
pub mod process;
pub mod random;
mod skip;
pub mod temp;
pub mod watchdog;

pub use bombardment::Bombardment;
pub use fault_fs::FaultFs;
pub use random::Random;
pub use skip::{INAPPLICABLE, MAY_SKIP, NO_SKIP, SKIPS, Skip, or_skip, skip};
