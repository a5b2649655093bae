//! Whether bytes from a client have arrived during the present executor turn.

use std::cell::Cell;

std::thread_local! {
    /// Bytes were received during this executor turn, not before it.
    static RECEIVED: Cell<bool> = const { Cell::new(false) };
}

/// Records that bytes from a client arrived, if `turn` is the current executor turn. A receive that
/// finished in the background delivered its bytes before the turn.
pub fn note(turn: u64) {
    if laio_rt::turn() == turn {
        RECEIVED.set(true);
    }
}

/// Whether bytes have arrived during this turn since the last call.
pub fn take() -> bool {
    RECEIVED.take()
}
