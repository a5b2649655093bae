//! Ends the process with a message when memory is exhausted. By default Rust's runtime aborts it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The system's allocator, for `#[global_allocator]`. After [`end_when_memory_is_exhausted`] the
/// first failed allocation is served from a reserve, so that the program can end in order
/// ([`is_memory_exhausted`]); a later one ends the process with a message. Before, it fails as usual.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

static MESSAGE: OnceLock<&str> = OnceLock::new();
static IS_EXHAUSTED: AtomicBool = AtomicBool::new(false);
/// Memory that is freed when an allocation fails.
static RESERVE: [AtomicPtr<u8>; RESERVE_BLOCKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; RESERVE_BLOCKS];

/// The number of blocks of the reserve.
const RESERVE_BLOCKS: usize = 16;
/// Their size: the GNU C library takes smaller blocks from its heap, where freed ones stay available although the system
/// grants no more memory.
const RESERVE_BLOCK: Layout = match Layout::from_size_align(64 << 10, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("the size is small"),
};

/// Sets the line that a program whose allocator is [`Allocator`] writes to standard error when
/// memory is exhausted, before it exits with status 1; and allocates a reserve of 1 MiB. Later calls have no effect.
pub fn end_when_memory_is_exhausted(line: &'static str) {
    if MESSAGE.set(line).is_err() {
        return;
    }
    for block in &RESERVE {
        // SAFETY: the size is not 0.
        block.store(unsafe { System.alloc(RESERVE_BLOCK) }, Ordering::Release);
    }
}

/// Whether the reserve is in use: the program should remove what is incomplete, and end.
pub fn is_memory_exhausted() -> bool {
    IS_EXHAUSTED.load(Ordering::Relaxed)
}

/// Frees the reserve, if it is still there.
#[cold]
fn free_reserve() {
    IS_EXHAUSTED.store(true, Ordering::Relaxed);
    for block in &RESERVE {
        let block = block.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !block.is_null() {
            // SAFETY: it was allocated with this layout, and the swap gives it to one thread.
            unsafe { System.dealloc(block, RESERVE_BLOCK) };
        }
    }
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

/// Allocates, if necessary from the reserve; else ends the process.
fn checked(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if !memory.is_null() || MESSAGE.get().is_none() {
        return memory;
    }
    // Another thread may have freed it just now.
    free_reserve();
    let memory = allocate();
    if memory.is_null() {
        exhausted();
    }
    memory
}

// SAFETY: all of it is done by the system's allocator, whose results are passed on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded to the caller.
        checked(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: forwarded to the caller.
        checked(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: forwarded to the caller; if it fails, the memory stays as it is.
        checked(|| unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: forwarded to the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}
