//! A read that blocks until another thread writes.

use crate::measure::{BareRing, Caller, Direct, Plain, Subject, Via, expect, leaked_buffer, word};
use crate::{Call, Errno};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Instant;

/// A `read` of an empty pipe to which another thread writes a byte, as it was asked to just before the
/// call. Timed from the call to its result.
#[derive(Debug)]
pub struct AnsweredRead {
    call: Call,
    /// Named by the call.
    _answer: OwnedFd,
    /// Closed to end the other thread.
    ask: Option<OwnedFd>,
    other: Option<JoinHandle<()>>,
}

impl AnsweredRead {
    /// Answered by a thread that stays on the given processor, another than the caller's: it takes its
    /// time to wake up.
    ///
    /// # Errors
    /// Of making pipes and thread.
    pub fn far(processor: Option<usize>) -> Result<AnsweredRead, Errno> {
        AnsweredRead::new(processor, libc::SCHED_OTHER)
    }

    /// Answered by a thread on the caller's processor. It is of the kind that never takes the processor
    /// from one who runs, so that it answers when the call has found the pipe empty, and not before.
    ///
    /// # Errors
    /// Of making pipes and thread.
    pub fn near(processor: Option<usize>) -> Result<AnsweredRead, Errno> {
        AnsweredRead::new(processor, libc::SCHED_BATCH)
    }

    fn new(processor: Option<usize>, policy: i32) -> Result<AnsweredRead, Errno> {
        let (asked, ask) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer, give) = pipe_with(PipeFlags::CLOEXEC)?;
        let other = std::thread::Builder::new().name("laio-answers".into());
        let other = other.spawn(move || {
            settle(processor, policy);
            let mut byte = [0; 1];
            while rustix::io::read(&asked, &mut byte) == Ok(1)
                && rustix::io::write(&give, &byte) == Ok(1)
            {}
        })?;
        let call = Call::new(
            libc::SYS_read,
            [word(&answer), leaked_buffer(1) as usize, 1],
        );
        Ok(AnsweredRead {
            call,
            _answer: answer,
            ask: Some(ask),
            other: Some(other),
        })
    }

    fn run_by(&self, mut caller: impl Caller, count: usize) -> Result<u64, Errno> {
        let ask = self.ask.as_ref().expect("open until dropped");
        let mut time = 0;
        for _ in 0..count {
            expect(rustix::io::write(ask, &[1]).map_err(Errno::from), 1)?;
            let start = Instant::now();
            // SAFETY: the buffer is never freed.
            expect(unsafe { caller.call(&self.call) }, 1)?;
            time += start.elapsed().as_nanos() as u64;
        }
        Ok(time)
    }
}

impl Caller for &mut BareRing {
    unsafe fn call(&mut self, call: &Call) -> Result<usize, Errno> {
        // SAFETY: by the caller.
        unsafe { self.start(call, 0)? };
        let mut result = Err(Errno::IO);
        self.reap(&mut |_, reaped| result = reaped)?;
        result
    }
}

impl Subject for AnsweredRead {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        match via {
            Via::Plain => self.run_by(Plain, count),
            Via::Direct => self.run_by(Direct, count),
            Via::Context(context) => self.run_by(&mut **context, count),
            Via::Ring(ring) => self.run_by(&mut **ring, count),
        }
    }
}

/// Sets processor and scheduling policy of the calling thread. If that is not allowed, some writes
/// come too early, which the spread of the results shows.
fn settle(processor: Option<usize>, policy: i32) {
    // SAFETY: zeros are a value of this struct, which has more fields in musl than the priority.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the parameters live through the call.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) };
    if let Some(processor) = processor {
        let mut only = CpuSet::new();
        only.set(processor);
        let _ = sched_setaffinity(None, &only);
    }
}

impl Drop for AnsweredRead {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(other) = self.other.take() {
            // It has nothing to panic about; and a measurement is over.
            let _ = other.join();
        }
    }
}
