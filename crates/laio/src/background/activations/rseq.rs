//! Restartable sequences (rseq): the kernel writes the processor's number to memory that the C
//! library registered for its thread. Two kernel threads must not use the same memory, so it is
//! unregistered.

use crate::sys;
use std::ffi::{CStr, c_void};

/// Keeps the calling thread's rseq area unregistered while it lives; `sched_getcpu` then asks the
/// kernel.
#[derive(Debug)]
pub(super) struct Unregistered(Option<Area>);

#[derive(Debug)]
struct Area {
    address: usize,
    length: usize,
}

const UNREGISTER: usize = 1;
/// The signature that the C library uses on x86.
const SIGNATURE: usize = 0x5305_3053;
/// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
const NO_PROCESSOR: u32 = -2i32 as u32;
/// The length of the first version. Later C libraries report a shorter length than they have
/// registered.
const LENGTH_MIN: usize = 32;

impl Unregistered {
    pub(super) fn new() -> Unregistered {
        Unregistered(area().filter(|area| {
            let done = area.register(UNREGISTER);
            if done {
                // `cpu_id`, behind `cpu_id_start`.
                // SAFETY: the C library's own area of this thread, which the kernel does not use any more.
                unsafe { ((area.address + 4) as *mut u32).write_volatile(NO_PROCESSOR) };
            }
            done
        }))
    }

    /// In a forked child: the child's own registration is left alone.
    pub(super) fn forget_in_child(&mut self) {
        self.0 = None;
    }
}

impl Drop for Unregistered {
    fn drop(&mut self) {
        if let Some(area) = &self.0 {
            area.register(0);
        }
    }
}

impl Area {
    fn register(&self, flags: usize) -> bool {
        let args = [self.address, self.length, flags, SIGNATURE];
        // SAFETY: the area is the thread's own, and lives as long as the thread.
        unsafe { sys::raw(libc::SYS_rseq, args) }.is_ok()
    }
}

/// The area that the C library (glibc since 2.35) has registered, if it has.
fn area() -> Option<Area> {
    let offset = symbol(c"__rseq_offset")?.cast::<isize>();
    let length = symbol(c"__rseq_size")?.cast::<u32>();
    // SAFETY: two constants of the C library, of these types.
    let (offset, length) = unsafe { (*offset, *length as usize) };
    (length > 0).then(|| Area {
        address: sys::handoff::thread_pointer().wrapping_add_signed(offset),
        length: length.max(LENGTH_MIN),
    })
}

fn symbol(name: &CStr) -> Option<*const c_void> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found.cast_const())
}
