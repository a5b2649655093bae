//! Stubs for architectures without the assembly. They are never called: making a context with
//! `activations` fails before.

use super::{Birth, Control, Returned};
use crate::Errno;

pub(crate) const AVAILABLE: bool = false;

/// Whether the application may change its kernel thread.
pub(crate) fn check() -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

pub(crate) unsafe fn call(_: *mut Control, _: usize, _: &[usize; 6]) -> Returned {
    unreachable!("there are no carriers on this architecture")
}

pub(crate) unsafe fn park(_: *mut Control) {
    unreachable!("there are no carriers on this architecture")
}

pub(crate) unsafe fn resume(_: usize, _: usize) -> ! {
    unreachable!("there are no carriers on this architecture")
}

pub(crate) unsafe fn set_thread_pointer(_: usize) {
    unreachable!("there are no carriers on this architecture")
}

pub(crate) fn processor_known_by() -> u32 {
    0
}

pub(crate) fn thread_pointer() -> usize {
    0
}

pub(crate) unsafe fn spawn(birth: &Birth) -> Result<usize, Errno> {
    let _ = (
        birth.entry,
        birth.control,
        birth.thread_pointer,
        birth.number,
    );
    Err(Errno::NOSYS)
}

pub(crate) fn blocked_at() -> usize {
    0
}

pub(crate) fn stack_pointer(_: &libc::ucontext_t) -> usize {
    0
}

pub(crate) fn interrupt(_: &mut libc::ucontext_t) {}
