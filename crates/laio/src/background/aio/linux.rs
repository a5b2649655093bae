//! Linux AIO: `io_setup`, `io_submit`, `io_getevents`, `io_cancel`, and an eventfd that reports
//! completions.
//!
//! The kernel does direct I/O and `fsync` in the background, and nothing else: buffered I/O blocks
//! the caller inside `io_submit`. So only descriptors opened with `O_DIRECT` are served, unless the
//! program asks for buffered I/O too ([`crate::Options::allow_blocking_aio`]).

use super::bounce::{Alignment, Bounce};
use super::{Cancelled, Completed, FileStep, Started, Verb};
use crate::knowledge::facts;
use crate::stats::AioCounts;
use crate::sys::high_fd::HighFd;
use crate::sys::{abi, raw};
use crate::transfer::{RW_COUNT_MAX, copied_vectors};
use crate::{Errno, Handle, Limits};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Instant;

/// The requests of one context.
pub(crate) struct Linux {
    context: Option<usize>,
    requests_max: u32,
    completion_fd: HighFd,
    /// Never moved: the kernel knows a request by the address of its control block.
    requests: Box<[Request]>,
    free: Vec<u16>,
    /// Prepared and not yet submitted, in order.
    prepared: VecDeque<u16>,
    submitted: usize,
    bounced_bytes: usize,
    /// Whether requests that block in `io_submit` are submitted too.
    blocking: bool,
    /// Whether the kernel has `RWF_NOWAIT`; cached here, because querying all facts takes system
    /// calls.
    nowait: bool,
    /// This is a child's copy: see [`Linux::forget_in_child`].
    inherited: bool,
}

struct Request {
    block: abi::iocb,
    handle: Option<Handle>,
    bounce: Option<Bounce>,
    /// The destination of a bounced read.
    vectors: Vec<libc::iovec>,
    /// The bytes that a limited step covers.
    cut: Option<usize>,
    /// Whether `io_submit` blocks until it is done.
    waits: bool,
}

/// How a step is done on its file.
enum Method {
    /// `io_submit` blocks until it is done: buffered I/O.
    Waiting,
    /// Direct I/O in the background; `waits`: it blocks in `io_submit` nevertheless.
    Direct { alignment: Alignment, waits: bool },
    /// `fsync`, in the background.
    Sync,
    /// Not supported, or not without blocking.
    Declined,
}

/// `IOCB_CMD_*` and `IOCB_FLAG_RESFD` of the kernel, for which the C library has no names.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
const FLAG_RESFD: u32 = 1;

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

/// Events taken by one call.
const EVENTS: usize = 64;

impl Linux {
    /// Reserves nothing yet. Fails with `ENOSYS` where the kernel has no AIO, and with `EPERM` and
    /// the like where it is forbidden.
    pub(crate) fn new(requests: u32, blocking: bool) -> Result<Linux, Errno> {
        probe()?;
        Ok(Linux {
            context: None,
            requests_max: requests,
            completion_fd: HighFd::from(eventfd(
                0,
                EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK,
            )?),
            requests: Box::default(),
            free: Vec::new(),
            prepared: VecDeque::new(),
            submitted: 0,
            bounced_bytes: 0,
            blocking,
            nowait: facts::Facts::get().nowait,
            inherited: false,
        })
    }

    /// Makes the kernel's AIO context with the first request, because each takes a share of the
    /// system's requests (`fs.aio-max-nr`), and destroying it takes milliseconds. Asks for fewer
    /// requests if not enough are left; fails with `EAGAIN` if none is.
    fn set_up(&mut self) -> Result<usize, Errno> {
        if let Some(context) = self.context {
            return Ok(context);
        }
        let mut count = self.requests_max;
        let context = loop {
            match io_setup(count) {
                Err(Errno::AGAIN) if count > 1 => count = (count / 4).max(1),
                result => break result?,
            }
        };
        self.requests = (0..count).map(|_| Request::empty()).collect();
        self.free = (0..count as u16).rev().collect();
        self.context = Some(context);
        Ok(context)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.completion_fd.as_fd()
    }

    pub(super) fn has_capacity(&self) -> bool {
        if self.context.is_none() {
            return true;
        }
        let capacity = self.bounced_bytes + Limits::AIO_BOUNCE_STEP <= Limits::AIO_BOUNCE_BYTES;
        !self.free.is_empty() && (capacity || self.bounced_bytes == 0)
    }

    /// Prepares a request; it is submitted with others at the next [`Linux::submit`].
    ///
    /// # Safety
    /// What the step points to stays valid until its completion has been reaped.
    pub(super) unsafe fn start(
        &mut self,
        handle: Handle,
        step: &FileStep,
        counts: &mut AioCounts,
    ) -> Started {
        let placement = self.placement(step);
        if matches!(placement, Method::Declined) {
            counts.declined += 1;
            return Started::Declined;
        }
        if self.set_up().is_err() {
            counts.refused += 1;
            return Started::Declined;
        }
        if !self.has_capacity() {
            return Started::Full;
        }
        let index = *self.free.last().expect("a request is free");
        let request = &mut self.requests[index as usize];
        request.block = block(step, index, &self.completion_fd);
        request.cut = None;
        request.waits = matches!(
            placement,
            Method::Waiting | Method::Direct { waits: true, .. }
        );
        if let Method::Direct { alignment, .. } = placement {
            if !request.align(step, alignment) {
                counts.declined += 1;
                return Started::Declined;
            }
            if let Some(bounce) = &request.bounce {
                counts.bounced += 1;
                self.bounced_bytes += bounce.bytes();
            }
            // With RWF_NOWAIT a read that would wait (dirty pages in the cache, a full device
            // queue) fails, and a helper makes it. Not for writes, which kernels refuse too often.
            if self.nowait && matches!(step.verb, Verb::Read | Verb::ReadV) {
                request.block.aio_rw_flags = libc::RWF_NOWAIT;
            }
        }
        request.handle = Some(handle);
        self.free.pop();
        self.prepared.push_back(index);
        Started::Taken
    }

    fn placement(&self, step: &FileStep) -> Method {
        let Some(file) = File::look_at(step.fd) else {
            return Method::Declined;
        };
        if matches!(step.verb, Verb::Fsync | Verb::Fdatasync) {
            return Method::Sync;
        }
        let Some(alignment) = file.alignment else {
            return if self.blocking {
                Method::Waiting
            } else {
                Method::Declined
            };
        };
        // Extending a file allocates blocks, which `io_submit` waits for.
        let writes = matches!(step.verb, Verb::Write | Verb::WriteV);
        let waits = writes && (file.appends || !file.holds(step));
        if waits && !self.blocking {
            Method::Declined
        } else {
            Method::Direct { alignment, waits }
        }
    }

    pub(super) fn prepared(&self) -> u32 {
        self.prepared.len() as u32
    }

    /// Submits the prepared requests. Adds those that the kernel refuses to `refused`.
    pub(super) fn submit(&mut self, counts: &mut AioCounts, refused: &mut Vec<Handle>) {
        while let (Some(context), false) = (self.context, self.prepared.is_empty()) {
            let blocks: Vec<*const abi::iocb> = self
                .prepared
                .iter()
                .map(|&index| &raw const self.requests[index as usize].block)
                .collect();
            let blocking = self
                .prepared
                .iter()
                .filter(|&&index| self.requests[index as usize].waits)
                .count() as u64;
            let before = (blocking > 0).then(Instant::now);
            // SAFETY: the blocks are complete, and what they point to is valid by the promise to `start`.
            let taken = unsafe {
                let array = blocks.as_ptr() as usize;
                raw(libc::SYS_io_submit, [context, blocks.len(), array])
            };
            counts.submissions += 1;
            if let Some(before) = before {
                counts.blocked += blocking;
                counts.blocked_ns += before.elapsed().as_nanos() as u64;
            }
            match taken {
                Ok(taken) if taken > 0 => {
                    self.prepared.drain(..taken);
                    self.submitted += taken;
                }
                // The kernel lacks a resource that its completions free: retried after the next
                // completion.
                Ok(_) | Err(Errno::AGAIN) if self.submitted > 0 => return,
                // The kernel refuses the first request, or all of them: helpers make the plain
                // calls.
                _ => {
                    let index = self.prepared.pop_front().expect("just submitted");
                    refused.push(self.release(index).0);
                }
            }
        }
    }

    /// Takes all finished requests.
    pub(super) fn reap(&mut self, completed: &mut Vec<Completed>) -> Result<(), Errno> {
        let Some(context) = self.context else {
            return Ok(());
        };
        loop {
            let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
            // SAFETY: the kernel writes at most so many events; a null time-out with a minimum of none
            // does not wait.
            let count = unsafe {
                let array = events.as_mut_ptr() as usize;
                raw(libc::SYS_io_getevents, [context, 0, EVENTS, array, 0])?
            };
            for event in &events[..count] {
                // SAFETY: written by the kernel.
                let event = unsafe { event.assume_init() };
                self.submitted -= 1;
                if !self.resubmit(event.data as u16, event.result) {
                    completed.push(self.complete(event.data as u16, event.result));
                }
            }
            if count < EVENTS {
                return Ok(());
            }
        }
    }

    /// Prepares a request again without `RWF_NOWAIT`, if it was refused because of the flag: some
    /// files do not support it, and a helper, which makes the caller's own call, cannot make an
    /// unaligned one.
    fn resubmit(&mut self, index: u16, result: i64) -> bool {
        let request = &mut self.requests[index as usize];
        let waits = request.bounce.is_some() && result == -i64::from(libc::EAGAIN);
        let unknown = result == -i64::from(libc::EOPNOTSUPP);
        let again = request.block.aio_rw_flags != 0 && (unknown || waits);
        if again {
            request.waits |= waits;
            request.block.aio_rw_flags = 0;
            self.prepared.push_back(index);
        }
        again
    }

    fn complete(&mut self, index: u16, result: i64) -> Completed {
        let (handle, bounce, vectors, cut) = self.release(index);
        let mut result = Errno::from_register(result as usize);
        if let (Ok(moved), Some(bounce)) = (result, &bounce)
            && !vectors.is_empty()
        {
            // SAFETY: the vectors are our own copy.
            result = unsafe { bounce.copy_out(bounce.useful(moved), &vectors) };
        }
        Completed {
            handle,
            result,
            cut,
        }
    }

    /// Cancels a request. One that is not submitted yet is removed. For others the kernel is asked,
    /// but it can cancel none of the kinds made here.
    pub(super) fn cancel(&mut self, handle: Handle) -> Cancelled {
        let found = (0..self.requests.len())
            .find(|&index| self.requests[index].handle == Some(handle))
            .expect("an operation in AIO has a request") as u16;
        if let Some(at) = self.prepared.iter().position(|&index| index == found) {
            self.prepared.remove(at);
            self.release(found);
            return Cancelled::Removed;
        }
        let mut event = MaybeUninit::<Event>::uninit();
        let context = self.context.expect("a request was submitted");
        let block = (&raw const self.requests[found as usize].block) as usize;
        // SAFETY: the kernel knows the block by its address, and writes to the event if at all.
        let _ = unsafe {
            let event = event.as_mut_ptr() as usize;
            raw(libc::SYS_io_cancel, [context, block, event])
        };
        Cancelled::Running
    }

    fn release(&mut self, index: u16) -> (Handle, Option<Bounce>, Vec<libc::iovec>, Option<usize>) {
        let request = &mut self.requests[index as usize];
        let handle = request.handle.take().expect("a request in use");
        let bounce = request.bounce.take();
        self.bounced_bytes -= bounce.as_ref().map_or(0, Bounce::bytes);
        self.free.push(index);
        let vectors = std::mem::take(&mut request.vectors);
        (handle, bounce, vectors, request.cut.take())
    }

    pub(super) fn memory(&self) -> usize {
        self.requests.len() * size_of::<Request>() + self.bounced_bytes
    }

    /// In a forked child: forgets the requests, which are the parent's.
    pub(super) fn forget_in_child(&mut self) {
        self.inherited = true;
        for request in &mut self.requests {
            std::mem::forget(request.bounce.take());
        }
    }
}

impl std::fmt::Debug for Linux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Linux")
            .field("requests", &self.requests.len())
            .field("prepared", &self.prepared.len())
            .field("submitted", &self.submitted)
            .finish_non_exhaustive()
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        if let (Some(context), false) = (self.context, self.inherited) {
            // Waits for the requests in flight, so that their memory can be freed.
            io_destroy(context);
        }
    }
}

impl Request {
    fn empty() -> Request {
        Request {
            block: abi::iocb::default(),
            handle: None,
            bounce: None,
            vectors: Vec::new(),
            cut: None,
            waits: false,
        }
    }

    /// Gives the request a bounce buffer if its own memory or offset is not aligned for direct I/O.
    /// Returns false if that is impossible.
    ///
    /// An unaligned write is not done by reading and writing the blocks around it: two of them at
    /// once, in one block, would lose one. The plain call refuses it.
    ///
    fn align(&mut self, step: &FileStep, alignment: Alignment) -> bool {
        let vectors = match step.verb {
            Verb::Read | Verb::Write => vec![libc::iovec {
                iov_base: step.address as *mut _,
                iov_len: step.count,
            }],
            _ => match copied_vectors(step.address, step.count) {
                Some(vectors) => vectors,
                None => return false,
            },
        };
        let length = vectors
            .iter()
            .fold(0, |sum: usize, one| sum.saturating_add(one.iov_len));
        if length == 0 || length > RW_COUNT_MAX {
            return false;
        }
        let suits_place = alignment.suits_place(step.offset, length);
        let suits_memory = vectors
            .iter()
            .all(|one| alignment.suits_memory(one.iov_base as usize, one.iov_len));
        if suits_place && suits_memory {
            return true;
        }
        let reads = matches!(step.verb, Verb::Read | Verb::ReadV);
        if !reads && !suits_place {
            return false;
        }
        let (start, whole, covered) = alignment.around(step.offset, length);
        let before = (step.offset - start) as usize;
        let Some(mut bounce) = Bounce::new(alignment, whole, before, covered) else {
            return false;
        };
        // SAFETY: the vectors are our own copy.
        if !reads && unsafe { bounce.copy_in(&vectors) }.is_err() {
            return false;
        }
        self.block.aio_lio_opcode = if reads { PREAD } else { PWRITE };
        self.block.aio_buf = bounce.address() as u64;
        self.block.aio_nbytes = whole as u64;
        self.block.aio_offset = start;
        self.cut = (covered < length).then_some(covered);
        self.vectors = if reads { vectors } else { Vec::new() };
        self.bounce = Some(bounce);
        true
    }
}

fn block(step: &FileStep, index: u16, completion_fd: &HighFd) -> abi::iocb {
    let mut block = Request::empty().block;
    block.aio_lio_opcode = match step.verb {
        Verb::Read => PREAD,
        Verb::Write => PWRITE,
        Verb::ReadV => PREADV,
        Verb::WriteV => PWRITEV,
        Verb::Fsync => FSYNC,
        Verb::Fdatasync => FDSYNC,
    };
    block.aio_data = index.into();
    block.aio_fildes = step.fd as u32;
    block.aio_buf = step.address as u64;
    block.aio_nbytes = step.count as u64;
    block.aio_offset = step.offset;
    block.aio_flags = FLAG_RESFD;
    block.aio_resfd = completion_fd.as_raw_fd() as u32;
    block
}

/// The facts about a file that decide how a step is done.
struct File {
    /// The alignment for direct I/O; `None` for a descriptor without `O_DIRECT`.
    alignment: Option<Alignment>,
    appends: bool,
    /// The size in bytes; `None` for a device.
    size: Option<u64>,
}

impl File {
    /// Returns `None` for descriptors other than regular files and block devices.
    fn look_at(fd: i32) -> Option<File> {
        let mask = libc::STATX_TYPE | libc::STATX_SIZE | libc::STATX_DIOALIGN;
        let how = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as usize;
        let mut status = MaybeUninit::<libc::statx>::zeroed();
        // SAFETY: the name is a static string, the kernel writes the status; F_GETFL takes no pointers.
        let (status, flags) = unsafe {
            let (name, to) = (c"".as_ptr() as usize, status.as_mut_ptr() as usize);
            raw(libc::SYS_statx, [fd as usize, name, how, mask as usize, to]).ok()?;
            let flags = raw(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize]).ok()?;
            (status.assume_init(), flags as i32)
        };
        let kind = u32::from(status.stx_mode) & libc::S_IFMT;
        if kind != libc::S_IFREG && kind != libc::S_IFBLK {
            return None;
        }
        let reported = status.stx_mask & libc::STATX_DIOALIGN != 0;
        let direct = flags & libc::O_DIRECT != 0 && (!reported || status.stx_dio_offset_align != 0);
        Some(File {
            alignment: direct.then(|| {
                if reported {
                    Alignment::new(status.stx_dio_mem_align, status.stx_dio_offset_align)
                } else {
                    // Before Linux 6.1, and where the file system does not report it: no device has

                    // larger blocks.
                    Alignment::new(status.stx_blksize.max(4096), status.stx_blksize.max(4096))
                }
            }),
            appends: flags & libc::O_APPEND != 0,
            size: (kind == libc::S_IFREG).then_some(status.stx_size),
        })
    }

    /// Whether a write stays within the file.
    fn holds(&self, step: &FileStep) -> bool {
        let length = match step.verb {
            Verb::Write => step.count as u64,
            _ => match copied_vectors(step.address, step.count) {
                Some(all) => all
                    .iter()
                    .map(|one| one.iov_len as u64)
                    .fold(0, u64::saturating_add),
                None => return false,
            },
        };
        self.size.is_none_or(|size| {
            (step.offset as u64)
                .checked_add(length)
                .is_some_and(|end| end <= size)
        })
    }
}

fn io_setup(requests: u32) -> Result<usize, Errno> {
    let mut context = 0usize;
    let to = (&raw mut context) as usize;
    // SAFETY: the kernel writes the context's name to the local word, which is 0 as it must be.
    unsafe { raw(libc::SYS_io_setup, [requests as usize, to])? };
    Ok(context)
}

fn io_destroy(context: usize) {
    // SAFETY: only this code uses the context, and no longer.
    let _ = unsafe { raw(libc::SYS_io_destroy, [context]) };
}

/// Whether the kernel has AIO and allows it: `io_setup` for 0 requests then fails with `EINVAL`.
fn probe() -> Result<(), Errno> {
    match io_setup(0) {
        Err(Errno::INVAL) => Ok(()),
        Ok(context) => {
            io_destroy(context);
            Ok(())
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_and_block_devices_are_served() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(File::look_at(reader.as_raw_fd()).is_none());
        assert!(File::look_at(-1).is_none());
    }
}
