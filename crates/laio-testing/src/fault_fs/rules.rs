//! The rules that decide about requests, the counters, and the waiting requests.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Fault, Kind, Released};

/// The errno of requests that wait when the file system is unmounted.
const GONE: i32 = libc::ECONNABORTED;

/// The rules and counters, shared by the server and the test.
#[derive(Debug, Default)]
pub(super) struct Rules {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    counts: HashMap<Kind, u64>,
    counts_at: HashMap<(String, Kind), u64>,
    /// Requests that hang or are delayed, oldest first.
    waiting: Vec<Waiting>,
    /// The number of requests that have waited and are being answered.
    answering: usize,
    /// Requests that the kernel has interrupted, by their numbers. Some of them have finished already.
    interrupted: HashSet<u64>,
    closed: bool,
}

#[derive(Debug)]
struct Rule {
    kind: Kind,
    /// One name, or all names.
    name: Option<String>,
    fault: Fault,
    once: bool,
    /// The number of requests that it lets pass before.
    passing: u64,
}

#[derive(Debug)]
struct Waiting {
    request: u64,
    /// The time at which a delayed request continues; `None` if it hangs.
    until: Option<Instant>,
    verdict: Option<Verdict>,
}

/// How the file system executes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// The maximum number of bytes or entries.
    pub(super) limit: usize,
    /// Whether the first byte is wrong.
    pub(super) flips: bool,
    /// Whether nothing is changed.
    pub(super) pretends: bool,
}

impl Manner {
    pub(super) const PLAIN: Manner = Manner {
        limit: usize::MAX,
        flips: false,
        pretends: false,
    };

    fn at_most(limit: usize) -> Manner {
        Manner {
            limit,
            ..Manner::PLAIN
        }
    }

    /// Applies to the transferred data.
    pub(super) fn of(self, data: &[u8]) -> Vec<u8> {
        let mut data = data[..data.len().min(self.limit)].to_vec();
        if let (true, Some(first)) = (self.flips, data.first_mut()) {
            *first = !*first;
        }
        data
    }
}

/// How a request continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The file system executes it.
    Serve(Manner),
    /// It fails with this errno.
    Fail(i32),
}

/// The first decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is executed at once.
    Now(Verdict),
    /// It waits in [`Rules::wait`], and then continues as given, unless it is released otherwise.
    Later(Verdict),
}

impl Rules {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panicking test must not prevent the unmount.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a rule. A lasting rule replaces the one of the same sort for the same requests.
    pub(super) fn set(&self, name: Option<&str>, kind: Kind, fault: Fault, once: bool) {
        let mut state = self.state();
        if !once {
            state.rules.retain(|rule| {
                rule.once
                    || rule.kind != kind
                    || rule.name.as_deref() != name
                    || rule.fault.is_about_time() != fault.is_about_time()
            });
        }
        state.rules.push(Rule {
            kind,
            name: name.map(str::to_owned),
            fault,
            once,
            passing: 0,
        });
    }

    /// Adds a rule for one request, after so many others of its kind.
    pub(super) fn set_after(&self, passing: u64, kind: Kind, fault: Fault) {
        self.state().rules.push(Rule {
            kind,
            name: None,
            fault,
            once: true,
            passing,
        });
    }

    /// Whether a rule for one request of this kind has not been applied.
    pub(super) fn is_pending(&self, kind: Kind) -> bool {
        let is_pending = |rule: &Rule| rule.once && rule.kind == kind;
        self.state().rules.iter().any(is_pending)
    }

    pub(super) fn clear(&self, kind: Option<Kind>) {
        self.state()
            .rules
            .retain(|rule| kind.is_some_and(|kind| rule.kind != kind));
    }

    pub(super) fn requests(&self, name: Option<&str>, kind: Kind) -> u64 {
        let state = self.state();
        match name {
            None => state.counts.get(&kind).copied().unwrap_or(0),
            Some(name) => state
                .counts_at
                .get(&(name.to_owned(), kind))
                .copied()
                .unwrap_or(0),
        }
    }

    pub(super) fn all_requests(&self) -> u64 {
        self.state().counts.values().sum()
    }

    pub(super) fn reset_counts(&self) {
        let mut state = self.state();
        state.counts.clear();
        state.counts_at.clear();
    }

    /// Counts a request, and decides about it.
    pub(super) fn admit(&self, name: &str, kind: Kind, request: u64) -> Admission {
        let mut state = self.state();
        *state.counts.entry(kind).or_default() += 1;
        *state.counts_at.entry((name.to_owned(), kind)).or_default() += 1;
        let time = state.take(name, kind, true);
        let result = state.take(name, kind, false);
        let later = state.rules.iter_mut().filter(|rule| {
            rule.kind == kind && rule.name.as_deref().is_none_or(|wanted| wanted == name)
        });
        later.for_each(|rule| rule.passing = rule.passing.saturating_sub(1));
        let then = match result {
            Some(Fault::Fail(errno)) => Verdict::Fail(errno),
            Some(Fault::Short(bytes)) => Verdict::Serve(Manner::at_most(bytes)),
            Some(Fault::Flip) => Verdict::Serve(Manner {
                flips: true,
                ..Manner::PLAIN
            }),
            Some(Fault::Pretend) => Verdict::Serve(Manner {
                pretends: true,
                ..Manner::PLAIN
            }),
            _ => Verdict::Serve(Manner::PLAIN),
        };
        let until = match time {
            Some(Fault::Hang) => None,
            Some(Fault::Delay(delay)) => Some(Instant::now() + delay),
            _ => return Admission::Now(then),
        };
        if state.closed {
            return Admission::Now(Verdict::Fail(GONE));
        }
        state.waiting.push(Waiting {
            request,
            until,
            verdict: None,
        });
        self.changed.notify_all();
        Admission::Later(then)
    }

    /// Waits as long as the rules require, and returns how the request continues: as `then`, unless it was
    /// released with an error or interrupted. [`Rules::answered`] must follow.
    pub(super) fn wait(&self, request: u64, then: Verdict) -> Verdict {
        let mut state = self.state();
        loop {
            let index = state.position(request);
            let (until, verdict) = (state.waiting[index].until, state.waiting[index].verdict);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let decided = match verdict {
                Some(Verdict::Serve(_)) => Some(then),
                Some(fail) => Some(fail),
                None if state.interrupted.contains(&request) => Some(Verdict::Fail(libc::EINTR)),
                None if state.closed => Some(Verdict::Fail(GONE)),
                None if left == Some(Duration::ZERO) => Some(then),
                None => None,
            };
            if let Some(verdict) = decided {
                state.waiting.remove(index);
                state.answering += 1;
                state.interrupted.remove(&request);
                self.changed.notify_all();
                return verdict;
            }
            state = match left {
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Notes that a request that has waited is answered.
    pub(super) fn answered(&self) {
        self.state().answering -= 1;
        self.changed.notify_all();
    }

    /// Returns how many requests hang. Delayed requests do not count.
    pub(super) fn hung(&self) -> usize {
        self.state().hung().count()
    }

    /// Waits until at least `count` requests hang.
    pub(super) fn wait_hung(&self, count: usize, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.state();
        while state.hung().count() < count {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Releases hanging requests, the oldest or all of them; returns how many.
    pub(super) fn release(&self, released: Released, only_oldest: bool) -> usize {
        let mut state = self.state();
        if !only_oldest {
            state.rules.retain(|rule| rule.fault != Fault::Hang);
        }
        let verdict = match released {
            Released::Served => Verdict::Serve(Manner::PLAIN),
            Released::Fail(errno) => Verdict::Fail(errno),
        };
        let most = if only_oldest { 1 } else { usize::MAX };
        let mut count = 0;
        for waiting in state
            .waiting
            .iter_mut()
            .filter(|waiting| waiting.hangs())
            .take(most)
        {
            waiting.verdict = Some(verdict);
            count += 1;
        }
        self.changed.notify_all();
        count
    }

    /// Notes that the kernel has interrupted a request.
    pub(super) fn interrupt(&self, request: u64) {
        self.state().interrupted.insert(request);
        self.changed.notify_all();
    }

    /// Ends all waiting permanently: requests that wait now, or later, fail.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Waits until no request waits, or is being answered by the thread in which it has waited.
    pub(super) fn wait_idle(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut state = self.state();
        while !state.waiting.is_empty() || state.answering > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl State {
    /// Returns the fault of one sort for a request, and removes a rule that applies once. Rules that apply
    /// once take precedence over lasting ones, and those for a name over those for all names.
    fn take(&mut self, name: &str, kind: Kind, about_time: bool) -> Option<Fault> {
        let matches = |rule: &Rule| {
            rule.kind == kind
                && rule.passing == 0
                && rule.fault.is_about_time() == about_time
                && rule.name.as_deref().is_none_or(|wanted| wanted == name)
        };
        let rank = |rule: &Rule| (rule.once, rule.name.is_some());
        let (index, _) = self
            .rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| matches(rule))
            // Among equals max_by_key takes the last, but the first must be used first.
            .rev()
            .max_by_key(|(_, rule)| rank(rule))?;
        let fault = self.rules[index].fault;
        if self.rules[index].once {
            self.rules.remove(index);
        }
        Some(fault)
    }

    fn hung(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| waiting.hangs())
    }

    fn position(&self, request: u64) -> usize {
        let found = self
            .waiting
            .iter()
            .position(|waiting| waiting.request == request);
        found.expect("a waiting request has a verdict when it wakes")
    }
}

impl Waiting {
    fn hangs(&self) -> bool {
        self.until.is_none() && self.verdict.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    const SERVE: Admission = Admission::Now(Verdict::Serve(Manner::PLAIN));
    const LONG: Duration = Duration::from_secs(60);

    fn fails(errno: i32) -> Admission {
        Admission::Now(Verdict::Fail(errno))
    }

    #[test]
    fn nearer_rules_win_and_once_is_once() {
        let rules = Rules::default();
        assert_eq!(rules.admit("a", Kind::Read, 1), SERVE);
        rules.set(None, Kind::Read, Fault::Fail(1), false);
        rules.set(Some("a"), Kind::Read, Fault::Fail(2), false);
        rules.set(None, Kind::Read, Fault::Fail(3), true);
        rules.set(Some("a"), Kind::Read, Fault::Fail(4), true);
        rules.set(Some("a"), Kind::Read, Fault::Fail(5), true);
        let seen: Vec<Admission> = (0..5).map(|_| rules.admit("a", Kind::Read, 1)).collect();
        assert_eq!(seen, [fails(4), fails(5), fails(3), fails(2), fails(2)]);
        assert_eq!(rules.admit("b", Kind::Read, 1), fails(1));
        assert_eq!(rules.admit("a", Kind::Write, 1), SERVE);
        rules.set(None, Kind::Read, Fault::Short(7), false);
        assert_eq!(
            rules.admit("b", Kind::Read, 1),
            Admission::Now(Verdict::Serve(Manner::at_most(7))),
            "a new lasting rule replaces the old"
        );
        rules.clear(Some(Kind::Read));
        assert_eq!(rules.admit("a", Kind::Read, 1), SERVE);
    }

    #[test]
    fn a_rule_lets_requests_of_its_kind_pass() {
        let rules = Rules::default();
        rules.set_after(2, Kind::Read, Fault::Fail(5));
        assert_eq!(rules.admit("a", Kind::Read, 1), SERVE);
        assert_eq!(rules.admit("a", Kind::Write, 1), SERVE);
        assert_eq!(rules.admit("b", Kind::Read, 1), SERVE);
        assert!(rules.is_pending(Kind::Read) && !rules.is_pending(Kind::Write));
        assert_eq!(rules.admit("a", Kind::Read, 1), fails(5));
        assert!(!rules.is_pending(Kind::Read));
        assert_eq!(rules.admit("a", Kind::Read, 1), SERVE);
    }

    #[test]
    fn requests_are_counted_by_kind_and_name() {
        let rules = Rules::default();
        rules.admit("a", Kind::Read, 1);
        rules.admit("b", Kind::Read, 2);
        rules.admit("b", Kind::Open, 3);
        assert_eq!(rules.requests(None, Kind::Read), 2);
        assert_eq!(rules.requests(Some("b"), Kind::Read), 1);
        assert_eq!(rules.requests(Some("c"), Kind::Read), 0);
        assert_eq!(rules.all_requests(), 3);
        rules.reset_counts();
        assert_eq!(rules.all_requests(), 0);
    }

    /// A waiting request in a thread of its own.
    fn waiting(rules: &Arc<Rules>, request: u64) -> thread::JoinHandle<Verdict> {
        let Admission::Later(then) = rules.admit("a", Kind::Read, request) else {
            panic!("it does not wait");
        };
        let rules = Arc::clone(rules);
        thread::spawn(move || {
            let verdict = rules.wait(request, then);
            rules.answered();
            verdict
        })
    }

    #[test]
    fn time_and_result_combine() {
        let rules = Arc::new(Rules::default());
        rules.set(
            None,
            Kind::Read,
            Fault::Delay(Duration::from_millis(1)),
            false,
        );
        rules.set(None, Kind::Read, Fault::Short(3), false);
        assert_eq!(
            waiting(&rules, 1).join().unwrap(),
            Verdict::Serve(Manner::at_most(3))
        );
        rules.set(None, Kind::Read, Fault::Fail(9), false);
        assert_eq!(waiting(&rules, 2).join().unwrap(), Verdict::Fail(9));
    }

    #[test]
    fn hanging_requests_are_released_in_order_or_together() {
        let rules = Arc::new(Rules::default());
        rules.set(None, Kind::Read, Fault::Hang, false);
        let threads: Vec<_> = (1..=3).map(|request| waiting(&rules, request)).collect();
        assert!(rules.wait_hung(3, LONG));
        assert_eq!(rules.release(Released::Fail(5), true), 1);
        assert_eq!(rules.hung(), 2);
        assert_eq!(rules.release(Released::Served, false), 2);
        let verdicts: Vec<Verdict> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let served = Verdict::Serve(Manner::PLAIN);
        assert_eq!(verdicts, [Verdict::Fail(5), served, served]);
        assert_eq!(
            rules.admit("a", Kind::Read, 4),
            SERVE,
            "the rule is gone too"
        );
    }

    #[test]
    fn interrupts_end_a_request_even_when_they_come_first() {
        let rules = Arc::new(Rules::default());
        rules.set(None, Kind::Read, Fault::Hang, false);
        rules.interrupt(1);
        let early = waiting(&rules, 1);
        let late = waiting(&rules, 2);
        rules.interrupt(2);
        assert_eq!(early.join().unwrap(), Verdict::Fail(libc::EINTR));
        assert_eq!(late.join().unwrap(), Verdict::Fail(libc::EINTR));
        assert!(!rules.wait_hung(1, Duration::from_millis(2)));
    }

    #[test]
    fn closing_ends_all_waiting() {
        let rules = Arc::new(Rules::default());
        rules.set(None, Kind::Read, Fault::Hang, false);
        let thread = waiting(&rules, 1);
        rules.close();
        assert_eq!(thread.join().unwrap(), Verdict::Fail(GONE));
        assert!(rules.wait_idle(LONG));
        assert_eq!(rules.admit("a", Kind::Read, 2), fails(GONE));
    }
}
