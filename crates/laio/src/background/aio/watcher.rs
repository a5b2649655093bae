//! Waits for completions of POSIX AIO, without signals and without polling: a thread in
//! `aio_suspend`.
//!
//! Only a completion or a signal ends `aio_suspend`, whose list cannot grow meanwhile. To end it at
//! any time, each list contains a sentinel request, which is cancelled for that. The library makes
//! requests on one descriptor one after the other, and can cancel those that have not begun; so all
//! sentinels of the process are queued on a descriptor whose first read never completes
//! ([`Blocker`]). Cancelling a sentinel wakes its watcher even if the watcher is only about to
//! sleep.
//!
//! The context passes the list to the watcher only when it is about to sleep: while it runs, it
//! checks for completions itself.

use super::{FileStep, Verb};
use crate::Errno;
use crate::background::doorbell::Doorbell;
use crate::sys::fork::Life;
use crate::sys::high_fd::HighFd;
use crate::sys::thread::Thread;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

/// Whether the C library can cancel requests that have begun.
const CANCELS_BEGUN: bool = cfg!(target_env = "musl");

/// A control block, which the C library writes to while its request is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block(NonNull<libc::aiocb>);

// SAFETY: what a block points to is only ever handed to the C library, which locks.
unsafe impl Send for Block {}

impl Block {
    pub(super) fn new() -> Block {
        // SAFETY: plain data, for which all zeros is a valid value.
        let block: Box<libc::aiocb> = Box::new(unsafe { std::mem::zeroed() });
        Block(NonNull::from(Box::leak(block)))
    }

    /// # Safety
    /// No request uses it, and no watcher uses it any more.
    pub(super) unsafe fn free(self) {
        // SAFETY: made by `new`, by the caller freed once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// Starts a request.
    ///
    /// # Safety
    /// The block has no request in flight. What the step points to stays valid until it is finished.
    pub(super) unsafe fn start(self, step: &FileStep) -> Result<(), Errno> {
        // SAFETY: the block is ours until the library has the request. It may be in a list that is being
        // watched from before, where only the library reads its state.
        let failed = unsafe {
            let block = self.0.as_ptr();
            (*block).aio_fildes = step.fd;
            (*block).aio_reqprio = 0;
            (*block).aio_buf = step.address as *mut _;
            (*block).aio_nbytes = step.count;
            (*block).aio_offset = step.offset;
            (*block).aio_sigevent.sigev_notify = libc::SIGEV_NONE;
            match step.verb {
                Verb::Read => libc::aio_read(block),
                Verb::Write => libc::aio_write(block),
                Verb::Fsync => libc::aio_fsync(libc::O_SYNC, block),
                Verb::Fdatasync => libc::aio_fsync(libc::O_DSYNC, block),
                Verb::ReadV | Verb::WriteV => return Err(Errno::NOSYS),
            }
        };
        match failed {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    pub(super) fn is_finished(self) -> bool {
        // SAFETY: the block is there until it is freed, which its owner does last.
        unsafe { libc::aio_error(self.0.as_ptr()) != libc::EINPROGRESS }
    }

    /// Takes the result of a finished request, once.
    pub(super) fn take_result(self) -> Result<usize, Errno> {
        // SAFETY: as above.
        let (errno, moved) = unsafe {
            let errno = libc::aio_error(self.0.as_ptr());
            (errno, libc::aio_return(self.0.as_ptr()))
        };
        match errno {
            0 => Ok(moved as usize),
            errno => Err(Errno::from_raw(errno)),
        }
    }

    /// Cancels the request if it has not begun, or also then ([`CANCELS_BEGUN`]).
    ///
    /// Only for sentinels: the GNU C library (seen in 2.36) loses the later requests on a
    /// descriptor when the first of them is cancelled before a thread has taken it.
    fn cancel(self) {
        // SAFETY: as above; the descriptor is the one that the request was made with.
        unsafe { libc::aio_cancel((*self.0.as_ptr()).aio_fildes, self.0.as_ptr()) };
    }
}

/// A read of a private descriptor that never has data: requests queued behind it on its descriptor
/// do not begin. It occupies one of the library's threads while a context of the process has used
/// the library. With [`CANCELS_BEGUN`] only the descriptor is used.
#[derive(Debug)]
pub(super) struct Blocker {
    event: HighFd,
    read: Block,
    /// The buffer of the read, and of the sentinels.
    buffer: NonNull<u64>,
    life: Life,
    begun: Mutex<bool>,
}

// SAFETY: as for `Block`; the buffer is the library's until the read is over.
unsafe impl Send for Blocker {}
// SAFETY: nothing of it changes while it is shared.
unsafe impl Sync for Blocker {}

impl Blocker {
    /// Returns the blocker of the process. It makes the descriptor at once, together with the
    /// context's other ones, so that programs see no later change.
    pub(super) fn get() -> Result<Arc<Blocker>, Errno> {
        static BLOCKER: Mutex<Weak<Blocker>> = Mutex::new(Weak::new());
        // The lock may be held for ever in a forked child.
        let Ok(mut known) = BLOCKER.try_lock() else {
            return Ok(Arc::new(Blocker::new()?));
        };
        match known.upgrade().filter(|blocker| blocker.life.is_current()) {
            Some(blocker) => Ok(blocker),
            None => {
                let blocker = Arc::new(Blocker::new()?);
                *known = Arc::downgrade(&blocker);
                Ok(blocker)
            }
        }
    }

    fn new() -> Result<Blocker, Errno> {
        // musl asks by `lseek` whether a descriptor has positions. An eventfd says that it has, but
        // refuses `pread`; a socket says that it has none. Nothing can send to this one.
        let event = if CANCELS_BEGUN {
            socket_with(
                AddressFamily::UNIX,
                SocketType::DGRAM,
                SocketFlags::CLOEXEC,
                None,
            )?
        } else {
            eventfd(0, EventfdFlags::CLOEXEC)?
        };
        Ok(Blocker {
            event: HighFd::from(event),
            read: Block::new(),
            buffer: NonNull::from(Box::leak(Box::new(0u64))),
            life: Life::current(),
            begun: Mutex::new(false),
        })
    }

    /// Begins the read, for the first watcher.
    fn begin(&self) -> Result<(), Errno> {
        let mut begun = self
            .begun
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if *begun || CANCELS_BEGUN {
            return Ok(());
        }
        let step = FileStep {
            verb: Verb::Read,
            fd: self.event.as_raw_fd(),
            address: self.buffer.as_ptr() as usize,
            count: size_of::<u64>(),
            offset: 0,
        };
        // SAFETY: the buffer stays until the read is over.
        unsafe { self.read.start(&step)? };
        *begun = true;
        Ok(())
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        if !self.life.is_current() {
            return;
        }
        let begun = self
            .begun
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Otherwise the library is not called: in a forked child a missing thread may hold its lock
        // for ever.
        if *begun {
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            while !self.read.is_finished() {
                suspend(Some(self.read), &[]);
            }
            let _ = self.read.take_result();
        }
        // SAFETY: the read is over or was never begun, and there are no more sentinels behind it.
        unsafe {
            self.read.free();
            drop(Box::from_raw(self.buffer.as_ptr()));
        }
    }
}

/// The watcher thread of one context.
#[derive(Debug)]
pub(super) struct Watcher {
    shared: Arc<WatcherShared>,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct WatcherShared {
    watch: Mutex<Watch>,
    handed: Condvar,
    doorbell: Arc<Doorbell>,
    blocker: Arc<Blocker>,
}

#[derive(Debug)]
struct Watch {
    state: WatchState,
    list: Vec<Block>,
    /// The request that is cancelled to wake the watcher.
    sentinel: Block,
    closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchState {
    /// The watcher has no list.
    Idle,
    /// A new list waits for the watcher.
    Handed,
    /// The watcher waits for the last list; the sentinel is in flight.
    Watching,
}

impl Watcher {
    pub(super) fn start(doorbell: Arc<Doorbell>, blocker: Arc<Blocker>) -> Result<Watcher, Errno> {
        blocker.begin()?;
        let shared = Arc::new(WatcherShared {
            watch: Mutex::new(Watch {
                state: WatchState::Idle,
                list: Vec::new(),
                sentinel: Block::new(),
                closing: false,
            }),
            handed: Condvar::new(),
            doorbell,
            blocker,
        });
        let theirs = shared.clone();
        let thread = Thread::start(c"laio-watcher", move || theirs.serve())?;
        Ok(Watcher {
            shared,
            thread: Some(thread),
        })
    }

    /// Makes the completion of any of these requests ring the doorbell.
    pub(super) fn watch(&self, list: Vec<Block>) {
        let mut watch = self.shared.lock();
        if watch.state == WatchState::Watching && watch.list == list {
            return;
        }
        watch.list = list;
        match std::mem::replace(&mut watch.state, WatchState::Handed) {
            WatchState::Idle => self.shared.handed.notify_one(),
            WatchState::Handed => {}
            WatchState::Watching => {
                watch.sentinel.cancel();
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watch = self.shared.lock();
        watch.closing = true;
        if watch.state == WatchState::Watching {
            watch.sentinel.cancel();
        }
        drop(watch);
        self.shared.handed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
        let sentinel = self.shared.lock().sentinel;
        // SAFETY: the thread has taken its result, and has ended.
        unsafe { sentinel.free() };
    }
}

impl WatcherShared {
    fn lock(&self) -> MutexGuard<'_, Watch> {
        // No code that can panic runs under the lock; a poisoned lock still guards consistent data.
        self.watch
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The main loop of the watcher.
    fn serve(&self) {
        let mut watch = self.lock();
        loop {
            if watch.closing {
                return;
            }
            if watch.state != WatchState::Handed {
                let waited = self.handed.wait(watch);
                watch = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
                continue;
            }
            watch.state = WatchState::Watching;
            let sentinel = watch.sentinel;
            let has_sentinel = queue_sentinel(sentinel, &self.blocker);
            let list = watch.list.clone();
            drop(watch);
            suspend(has_sentinel.then_some(sentinel), &list);
            watch = self.lock();
            if has_sentinel {
                cancel_sentinel(sentinel);
            }
            // Otherwise there is a new list; requests finished meanwhile are on it, or the context
            // has seen them.
            if watch.state == WatchState::Watching {
                watch.state = WatchState::Idle;
                self.doorbell.ring();
            }
        }
    }
}

/// Queues a sentinel behind the blocker. Returns false if the library has no memory or thread for it.
fn queue_sentinel(sentinel: Block, blocker: &Blocker) -> bool {
    let (address, count) = if CANCELS_BEGUN {
        (blocker.buffer.as_ptr() as usize, size_of::<u64>())
    } else {
        (0, 0)
    };
    let step = FileStep {
        verb: Verb::Read,
        fd: blocker.event.as_raw_fd(),
        address,
        count,
        offset: 0,
    };
    // SAFETY: the sentinel is not in flight; the library touches no bytes, because it is asked for none or
    // none arrive.
    unsafe { sentinel.start(&step).is_ok() }
}

/// Waits until the sentinel or a request of the list is finished. Without a sentinel nothing can
/// end the wait early, so it has a time-out.
fn suspend(sentinel: Option<Block>, list: &[Block]) {
    let all: Vec<*const libc::aiocb> = sentinel
        .iter()
        .chain(list)
        .map(|block| block.0.as_ptr().cast_const())
        .collect();
    let soon = libc::timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    let timeout = match sentinel {
        Some(_) => std::ptr::null(),
        None => &raw const soon,
    };
    // SAFETY: the blocks are there until the watcher has ended.
    unsafe { libc::aio_suspend(all.as_ptr(), all.len() as i32, timeout) };
}

fn cancel_sentinel(sentinel: Block) {
    sentinel.cancel();
    while !sentinel.is_finished() {
        // The read of 0 bytes has begun, or the library wakes its waiters after it cancels. Both end at once.
        suspend(Some(sentinel), &[]);
    }
    let _ = sentinel.take_result();
}
