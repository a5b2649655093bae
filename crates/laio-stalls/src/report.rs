//! What was found: one entry for each call, file and thread that has waited, within fixed limits of memory.

use crate::stack::Frame;
use std::collections::HashMap;
use std::time::Duration;

/// How many entries are kept. Later ones are counted with their call and without their file.
pub(crate) const MAX_ENTRIES: usize = 1000;

/// How many waits are kept with their time, for the picture. The shorter half goes when they are more.
pub(crate) const MAX_MOMENTS: usize = 4000;

/// How many intervals the picture of the longest waits has. Each becomes twice as long when they are more.
pub(crate) const MAX_INTERVALS: usize = 120;

/// Why a thread did not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A system call waited.
    Call,
    /// It waited for another thread: a lock or a condition variable.
    Futex,
    /// A page of its memory was not there.
    PageFault,
    /// It could have run, and other threads had the processors.
    Processor,
    /// A signal had stopped it.
    Stopped,
}

/// What distinguishes the entries of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Why the thread did not go on.
    pub cause: Cause,
    /// The name of the call, or what takes its place.
    pub call: &'static str,
    /// The file, the peer or the child; empty where there is no such thing, and for what the limit has
    /// merged.
    pub subject: String,
    /// The name of the thread.
    pub thread: String,
}

/// The waits with one key.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// How many.
    pub count: u64,
    /// How long together.
    pub total: Duration,
    /// How long the longest was.
    pub longest: Duration,
    /// How many lasted when the watch ended.
    pub unfinished: u64,
    /// What laio would do.
    pub remedy: &'static str,
    /// Where in the program: the innermost function first.
    pub stack: Vec<Frame>,
}

/// A wait in time.
#[derive(Clone, Debug)]
pub struct Moment {
    /// When it began, from the start of the watch.
    pub start: Duration,
    /// How long it lasted.
    pub length: Duration,
    /// Its entry, in the order of [`Report::entries`].
    pub entry: usize,
}

/// By which means the watch has seen what it reports.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// How many threads had records of perf.
    pub with_records: usize,
    /// How many were only looked at.
    pub without_records: usize,
    /// Why perf could not be used.
    pub refusal: Option<String>,
    /// The time between two looks: the shortest and the longest that was chosen.
    pub periods: Option<(Duration, Duration)>,
    /// The longest time between two looks that has occurred.
    pub longest_gap: Duration,
    /// Waits that perf has recorded and no look has seen.
    pub missed: u64,
    /// How long these were together.
    pub missed_total: Duration,
    /// Records that the kernel has dropped.
    pub lost: u64,
    /// How often perf was switched off for a thread that got a processor too often.
    pub paused: u64,
    /// Threads and processes beyond the limits.
    pub unwatched: u64,
    /// What was not permitted.
    pub denied: u64,
    /// Node.js has waited, and lists no functions.
    pub lacks_node_functions: bool,
    /// A thread of a Go program has waited.
    pub has_go: bool,
}

/// The result of a watch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// When the watch began, on the monotonic clock.
    pub started: Duration,
    /// How long the watch lasted.
    pub lasted: Duration,
    /// Waits shorter than this are not reported.
    pub over: Duration,
    /// How it was done, and what it can have missed.
    pub means: Means,
    /// Threads with an event loop: their names, and how many with each.
    pub loops: Vec<(String, usize)>,
    /// What has waited, the longest total first after [`Report::finish`].
    pub entries: Vec<(Key, Entry)>,
    /// The longest waits in time.
    pub moments: Vec<Moment>,
    /// The longest wait in each interval.
    pub intervals: Vec<Duration>,
    /// The length of an interval.
    pub interval: Duration,
    index: HashMap<Key, usize>,
}

impl Report {
    /// Begins a report of waits longer than this.
    pub fn new(over: Duration) -> Report {
        Report {
            over,
            interval: Duration::from_secs(1),
            ..Report::default()
        }
    }

    /// The longest wait, without times in which only the processor was not available.
    pub fn longest(&self) -> Duration {
        let waits = self
            .entries
            .iter()
            .filter(|(key, _)| key.cause != Cause::Processor);
        waits
            .map(|(_, entry)| entry.longest)
            .max()
            .unwrap_or_default()
    }

    /// Whether this entry still lacks the place in the program.
    pub fn wants_stack(&self, key: &Key) -> bool {
        let entry = self.index.get(key).map(|index| &self.entries[*index].1);
        entry.is_none_or(|entry| entry.stack.is_empty())
    }

    /// Adds a wait.
    pub fn add(&mut self, key: Key, start: Duration, length: Duration, details: Details) {
        let index = self.place(key);
        let entry = &mut self.entries[index].1;
        entry.count += 1;
        entry.total += length;
        entry.longest = entry.longest.max(length);
        entry.unfinished += u64::from(details.is_unfinished);
        entry.remedy = details.remedy;
        if entry.stack.is_empty() {
            entry.stack = details.stack;
        }
        self.add_moment(Moment {
            start,
            length,
            entry: index,
        });
        self.add_interval(start + length, length);
    }

    /// Brings the entries into the order of their totals.
    pub fn finish(&mut self) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(self.entries[*index].1.total));
        let mut places = vec![0; order.len()];
        for (place, index) in order.iter().enumerate() {
            places[*index] = place;
        }
        self.entries = order
            .iter()
            .map(|index| self.entries[*index].clone())
            .collect();
        for moment in &mut self.moments {
            moment.entry = places[moment.entry];
        }
        self.moments.sort_by_key(|moment| moment.start);
        self.index.clear();
    }

    /// The index of the entry with this key. At the limit it is the entry of the call without a subject.
    fn place(&mut self, key: Key) -> usize {
        if let Some(index) = self.index.get(&key) {
            return *index;
        }
        let key = match self.entries.len() {
            0..MAX_ENTRIES => key,
            _ => Key {
                subject: String::new(),
                thread: String::new(),
                ..key
            },
        };
        // The calls and causes are few, so that these entries also have a limit.
        *self.index.entry(key.clone()).or_insert_with(|| {
            self.entries.push((key, Entry::default()));
            self.entries.len() - 1
        })
    }

    fn add_moment(&mut self, moment: Moment) {
        if self.moments.len() == MAX_MOMENTS {
            self.moments
                .sort_by_key(|moment| std::cmp::Reverse(moment.length));
            self.moments.truncate(MAX_MOMENTS / 2);
        }
        self.moments.push(moment);
    }

    fn add_interval(&mut self, at: Duration, length: Duration) {
        let mut index = (at.as_nanos() / self.interval.as_nanos().max(1)) as usize;
        while index >= MAX_INTERVALS {
            let pairs = self.intervals.chunks(2);
            self.intervals = pairs
                .map(|pair| pair.iter().copied().max().unwrap_or_default())
                .collect();
            self.interval *= 2;
            index /= 2;
        }
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Duration::ZERO);
        }
        self.intervals[index] = self.intervals[index].max(length);
    }
}

/// What an entry keeps of a wait in addition to its length.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// What laio would do.
    pub remedy: &'static str,
    /// Where in the program.
    pub stack: Vec<Frame>,
    /// Whether it lasted when the watch ended.
    pub is_unfinished: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> Key {
        Key {
            cause: Cause::Call,
            call: "read",
            subject: subject.to_owned(),
            thread: "loop".to_owned(),
        }
    }

    #[test]
    fn the_limits_hold_for_a_long_watch() {
        let mut report = Report::new(Duration::from_millis(1));
        for second in 0..20_000 {
            let length = Duration::from_millis(second % 100);
            let start = Duration::from_secs(second);
            report.add(
                key(&format!("/{second}")),
                start,
                length,
                Details::default(),
            );
        }
        report.finish();
        assert!(
            report.entries.len() <= MAX_ENTRIES + 1,
            "{}",
            report.entries.len()
        );
        assert!(report.moments.len() <= MAX_MOMENTS && report.intervals.len() <= MAX_INTERVALS);
        let count: u64 = report.entries.iter().map(|(_, entry)| entry.count).sum();
        assert_eq!(count, 20_000);
        assert_eq!(report.entries[0].0.subject, "");
        assert_eq!(report.longest(), Duration::from_millis(99));
    }
}
