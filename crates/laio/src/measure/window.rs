//! Calls that need no descriptor and no memory, several at once.

use crate::measure::flight::Flight;
use crate::measure::{Caller, Direct, Plain, Subject, Via, expect};
use crate::{Call, Errno};
use std::time::Instant;

/// `getpid`, with a bound on the calls in flight: the pure overhead of an interface.
#[derive(Debug)]
pub struct Getpids {
    in_flight: usize,
}

impl Getpids {
    /// Allows at most this many at once.
    pub fn new(in_flight: usize) -> Getpids {
        Getpids {
            in_flight: in_flight.max(1),
        }
    }
}

impl Subject for Getpids {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        let begin = Instant::now();
        match via {
            Via::Plain => one_by_one(&mut Plain, count),
            Via::Direct => one_by_one(&mut Direct, count),
            Via::Context(context) => together(&mut **context, self.in_flight, count),
            Via::Ring(_) => Err(Errno::OPNOTSUPP),
        }?;
        Ok(begin.elapsed().as_nanos() as u64)
    }
}

fn getpid() -> (Call, usize) {
    (Call::new(libc::SYS_getpid, []), std::process::id() as usize)
}

fn one_by_one(caller: &mut impl Caller, count: usize) -> Result<(), Errno> {
    let (call, pid) = getpid();
    for _ in 0..count {
        // SAFETY: the call has no arguments.
        expect(unsafe { caller.call(&call) }, pid)?;
    }
    Ok(())
}

fn together(flight: &mut impl Flight, most: usize, count: usize) -> Result<(), Errno> {
    let (call, pid) = getpid();
    let (mut left, mut in_flight) = (count, 0);
    let mut failed = Ok(());
    while left > 0 || in_flight > 0 {
        while left > 0 && in_flight < most {
            left -= 1;
            // SAFETY: the call has no arguments.
            match unsafe { flight.start(&call, 0)? } {
                Some(result) => expect(Ok(result), pid)?,
                None => in_flight += 1,
            }
        }
        if in_flight > 0 {
            in_flight -= flight.reap(&mut |_, result| failed = failed.and(expect(result, pid)))?;
            failed?;
        }
    }
    Ok(())
}
