//! A process and the processes that it has started.

use std::collections::BTreeSet;

/// How many processes are watched.
pub(crate) const MAX_PROCESSES: usize = 256;

/// How many processes of others are remembered. Beyond that they are examined in each search.
const MAX_OTHERS: usize = 1 << 16;

/// A process, and those started by it that still run.
#[derive(Debug)]
pub(crate) struct Processes {
    known: BTreeSet<u32>,
    /// Processes that another one has started. They are not examined again.
    others: BTreeSet<u32>,
}

impl Processes {
    /// Begins with one process.
    pub(crate) fn new(pid: u32) -> Processes {
        Processes {
            known: BTreeSet::from([pid]),
            others: BTreeSet::new(),
        }
    }

    /// The processes, as last seen.
    pub(crate) fn known(&self) -> impl Iterator<Item = u32> {
        self.known.iter().copied()
    }

    /// Looks for new ones and forgets those that have ended. A process whose parent has ended stays.
    /// Returns how many were not taken because of the limit.
    pub(crate) fn refresh(&mut self) -> u64 {
        let numbers: BTreeSet<u32> = numbers("/proc").into_iter().collect();
        self.others.retain(|pid| numbers.contains(pid));
        let running: Vec<(u32, u32)> = numbers
            .into_iter()
            .filter(|pid| !self.others.contains(pid))
            .filter_map(|pid| Some((pid, parent(pid)?)))
            .collect();
        self.take(&running)
    }

    /// Takes the processes that belong to the first one. Each comes with its parent.
    fn take(&mut self, running: &[(u32, u32)]) -> u64 {
        self.known
            .retain(|pid| running.iter().any(|(running, _)| running == pid));
        let mut refused = 0;
        loop {
            let is_new = |(pid, parent): &&(u32, u32)| {
                self.known.contains(parent) && !self.known.contains(pid)
            };
            let new: Vec<u32> = running.iter().filter(is_new).map(|(pid, _)| *pid).collect();
            let room = MAX_PROCESSES.saturating_sub(self.known.len());
            if new.is_empty() || room == 0 {
                let others = running.iter().map(|(pid, _)| *pid);
                let others = others.filter(|pid| !self.known.contains(pid) && !new.contains(pid));
                let room_for_others = MAX_OTHERS.saturating_sub(self.others.len());
                self.others.extend(others.take(room_for_others));
                return refused + new.len() as u64;
            }
            refused += new.len().saturating_sub(room) as u64;
            self.known.extend(new.into_iter().take(room));
        }
    }
}

/// The threads of a process. The first is the one with which the process began.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    numbers(&format!("/proc/{pid}/task"))
}

/// The names in a directory that are numbers, in their order.
fn numbers(directory: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The parent of a process that has not ended.
fn parent(pid: u32) -> Option<u32> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = line.rsplit_once(") ")?;
    let mut words = after_name.split(' ');
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_hold_for_many_processes() {
        let mut processes = Processes::new(1);
        let children = (2..1000).map(|pid| (pid, 1));
        let others = (1000..100_000).map(|pid| (pid, 0));
        let running: Vec<(u32, u32)> = [(1, 0)].into_iter().chain(children).chain(others).collect();
        let refused = processes.take(&running);
        assert_eq!(processes.known.len(), MAX_PROCESSES);
        assert!(refused > 0 && processes.others.len() == MAX_OTHERS);
    }

    #[test]
    fn this_process_and_a_child() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let mut processes = Processes::new(std::process::id());
        assert_eq!(processes.refresh(), 0);
        let known: Vec<u32> = processes.known().collect();
        assert!(known.contains(&child.id()) && known.contains(&std::process::id()));
        assert_eq!(threads(child.id()), [child.id()]);
        child.kill().unwrap();
        child.wait().unwrap();
        processes.refresh();
        assert!(!processes.known().any(|pid| pid == child.id()));
    }
}
