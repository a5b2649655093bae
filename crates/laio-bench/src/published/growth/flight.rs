//! Operations in flight: many wait, and some of them complete and begin again.

use super::{FLIGHT, decades};
use crate::calls::CallVariant;
use crate::content::Random;
use crate::error::Error;
use crate::published::run::Run;
use crate::record::Cache;
use laio::measure::Usage;
use laio::ops::Read;
use laio::{BackendKind, Completion, Context, Outcome, Ticket};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

const OPERATIONS_MAX: usize = 100_000;
/// With more operations, several wait on each descriptor.
const DESCRIPTORS_MAX: usize = 10_000;
/// Descriptors for everything else.
const RESERVED: usize = 1000;
/// Operations that complete between two polls.
const BATCH: usize = 16;
const COMPLETIONS: usize = 200_000;
/// Bytes of the value of an eventfd.
const VALUE: usize = 8;

const VARIANTS: [CallVariant; 3] = [
    CallVariant::Backend(BackendKind::Lazy),
    CallVariant::LazyEpoll,
    CallVariant::Backend(BackendKind::Uring),
];

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    let numbers = decades(run, 1, OPERATIONS_MAX);
    let descriptors = descriptors();
    let variants = VARIANTS.into_iter();
    let variants: Vec<_> = variants.filter(|one| settings.takes(one.name())).collect();
    let turns: Vec<_> = numbers
        .iter()
        .flat_map(|number| variants.iter().map(move |variant| (*number, *variant)))
        .collect();
    let subjects: Vec<_> = turns
        .iter()
        .map(|(number, variant)| (Some(*number), variant.name()))
        .collect();
    let completions = COMPLETIONS / if settings.quick { 10 } else { 1 };
    let text =
        format!("{completions} completions in each turn, on at most {descriptors} descriptors");
    run.set(FLIGHT, text);
    run.measure(FLIGHT, Cache::Warm, &subjects, &mut |index| {
        let (number, variant) = turns[index];
        let used = turn(variant, number, descriptors, completions);
        let used = used.map_err(|error| error.to_string())?;
        Ok(vec![
            ("cpu_us", used * 1e6 / completions as f64),
            ("per_cpu_s", completions as f64 / used),
        ])
    })
}

/// Permits as many descriptors as the process may have, and returns how many the operations may use.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let current = current.map_or(usize::MAX, |count| count as usize);
    current.saturating_sub(RESERVED).clamp(1, DESCRIPTORS_MAX)
}

/// Returns the processor time in seconds that the completions take, while this many operations are in flight.
fn turn(
    variant: CallVariant,
    number: usize,
    descriptors: usize,
    completions: usize,
) -> io::Result<f64> {
    let options = variant.options(false).ok_or(io::ErrorKind::Unsupported)?;
    let mut flight = Flight {
        context: Context::new(options.operations(2 * number as u32 + 64))?,
        // A read takes one from the counter, so that each write completes one operation.
        counters: (0..number.min(descriptors))
            .map(|_| Ok(Rc::new(eventfd(0, EventfdFlags::SEMAPHORE)?)))
            .collect::<io::Result<_>>()?,
        tickets: (0..number).map(|_| None).collect(),
        completed: 0,
    };
    for index in 0..number {
        flight.start(index, Vec::with_capacity(VALUE))?;
    }
    let (mut random, mut expected, mut delivered) = (Random::new(1), 0, Vec::new());
    let before = Usage::of_process();
    while expected < completions {
        for _ in 0..BATCH {
            let index = random.below(flight.counters.len() as u64) as usize;
            rustix::io::write(&*flight.counters[index], &1_u64.to_ne_bytes())?;
        }
        expected += BATCH;
        while flight.completed < expected {
            flight.context.poll(&mut delivered, None)?;
            for completion in delivered.drain(..) {
                flight.finish(completion)?;
            }
        }
    }
    let used = Usage::of_process().since(&before).processor;
    Ok(used.as_secs_f64())
}

type Operation = Read<Rc<OwnedFd>, Vec<u8>>;

struct Flight {
    context: Context,
    counters: Vec<Rc<OwnedFd>>,
    tickets: Vec<Option<Ticket<Operation>>>,
    completed: usize,
}

impl Flight {
    /// Starts the read with this index, until it does not complete at once.
    fn start(&mut self, index: usize, mut buffer: Vec<u8>) -> io::Result<()> {
        let counter = &self.counters[index % self.counters.len()];
        loop {
            buffer.clear();
            let read = Read::new(counter.clone(), buffer);
            match self.context.submit_with(read, index as u64) {
                Outcome::Done((result, filled)) => {
                    result?;
                    buffer = filled;
                    self.completed += 1;
                }
                Outcome::Pending(ticket) => {
                    self.tickets[index] = Some(ticket);
                    return Ok(());
                }
            }
        }
    }

    fn finish(&mut self, completion: Completion) -> io::Result<()> {
        let index = completion.user_data as usize;
        let ticket = self.tickets[index].take().ok_or(io::ErrorKind::NotFound)?;
        let output = self.context.take(ticket);
        let (result, buffer) = output.map_err(|_| io::ErrorKind::NotFound)?;
        result?;
        self.completed += 1;
        self.start(index, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_complete_while_others_wait() {
        for variant in VARIANTS {
            for (number, descriptors) in [(1, 1), (3, 3), (10, 3)] {
                match turn(variant, number, descriptors, 64) {
                    Ok(used) => assert!(used >= 0.0),
                    // Without io_uring.
                    Err(error) => assert_eq!(variant.name(), "uring", "{error}"),
                }
            }
        }
    }
}
