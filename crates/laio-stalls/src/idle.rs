//! Decides which waits of a thread are the idle waits of its event loop.

use crate::calls;
use crate::proc_files::BlockedCall;

/// How many ways to wait are remembered for each thread.
const MAX_WAYS: usize = 8;

/// A way is idle if the thread has waited so at least one eighth as often as in its most frequent way.
const SHARE: u64 = 8;

/// How often a thread waits in `poll` or `select` at the same depth of its stack before that is an event
/// loop: a single such wait can be one for one descriptor.
const POLLS: u64 = 3;

/// How much deeper in the stack than `epoll_wait` a thread of a pool may wait for a futex when it is idle.
const DEPTH: u64 = 512;

/// What distinguishes the waits of one event loop from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// For the events of this epoll descriptor.
    Epoll(u64),
    /// For the completions of this ring.
    Ring(u64),
    /// For the completions of this context of Linux AIO.
    Aio(u64),
    /// `poll` or `select` at this depth of the stack: helpers that wait for one descriptor are called
    /// from deeper.
    Poll(u64),
}

/// How a thread has waited for events so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLoop {
    ways: Vec<(Way, u64)>,
    /// The stack pointer of its last wait for epoll.
    depth: Option<u64>,
    /// Whether other threads wait for the same epoll descriptor: workers that take turns, and wait for a
    /// futex otherwise.
    pub(crate) is_shared: bool,
}

impl EventLoop {
    /// Counts a wait, once for each.
    pub(crate) fn count(&mut self, call: &BlockedCall) {
        let Some(way) = way(call) else { return };
        if matches!(way, Way::Epoll(_)) {
            self.depth = Some(call.stack);
        }
        if let Some((_, count)) = self.ways.iter_mut().find(|(known, _)| *known == way) {
            *count += 1;
            return;
        }
        if self.ways.len() == MAX_WAYS {
            let rarest = self.ways.iter().enumerate().min_by_key(|(_, way)| way.1);
            let rarest = rarest.map_or(0, |(index, _)| index);
            self.ways.swap_remove(rarest);
        }
        self.ways.push((way, 1));
    }

    /// Whether the thread has an event loop.
    pub(crate) fn exists(&self) -> bool {
        let enough = |&(way, count): &(Way, u64)| !matches!(way, Way::Poll(_)) || count >= POLLS;
        self.ways.iter().any(enough)
    }

    /// Whether the loop is idle in this wait.
    pub(crate) fn is_idle(&self, call: &BlockedCall) -> bool {
        let Some(way) = way(call) else {
            let depth = self.depth.filter(|_| self.is_shared);
            return calls::is_futex(call) && depth.is_some_and(|depth| call.stack + DEPTH >= depth);
        };
        let Some((main, most)) = self.ways.iter().max_by_key(|(_, count)| *count) else {
            return false;
        };
        let count = self.ways.iter().find(|(known, _)| *known == way);
        let is_of_its_kind = std::mem::discriminant(main) == std::mem::discriminant(&way);
        is_of_its_kind && count.is_some_and(|(_, count)| count * SHARE >= *most)
    }

    /// The epoll descriptor for which it waits most often.
    pub(crate) fn epoll(&self) -> Option<u64> {
        let main = self.ways.iter().max_by_key(|(_, count)| *count)?;
        match main.0 {
            Way::Epoll(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

/// Whether the call waits for events.
pub(crate) fn is_for_events(call: &BlockedCall) -> bool {
    way(call).is_some()
}

fn way(call: &BlockedCall) -> Option<Way> {
    let [first, _, least, ..] = call.arguments;
    match calls::row(call)?.name {
        "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => Some(Way::Epoll(first)),
        // Without a completion to wait for, it is blocked in what it submits.
        "io_uring_enter" if least > 0 => Some(Way::Ring(first)),
        "io_getevents" | "io_pgetevents" => Some(Way::Aio(first)),
        "poll" | "ppoll" | "select" | "pselect6" => Some(Way::Poll(call.stack)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, first: u64, stack: u64) -> BlockedCall {
        BlockedCall {
            number: calls::number(name),
            arguments: [first, 0, 1, 0, 0, 0],
            stack,
            instruction: 0,
        }
    }

    #[test]
    fn one_epoll_wait_makes_a_loop() {
        let mut events = EventLoop::default();
        assert!(!events.exists());
        events.count(&call("epoll_pwait", 5, 0x1000));
        assert!(events.exists() && events.is_idle(&call("epoll_pwait", 5, 0x900)));
        assert!(!events.is_idle(&call("epoll_pwait", 6, 0x900)));
        assert!(!events.is_idle(&call("ppoll", 5, 0x900)));
        assert!(!events.is_idle(&call("fsync", 5, 0x900)));
    }

    #[test]
    fn the_limit_of_ways_keeps_the_most_frequent() {
        let mut events = EventLoop::default();
        for depth in 0..1000 {
            events.count(&call("ppoll", 0, depth));
            events.count(&call("epoll_pwait", 5, 0x1000));
        }
        assert_eq!(events.ways.len(), MAX_WAYS);
        assert!(events.is_idle(&call("epoll_pwait", 5, 0x1000)));
    }

    #[test]
    fn polls_at_different_depths_differ() {
        let mut events = EventLoop::default();
        for _ in 0..100 {
            events.count(&call("ppoll", 0, 0x1000));
        }
        events.count(&call("ppoll", 0, 0x800));
        assert!(events.exists() && events.is_idle(&call("ppoll", 0, 0x1000)));
        assert!(!events.is_idle(&call("ppoll", 0, 0x800)));
    }

    #[test]
    fn a_shared_loop_is_idle_in_a_futex_that_is_not_below_it() {
        let mut events = EventLoop::default();
        events.count(&call("epoll_pwait", 5, 0x8000));
        assert!(!events.is_idle(&call("futex", 5, 0x8000)));
        events.is_shared = true;
        assert!(events.is_idle(&call("futex", 5, 0x8000)));
        assert!(!events.is_idle(&call("futex", 5, 0x7000)));
    }
}
