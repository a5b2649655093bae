//! Timed calls that block: how long each takes until the caller continues, and until it completes.

use crate::measure::{expect, leaked_buffer, word};
use crate::{Call, Context, Errno, Outcome, PollOptions};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Reads of eventfds that are not written yet.
#[derive(Debug)]
pub struct BlockingReads {
    events: Vec<OwnedFd>,
    buffers: *mut u8,
}

/// Nanoseconds of one round.
#[derive(Debug, Default)]
pub struct Held {
    /// From each call until the caller had control back.
    pub starts: Vec<u64>,
    /// From the first call until the last completion was delivered, per call.
    pub whole: Vec<u64>,
}

impl BlockingReads {
    /// Prepares this many reads at once.
    ///
    /// # Errors
    /// If descriptors run out.
    pub fn new(outstanding: usize) -> Result<BlockingReads, Errno> {
        let events = (0..outstanding)
            .map(|_| Ok(eventfd(0, EventfdFlags::CLOEXEC)?))
            .collect::<Result<_, Errno>>()?;
        Ok(BlockingReads {
            events,
            buffers: leaked_buffer(8 * outstanding),
        })
    }

    /// Starts all reads, writes the eventfds, and reaps the completions.
    ///
    /// # Errors
    /// The error of a call that was not started or had another result.
    pub fn run(&mut self, context: &mut Context, held: &mut Held) -> Result<(), Errno> {
        let whole = Instant::now();
        for (index, event) in self.events.iter().enumerate() {
            let address = self.buffers as usize + 8 * index;
            let read = Call::new(libc::SYS_read, [word(event), address, 8]);
            let begin = Instant::now();
            // SAFETY: the memory is never freed.
            let outcome = unsafe { context.call(read) };
            held.starts.push(begin.elapsed().as_nanos() as u64);
            match outcome {
                Outcome::Pending(_) => {}
                Outcome::Done(result) => return Err(result.err().unwrap_or(Errno::IO)),
            }
        }
        for event in &self.events {
            expect(Ok(rustix::io::write(event, &1u64.to_ne_bytes())?), 8)?;
        }
        let mut left = self.events.len();
        let mut failed = Ok(());
        while left > 0 {
            left -= context.poll_with(PollOptions::default(), |completion| {
                if let Err(errno) = expect(completion.result, 8) {
                    failed = Err(errno);
                }
            })?;
        }
        failed?;
        let calls = self.events.len().max(1) as u64;
        held.whole.push(whole.elapsed().as_nanos() as u64 / calls);
        Ok(())
    }
}
