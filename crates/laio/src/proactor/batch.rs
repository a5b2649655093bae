//! The future of many operations, which are handed over together and wake their task once.

use super::batch_end::BatchEnd;
use super::driver::Driver;
use super::inbox::Rest;
use super::loop_ring::FindLoopRing;
use super::shared::Shared;
use super::submission::{HandedOver, InFlight, Placed, attempt, place};
use super::task::Duty;
use crate::operation::Operation;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};

/// The future of many operations; see [`Proactor::submit_all`](crate::Proactor::submit_all).
#[must_use = "the calls are made when the future is polled"]
pub struct Batch<O: Operation + Send> {
    shared: Arc<Shared>,
    /// Not yet handed over, with the index of the output; attempted, if the attempt has left a rest.
    waiting: VecDeque<(usize, O, Option<Rest>)>,
    in_flight: Vec<(usize, InFlight<O>)>,
    outputs: Vec<Option<O::Output>>,
    end: Arc<BatchEnd>,
    find_loop: Option<FindLoopRing>,
}

// The operations move to the heap before their addresses are passed to the kernel.
impl<O: Operation + Send> Unpin for Batch<O> {}

impl<O: Operation + Send> Batch<O> {
    pub(super) fn new(shared: Arc<Shared>, operations: impl IntoIterator<Item = O>) -> Batch<O> {
        let operations = operations.into_iter().enumerate();
        let waiting: VecDeque<_> = operations
            .map(|(index, operation)| (index, operation, None))
            .collect();
        Batch {
            shared,
            outputs: waiting.iter().map(|_| None).collect(),
            waiting,
            in_flight: Vec::new(),
            end: Arc::default(),
            find_loop: None,
        }
    }

    /// As [`Submission::in_loop`](super::Submission::in_loop); they are submitted to the ring together.
    pub fn in_loop(mut self, find: FindLoopRing) -> Batch<O> {
        self.find_loop = Some(find);
        self
    }

    /// Attempts operations and hands over those that would block, until all are or the budget is used
    /// up. Returns whether the task must be polled again for the others.
    fn start(&mut self, waker: &Waker) -> bool {
        let shared = &self.shared;
        let mut budget = match shared.options.limits.inline_budget {
            0 => u32::MAX,
            budget => budget,
        };
        let mut groups = Groups(Vec::new());
        let mut again = false;
        while let Some((index, operation, rest)) = self.waiting.pop_front() {
            if budget == 0 {
                self.waiting.push_front((index, operation, rest));
                again = true;
                break;
            }
            budget -= 1;
            let (operation, rest) = match rest {
                Some(rest) => (operation, rest),
                None => match attempt(shared, operation) {
                    Ok(output) => {
                        self.outputs[index] = Some(output);
                        continue;
                    }
                    Err(attempted) => attempted,
                },
            };
            let end = Some(self.end.clone());
            match place(shared, operation, rest, waker, end, self.find_loop) {
                Ok(placed) => {
                    self.end.in_flight.fetch_add(1, SeqCst);
                    self.in_flight.push((index, groups.add(placed)));
                }
                Err(HandedOver::Over(output)) => self.outputs[index] = Some(output),
                Err(HandedOver::Later(operation, rest)) => {
                    self.waiting.push_front((index, operation, Some(rest)));
                    break;
                }
                Err(HandedOver::Yes(_)) => unreachable!("it is only placed"),
            }
        }
        groups.submit();
        if let Some(ring) = self
            .in_flight
            .iter()
            .rev()
            .find_map(|(_, started)| started.ring())
        {
            ring.enter();
        }
        again
    }
}

/// The operations for each driver, which are handed over with one wakeup.
struct Groups(Vec<Group>);

type Group = (Arc<Driver>, Vec<(Duty, Rest)>);

impl Groups {
    fn add<O: Operation + Send>(&mut self, placed: Placed<O>) -> InFlight<O> {
        let Placed {
            in_flight,
            duty,
            rest,
        } = placed;
        let Some(driver) = in_flight.driver() else {
            return in_flight.start(duty, rest);
        };
        let group = self
            .0
            .iter_mut()
            .find(|(other, _)| Arc::ptr_eq(other, driver));
        match group {
            Some((_, group)) => group.push((duty, rest)),
            None => self.0.push((driver.clone(), vec![(duty, rest)])),
        }
        in_flight
    }

    fn submit(self) {
        for (driver, group) in self.0 {
            driver.submit(group);
        }
    }
}

impl<O: Operation + Send> Future for Batch<O> {
    type Output = Vec<O::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<O::Output>> {
        let this = &mut *self;
        this.end.set_waker(context.waker());
        if this.start(context.waker()) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if !this.waiting.is_empty() || this.end.in_flight.load(SeqCst) > 0 {
            return Poll::Pending;
        }
        for (index, mut in_flight) in this.in_flight.drain(..) {
            let output = in_flight.take(None);
            this.outputs[index] = Some(output.expect("all operations are over"));
        }
        let outputs = std::mem::take(&mut this.outputs).into_iter();
        Poll::Ready(
            outputs
                .map(|output| output.expect("each has its output"))
                .collect(),
        )
    }
}

impl<O: Operation + Send> fmt::Debug for Batch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("operations", &self.outputs.len())
            .field("waiting", &self.waiting.len())
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
