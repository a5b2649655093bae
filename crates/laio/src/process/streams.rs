//! Detects standard streams that were closed when the program began. Before `main`, Rust's runtime
//! opens `/dev/null` in their place, so that no file gets their numbers; writes to them then seem
//! to succeed.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU8, Ordering};

static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Whether this standard stream was closed when the program began, so that it is `/dev/null` now.
pub fn was_closed(stream: &impl AsFd) -> bool {
    let fd = stream.as_fd().as_raw_fd();
    (0..3).contains(&fd) && CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

extern "C" fn look() {
    for fd in 0..3 {
        // SAFETY: it only asks for flags, of whatever the number is.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the loader calls what this section points to, before the runtime starts; `look` needs none of it.
#[used]
#[cfg_attr(not(miri), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look;
