//! Files for programs that use tokio: [`fs`] has the names of `tokio::fs`, and means the same.
//!
//! `tokio::fs` sends every call to a pool of blocking threads. Here a call is first attempted on the
//! thread that polls the future: a read of cached data, an `open`, `metadata` or `lseek` that does not
//! block is done when the future is first polled. Only what would block goes to a driver of
//! [`laio::Proactor`], by io_uring where that is allowed.
//!
//! Calls in the background have the rights of the process, as with tokio's pool; [`install`] a proactor with
//! [`laio::Rights::Thread`] if single threads give up rights.
//!
//! ```
//! use laio_tokio::fs;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let text = fs::read_to_string("/proc/self/comm").await?;
//! assert!(!text.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! [`mod@io`] has the standard streams, pipes and terminals. With the feature `stalls`, the module of this
//! name warns when a task holds up the runtime. Two further crates are built on this one:
//! `laio-tower` answers requests of tower and axum with files, and `laio-object-store` is a store for the crate
//! `object_store`.
//!
//! `docs/tokio.md` lists every function and how it is made, and what differs. The futures work on
//! current-thread and multi-thread runtimes, and are `Send`. They use no thread of tokio's pool, and run
//! outside of a runtime too.

#![forbid(unsafe_code)]

pub mod fs;
pub mod io;
#[cfg(feature = "metrics")]
mod publish;
#[cfg(feature = "ring")]
pub mod ring;
#[cfg(feature = "stalls")]
pub mod stalls;
mod waiting;

#[cfg(feature = "metrics")]
pub use publish::publish as publish_metrics;

use laio::{Batch, Operation, Options, Proactor, Rights, Stop, Submission};
use std::sync::OnceLock;

static PROACTOR: OnceLock<Proactor> = OnceLock::new();

/// Makes all functions of this crate use this proactor, for example one whose calls have the rights of the
/// calling thread:
///
/// ```
/// let options = laio::Options::new().rights(laio::Rights::Thread);
/// laio_tokio::install(laio::Proactor::new(options)?).expect("before the first use");
/// # Ok::<(), laio::Errno>(())
/// ```
///
/// # Errors
/// Returns the proactor if one was installed or used before.
pub fn install(proactor: Proactor) -> Result<(), Proactor> {
    PROACTOR.set(proactor)
}

/// The proactor that this crate uses: the installed one, or one with [`laio::Rights::Process`].
///
/// # Errors
/// Those of [`Proactor::new`].
pub fn proactor() -> std::io::Result<&'static Proactor> {
    if let Some(proactor) = PROACTOR.get() {
        return Ok(proactor);
    }
    let new = Proactor::new(Options::new().rights(Rights::Process))?;
    Ok(PROACTOR.get_or_init(|| new))
}

/// Runs a function that may block on a helper of the proactor: for many calls in sequence, of which none
/// can be attempted.
async fn blocking<T: Send + 'static>(
    body: impl FnOnce(&Stop) -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    proactor()?.blocking(body).await?
}

/// Makes an operation, and counts it for tokio's cooperative budget: a task whose operations all finish
/// at once still lets others run.
async fn submit<O: Operation + Send>(operation: O) -> std::io::Result<O::Output> {
    Ok(submit_to(proactor()?, operation).await)
}

/// As [`submit`], where the proactor is at hand.
async fn submit_to<O: Operation + Send>(proactor: &Proactor, operation: O) -> O::Output {
    let submission = submission(proactor, operation);
    tokio::task::coop::consume_budget().await;
    submission.await
}

/// The future of an operation, which uses the ring of the runtime if it has one.
fn submission<O: Operation + Send>(proactor: &Proactor, operation: O) -> Submission<O> {
    let submission = proactor.submit(operation);
    #[cfg(feature = "ring")]
    let submission = submission.in_loop(ring::of_this_runtime);
    submission
}

/// As [`submission`], for many operations.
fn batch<O: Operation + Send>(
    proactor: &Proactor,
    operations: impl IntoIterator<Item = O>,
) -> Batch<O> {
    let batch = proactor.submit_all(operations);
    #[cfg(feature = "ring")]
    let batch = batch.in_loop(ring::of_this_runtime);
    batch
}

/// As [`submit`], for an operation that returns nothing but a result.
async fn run<T, O>(operation: O) -> std::io::Result<T>
where
    O: Operation<Output = std::io::Result<T>> + Send,
{
    submit(operation).await?
}

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
