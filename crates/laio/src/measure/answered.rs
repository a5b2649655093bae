//! A read that blocks until another thread answers.

use super::{BareRing, Caller, Direct, Plain, Subject, Via, expect, room, word};
use crate::{Call, Errno};
use rustix::pipe::{PipeFlags, pipe_with};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Instant;

/// A `read` of an empty pipe to which another thread writes a byte, as it was asked to just before the
/// call. Timed from the call to its result.
#[derive(Debug)]
pub struct AnsweredRead {
    call: Call,
    answer: OwnedFd,
    /// Closed to end the other thread.
    ask: Option<OwnedFd>,
    other: Option<JoinHandle<()>>,
}

impl AnsweredRead {
    /// Starts the other thread.
    ///
    /// # Errors
    /// Of making pipes and thread.
    pub fn new() -> Result<AnsweredRead, Errno> {
        let (asked, ask) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer, give) = pipe_with(PipeFlags::CLOEXEC)?;
        let other = std::thread::Builder::new().name("laio-answers".into());
        let other = other.spawn(move || {
            let mut byte = [0; 1];
            while rustix::io::read(&asked, &mut byte) == Ok(1)
                && rustix::io::write(&give, &byte) == Ok(1)
            {}
        })?;
        let call = Call::new(libc::SYS_read, [word(&answer), room(1) as usize, 1]);
        Ok(AnsweredRead {
            call,
            answer,
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

impl Drop for AnsweredRead {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(other) = self.other.take() {
            // It has nothing to panic about; and a measurement is over.
            let _ = other.join();
        }
        let _ = &self.answer;
    }
}
