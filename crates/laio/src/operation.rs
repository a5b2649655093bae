//! The trait of typed operations; [`crate::Context::submit`] starts them.

use crate::{Call, Errno, Examined};
use std::io;

/// A system call together with everything it uses.
///
/// # Safety
/// Every pointer in the call that [`Operation::call`] returns must point into memory that `self`
/// owns (or that is static), and must stay valid while `self` is neither moved, dropped nor
/// otherwise used. The engine calls `call` again after moving `self`, and uses only the latest
/// call.
pub unsafe trait Operation: 'static {
    /// The output: usually the result together with the buffer.
    type Output;

    /// The system call.
    fn call(&mut self) -> Call;

    /// Whether the call is expected to block: then it is submitted to the ring, if there is one,
    /// without an attempt. For receiving, and for positioned reads of a file.
    fn expects_to_block(&self) -> bool {
        false
    }

    /// Whether to make a zero-copy send. For `sendto` without an address only.
    fn is_zero_copy(&self) -> bool {
        false
    }

    /// The identity of the file behind the descriptor in the call's first argument
    /// ([`OpenFile::identity`](crate::ops::OpenFile)), by which a [`Proactor`](crate::Proactor)
    /// remembers what it knows of the file; 0 if it has none.
    fn file_identity(&self) -> u64 {
        0
    }

    /// Whether the operation opens a file and wants its status too. For [`OpenStat`](crate::ops::OpenStat).
    #[doc(hidden)]
    fn wants_status(&self) -> bool {
        false
    }

    /// How many bytes at the beginning of the file a thread that opens it is to bring into memory. 0: it
    /// only opens the file. For [`OpenStat`](crate::ops::OpenStat).
    #[doc(hidden)]
    fn wants_loaded(&self) -> usize {
        0
    }

    /// Takes what an attempt, or a thread of the background, has learned of the file that it has opened.
    /// Called before [`Operation::finish`], if the operation wants the status.
    #[doc(hidden)]
    fn examined(&mut self, _examined: &Examined) {}

    /// Converts the result of the call into the output.
    fn finish(self, result: Result<usize, Errno>) -> Self::Output;
}

/// An operation that takes bytes out of a stream, so that they would be lost with its buffer; see
/// [`Context::take_bytes`](crate::Context::take_bytes).
pub trait ReadsStream: Operation {
    /// Returns the bytes that the call has read, and drops the buffer.
    ///
    /// # Safety
    /// `result` is that of this operation's call.
    #[doc(hidden)]
    unsafe fn into_bytes(self, result: Result<usize, Errno>) -> io::Result<Vec<u8>>;
}
