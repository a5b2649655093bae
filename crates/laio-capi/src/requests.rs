//! The requests for ranges of a context: each has one handle and one completion, and several operations of
//! the engine, whose completions stay here.

use crate::completion::laio_completion;
use crate::range_results::{Results, laio_ranges};
use laio::ranges::{RangeOptions, RangeRequest};
use laio::{Completion, Context, Errno, Handle, Notifier, Outcome, PollOptions};
use libc::{c_int, c_void};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How often a poll looks for completions that it can deliver, while it finds only operations of requests.
const ROUNDS: usize = 64;

/// The requests of a context that are in flight, or not yet delivered.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// The process that has started them: a child has none.
    process: u32,
    live: HashMap<Handle, Request>,
    /// The operations in flight, and their requests.
    operations: HashMap<Handle, Handle>,
    finished: VecDeque<Handle>,
    /// The number of the next one.
    next: u32,
}

/// A request for ranges.
#[derive(Debug)]
pub(crate) struct Request {
    reads: RangeRequest<File>,
    results: Results,
    user: *mut c_void,
    deadline: Option<Instant>,
    is_stopped: bool,
    /// When it is over.
    result: Option<Result<usize, Errno>>,
}

/// The program's descriptor, which it closes itself, or one that the request has opened.
#[derive(Clone, Debug)]
enum File {
    Given(c_int),
    Own(Arc<OwnedFd>),
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            // SAFETY: not negative; `laio.h` demands that it stays open until the completion.
            File::Given(number) => unsafe { BorrowedFd::borrow_raw(*number) },
            File::Own(descriptor) => descriptor.as_fd(),
        }
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File::Own(Arc::new(descriptor))
    }
}

impl Request {
    /// A request that has not begun.
    pub(crate) fn new(
        given: &laio_ranges,
        ranges: Vec<Range<u64>>,
        memory: Vec<NonNull<u8>>,
        options: RangeOptions,
        results: Results,
        timeout: Option<Duration>,
    ) -> Request {
        let reads = RangeRequest::new(File::Given(given.fd), ranges, options);
        Request {
            // SAFETY: `laio.h` says so of the buffers; a request ends only when its operations are over, or
            // with the context, which waits for them.
            reads: unsafe { reads.into_memory(memory) },
            results,
            user: given.user,
            deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            is_stopped: false,
            result: None,
        }
    }

    /// Takes what has finished, and starts what may start. Returns the operations that have gone to the
    /// background.
    fn advance(&mut self, engine: &mut Context) -> Vec<Handle> {
        if let Poll::Ready(read) = self.reads.advance(engine) {
            self.result = Some(self.results.write(read));
        }
        let started = self.reads.started();
        if let Some(deadline) = self.deadline {
            self.limit(engine, &started, deadline);
        }
        started
    }

    /// Sets the time-out of operations. Fails only for those that have finished.
    fn limit(&self, engine: &mut Context, operations: &[Handle], deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        for &operation in operations {
            let _ = engine.set_timeout(operation, Some(left));
        }
    }

    fn stop(&mut self, engine: &mut Context, errno: Errno) {
        if !self.is_stopped {
            self.is_stopped = true;
            self.reads.stop(engine, errno);
        }
    }

    fn completion(&self, handle: Handle) -> Option<laio_completion> {
        let (result, user_data) = (self.result?, self.user.addr() as u64);
        let completion = Completion {
            handle,
            result,
            user_data,
        };
        Some(completion.into())
    }
}

/// Whether a handle can be one of a request: no operation of the engine has this slot.
pub(crate) fn is_request(handle: Handle) -> bool {
    handle.to_raw() as u32 == u32::MAX
}

impl Requests {
    /// Forgets the requests of the parent.
    fn notice_fork(&mut self) {
        if self.live.is_empty() {
            self.process = std::process::id();
        } else if self.process != std::process::id() {
            *self = Requests {
                process: std::process::id(),
                next: self.next,
                ..Requests::default()
            };
        }
    }

    /// Begins a request. It is over at once if nothing blocks.
    pub(crate) fn start(&mut self, engine: &mut Context, mut request: Request) -> Outcome {
        self.notice_fork();
        let started = request.advance(engine);
        if let Some(result) = request.result {
            return Outcome::Done(result);
        }
        let handle = self.new_handle();
        let started = started.into_iter().map(|operation| (operation, handle));
        self.operations.extend(started);
        self.live.insert(handle, request);
        Outcome::Pending(handle)
    }

    /// Whether this process has no requests.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.live.is_empty() || {
            self.notice_fork();
            self.live.is_empty()
        }
    }

    /// How many more operations the engine counts than the program has.
    pub(crate) fn surplus(&mut self) -> isize {
        if self.is_empty() {
            return 0;
        }
        self.operations.len() as isize - self.live.len() as isize
    }

    fn new_handle(&mut self) -> Handle {
        loop {
            self.next = self.next.wrapping_add(1);
            let word = u64::from(self.next) << 32 | u64::from(u32::MAX);
            let handle = Handle::from_raw(word).expect("the slot is not zero");
            if !self.live.contains_key(&handle) {
                return handle;
            }
        }
    }

    /// Finds a request in flight.
    ///
    /// # Errors
    /// `ENOENT`; `EALREADY` if it is over.
    fn in_flight(&mut self, handle: Handle) -> Result<&mut Request, Errno> {
        self.notice_fork();
        let request = self.live.get_mut(&handle).ok_or(Errno::NOENT)?;
        match request.result {
            Some(_) => Err(Errno::ALREADY),
            None => Ok(request),
        }
    }

    /// Advances the request of an operation that was delivered.
    fn delivered(&mut self, engine: &mut Context, request: Handle, has_timed_out: bool) {
        let Some(found) = self.live.get_mut(&request) else {
            return;
        };
        if found.result.is_some() {
            return;
        }
        if has_timed_out {
            found.stop(engine, Errno::TIME);
        }
        let started = found.advance(engine);
        if found.result.is_some() {
            self.finished.push_back(request);
        }
        let started = started.into_iter().map(|operation| (operation, request));
        self.operations.extend(started);
    }

    /// Delivers requests that are over.
    fn deliver(&mut self, most: usize, deliver: &mut impl FnMut(laio_completion)) -> usize {
        let mut count = 0;
        while count < most
            && let Some(handle) = self.finished.pop_front()
        {
            let request = self.live.remove(&handle);
            let completion = request.and_then(|request| request.completion(handle));
            completion.into_iter().for_each(&mut *deliver);
            count += 1;
        }
        count
    }

    /// Polls a context with requests, as [`Context::poll_with`] polls the engine.
    pub(crate) fn poll(
        &mut self,
        engine: &mut Context,
        notifier: &Notifier,
        most: usize,
        timeout: Option<Duration>,
        mut deliver: impl FnMut(laio_completion),
    ) -> Result<usize, Errno> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut count = self.deliver(most, &mut deliver);
        for round in 0.. {
            let room = most - count;
            if room == 0 {
                break;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = if count > 0 {
                Some(Duration::ZERO)
            } else {
                left
            };
            let options = PollOptions {
                timeout: left,
                most: room,
                interruptible: true,
            };
            let mut touched = Vec::new();
            let polled = engine.poll_with(options, |completion| {
                match self.operations.remove(&completion.handle) {
                    Some(request) => touched.push((request, completion.result == Err(Errno::TIME))),
                    None => {
                        deliver(completion.into());
                        count += 1;
                    }
                }
            });
            for (request, has_timed_out) in touched {
                self.delivered(engine, request, has_timed_out);
            }
            count += self.deliver(most - count, &mut deliver);
            match polled {
                // What was delivered must not be lost.
                Err(errno) if count == 0 => return Err(errno),
                // The time is over, or the context was woken, or a signal handler has run.
                Ok(0) | Err(_) => break,
                // Without more room there may be more.
                Ok(polled) if count > 0 || left == Some(Duration::ZERO) => {
                    if polled < room || round == ROUNDS {
                        break;
                    }
                }
                Ok(_) => {}
            }
        }
        if !self.finished.is_empty() {
            // The pollable descriptor stays readable for them.
            notifier.notify();
        }
        Ok(count)
    }

    /// Delivers the completion of one request, if it is over.
    pub(crate) fn take(
        &mut self,
        engine: &mut Context,
        handle: Handle,
    ) -> Result<laio_completion, Errno> {
        if let Ok(request) = self.in_flight(handle) {
            let mut has_timed_out = false;
            for operation in request.reads.in_flight() {
                if let Ok(completion) = engine.poll_one(operation) {
                    has_timed_out |= completion.result == Err(Errno::TIME);
                    self.operations.remove(&operation);
                }
            }
            self.delivered(engine, handle, has_timed_out);
        }
        let request = self.live.get(&handle).ok_or(Errno::NOENT)?;
        let completion = request.completion(handle).ok_or(Errno::INPROGRESS)?;
        self.finished.retain(|&finished| finished != handle);
        self.live.remove(&handle);
        Ok(completion)
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, engine: &mut Context, handle: Handle) -> Result<(), Errno> {
        let request = self.in_flight(handle)?;
        request.stop(engine, Errno::CANCELED);
        Ok(())
    }

    /// Sets the user pointer of a request.
    pub(crate) fn set_user(&mut self, handle: Handle, user: *mut c_void) -> Result<(), Errno> {
        self.notice_fork();
        let request = self.live.get_mut(&handle);
        request.ok_or(Errno::NOENT)?.user = user;
        Ok(())
    }

    /// Sets the time-out of a request; `None` removes it.
    pub(crate) fn set_timeout(
        &mut self,
        engine: &mut Context,
        handle: Handle,
        timeout: Option<Duration>,
    ) -> Result<(), Errno> {
        let request = self.in_flight(handle)?;
        request.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        for operation in request.reads.in_flight() {
            match engine.set_timeout(operation, timeout) {
                // Of an operation that has finished: the later ones have the time-out too.
                Ok(()) | Err(Errno::ALREADY | Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
