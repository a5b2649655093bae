//! `struct laio_context` and its functions.

use crate::c::*;
use crate::{
    BackendKind, Call, Completion, Errno, Handle, Limits, Options, Outcome, PollOptions, returned,
    succeeded,
};
use libc::{c_int, c_long, c_void, timespec};
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::{self, null, null_mut};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The number of completions that one poll takes: few, so that there are often more.
const ROOM: usize = 16;

/// As `laio::Context`.
///
/// C names a context in two ways: as the thread's current one, or by its pointer. This type
/// alternates: of two calls one is a `laio_syscall`, which uses the current context, and one a
/// `laio_submit`.
pub struct Context {
    pointer: *mut laio_context,
    /// Whether the next function names it by its pointer.
    call_by_pointer: Cell<bool>,
    other_by_pointer: Cell<bool>,
    limits: Limits,
    living: Arc<Mutex<Living>>,
    /// Whether a notifier was handed out.
    notifiable: bool,
}

/// A context for `laio_wake`; null when it has ended.
struct Living(*mut laio_context);

// SAFETY: given to `laio_wake` only, which any thread may call.
unsafe impl Send for Living {}

thread_local! {
    /// How the last context was named first: the next one begins the other way, so that across the
    /// tests, which make many contexts, each call is made in both.
    static BY_POINTER: Cell<bool> = const { Cell::new(false) };
}

impl Context {
    /// Makes a context for the calling thread.
    ///
    /// # Errors
    /// Those of `laio_context_new`.
    pub fn new(options: Options) -> Result<Context, Errno> {
        // SAFETY: the options are of the size that they say, and the back end's name lives for ever.
        let pointer = unsafe { laio_context_new(&options.0) };
        if pointer.is_null() {
            return Err(std::io::Error::last_os_error().into());
        }
        let by_pointer = BY_POINTER.replace(!BY_POINTER.get());
        let mut context = Context {
            pointer,
            call_by_pointer: Cell::new(by_pointer),
            other_by_pointer: Cell::new(by_pointer),
            limits: Limits::default(),
            living: Arc::new(Mutex::new(Living(pointer))),
            notifiable: false,
        };
        let info = context.read_info();
        context.limits = Limits {
            operations: info.operations,
            helpers: info.helpers,
            waiting_helpers: info.waiting_helpers,
            carriers: Limits::default().carriers,
            ring_entries: info.ring_entries,
            inline_budget: match info.inline_budget {
                u32::MAX => 0,
                budget => budget,
            },
            spin_us: match info.spin_us {
                u32::MAX => 0,
                spin_us => spin_us,
            },
        };
        Ok(context)
    }

    /// Returns the context argument for a function that is not a call.
    pub(crate) fn named(&self) -> *mut laio_context {
        self.named_by_turns(&self.other_by_pointer)
    }

    /// Alternates between the pointer and null, after making it the thread's current context.
    fn named_by_turns(&self, by_pointer: &Cell<bool>) -> *mut laio_context {
        if by_pointer.replace(!by_pointer.get()) {
            return self.pointer;
        }
        succeeded(laio_context_use(self.pointer)).expect("a context of this thread");
        null_mut()
    }

    /// Makes a system call: done at once, or pending.
    ///
    /// # Safety
    /// As for `laio_syscall`.
    pub unsafe fn call(&mut self, call: Call) -> Outcome {
        let context = self.named_by_turns(&self.call_by_pointer);
        if !context.is_null() {
            // SAFETY: by the caller.
            return unsafe { submit(context, call, 0) };
        }
        let [a, b, c, d, e, f] = call.args;
        // SAFETY: by the caller.
        let result = returned(unsafe { laio_syscall(call.number as c_long, a, b, c, d, e, f) });
        outcome(result, laio_gethandle())
    }

    /// As [`Context::call`]; the completion carries `user_data`.
    ///
    /// # Safety
    /// As for [`Context::call`].
    pub unsafe fn call_with(&mut self, call: Call, user_data: u64) -> Outcome {
        // SAFETY: by the caller.
        unsafe { submit(self.named(), call, user_data) }
    }

    /// Appends the completions of operations that have finished to `completions`, waiting for the first of
    /// them at most `timeout`. Returns how many.
    ///
    /// # Errors
    /// Those of `laio_poll`.
    pub fn poll(
        &mut self,
        completions: &mut Vec<Completion>,
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let options = PollOptions {
            timeout,
            ..PollOptions::default()
        };
        self.poll_with(options, |completion| completions.push(completion))
    }

    /// As [`Context::poll`], for at most `most` completions, each handed to `deliver`. Always
    /// continues after an interruption.
    ///
    /// # Errors
    /// Those of `laio_poll`.
    pub fn poll_with(
        &mut self,
        options: PollOptions,
        mut deliver: impl FnMut(Completion),
    ) -> Result<usize, Errno> {
        let PollOptions { timeout, most, .. } = options;
        let begin = Instant::now();
        let mut delivered = 0;
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            // Available completions must not wait for more.
            let wait = if delivered > 0 {
                Some(Duration::ZERO)
            } else {
                left
            };
            let mut room = [UNTOUCHED; ROOM];
            let wanted = ROOM.min(most - delivered);
            let found = self.poll_once(&mut room[..wanted], wait);
            // The function must not write more than it returns.
            let (here, untouched) = room.split_at(*found.as_ref().unwrap_or(&0));
            assert!(untouched.iter().all(|one| one.laio_reserved != 0));
            here.iter().map(completion).for_each(&mut deliver);
            delivered += here.len();
            match found {
                Err(errno) if delivered == 0 => return Err(errno),
                Ok(count) if count == wanted && delivered < most => {}
                Ok(0) if delivered == 0 && self.was_interrupted(timeout, begin) => {}
                _ => return Ok(delivered),
            }
        }
    }

    /// Whether a poll without completions continues: its time-out has not passed, and no notifier
    /// was used.
    fn was_interrupted(&self, timeout: Option<Duration>, begin: Instant) -> bool {
        !self.notifiable
            && match timeout {
                Some(timeout) => begin.elapsed() < timeout,
                None => self.pending() > 0,
            }
    }

    fn poll_once(
        &self,
        room: &mut [laio_completion],
        timeout: Option<Duration>,
    ) -> Result<usize, Errno> {
        let (context, count) = (self.named(), room.len() as c_int);
        let timeout = timeout.map(time);
        let timeout = timeout.as_ref().map_or(null(), ptr::from_ref);
        // SAFETY: there is so much room, and the time-out is null or a time.
        let found = unsafe {
            if context.is_null() {
                laio_poll(room.as_mut_ptr(), count, timeout)
            } else {
                laio_context_poll(context, room.as_mut_ptr(), count, timeout)
            }
        };
        returned(found.into())
    }

    /// Cancels an operation.
    ///
    /// # Errors
    /// Those of `laio_cancel`.
    pub fn cancel(&mut self, handle: Handle) -> Result<(), Errno> {
        succeeded(laio_cancel(self.named(), word(handle.to_raw())))
    }

    /// Sets or removes the time-out of an operation.
    ///
    /// # Errors
    /// Those of `laio_set_timeout`.
    pub fn set_timeout(&mut self, handle: Handle, timeout: Option<Duration>) -> Result<(), Errno> {
        let timeout = timeout.map(time);
        let pointer = timeout.as_ref().map_or(null(), ptr::from_ref);
        // SAFETY: the time lives through the call.
        succeeded(unsafe { laio_set_timeout(self.named(), word(handle.to_raw()), pointer) })
    }

    /// Makes all calls on a descriptor complete in the order in which they were made.
    ///
    /// # Errors
    /// Those of `laio_set_ordered`.
    pub fn set_ordered(&mut self, fd: c_int, ordered: bool) -> Result<(), Errno> {
        succeeded(laio_set_ordered(self.named(), fd, ordered.into()))
    }

    /// Operations in flight or not yet delivered.
    pub fn pending(&self) -> usize {
        returned(laio_pending(self.named()).into()).expect("a number of operations")
    }

    /// Makes sure that all operations have been given to the kernel.
    ///
    /// # Errors
    /// Those of `laio_flush`.
    pub fn flush(&mut self) -> Result<(), Errno> {
        succeeded(laio_flush(self.named()))
    }

    /// A descriptor that is readable whenever [`Context::poll`] would deliver something.
    ///
    /// # Errors
    /// Those of `laio_fd`.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Errno> {
        let fd = returned(laio_fd(self.named()).into())?;
        // SAFETY: it lives as long as the context, which is borrowed.
        Ok(unsafe { BorrowedFd::borrow_raw(fd as c_int) })
    }

    /// A handle with which any thread can make [`Context::poll`] return.
    pub fn notifier(&mut self) -> Notifier {
        self.notifiable = true;
        Notifier(self.living.clone())
    }

    /// Describes the context.
    pub fn info(&self) -> Info<'_> {
        Info(self)
    }

    fn read_info(&self) -> laio_info {
        let mut info = laio_info {
            size: size_of::<laio_info>() as u32,
            flags: 0,
            backend: null(),
            operations: 0,
            helpers: 0,
            ring_entries: 0,
            inline_budget: 0,
            pending: 0,
            helper_threads: 0,
            memory: 0,
            carriers: 0,
            carrier_threads: 0,
            waiting_helpers: 0,
            spin_us: 0,
        };
        // SAFETY: the struct is of the size that it says.
        succeeded(unsafe { laio_info(self.named(), &mut info) }).expect("what it is made of");
        info
    }
}

/// As `laio::Info`.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a>(&'a Context);

impl<'a> Info<'a> {
    /// The back end in use.
    pub fn backend(self) -> BackendKind {
        // SAFETY: the name is a string, valid for ever.
        let name = unsafe { CStr::from_ptr(self.0.read_info().backend) };
        let name = name.to_str().expect("a name in ASCII");
        name.parse().expect("a back end")
    }

    /// Whether operations go to an io_uring.
    pub fn has_ring(self) -> bool {
        self.0.read_info().flags & LAIO_INFO_RING != 0
    }

    /// The limits in force.
    pub fn limits(self) -> &'a Limits {
        &self.0.limits
    }

    /// Helper threads alive.
    pub fn helper_threads(self) -> usize {
        self.0.read_info().helper_threads as usize
    }

    /// Bytes of memory that the context holds for operations and descriptors.
    pub fn memory(self) -> usize {
        self.0.read_info().memory as usize
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.living
            .lock()
            .expect("no thread panics while it holds the lock")
            .0 = null_mut();
        match succeeded(laio_context_free(self.pointer)) {
            Ok(()) => {}
            // At the end of a thread the library may have ended it already.
            Err(errno) => assert_eq!(errno, Errno::INVAL),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("backend", &self.info().backend())
            .field("ring", &self.info().has_ring())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// A notifier like `laio::Notifier`. In C the program must keep the context alive; here this type
/// does.
#[derive(Clone)]
pub struct Notifier(Arc<Mutex<Living>>);

impl Notifier {
    /// Makes the present or the next [`Context::poll`] return without waiting.
    pub fn notify(&self) {
        let living = self
            .0
            .lock()
            .expect("no thread panics while it holds the lock");
        if !living.0.is_null() {
            // SAFETY: the context lives, and does not end before this lock is free.
            succeeded(unsafe { laio_wake(living.0) }).expect("nothing can fail");
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifier")
    }
}

/// # Safety
/// As for `laio_submit`.
unsafe fn submit(context: *mut laio_context, call: Call, user_data: u64) -> Outcome {
    let given = laio_call {
        size: size_of::<laio_call>() as u32,
        flags: 0,
        number: call.number as c_long,
        args: call.args,
        user: word(user_data),
        timeout: null(),
        status: null_mut(),
    };
    // Filled with garbage first: the function must always set it.
    let mut handle = word(u64::MAX);
    // SAFETY: by the caller.
    let result = returned(unsafe { laio_submit(context, &given, &mut handle) });
    assert_eq!(handle, laio_gethandle(), "two handles of one call");
    outcome(result, handle)
}

/// The outcome of a call. `EINPROGRESS` alone is ambiguous: a `connect` may fail with it.
fn outcome(result: Result<usize, Errno>, handle: *mut c_void) -> Outcome {
    if handle.is_null() {
        return Outcome::Done(result);
    }
    assert_eq!(
        result,
        Err(Errno::INPROGRESS),
        "a handle of a call that is done"
    );
    Outcome::Pending(Handle::from_raw(handle.addr() as u64).expect("a handle"))
}

/// The pattern of memory to which no completion has been written.
const UNTOUCHED: laio_completion = laio_completion {
    laio_handle: null_mut(),
    laio_return_value: 0,
    laio_errno: 0,
    laio_reserved: -1,
    laio_user: null_mut(),
};

fn completion(found: &laio_completion) -> Completion {
    assert_eq!(found.laio_reserved, 0);
    let result = match (found.laio_return_value, found.laio_errno) {
        (-1, errno @ 1..) => Err(Errno::from_raw(errno)),
        (value, 0) => Ok(value as usize),
        mixed => panic!("neither a value nor an error: {mixed:?}"),
    };
    Completion {
        handle: Handle::from_raw(found.laio_handle.addr() as u64).expect("a handle"),
        result,
        user_data: found.laio_user.addr() as u64,
    }
}

/// Converts a word to the pointer that C uses.
fn word(word: u64) -> *mut c_void {
    ptr::without_provenance_mut(word as usize)
}

fn time(time: Duration) -> timespec {
    timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
