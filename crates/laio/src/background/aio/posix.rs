//! POSIX AIO of the C library.
//!
//! The GNU C library makes requests on one descriptor one after the other, on at most 20 threads of
//! the process. It can cancel requests that have not begun, but may then lose those queued behind
//! them (see [`super::watcher`]); so submitted requests are never cancelled. None of its
//! notifications suits a library: a signal is delivered to any thread of the program, and a
//! notification thread unblocks all signals that the program has blocked, and is lost if it cannot
//! be started. So [`super::watcher`] waits for completions.
//!
//! musl starts a thread for each request, and makes requests on one descriptor at the same time. It
//! writes to a descriptor with `O_APPEND` by `write` in place of `pwrite`, which also moves the
//! position of the descriptor; such a write is declined here.

use super::watcher::{Block, Blocker, Watcher};
use super::{Completed, FileStep, Started, Verb};
use crate::background::doorbell::Doorbell;
use crate::knowledge::mounts::{FileKind, peek};
use crate::sys::fork::Life;
use crate::sys::has_status_flag;
use crate::{Errno, Handle};
use std::sync::{Arc, OnceLock};

/// The requests of one context.
#[derive(Debug)]
pub(crate) struct Posix {
    /// Control blocks. They do not move, and live until the watcher has ended.
    blocks: Vec<Block>,
    requests_max: usize,
    free: Vec<Block>,
    /// The requests in flight, oldest first.
    in_flight: Vec<Request>,
    /// The watcher, started with the first request.
    watcher: Option<Watcher>,
    doorbell: Arc<Doorbell>,
    blocker: Arc<Blocker>,
    /// Whether this is a forked child of a process that has used the library: its threads are gone,
    /// but its queue is not.
    broken: bool,
}

#[derive(Debug)]
struct Request {
    handle: Handle,
    block: Block,
}

/// The process that first used the library, which does not detect `fork`.
static USER: OnceLock<Life> = OnceLock::new();

impl Posix {
    pub(crate) fn new(requests: u32, doorbell: Arc<Doorbell>) -> Result<Posix, Errno> {
        Ok(Posix {
            blocks: Vec::new(),
            requests_max: requests as usize,
            free: Vec::new(),
            in_flight: Vec::new(),
            watcher: None,
            doorbell,
            blocker: Blocker::get()?,
            broken: USER.get().is_some_and(|life| !life.is_current()),
        })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn has_capacity(&self) -> bool {
        self.in_flight.len() < self.requests_max
    }

    /// Whether the library has such a request: it has no vectored ones.
    pub(super) fn has(verb: Verb) -> bool {
        !matches!(verb, Verb::ReadV | Verb::WriteV)
    }

    /// Starts a request.
    ///
    /// # Safety
    /// What the step points to stays valid until its completion has been reaped.
    pub(super) unsafe fn start(&mut self, handle: Handle, step: &FileStep) -> Started {
        // A request on a pipe may never end: it would occupy one of the few threads, and could not
        // be cancelled.
        if self.broken || !Posix::has(step.verb) || !is_file(step.fd) || moves_position(step) {
            return Started::Declined;
        }
        if !self.has_capacity() {
            return Started::Full;
        }
        if self.watcher.is_none() {
            match Watcher::start(self.doorbell.clone(), self.blocker.clone()) {
                Ok(watcher) => self.watcher = Some(watcher),
                Err(_) => return Started::Declined,
            }
        }
        USER.get_or_init(Life::current);
        let block = self.free.pop().unwrap_or_else(|| {
            let block = Block::new();
            self.blocks.push(block);
            block
        });
        // SAFETY: the block is free; by the caller.
        match unsafe { block.start(step) } {
            Ok(()) => {
                self.in_flight.push(Request { handle, block });
                Started::Taken
            }
            // The library lacks memory or threads, or refuses the request: a helper makes the plain
            // call.
            Err(_) => {
                self.free.push(block);
                Started::Declined
            }
        }
    }

    pub(super) fn any_finished(&self) -> bool {
        self.in_flight
            .iter()
            .any(|request| request.block.is_finished())
    }

    /// Takes all finished requests.
    pub(super) fn reap(&mut self, completed: &mut Vec<Completed>) {
        let free = &mut self.free;
        self.in_flight.retain(|&Request { handle, block }| {
            if !block.is_finished() {
                return true;
            }
            free.push(block);
            completed.push(Completed {
                handle,
                result: block.take_result(),
                cut: None,
            });
            false
        });
    }

    /// Makes completions ring the doorbell.
    pub(super) fn watch(&mut self) {
        if !self.in_flight.is_empty()
            && let Some(watcher) = &self.watcher
        {
            let list = self.in_flight.iter().map(|request| request.block);
            watcher.watch(list.collect());
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.blocks.len() * (size_of::<libc::aiocb>() + 4 * size_of::<Block>())
    }

    /// In a forked child: forgets the requests and the watcher, which are the parent's.
    pub(super) fn forget_in_child(&mut self) {
        std::mem::forget(self.watcher.take());
        self.blocks.clear();
    }
}

impl Drop for Posix {
    fn drop(&mut self) {
        // The watcher uses the blocks, so it ends first.
        drop(self.watcher.take());
        // With requests in flight (the context could not wait for them) the library still writes to
        // the blocks, so they are leaked.
        if self.in_flight.is_empty() {
            for block in self.blocks.drain(..) {
                // SAFETY: no request uses it, and the watcher has ended.
                unsafe { block.free() };
            }
        }
    }
}

fn is_file(fd: i32) -> bool {
    peek(fd).is_ok_and(|status| FileKind::from_status(&status) == FileKind::Regular)
}

/// Whether the C library would move the position of the descriptor, which the call itself does not.
fn moves_position(step: &FileStep) -> bool {
    cfg!(target_env = "musl")
        && step.verb == Verb::Write
        && has_status_flag(step.fd, libc::O_APPEND)
}
