//! Watches the threads of a process and of the processes that it starts, and makes a report of their waits.

use crate::calls;
use crate::candidates::Candidates;
use crate::description::Description;
use crate::mappings;
use crate::processes::{self, Processes};
use crate::python::Interpreters;
use crate::records::Records;
use crate::report::{Cause, Details, Key, Report};
use crate::stack;
use crate::symbols::Symbols;
use crate::thread::WatchedThread;
use crate::waits::{Change, Wait};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How many threads are watched at the full rate.
pub(crate) const MAX_THREADS: usize = 256;

/// The time between two searches for threads, while the watch is new and later.
const SEARCH: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(50)];

/// How long the watch is new.
const NEW: Duration = Duration::from_millis(500);

/// The shortest and the longest time between two looks.
const PERIODS: [Duration; 2] = [Duration::from_micros(500), Duration::from_millis(20)];

/// The watch uses at most this share of a processor: one part in so many. Looks become rarer when they
/// cost more.
const SHARE: u32 = 25;

/// What a watch looks for.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Waits shorter than this are not reported.
    pub over: Duration,
    /// Threads with these names are watched although they have no event loop.
    pub threads: Vec<String>,
    /// Whether perf may be used.
    pub with_perf: bool,
}

/// A watch in progress.
#[derive(Debug)]
pub struct Watch {
    options: WatchOptions,
    started: u64,
    processes: Processes,
    programs: HashMap<u32, PathBuf>,
    interpreters: Interpreters,
    threads: Vec<WatchedThread>,
    candidates: Candidates,
    next_search: u64,
    last_turn: Option<u64>,
    period: Duration,
    /// How long this turn has described waits, which does not recur with each turn.
    describing: u64,
    report: Report,
}

impl Watch {
    /// Begins to watch a process.
    ///
    /// # Errors
    /// If the process does not exist, or this process may not examine it.
    pub fn new(pid: u32, options: WatchOptions) -> io::Result<Watch> {
        WatchedThread::open(pid, pid)?;
        let period = (options.over / 2).clamp(PERIODS[0], PERIODS[1]);
        Ok(Watch {
            started: now(),
            processes: Processes::new(pid),
            programs: HashMap::new(),
            interpreters: Interpreters::default(),
            threads: Vec::new(),
            candidates: Candidates::default(),
            next_search: 0,
            last_turn: None,
            period,
            describing: 0,
            report: Report::new(options.over),
            options,
        })
    }

    /// Sleeps until the next look, and looks at all threads. Returns whether a process is left.
    pub fn turn(&mut self) -> bool {
        std::thread::sleep(self.period);
        let begin = now();
        if let Some(last) = self.last_turn {
            let gap = Duration::from_nanos(begin - last);
            self.report.means.longest_gap = self.report.means.longest_gap.max(gap);
        }
        self.last_turn = Some(begin);
        if begin >= self.next_search {
            self.search_again(begin);
        }
        let before = processor_time();
        self.describing = 0;
        let mut index = 0;
        while index < self.threads.len() {
            let is_there = self.look(index);
            if is_there {
                index += 1;
            } else {
                self.forget(index);
            }
        }
        let cost = (processor_time() - before).saturating_sub(self.describing);
        self.choose_period(Duration::from_nanos(cost));
        self.processes.known().next().is_some()
    }

    /// What has been found so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// How long the watch has lasted.
    pub fn lasted(&self) -> Duration {
        Duration::from_nanos(now() - self.started)
    }

    /// Ends the watch. Waits that last are reported as unfinished.
    pub fn finish(mut self) -> Report {
        while !self.threads.is_empty() {
            self.forget(0);
        }
        self.report.started = Duration::from_nanos(self.started);
        self.report.lasted = self.lasted();
        self.report.means.denied = self.candidates.denied();
        let mut symbols = Symbols::default();
        for (_, entry) in &mut self.report.entries {
            let has_node = entry
                .stack
                .iter()
                .any(|frame| frame.module.ends_with("/node"));
            let is_listed = symbols.name_stack(&mut entry.stack);
            self.report.means.lacks_node_functions |= has_node && !is_listed;
            let is_go = |frame: &stack::Frame| frame.name.starts_with("runtime.entersyscall");
            self.report.means.has_go |= entry.stack.iter().any(is_go);
        }
        self.report.finish();
        self.report
    }

    /// Searches, and chooses when to search again: later if it has cost much.
    fn search_again(&mut self, begin: u64) {
        let before = processor_time();
        self.search();
        let cost = Duration::from_nanos(processor_time() - before);
        let is_new = begin - self.started < NEW.as_nanos() as u64;
        let pause = SEARCH[usize::from(!is_new)].max(cost * SHARE);
        self.next_search = now() + pause.as_nanos() as u64;
    }

    /// Looks for new processes and threads.
    fn search(&mut self) {
        let refused = self.processes.refresh();
        self.forget_executed();
        let watched: HashSet<u32> = self.threads.iter().map(|thread| thread.tid).collect();
        let running: HashSet<u32> = self.processes.known().collect();
        self.candidates
            .retain_processes(|pid| running.contains(&pid));
        let mut unwatched = refused;
        for pid in running {
            let threads = processes::threads(pid);
            unwatched += self
                .candidates
                .update(pid, &threads, |tid| watched.contains(&tid));
        }
        for mut thread in self.candidates.search(&self.options.threads) {
            if self.threads.len() == MAX_THREADS {
                unwatched += 1;
                continue;
            }
            if thread.events.exists() {
                self.count_loop(&thread.name);
            }
            self.record(&mut thread);
            self.threads.push(thread);
        }
        self.report.means.unwatched = self.report.means.unwatched.max(unwatched);
        self.find_shared_loops();
    }

    /// Ends the watch of threads whose process has executed another program: that may have no event loop.
    fn forget_executed(&mut self) {
        let program = |pid| Some((pid, std::fs::read_link(format!("/proc/{pid}/exe")).ok()?));
        let programs: HashMap<u32, PathBuf> = self.processes.known().filter_map(program).collect();
        let before = std::mem::replace(&mut self.programs, programs);
        for (pid, program) in before {
            let is_other = self.programs.get(&pid).is_some_and(|now| *now != program);
            if is_other || !self.programs.contains_key(&pid) {
                self.interpreters.forget(pid);
            }
            while let Some(index) = self
                .threads
                .iter()
                .position(|thread| is_other && thread.pid == pid)
            {
                self.forget(index);
            }
        }
    }

    /// Lets perf record a thread, if that is permitted.
    fn record(&mut self, thread: &mut WatchedThread) {
        let means = &mut self.report.means;
        match self.options.with_perf.then(|| Records::open(thread.tid)) {
            Some(Ok(records)) => {
                thread.records = Some(records);
                means.with_records += 1;
            }
            refused => {
                let why = refused.map(|refused| refused.expect_err("it was refused").to_string());
                means.refusal = Some(why.unwrap_or_else(|| "switched off".to_owned()));
                means.without_records += 1;
            }
        }
    }

    fn count_loop(&mut self, name: &str) {
        let loops = &mut self.report.loops;
        if let Some((_, count)) = loops.iter_mut().find(|(known, _)| known == name) {
            *count += 1;
        } else if loops.len() < MAX_THREADS {
            loops.push((name.to_owned(), 1));
        }
    }

    /// Finds the threads of a process that wait for the same epoll descriptor.
    fn find_shared_loops(&mut self) {
        let mut waiting: HashMap<(u32, u64), usize> = HashMap::new();
        let epoll = |thread: &WatchedThread| Some((thread.pid, thread.events.epoll()?));
        for descriptor in self.threads.iter().filter_map(epoll) {
            *waiting.entry(descriptor).or_default() += 1;
        }
        for thread in &mut self.threads {
            let others = epoll(thread).and_then(|descriptor| waiting.get(&descriptor));
            thread.events.is_shared = others.is_some_and(|count| *count > 1);
        }
    }

    /// Half of the shortest wait that is reported, or longer if a look costs much.
    fn choose_period(&mut self, cost: Duration) {
        let shortest = (self.options.over / 2).clamp(PERIODS[0], PERIODS[1]);
        let wanted = (cost * SHARE).clamp(shortest, PERIODS[1]);
        self.period = (self.period * 7 + wanted) / 8;
        let periods = self
            .report
            .means
            .periods
            .get_or_insert((self.period, self.period));
        *periods = (periods.0.min(self.period), periods.1.max(self.period));
    }

    fn look(&mut self, index: usize) -> bool {
        let at = now();
        let thread = &mut self.threads[index];
        let Some(look) = thread.look(at) else {
            return false;
        };
        self.report.means.lost += look.lost;
        self.report.means.paused += u64::from(look.is_paused_now);
        for change in look.changes {
            self.take(index, change);
        }
        let thread = &mut self.threads[index];
        if look.has_begun {
            thread.description = None;
        }
        let half = self.options.over.as_nanos() as u64 / 2;
        if thread.description.is_none()
            && let Some((call, _, length)) = thread.busy_wait(at)
            && length >= half
        {
            let before = processor_time();
            let mut description = thread.describe(&call);
            if self.report.wants_stack(&description.key) {
                let mappings = mappings::read(thread.pid);
                let stack = stack::read(thread.pid, &call, &mappings);
                let place = (thread.pid, thread.tid);
                description.stack = self.interpreters.stack(place, &mappings, stack);
            }
            thread.description = Some(description);
            self.describing += processor_time() - before;
        }
        true
    }

    fn take(&mut self, index: usize, change: Change) {
        let over = self.options.over.as_nanos() as u64;
        let thread = &mut self.threads[index];
        match change {
            Change::Ended(wait, length) => {
                let description = thread.description.take();
                if length >= over && !thread.events.is_idle(&wait.call) {
                    let description = description.unwrap_or_else(|| thread.describe(&wait.call));
                    let description = thread.complete(description);
                    self.add(description, &wait, length, false);
                }
            }
            Change::Delayed { until, length } if length >= over => {
                let key = Key {
                    cause: Cause::Processor,
                    call: "no processor",
                    subject: String::new(),
                    thread: thread.name.clone(),
                };
                let start = Duration::from_nanos(until.saturating_sub(self.started + length));
                let details = Details {
                    remedy: calls::other_remedy(Cause::Processor, ""),
                    ..Details::default()
                };
                self.report
                    .add(key, start, Duration::from_nanos(length), details);
            }
            Change::Missed(length) if length >= over => {
                self.report.means.missed += 1;
                self.report.means.missed_total += Duration::from_nanos(length);
            }
            Change::Delayed { .. } | Change::Missed(_) => {}
        }
    }

    fn add(&mut self, description: Description, wait: &Wait, length: u64, is_unfinished: bool) {
        let remedy = description.remedy(&wait.call);
        let Description { key, stack, .. } = description;
        let details = Details {
            remedy,
            stack,
            is_unfinished,
        };
        let start = Duration::from_nanos(wait.start.saturating_sub(self.started));
        self.report
            .add(key, start, Duration::from_nanos(length), details);
    }

    /// Ends the watch of a thread, which may have ended itself. Its end is no page fault.
    fn forget(&mut self, index: usize) {
        let thread = self.threads.swap_remove(index);
        let over = self.options.over.as_nanos() as u64;
        let Some(wait) = thread.unfinished(now(), over) else {
            return;
        };
        let lasts = thread.where_it_is().is_some();
        if !lasts && wait.0.call.number.is_none() {
            return;
        }
        let description = thread.description.clone();
        let description = description.unwrap_or_else(|| thread.describe(&wait.0.call));
        self.add(thread.complete(description), &wait.0, wait.1, lasts);
    }
}

/// The monotonic clock, which perf uses too.
fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// How long this thread has run.
fn processor_time() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
