//! Asynchronous file I/O by two libraries: that of the C library (POSIX AIO) and that of the kernel
//! (Linux AIO). Both take a bounded number of requests at once; further operations queue here, in
//! order.

mod bounce;
pub(crate) mod linux;
pub(crate) mod posix;
mod watcher;

use super::Steps;
use super::doorbell::Doorbell;
use super::job::Cancelled;
use super::threads::Threads;
use crate::composition::AioLibrary;
use crate::operations::{Operations, Slot};
use crate::stats::AioCounts;
use crate::step::{self, Next};
use crate::table::{Attempt, Class, Opcode, Row, Transfer};
use crate::{Call, Errno, Handle, Limits};
use linux::Linux;
use posix::Posix;
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Read,
    Write,
    ReadV,
    WriteV,
    Fsync,
    Fdatasync,
}

/// One step of a call on a file, done by one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileStep {
    pub(crate) verb: Verb,
    pub(crate) fd: RawFd,
    /// The address of the buffer, or of the array of vectors.
    pub(crate) address: usize,
    /// The bytes of the buffer, or the elements of the array.
    pub(crate) count: usize,
    pub(crate) offset: i64,
}

impl FileStep {
    /// Returns the step of a positioned call or an `fsync`; `None` for calls that neither library
    /// has: those that use the file position, and those with per-call flags.
    fn from_call(row: &Row, call: &Call) -> Option<FileStep> {
        let fd = call.descriptor(0);
        let plain = |verb, address: u8, count: u8, offset: u8| FileStep {
            verb,
            fd,
            address: call.args[address as usize],
            count: call.args[count as usize],
            offset: call.args[offset as usize] as i64,
        };
        let step = match (row.class, row.attempt, row.transfer) {
            (Class::FileWrite, _, _) if row.opcode == Some(Opcode::Fsync) => {
                let verb = match row.implied {
                    0 => Verb::Fsync,
                    _ => Verb::Fdatasync,
                };
                return Some(FileStep {
                    verb,
                    fd,
                    address: 0,
                    count: 0,
                    offset: 0,
                });
            }
            (
                Class::FileRead | Class::FileWrite,
                Attempt::NowaitRead | Attempt::NowaitWrite,
                Transfer::Buffer {
                    pointer,
                    length,
                    offset: Some(offset),
                },
            ) => {
                let reads = row.attempt == Attempt::NowaitRead;
                let verb = if reads { Verb::Read } else { Verb::Write };
                plain(verb, pointer, length, offset)
            }
            (
                Class::FileRead | Class::FileWrite,
                Attempt::NowaitRead | Attempt::NowaitWrite,
                Transfer::Vector {
                    vector,
                    count,
                    offset: Some(offset),
                    flags,
                },
            ) if flags.is_none_or(|flags| call.args[flags as usize] == 0) => {
                let reads = row.attempt == Attempt::NowaitRead;
                let verb = if reads { Verb::ReadV } else { Verb::WriteV };
                plain(verb, vector, count, offset)
            }
            _ => return None,
        };
        (step.offset >= 0 && step.count > 0).then_some(step)
    }
}

/// Whether a library has a request for calls of this row, with ordinary arguments.
#[cfg(test)]
pub(crate) fn has_form(library: AioLibrary, row: &Row) -> bool {
    let flags = match row.transfer {
        Transfer::Vector { flags, .. } => flags,
        _ => None,
    };
    let mut call = Call::new(0, [1; 6]);
    if let Some(flags) = flags {
        call.args[flags as usize] = 0;
    }
    let step = FileStep::from_call(row, &call);
    step.is_some_and(|step| library == AioLibrary::Linux || Posix::has(step.verb))
}

/// The completion of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) handle: Handle,
    pub(crate) result: Result<usize, Errno>,
    /// The request was limited to this many bytes of a longer step.
    pub(crate) cut: Option<usize>,
}

/// The outcome of starting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// The request is in flight, or will be with the next submission.
    Taken,
    /// All requests are in use now.
    Full,
    /// A helper must make the call: this library has no request for it, or would block the caller.
    Declined,
}

/// The library of one context.
#[derive(Debug)]
pub(crate) struct Aio {
    library: Library,
    /// Operations that wait until a request is free, oldest first.
    waiting: VecDeque<Slot>,
    pub(super) counts: AioCounts,
}

#[derive(Debug)]
enum Library {
    Posix(Posix),
    Linux(Linux),
}

impl Aio {
    /// Returns the library of a back end, if it uses one.
    pub(crate) fn new(
        library: Option<AioLibrary>,
        limits: &Limits,
        blocking: bool,
        doorbell: &Arc<Doorbell>,
    ) -> Result<Option<Aio>, Errno> {
        let requests = limits.operations.clamp(1, Limits::AIO_REQUESTS);
        let library = match library {
            Some(AioLibrary::Posix) => Library::Posix(Posix::new(
                requests.min(Limits::POSIX_AIO_REQUESTS),
                doorbell.clone(),
            )?),
            Some(AioLibrary::Linux) => Library::Linux(Linux::new(requests, blocking)?),
            None => return Ok(None),
        };
        Ok(Some(Aio {
            library,
            waiting: VecDeque::new(),
            counts: AioCounts::default(),
        }))
    }

    /// The descriptor that is readable when there are completions, if the library has one.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.library {
            Library::Posix(_) => None,
            Library::Linux(linux) => Some(linux.descriptor()),
        }
    }

    /// Starts a request for a step of an operation. Returns false if a helper must make the call:
    /// the library has no request for it, or would block the caller, or has other rights.
    pub(super) fn start(
        &mut self,
        slot: Slot,
        handle: Handle,
        row: &Row,
        call: &Call,
        threads: &mut Threads,
    ) -> bool {
        let Some(step) = FileStep::from_call(row, call) else {
            return false;
        };
        let allowed = match &self.library {
            Library::Posix(_) => threads.posix_aio_may_take(),
            Library::Linux(_) => threads.linux_aio_may_take(),
        };
        if !allowed {
            return false;
        }
        // SAFETY: the caller has promised that the call's memory stays valid until the completion
        // is delivered; scratch memory lives as long as the operation.
        let started = unsafe {
            match &mut self.library {
                Library::Posix(posix) => posix.start(handle, &step),
                Library::Linux(linux) => linux.start(handle, &step, &mut self.counts),
            }
        };
        match started {
            Started::Taken => self.counts.requests += 1,
            Started::Full => self.waiting.push_back(slot),
            Started::Declined => {}
        }
        started != Started::Declined
    }

    /// The number of requests that are not submitted yet.
    pub(crate) fn prepared(&self) -> u32 {
        match &self.library {
            Library::Posix(_) => 0,
            Library::Linux(linux) => linux.prepared(),
        }
    }

    /// Submits prepared requests, if the library takes several at a time. Helpers make the calls
    /// that the kernel refuses.
    pub(super) fn submit(&mut self, operations: &Operations, steps: &mut Steps) {
        let Library::Linux(linux) = &mut self.library else {
            return;
        };
        let mut refused = Vec::new();
        linux.submit(&mut self.counts, &mut refused);
        self.counts.refused += refused.len() as u64;
        let slots = refused
            .into_iter()
            .map(|handle| operations.live_slot(handle));
        steps.extend(slots.map(|slot| (slot, Next::Helper)));
    }

    /// Makes completions ring the doorbell, on which the context is about to sleep.
    pub(crate) fn watch(&mut self) {
        if let Library::Posix(posix) = &mut self.library {
            posix.watch();
        }
    }

    /// Whether only the doorbell reports completions.
    pub(crate) fn needs_doorbell(&self) -> bool {
        matches!(&self.library, Library::Posix(posix) if posix.in_flight() > 0)
    }

    /// Whether the library has completions that no descriptor reports.
    pub(crate) fn any_finished(&self) -> bool {
        matches!(&self.library, Library::Posix(posix) if posix.any_finished())
    }

    /// Reaps the steps that have finished, and starts those that waited for a free request.
    /// `ready_fd`: the library's descriptor was readable. `short`: the injected bound of one step.
    pub(super) fn reap(
        &mut self,
        ready_fd: bool,
        operations: &mut Operations,
        threads: &mut Threads,
        short: usize,
        steps: &mut Steps,
    ) -> Result<(), Errno> {
        let mut completed = Vec::new();
        let result = match &mut self.library {
            Library::Posix(posix) => {
                posix.reap(&mut completed);
                Ok(())
            }
            Library::Linux(linux) if ready_fd => linux.reap(&mut completed),
            Library::Linux(_) => Ok(()),
        };
        for one in completed {
            let slot = operations.live_slot(one.handle);
            let operation = &mut operations[slot];
            let rights_changed = threads.refused_by_other_rights(operation, one.result);
            let step = step::after_request(operation, one.result, one.cut, short, rights_changed);
            // A helper makes the plain call, whose result counts.
            self.counts.refused += u64::from(step == Next::Helper);
            steps.push((slot, step));
        }
        while let Some(slot) = self.next_waiting() {
            let handle = operations.handle(slot);
            let operation = &mut operations[slot];
            let call = operation.step(short);
            if !self.start(slot, handle, operation.row, &call, threads) {
                steps.push((slot, Next::Helper));
            }
        }
        self.submit(operations, steps);
        result
    }

    /// Takes the next queued operation, if a request is free.
    fn next_waiting(&mut self) -> Option<Slot> {
        let capacity = match &self.library {
            Library::Posix(posix) => posix.has_capacity(),
            Library::Linux(linux) => linux.has_capacity(),
        };
        if capacity {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Cancels an operation: a queued one is removed; for a submitted request the kernel is asked.
    pub(crate) fn cancel(&mut self, slot: Slot, handle: Handle) -> Cancelled {
        if let Some(at) = self.waiting.iter().position(|&waiting| waiting == slot) {
            self.waiting.remove(at);
            return Cancelled::Removed;
        }
        match &mut self.library {
            // The C library would lose other requests: see `watcher`.
            Library::Posix(_) => Cancelled::Running,
            Library::Linux(linux) => linux.cancel(handle),
        }
    }

    /// In a forked child: forgets the requests, which are the parent's.
    pub(crate) fn forget_in_child(&mut self) {
        match &mut self.library {
            Library::Posix(posix) => posix.forget_in_child(),
            Library::Linux(linux) => linux.forget_in_child(),
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.waiting.capacity() * size_of::<Slot>()
            + match &self.library {
                Library::Posix(posix) => posix.memory(),
                Library::Linux(linux) => linux.memory(),
            }
    }
}
