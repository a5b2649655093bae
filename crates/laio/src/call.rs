//! The basic types: a call, its outcome, a handle, a completion.

use crate::Errno;
use std::num::NonZeroU64;

/// A system call: its number on this architecture and six argument words.
///
/// Pointers are passed as their addresses. Unused arguments are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number, as in `<asm/unistd.h>` (`libc::SYS_read`, …).
    pub number: usize,
    /// The arguments in register order.
    pub args: [usize; 6],
}

impl Call {
    /// A call from its number and up to six arguments.
    ///
    /// ```
    /// let call = laio::Call::new(libc::SYS_close, [3]);
    /// assert_eq!(call.args, [3, 0, 0, 0, 0, 0]);
    /// ```
    #[inline]
    pub const fn new<const N: usize>(number: libc::c_long, args: [usize; N]) -> Call {
        const { assert!(N <= 6, "a system call has at most six arguments") };
        let mut words = [0; 6];
        let mut i = 0;
        while i < N {
            words[i] = args[i];
            i += 1;
        }
        Call {
            number: number as usize,
            args: words,
        }
    }

    /// The descriptor in argument `index`, as the kernel reads it: the low 32 bits, signed.
    #[inline]
    pub(crate) fn descriptor(&self, index: u8) -> i32 {
        self.args[index as usize] as i32
    }
}

/// The outcome of a call ([`Context::call`](crate::Context::call)), and of a typed operation
/// ([`Submitted`](crate::Submitted)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a pending operation delivers its result through poll"]
pub enum Outcome<T = Result<usize, Errno>, P = Handle> {
    /// It did not block: this is the result of the plain system call, or the output of the typed
    /// operation.
    Done(T),
    /// It would have blocked and is now an operation in the background. Its buffers belong to the
    /// operation until `poll` has delivered its completion.
    Pending(P),
}

impl<T, P> Outcome<T, P> {
    /// The result, or `None` if the operation is pending.
    pub fn done(self) -> Option<T> {
        match self {
            Outcome::Done(result) => Some(result),
            Outcome::Pending(_) => None,
        }
    }
}

/// The identity of an operation in the background.
///
/// A handle names a slot and the slot's generation, so it is never reused while its operation is live
/// and a stale handle is recognised. It is never zero: in C it is a non-NULL pointer-sized word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(NonZeroU64);

impl Handle {
    pub(crate) const fn new(slot: u32, generation: u32) -> Handle {
        let word = ((generation as u64) << 32) | (slot as u64 + 1);
        Handle(NonZeroU64::new(word).expect("slot + 1 is not zero"))
    }

    /// The slot: dense from 0, below the limit of operations of the context.
    pub const fn slot(self) -> usize {
        (self.0.get() as u32 - 1) as usize
    }

    pub(crate) const fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The word, for passing through an interface that carries integers.
    pub const fn to_raw(self) -> u64 {
        self.0.get()
    }

    /// The handle with this word, unless the word cannot be one.
    pub const fn from_raw(word: u64) -> Option<Handle> {
        if word as u32 == 0 {
            None
        } else {
            Some(Handle(NonZeroU64::new(word).unwrap()))
        }
    }
}

/// An operation that has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The handle that [`Outcome::Pending`] carried. It is no longer live.
    pub handle: Handle,
    /// The result of the plain system call, or `ECANCELED`.
    pub result: Result<usize, Errno>,
    /// The word given to [`Context::call_with`](crate::Context::call_with); 0 if none was.
    pub user_data: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_round_trip() {
        for (slot, generation) in [(0, 0), (0, u32::MAX), (u32::MAX - 1, 7)] {
            let handle = Handle::new(slot, generation);
            assert_eq!(handle.slot(), slot as usize);
            assert_eq!(handle.generation(), generation);
            assert_eq!(Handle::from_raw(handle.to_raw()), Some(handle));
        }
        assert_eq!(Handle::from_raw(0), None);
        assert_eq!(Handle::from_raw(5 << 32), None);
    }
}
