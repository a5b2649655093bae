//! Ends the process with a message when memory is exhausted. By default Rust's runtime aborts it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;

/// The system's allocator, for `#[global_allocator]`. After [`end_when_memory_is_exhausted`] a
/// failed allocation ends the process with a message; before, it fails as usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

static MESSAGE: OnceLock<&str> = OnceLock::new();

/// Sets the line that a program whose allocator is [`Allocator`] writes to standard error when
/// memory is exhausted, before it exits with status 1. Later calls have no effect.
pub fn end_when_memory_is_exhausted(line: &'static str) {
    let _ = MESSAGE.set(line);
}

#[cold]
fn exhausted() {
    let Some(line) = MESSAGE.get() else { return };
    // SAFETY: the bytes are static, and neither call allocates or returns to what has no memory.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(libc::EXIT_FAILURE);
    }
}

fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        exhausted();
    }
    memory
}

// SAFETY: all of it is done by the system's allocator, whose results are passed on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded to the caller.
        checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded to the caller.
        checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: forwarded to the caller.
        checked(unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: forwarded to the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}
