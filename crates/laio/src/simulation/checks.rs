//! What must hold after each turn, and at the end of a program.

use super::kernel::Request;
use super::program::Kind;
use super::world::{World, is_settled};
use crate::Handle;
use crate::operations::Part;

/// More turns than any program needs to end.
const TURNS_MAX: usize = 5_000;

impl World {
    /// No operation waits for what is over, and no value, with its memory, is dropped while the kernel uses it.
    pub(super) fn check_values(&self) {
        for slot in self.operations.slots() {
            let number = self.operations[slot].user_data as usize;
            let waits = !self.operations.may_start(slot);
            assert!(waits, "{} waits for nothing", self.calls[number]);
        }
        for request in &self.kernel.requests {
            let call = &self.calls[request.number];
            let dropped = call.dropped.as_ref().is_some_and(|dropped| dropped.get());
            assert!(!dropped, "the memory of {call} was freed");
        }
        assert!(
            self.operations.live() <= 24,
            "{} slots",
            self.operations.live()
        );
    }

    /// The kernel was asked again to cancel a step, if that can help.
    pub(super) fn check_cancelled(&self, handle: Handle) {
        let mut requests = self.kernel.requests.iter();
        let found = requests.find(|one| one.handle == handle && !one.is_notification);
        let asked = self.failed_cancels.contains(&handle);
        if let Some(Request {
            number,
            part: Part::Ring | Part::RingWorker | Part::Readiness,
            cancelled,
            ..
        }) = found
        {
            let call = &self.calls[*number];
            let by_itself = call.regular || call.kind == Kind::Sync;
            let ends = *cancelled || asked || by_itself;
            assert!(ends, "{call} stays although it was cancelled");
        }
    }

    /// Lets everything come to its end, and checks that nothing is left.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.drop_discarded();
        self.say(|| "the end".to_owned());
        let mut turns = 0;
        while self.calls.iter().any(|call| !is_settled(call)) || self.operations.live() > 0 {
            self.kernel.flood();
            self.poll();
            self.take_values();
            self.check_values();
            turns += 1;
            self.events += 1;
            let lost = || self.calls.iter().find(|call| !is_settled(call));
            assert!(
                turns < TURNS_MAX,
                "lost: {}",
                lost().map_or(String::new(), |call| call.to_string())
            );
        }
        assert!(
            self.kernel.requests.is_empty(),
            "the kernel has a step of nothing"
        );
        assert!(self.operations.ready.is_empty());
        for file in &self.kernel.files {
            assert!(
                !self.operations.order.is_busy(file.fd),
                "{} is busy",
                file.fd
            );
            assert!(
                !self.operations.order.has_queued(file.fd),
                "{} has a queue",
                file.fd
            );
        }
        for (number, call) in self.calls.iter().enumerate() {
            assert!(call.completions <= 1, "{call}");
            let started = call.completions == 1;
            let dropped = call.dropped.as_ref().is_none_or(|dropped| dropped.get());
            assert!(dropped || !started, "the value of {call} leaks");
            let open = self.kernel.opened_by(number);
            assert_eq!(open, None, "{call} leaks a descriptor");
        }
    }
}
