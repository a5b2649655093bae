//! The engine's threads, which the C library starts.
//!
//! A thread of the standard library takes a lock of that library when it begins and when it ends,
//! for the addresses of guard pages (seen with Rust 1.95). If another thread holds the lock while
//! the program forks, the lock is never released in the child, and no such thread begins there. The
//! C library makes its own locks usable in a child.

use super::mask::SignalsBlocked;
use crate::{Errno, Limits};
use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A thread. Dropping this leaves it running.
#[derive(Debug)]
pub(crate) struct Thread {
    /// `None` when it was joined.
    id: Option<libc::pthread_t>,
    finished: Arc<AtomicBool>,
}

struct Start {
    name: Cow<'static, CStr>,
    body: Box<dyn FnOnce() + Send>,
    finished: Arc<AtomicBool>,
}

impl Thread {
    /// Starts a thread that runs `body`, with all signals blocked: no signal of the application may
    /// be handled there.
    ///
    /// # Errors
    /// `EAGAIN` at the limit of threads, or without memory for one.
    pub(crate) fn start(
        name: &'static CStr,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Thread, Errno> {
        Thread::start_named(Some(Limits::HELPER_STACK), name.into(), body)
    }

    /// As [`Thread::start`], for a thread that also runs code of the program, which may need the
    /// stack that the C library gives a thread.
    ///
    /// # Errors
    /// As for [`Thread::start`].
    pub(crate) fn start_with_program_code(
        name: &'static CStr,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Thread, Errno> {
        Thread::start_named(None, name.into(), body)
    }

    /// As [`Thread::start`], with a stack of this size; `None`: the C library's.
    ///
    /// # Errors
    /// As for [`Thread::start`].
    pub(crate) fn start_named(
        stack: Option<usize>,
        name: Cow<'static, CStr>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Thread, Errno> {
        let finished = Arc::new(AtomicBool::new(false));
        let start = Box::new(Start {
            name,
            body: Box::new(body),
            finished: finished.clone(),
        });
        let start = Box::into_raw(start);
        // The thread inherits this mask.
        let _blocked = SignalsBlocked::new();
        // SAFETY: the thread takes the box.
        let result = match unsafe { create(start, stack) } {
            // The program's thread-local variables, which the C library puts on this stack, are larger.
            // SAFETY: as above; no thread has taken the box.
            Err(Errno::INVAL) if stack.is_some() => unsafe { create(start, None) },
            result => result,
        };
        match result {
            Ok(id) => Ok(Thread {
                id: Some(id),
                finished,
            }),
            Err(errno) => {
                // SAFETY: no thread has taken the box.
                drop(unsafe { Box::from_raw(start) });
                Err(errno)
            }
        }
    }

    /// Whether the body is over.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(SeqCst)
    }

    /// Waits for the end of the thread.
    pub(crate) fn join(mut self) {
        if let Some(id) = self.id.take() {
            // SAFETY: it was neither joined nor detached before.
            unsafe { libc::pthread_join(id, std::ptr::null_mut()) };
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // SAFETY: it was neither joined nor detached before.
            unsafe { libc::pthread_detach(id) };
        }
    }
}

/// Starts a thread with a stack of this size; `None`: the C library's.
///
/// # Safety
/// `start` is a leaked box, which the thread takes, unless this fails.
unsafe fn create(start: *mut Start, stack: Option<usize>) -> Result<libc::pthread_t, Errno> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut id = MaybeUninit::uninit();
    // SAFETY: the attributes are initialised before their use, and destroyed after it.
    unsafe {
        check(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        let sized = stack.map_or(0, |stack| {
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack)
        });
        let result = check(sized).and_then(|()| {
            let attributes = attributes.as_ptr();
            check(libc::pthread_create(
                id.as_mut_ptr(),
                attributes,
                begin,
                start.cast(),
            ))
        });
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result.map(|()| id.assume_init())
    }
}

/// The result of a function of the C library that returns an errno.
fn check(errno: libc::c_int) -> Result<(), Errno> {
    match errno {
        0 => Ok(()),
        errno => Err(std::io::Error::from_raw_os_error(errno).into()),
    }
}

extern "C" fn begin(start: *mut c_void) -> *mut c_void {
    // SAFETY: by the caller of `create`.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    let Start {
        name,
        body,
        finished,
    } = *start;
    // SAFETY: the kernel copies the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // A panic ends the thread only, as with threads of the standard library.
    let _ = catch_unwind(AssertUnwindSafe(body));
    finished.store(true, SeqCst);
    std::ptr::null_mut()
}
