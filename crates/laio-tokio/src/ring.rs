//! A ring of io_uring in the runtime: cold reads without a wakeup of another thread.
//!
//! A read that would block goes to a driver, a thread that submits it to its own ring and wakes the runtime
//! when it has finished: two wakeups, unless many reads are in flight. With a ring of the runtime, the
//! thread that polls the future submits the read itself, and the runtime's own epoll reports that it has
//! finished, as in runtimes that are made on io_uring. `docs/tokio.md` says what that saves.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! if let Err(error) = laio_tokio::ring::start() {
//!     eprintln!("cold reads go through a driver: {error}");
//! }
//! let file = laio_tokio::fs::File::open("/proc/self/comm").await?;
//! let (count, buffer) = file.read_at(Vec::with_capacity(64), 0).await;
//! assert_eq!(count?, buffer.len());
//! # Ok(())
//! # }
//! ```
//!
//! Reads of local files into one buffer use it: `read_at`, `read_ranges` and `AsyncRead` of
//! [`fs::File`](crate::fs::File), cached or with `O_DIRECT`. All other operations are made as without it.

use laio::LoopRing;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, Id};

/// Gives the runtime in which this is called a ring. It ends with the runtime; a second call for the same
/// runtime has no effect.
///
/// # Errors
/// The errors of [`Proactor::loop_ring`](laio::Proactor::loop_ring), where io_uring is absent or forbidden
/// as in most containers. Reads then go through a driver, as without this.
///
/// # Panics
/// Outside of a runtime, and in one without an I/O driver (`tokio::runtime::Builder::enable_io`).
pub fn start() -> io::Result<()> {
    let runtime = Handle::current();
    let id = runtime.id();
    if find(id).is_some() {
        return Ok(());
    }
    let ring = crate::proactor()?.loop_ring()?;
    #[expect(
        deprecated,
        reason = "what replaces it needs a newer tokio than the oldest that this crate supports"
    )]
    let watched = AsyncFd::with_interest(ring.clone(), Interest::READABLE)?;
    let Some(listed) = Listed::add(id, ring) else {
        return Ok(());
    };
    runtime.spawn(take_completions(watched, listed));
    Ok(())
}

/// Wakes the tasks whose reads have finished, until the runtime ends and drops this.
async fn take_completions(ring: AsyncFd<LoopRing>, _listed: Listed) {
    // An error means that the runtime has ended.
    while let Ok(mut ready) = ring.readable().await {
        ready.get_inner().take_completions();
        // A CQE that came since makes the ring readable again.
        ready.clear_ready();
    }
}

/// The rings of all runtimes.
static RINGS: RwLock<Vec<(Id, LoopRing)>> = RwLock::new(Vec::new());
/// How many there are, so that a program without rings takes no lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The ring of the runtime that the calling thread is in.
pub(crate) fn of_this_runtime() -> Option<LoopRing> {
    if COUNT.load(Relaxed) == 0 {
        return None;
    }
    find(Handle::try_current().ok()?.id())
}

fn find(runtime: Id) -> Option<LoopRing> {
    let rings = RINGS.read().unwrap_or_else(PoisonError::into_inner);
    let found = rings.iter().find(|(id, _)| *id == runtime);
    found.map(|(_, ring)| ring.clone())
}

/// A ring in the list, which leaves the list when this is dropped.
struct Listed(Id);

impl Listed {
    /// Lists a ring, unless the runtime has one.
    fn add(runtime: Id, ring: LoopRing) -> Option<Listed> {
        let mut rings = RINGS.write().unwrap_or_else(PoisonError::into_inner);
        if rings.iter().any(|(id, _)| *id == runtime) {
            return None;
        }
        rings.push((runtime, ring));
        COUNT.store(rings.len(), Relaxed);
        Some(Listed(runtime))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut rings = RINGS.write().unwrap_or_else(PoisonError::into_inner);
        let found = rings.iter().position(|(id, _)| *id == self.0);
        let ended = found.map(|at| rings.swap_remove(at).1);
        COUNT.store(rings.len(), Relaxed);
        drop(rings);
        // The driver that watches it takes what is in flight.
        ended.inspect(LoopRing::close);
    }
}
