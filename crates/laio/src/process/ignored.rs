//! Signals that the process ignores.

use std::mem::MaybeUninit;

/// Whether the process ignores this signal: because it has asked for that, or because the program
/// that started it did (`nohup`, or a shell for its background jobs). False for an invalid signal
/// number.
///
/// A program should not install a handler for a signal that it inherited as ignored: its user asked
/// for that. Rust's runtime makes every program ignore `SIGPIPE`, so for that signal the result is
/// always true.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call changes nothing, and it fills in the old one or fails.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all fields may be zero, and so they are if the call has failed.
    answer == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn signals_with_other_actions_are_not_ignored() {
        // The runtime ignores it; the tests catch or ignore none of the others.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
        assert!(!is_ignored(libc::SIGKILL));
        assert!(!is_ignored(0) && !is_ignored(-1) && !is_ignored(1000));
    }
}
