//! Files for programs that use tokio: [`fs`] has the names of `tokio::fs`, and means the same.
//!
//! `tokio::fs` sends every call to a pool of blocking threads. Here a call is first attempted on the
//! thread that polls the future: a read of cached data, an `open`, `metadata` or `lseek` that does not
//! block is done when the future is first polled. Only what would block goes to a driver of
//! [`laio::Proactor`], by io_uring where that is allowed.
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
//! `docs/tokio.md` lists every function and how it is made, and what differs. The futures work on
//! current-thread and multi-thread runtimes, and are `Send`. A few functions use tokio's own pool
//! ([`tokio::task::spawn_blocking`]) and panic outside of a runtime; the list names them.

#![forbid(unsafe_code)]

pub mod fs;

use laio::{Operation, Options, Proactor};
use std::io;
use std::sync::OnceLock;

static PROACTOR: OnceLock<Proactor> = OnceLock::new();

/// Makes all functions of this crate use this proactor, rather than [`Proactor::global`], for example one
/// with [`Options::settled_rights`].
///
/// # Errors
/// Returns the proactor if one was installed or used before.
pub fn install(proactor: Proactor) -> Result<(), Proactor> {
    PROACTOR.set(proactor)
}

/// The proactor that this crate uses.
///
/// # Errors
/// Those of [`Proactor::new`].
pub fn proactor() -> io::Result<&'static Proactor> {
    if let Some(proactor) = PROACTOR.get() {
        return Ok(proactor);
    }
    let new = match Proactor::global() {
        Ok(global) => global.clone(),
        Err(_) => Proactor::new(Options::new())?,
    };
    Ok(PROACTOR.get_or_init(|| new))
}

/// Calls a function that may block on a thread of tokio's pool.
async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(body).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("background task failed")),
    }
}

/// Makes an operation, and counts it for tokio's cooperative budget: a task whose operations all finish
/// at once still lets others run.
async fn submit<O: Operation + Send>(operation: O) -> io::Result<O::Output> {
    Ok(submit_to(proactor()?, operation).await)
}

/// As [`submit`], where the proactor is at hand.
async fn submit_to<O: Operation + Send>(proactor: &Proactor, operation: O) -> O::Output {
    let submission = proactor.submit(operation);
    tokio::task::coop::consume_budget().await;
    submission.await
}

/// As [`submit`], for an operation that returns nothing but a result.
async fn run<T, O>(operation: O) -> io::Result<T>
where
    O: Operation<Output = io::Result<T>> + Send,
{
    submit(operation).await?
}
