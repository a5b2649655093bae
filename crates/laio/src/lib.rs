#![cfg_attr(laio_sanitized, feature(sanitize))]
//! Lazy asynchronous I/O for Linux: makes any system call without blocking the caller. A call that
//! does not block costs about as much as the plain call.
//!
//! There are two verbs. The first makes a call, and either it is done when the function returns, or it
//! has become an operation in the background. The second, [`Context::poll`], delivers the completions
//! of operations that have finished.
//!
//! # Typed operations
//!
//! [`Context::submit`] makes the calls of [`ops`]. Each operation owns its descriptor and its buffer,
//! and returns the buffer with the result, so it is safe.
//!
//! ```
//! use laio::ops::Read;
//! use laio::{Context, Options, Outcome};
//! use std::io::Write;
//!
//! let mut context = Context::new(Options::new())?;
//! let (from, mut to) = std::io::pipe()?;
//!
//! // Nothing has been written yet: the read would block, so it becomes an operation.
//! let Outcome::Pending(ticket) = context.submit(Read::new(from, Vec::with_capacity(16))) else {
//!     panic!("an empty pipe");
//! };
//! to.write_all(b"hello")?;
//!
//! let mut completions = Vec::new();
//! context.poll(&mut completions, None)?;
//! let (result, buffer) = context.take(ticket).expect("its completion was delivered");
//! assert_eq!((result?, &buffer[..]), (5, &b"hello"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A program that no longer needs the output drops the [`Ticket`]. The crate `laio-rt` turns operations
//! into futures.
//!
//! # An event loop
//!
//! An operation can carry user data, by which an event loop finds what to continue. The loop sleeps in
//! `poll`; or in its own `epoll`, to which it adds [`Context::descriptor`].
//!
//! ```
//! use laio::ops::Sleep;
//! use laio::{Context, Options, Outcome};
//! use std::time::Duration;
//!
//! let mut context = Context::new(Options::new())?;
//! let mut tickets = Vec::new();
//! for (index, milliseconds) in [2, 1].into_iter().enumerate() {
//!     let sleep = Sleep::new(Duration::from_millis(milliseconds));
//!     match context.submit_with(sleep, index as u64) {
//!         Outcome::Done(result) => result?,
//!         Outcome::Pending(ticket) => tickets.push(Some(ticket)),
//!     }
//! }
//! let mut completions = Vec::new();
//! while context.pending() > 0 {
//!     context.poll(&mut completions, None)?;
//!     for completion in completions.drain(..) {
//!         let ticket = tickets[completion.user_data as usize].take().unwrap();
//!         context.take(ticket).unwrap()?;
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `crates/laio/examples` has an echo server, a reader of many files, and a hash of a directory tree.
//!
//! # Back ends
//!
//! A context has a [back end](BackendKind), which decides how a call is made. The result is always the
//! same. Programs want the default; the others are for comparison.
//!
//! | back end | calls on streams | calls on files and names |
//! | --- | --- | --- |
//! | `lazy` (default) | attempt without blocking, then io_uring | attempt, then io_uring or a helper thread |
//! | `lazy` where io_uring is forbidden | attempt, then epoll | attempt, then a helper thread |
//! | `activations` | attempt, then epoll | the call itself; if it blocks, another kernel thread continues the program |
//! | `uring` | io_uring | io_uring, or a helper thread |
//! | `hybrid` | attempt, then epoll | helper thread |
//! | `posix-aio`, `linux-aio` | attempt, then epoll | AIO, or a helper thread |
//! | `threads` | helper thread | helper thread |
//! | `sync` | the call itself, which blocks | the call itself, which blocks |
//!
//! # Calls by number
//!
//! [`Context::call`] makes any system call by its number. It is `unsafe`, as system calls are: the
//! caller is responsible for the pointers.
//!
//! ```
//! use laio::{Call, Context, Options, Outcome};
//! use std::os::fd::AsRawFd;
//!
//! let mut context = Context::new(Options::new())?;
//! let pipe = std::io::pipe()?;
//! let [from, to] = [pipe.0.as_raw_fd() as usize, pipe.1.as_raw_fd() as usize];
//! let mut buffer = [0u8; 16];
//!
//! let read = Call::new(libc::SYS_read, [from, buffer.as_mut_ptr() as usize, buffer.len()]);
//! // SAFETY: the buffer stays where it is, untouched, until the completion is delivered.
//! let Outcome::Pending(handle) = (unsafe { context.call(read) }) else { panic!() };
//!
//! // The write does not block: it is done.
//! let write = Call::new(libc::SYS_write, [to, b"hello".as_ptr() as usize, 5]);
//! // SAFETY: the bytes are static.
//! assert_eq!(unsafe { context.call(write) }, Outcome::Done(Ok(5)));
//!
//! let mut completions = Vec::new();
//! context.poll(&mut completions, None)?;
//! assert_eq!((completions[0].handle, completions[0].result), (handle, Ok(5)));
//! assert_eq!(&buffer[..5], b"hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The contract
//!
//! Every back end keeps the same contract, and one test suite checks it for all of
//! them:
//!
//! 1. The result and the errno are those of the plain system call, however it was made.
//! 2. Complete, not partial: all bytes that a blocking call would have transferred. On an error after a partial
//!    transfer the bytes moved are reported, as the kernel does.
//! 3. Exactly one completion per operation, cancelled or not. Until it is delivered, the buffers belong to
//!    the operation.
//! 4. On one descriptor, a later call does not overtake an earlier operation of the same direction.
//!    Positioned file I/O is unordered, unless [`Context::set_ordered`] asks for order.
//! 5. `close` of a descriptor with operations in flight cancels them first, then closes. A descriptor that a
//!    cancelled call still produced is closed; a typed operation owns it, and returns it.
//! 6. `EINTR` does not surface.
//! 7. Every limit has a name ([`Limits`]). At the limit a call fails with `EAGAIN`, or waits if so asked
//!    ([`BackPressure`]).
//! 8. A program whose calls all finish inline still gets to its completions
//!    ([`Limits::inline_budget`]).
//! 9. Calls that belong to the calling thread always run there; [`table`] says which, and which are
//!    refused. Calls in the background have the rights that the thread has when it makes them, however it
//!    changes these ([`Options::rights`]).
//! 10. After `fork` the child begins with an empty context. A context dies with its thread, and cancels
//!     and waits for its operations first.
//! 11. Statistics count every call ([`Stats`], [`Mount::counts`]).
//! 12. It works where io_uring is forbidden, where perf is, and where both are.
//!
//! The known differences from the plain call are listed in `docs/decisions/010-known-differences.md`.
//!
//! # Features
//!
//! None is on by default, and a program that uses the library needs none. `measure` and `process` are for this
//! project's own programs, which may not contain unsafe code; what they add is hidden here, and may change in any
//! release.

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!(
    "laio runs on Linux on x86-64 and little-endian aarch64, with 64-bit pointers. Other processors need assembly in \
     crates/laio/src/sys and a column of numbers in the system-call table."
);

mod attempt;
mod background;
pub mod below;
mod blocking;
mod borrowed;
mod call;
mod calls;
mod cancel;
mod carry;
mod composition;
mod context;
#[doc(hidden)]
pub mod directory;
mod errno;
mod fd_table;
mod info;
mod inline;
mod knowledge;
mod lifecycle;
#[cfg(feature = "measure")]
#[doc(hidden)]
pub mod measure;
#[doc(hidden)]
pub mod memory;
mod operation;
mod operations;
pub mod ops;
mod options;
mod placement;
mod poll;
mod pool;
mod proactor;
#[cfg(feature = "process")]
#[doc(hidden)]
pub mod process;
pub mod ranges;
mod rights;
mod shutdown;
mod signaller;
#[cfg(all(test, not(miri)))]
mod simulation;
mod stats;
mod status_word;
mod step;
#[cfg(feature = "switches")]
#[doc(hidden)]
pub mod switches;
mod sys;
#[cfg(test)]
mod system_calls_page;
pub mod table;
pub mod testing;
#[doc(hidden)]
pub mod thread;
mod ticket;
mod transfer;
mod typed;
pub mod walk;

#[doc(hidden)]
pub use attempt::Examined;
pub use background::activations::signals::{Handler, handle_signal, set_signal_action};
pub use background::doorbell::Notifier;
pub use borrowed::TryRead;
pub use call::{Call, Completion, Handle, Outcome};
pub use context::Context;
pub use errno::Errno;
pub use info::Info;
pub use knowledge::mounts::{Mount, Place};
pub use operation::{Operation, ReadsStream};
pub use options::{BackPressure, BackendKind, Detector, Limits, Options, Rights};
pub use poll::PollOptions;
pub use proactor::{
    Batch, Blocking, FindLoopRing, LoopRing, Metric, Proactor, ProactorStats, Stop, Submission,
};
pub use stats::{AioCounts, Counts, Stats, ZeroCopyCounts};
pub use status_word::StatusWord;
pub use ticket::Ticket;
pub use typed::Submitted;

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
