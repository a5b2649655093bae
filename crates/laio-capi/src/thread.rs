//! The calling thread's contexts: made on first use, guarded against signal handlers, ended with the thread.

use crate::requests::Requests;
use laio::{Context, Errno, Notifier, Options};
use libc::c_void;
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering::SeqCst, compiler_fence};
use std::time::{Duration, Instant};

/// How long the end of the process waits for operations that cannot be cancelled.
const EXIT_PATIENCE: Duration = Duration::from_secs(1);

/// A context as C sees it. Aligned so that no two threads write to one pair of cache lines.
#[allow(non_camel_case_types)]
#[repr(align(128))]
#[derive(Debug)]
pub struct laio_context {
    pub(crate) notifier: Notifier,
    /// Before the engine, whose operations they abandon when the context ends.
    pub(crate) requests: Requests,
    pub(crate) engine: Context,
}

/// The state that every call reads: thread-local memory without a destructor, so that access costs
/// one load.
pub(crate) struct Local {
    /// The context that the thread uses; null before the first use.
    pub(crate) current: Cell<*mut laio_context>,
    /// Whether a function of this library is running in this thread: a second one is in a signal
    /// handler.
    pub(crate) busy: Cell<bool>,
    /// The handle of the last call, 0 if it was done at once.
    pub(crate) last: Cell<u64>,
}

/// All contexts of the thread, which end with it.
struct Owned {
    own: Cell<*mut laio_context>,
    further: RefCell<Vec<*mut laio_context>>,
}

thread_local! {
    pub(crate) static LOCAL: Local = const {
        Local {
            current: Cell::new(null_mut()),
            busy: Cell::new(false),
            last: Cell::new(0),
        }
    };
    static OWNED: Owned = const {
        Owned {
            own: Cell::new(null_mut()),
            further: RefCell::new(Vec::new()),
        }
    };
}

/// Runs `act`, unless it would run inside another function of this library.
///
/// # Errors
/// `EDEADLK`: a signal handler has interrupted one.
pub(crate) fn guarded<T>(
    local: &Local,
    act: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    if local.busy.replace(true) {
        return Err(Errno::DEADLK);
    }
    // A signal handler of this very thread must find the mark before anything else has changed.
    compiler_fence(SeqCst);
    let result = act();
    compiler_fence(SeqCst);
    local.busy.set(false);
    result
}

/// Runs `act` on a context of the calling thread; null is the one that the thread uses.
///
/// # Errors
/// `EDEADLK` as for [`guarded`]; `EINVAL` if it is not one of the thread's; those of making a context.
pub(crate) fn with<T>(
    context: *mut laio_context,
    act: impl FnOnce(&mut laio_context) -> Result<T, Errno>,
) -> Result<T, Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            let context = find(local, context)?;
            // SAFETY: it is live, because it is in the thread's list, and no other call uses it: other threads
            // are not let here, nor is a signal handler.
            act(unsafe { &mut *context })
        })
    })
}

/// A live context of the calling thread.
fn find(local: &Local, context: *mut laio_context) -> Result<*mut laio_context, Errno> {
    let current = local.current.get();
    if !current.is_null() && (context.is_null() || context == current) {
        return Ok(current);
    }
    if context.is_null() {
        return own(local, Options::new);
    }
    // Only compared, never looked into: it may be anything.
    let known = OWNED
        .try_with(|owned| owned.own.get() == context || owned.further.borrow().contains(&context));
    if known == Ok(true) {
        Ok(context)
    } else {
        Err(Errno::INVAL)
    }
}

/// The thread's own context, made if there is none, and used if the thread uses none.
fn own(local: &Local, options: impl FnOnce() -> Options) -> Result<*mut laio_context, Errno> {
    let context = OWNED
        .try_with(|owned| {
            if owned.own.get().is_null() {
                owned.own.set(laio_context::make(options())?);
                end_with_main_thread();
            }
            Ok(owned.own.get())
        })
        // The thread's data is being destroyed.
        .unwrap_or(Err(Errno::SRCH))?;
    if local.current.get().is_null() {
        local.current.set(context);
    }
    Ok(context)
}

/// Makes the thread's own context with options.
pub(crate) fn initialise(options: Options) -> Result<(), Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            match OWNED.try_with(|owned| !owned.own.get().is_null()) {
                Ok(true) => Err(Errno::EXIST),
                Ok(false) => own(local, || options).map(|_| ()),
                Err(_) => Err(Errno::SRCH),
            }
        })
    })
}

/// Ends the thread's own context.
pub(crate) fn finish() -> Result<(), Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            let own = OWNED.try_with(|owned| owned.own.replace(null_mut()));
            end(local, own.unwrap_or(null_mut()));
            Ok(())
        })
    })
}

/// Makes a further context.
pub(crate) fn make(options: Options) -> Result<*mut laio_context, Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            let context = laio_context::make(options)?;
            end_with_main_thread();
            let kept = OWNED.try_with(|owned| owned.further.borrow_mut().push(context));
            if kept.is_err() {
                end(local, context);
                return Err(Errno::SRCH);
            }
            Ok(context)
        })
    })
}

/// Ends a further context.
pub(crate) fn free(context: *mut laio_context) -> Result<(), Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            let found = OWNED.try_with(|owned| {
                let mut further = owned.further.borrow_mut();
                let at = further.iter().position(|&known| known == context)?;
                Some(further.swap_remove(at))
            });
            let context = found.ok().flatten().ok_or(Errno::INVAL)?;
            end(local, context);
            Ok(())
        })
    })
}

/// Makes the thread use one of its contexts; null is its own.
pub(crate) fn make_current(context: *mut laio_context) -> Result<(), Errno> {
    LOCAL.with(|local| {
        guarded(local, || {
            let context = if context.is_null() {
                // Made when it is used, if it has not been yet.
                OWNED
                    .try_with(|owned| owned.own.get())
                    .unwrap_or(null_mut())
            } else {
                find(local, context)?
            };
            local.current.set(context);
            Ok(())
        })
    })
}

/// The context that the thread uses.
pub(crate) fn current() -> Result<*mut laio_context, Errno> {
    LOCAL.with(|local| guarded(local, || find(local, null_mut())))
}

/// Ends a context that is in no list any more.
fn end(local: &Local, context: *mut laio_context) {
    if context.is_null() {
        return;
    }
    if local.current.get() == context {
        let own = OWNED.try_with(|owned| owned.own.get());
        local.current.set(own.unwrap_or(null_mut()));
    }
    // SAFETY: made by `laio_context::make`, and taken out of the only list it was in.
    drop(unsafe { Box::from_raw(context) });
}

impl laio_context {
    fn make(options: Options) -> Result<*mut laio_context, Errno> {
        let mut engine = Context::new(options)?;
        Ok(Box::into_raw(Box::new(laio_context {
            notifier: engine.notifier(),
            requests: Requests::default(),
            engine,
        })))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Of the main thread this is dropped at the end of the process, which takes along what hangs in the
        // kernel. Its memory stays until then.
        self.end(is_main_thread().then_some(EXIT_PATIENCE));
    }
}

impl Owned {
    /// Ends all contexts of the thread, each as soon as the kernel no longer uses its buffers, or
    /// when the time-out for all of them has passed.
    fn end(&self, timeout: Option<Duration>) {
        LOCAL.with(|local| {
            if local.busy.get() {
                // `exit` in a signal handler that has interrupted this library: nothing can be touched.
                return;
            }
            local.current.set(null_mut());
            let end = timeout.map(|timeout| Instant::now() + timeout);
            let all = self.further.take().into_iter();
            for context in all.chain([self.own.replace(null_mut())]) {
                if context.is_null() {
                    continue;
                }
                // SAFETY: made by `laio_context::make`, and in no other list.
                let context = unsafe { Box::from_raw(context) };
                if let Some(end) = end {
                    let left = end.saturating_duration_since(Instant::now());
                    context.engine.shutdown_timeout(left);
                }
            }
        });
    }
}

fn is_main_thread() -> bool {
    // SAFETY: getpid and gettid take no pointers.
    unsafe { libc::getpid() == libc::gettid() }
}

/// Makes the main thread's contexts end with it.
///
/// The C library destroys a main thread's data when the process ends, but not at its `pthread_exit`, after which
/// other threads go on. Data under a key is destroyed then, and only then.
fn end_with_main_thread() {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    unsafe extern "C" fn ended(_: *mut c_void) {
        let _ = OWNED.try_with(|owned| owned.end(None));
    }
    if !is_main_thread() {
        return;
    }
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: the key is written, and the destructor stays: the library is never unloaded.
        let made = unsafe { libc::pthread_key_create(&mut key, Some(ended)) };
        (made == 0).then_some(key)
    });
    if let Some(key) = *key {
        // SAFETY: a key of this process; the value only has to differ from null. Without memory for it, a
        // main thread that ends before the process leaves its operations to themselves.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<c_void>()) };
    }
}
