#![forbid(unsafe_code)]
//! A single-threaded executor, and futures for files, sockets, pipes, processes, signals and time, over
//! [`laio`].
//!
//! # One idea
//!
//! The first poll of an operation makes the system call. If the call does not block, and most do not, the
//! future is ready at once: nothing has been allocated, queued or woken, and the call has cost what the
//! plain call costs. Only a call that would block goes to the background, and only then the task waits.
//! So a handler is straight-line code that does not stall other tasks:
//!
//! ```
//! use laio_rt::net::{TcpListener, TcpStream};
//! use laio_rt::{Runtime, fs, spawn, time};
//! use std::time::Duration;
//!
//! async fn serve(connection: TcpStream) -> std::io::Result<()> {
//!     let (result, request) = connection.read(Vec::with_capacity(4096)).await;
//!     if result? == 0 {
//!         return Ok(());
//!     }
//!     let path = String::from_utf8_lossy(&request);
//!     let file = fs::File::open(path.trim_end()).await?;
//!     let size = file.metadata().await?.size();
//!     let header = format!("{size} bytes\n");
//!     connection.write_all(header).await.0?;
//!     connection.send_file(&file, 0, size).await.0
//! }
//!
//! let runtime = Runtime::new(laio::Options::new())?;
//! runtime.block_on(async {
//!     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
//!     let address = listener.local_addr()?;
//!     let server = spawn(async move {
//!         let (connection, _peer) = listener.accept().await?;
//!         time::timeout(Duration::from_secs(10), serve(connection)).await?
//!     });
//!
//!     let client = TcpStream::connect(address).await?;
//!     let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
//!     client.write_all(path).await.0?;
//!     let mut answer = Vec::with_capacity(8192);
//!     loop {
//!         let (result, filled) = client.read(answer).await;
//!         answer = filled;
//!         if result? == 0 {
//!             break;
//!         }
//!     }
//!     assert!(answer.ends_with(&fs::read(path).await?));
//!     server.await.expect("the server neither panics nor is aborted")
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Buffers
//!
//! An operation owns its buffer, and returns it with the result: `let (result, buffer) =
//! file.read_at(buffer, 0).await`. Reads append to a `Vec<u8>` within its spare capacity
//! ([`laio::ops::Limit`] bounds it); writes take a `Vec<u8>`, `String`, `&'static str`, `Rc<[u8]>`, …, or
//! a [`laio::ops::Part`] of one. Therefore a future may be dropped at any time: the operation is
//! cancelled, and its memory and descriptor stay alive until the kernel has released them.
//!
//! A cancelled operation may have had its effect nevertheless. The `read` of a [stream](net::Stream) or
//! [pipe](pipe::Reader) loses nothing: what a cancelled one has read, the next one returns. A cancelled
//! operation of [`submit`] may consume bytes, and a cancelled receive a datagram. A descriptor that a cancelled
//! operation opens is closed, and so is a connection that a cancelled accept has accepted.
//!
//! # Tasks
//!
//! [`spawn`] starts a task on the same thread, so tasks share data by `Rc` and `RefCell`. Wakers may go to
//! other threads. [`JoinHandle`] awaits a task's output or [aborts](JoinHandle::abort) it. A task that
//! panics ends, and the others go on.
//!
//! Tasks do not starve each other: a task whose operations never block is suspended after
//! [`limits::OPERATIONS_PER_POLL`] of them. Use [`yield_now`] in loops without operations, and
//! [`give_way`] in long-running tasks.
//!
//! [`submit`] makes any [`laio::Operation`], also those without a method here.
//!
//! With the feature `stalls`, `stalls::watch` warns when a task holds the runtime up.
//!
//! # Not provided
//!
//! Work stealing, other executors' traits (`AsyncRead`), host name resolution (`getaddrinfo` reads files and
//! queries servers, which no single system call covers: resolve names on a thread), and a thread pool for
//! computations.

mod contexts;
mod descriptor;
mod engine;
mod executor;
pub mod fs;
pub mod future;
mod join;
mod leftover;
pub mod limits;
pub mod net;
mod output;
pub mod pipe;
pub mod process;
mod read;
mod ready;
mod runtime;
pub mod signal;
#[cfg(feature = "stalls")]
pub mod stalls;
mod submission;
pub mod sync;
mod task;
pub mod time;
mod timers;
mod turns;
mod write;

pub use contexts::ContextId;
pub use descriptor::Descriptor;
pub use join::JoinHandle;
pub use laio;
pub use output::Aborted;
pub use runtime::{Runtime, give_way, spawn, turn, with_context, with_context_of, yield_now};
pub use submission::{Submission, detach, now, submit, submit_to, walk_in};

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
