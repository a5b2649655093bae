//! Finds the threads that have an event loop, among those that have shown none yet.

use crate::idle::EventLoop;
use crate::proc_files::{BlockedCall, Position};
use crate::thread::WatchedThread;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Bound;

/// How many threads without an event loop are remembered.
pub(crate) const MAX_CANDIDATES: usize = 4096;

/// How many of them are looked at in each search, beside the first thread of each process.
const AT_A_TIME: usize = 16;

/// The threads that have shown no event loop.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    known: BTreeMap<u32, Candidate>,
    denied: BTreeSet<u32>,
    last: u32,
}

#[derive(Debug)]
struct Candidate {
    pid: u32,
    events: EventLoop,
    /// The wait that was counted last.
    counted: Option<(BlockedCall, u64)>,
}

impl Candidates {
    /// How many threads may not be examined.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.len() as u64
    }

    /// Takes the threads of a process, except those that are watched. Returns how many are beyond the
    /// limit.
    pub(crate) fn update(
        &mut self,
        pid: u32,
        threads: &[u32],
        is_watched: impl Fn(u32) -> bool,
    ) -> u64 {
        let is_gone =
            |tid: &u32, candidate: &Candidate| candidate.pid == pid && !threads.contains(tid);
        self.known.retain(|tid, candidate| !is_gone(tid, candidate));
        let mut refused = 0;
        for tid in threads.iter().copied().filter(|tid| !is_watched(*tid)) {
            if self.known.contains_key(&tid) || self.denied.contains(&tid) {
                continue;
            }
            if self.known.len() == MAX_CANDIDATES {
                refused += 1;
                continue;
            }
            let candidate = Candidate {
                pid,
                events: EventLoop::default(),
                counted: None,
            };
            self.known.insert(tid, candidate);
        }
        refused
    }

    /// Forgets the threads of processes that have ended.
    pub(crate) fn retain_processes(&mut self, is_running: impl Fn(u32) -> bool) {
        self.known.retain(|_, candidate| is_running(candidate.pid));
    }

    /// Looks at the first threads of the processes and at some others, and returns those that must be
    /// watched: they have an event loop, or one of these names.
    pub(crate) fn search(&mut self, names: &[String]) -> Vec<WatchedThread> {
        let firsts: Vec<u32> = self
            .known
            .iter()
            .filter(|(tid, candidate)| **tid == candidate.pid)
            .map(|(tid, _)| *tid)
            .collect();
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let mut others: Vec<u32> = self
            .known
            .range(after)
            .map(|(tid, _)| *tid)
            .take(AT_A_TIME)
            .collect();
        if others.len() < AT_A_TIME {
            others.extend(self.known.keys().take(AT_A_TIME - others.len()));
        }
        self.last = others.last().copied().unwrap_or(0);
        others.extend(firsts);
        others.sort_unstable();
        others.dedup();
        let found = others
            .into_iter()
            .filter_map(|tid| self.examine(tid, names));
        found.collect()
    }

    fn examine(&mut self, tid: u32, names: &[String]) -> Option<WatchedThread> {
        let candidate = self.known.get_mut(&tid)?;
        let mut thread = match WatchedThread::open(candidate.pid, tid) {
            Ok(thread) => thread,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return self.deny(tid),
            Err(_) => return None,
        };
        if names.contains(&thread.name) {
            self.known.remove(&tid);
            return Some(thread);
        }
        let (position, times) = thread.where_it_is()?;
        let Position::Blocked(call) = position else {
            return None;
        };
        if candidate.counted != Some((call, times.turns)) {
            candidate.counted = Some((call, times.turns));
            candidate.events.count(&call);
        }
        if !candidate.events.exists() {
            return None;
        }
        thread.events = self.known.remove(&tid)?.events;
        Some(thread)
    }

    fn deny(&mut self, tid: u32) -> Option<WatchedThread> {
        self.known.remove(&tid);
        if self.denied.len() < MAX_CANDIDATES {
            self.denied.insert(tid);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_hold_for_many_threads() {
        let mut candidates = Candidates::default();
        let threads: Vec<u32> = (1..=2 * MAX_CANDIDATES as u32).collect();
        let refused = candidates.update(1, &threads, |_| false);
        assert_eq!(refused, MAX_CANDIDATES as u64);
        assert_eq!(candidates.known.len(), MAX_CANDIDATES);
        for tid in threads {
            candidates.deny(tid);
        }
        assert_eq!(
            (candidates.denied(), candidates.known.len()),
            (MAX_CANDIDATES as u64, 0)
        );
    }
}
