//! Carriers for the sanitizers (`--cfg laio_sanitized`). The sanitizer run-time libraries keep
//! their state of a thread in its thread-local variables, so each carrier is a thread of the C
//! library, and uses its own variables while it does not run the application.

use super::{Birth, thread_pointer};
use crate::{Errno, sys};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// Bytes of the stack on which a carrier starts; it makes calls on another one.
const STACK: usize = 256 * 1024;

/// As without a sanitizer.
///
/// # Safety
/// The birth's memory lives until the thread has ended.
pub(crate) unsafe fn spawn(birth: &Birth) -> Result<usize, Errno> {
    let (entry, control, number) = (birth.entry, birth.control as usize, birth.number as usize);
    begin(move || {
        // SAFETY: by the caller. The kernel clears the number when the thread has ended, as that of others.
        unsafe {
            let thread = sys::raw(libc::SYS_set_tid_address, [number]).unwrap_or(0);
            (*(number as *const AtomicU32)).store(thread as u32, SeqCst);
        }
        // SAFETY: by the caller.
        move || unsafe { entry(control as *mut _) }
    })
}

/// Returns the thread pointer of a thread that sleeps for ever: for the home carrier, whose own
/// thread-local variables belong to the application.
pub(crate) fn lend() -> Result<usize, Errno> {
    begin(|| {
        || loop {
            // SAFETY: no pointers.
            let _ = unsafe { sys::raw(libc::SYS_pause, []) };
        }
    })
}

/// Starts a thread that initialises itself, publishes its thread pointer, and then never returns.
fn begin<P, L>(prepare: P) -> Result<usize, Errno>
where
    P: FnOnce() -> L + Send + 'static,
    L: FnOnce(),
{
    let own = Arc::new(AtomicUsize::new(0));
    let reported = own.clone();
    let body = move || {
        let live = prepare();
        reported.store(thread_pointer(), SeqCst);
        drop(reported);
        live();
    };
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread.spawn(body).map_err(Errno::from)?;
    while own.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    Ok(own.load(SeqCst))
}
