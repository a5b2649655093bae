//! What there is room for: workers, files in flight, open directories, by the limits of descriptors and of memory.

use crate::options::Options;
use crate::outcome::Failure;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// What a copy takes at a time.
#[derive(Debug)]
pub(crate) struct Room {
    /// Workers.
    pub(crate) jobs: usize,
    /// Files in flight on each of them.
    pub(crate) depth: usize,
    /// Directories that are open.
    pub(crate) directories: usize,
    /// Bytes of a buffer.
    pub(crate) buffer: usize,
    /// Calls are made one after the other, for which a worker needs fewer descriptors.
    pub(crate) plainly: bool,
}

/// Descriptors of the copy as a whole: signals, and the directory for the copies.
const OF_PROCESS: usize = 3;
/// Descriptors of a worker: its back end, and those that it opens for a moment.
const OF_WORKER: usize = 8;
/// Descriptors of a file in flight: its source, its copy, and their directories.
const OF_FILE: usize = 4;
/// Descriptors of an open directory and its copy.
const OF_DIRECTORY: usize = 2;
/// More open directories do not make a copy faster.
const DIRECTORIES_MAX: usize = 512;

/// Without as many free descriptors, calls are made plainly.
const AT_EASE: usize = 2 * (OF_PROCESS + OF_WORKER + OF_FILE + OF_DIRECTORY);
/// Without as many free descriptors, nothing is begun: two for a worker, one for the directory of the copies, two for the one that
/// is at hand and its copy, two for a file and its copy, and one to look with.
const NEEDED: usize = 8;

/// Besides, with a plan: its files, a claim, and the directories of a part, which stay open while their files are copied.
const OF_PLAN: usize = 48;

/// With fewer free bytes nothing is begun: the C library and Rust's runtime abort a process whose thread cannot be made
/// complete.
const MEMORY_NEEDED: usize = 4 << 20;

/// Bytes that a second worker takes, and each one after it: its stack, and what the C library reserves for its allocations.
const OF_THREAD: usize = 80 << 20;
/// Bytes of a file in flight, besides its buffer.
const OF_LANE: usize = 64 << 10;
/// The smallest buffer, for where there is little memory.
const BUFFER_LEAST: usize = 64 << 10;

impl Room {
    pub(crate) fn of(options: &Options) -> Room {
        let room = Room::by_descriptors(options, free_descriptors());
        match free_memory() {
            Some(bytes) => room.by_memory(bytes),
            None => room,
        }
    }

    fn by_descriptors(options: &Options, free: usize) -> Room {
        let left = free.saturating_sub(OF_PROCESS);
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // While one waits for a device, another has its processor.
        let jobs = options.jobs.map_or(processors + 1, NonZeroUsize::get);
        let jobs = if options.recursive { jobs } else { 1 };
        // Twice what a worker needs at the least.
        let affordable = left / (2 * (OF_WORKER + OF_FILE + OF_DIRECTORY));
        let jobs = jobs.min(Options::JOBS_MAX).min(affordable).max(1);

        let left = left.saturating_sub(jobs * OF_WORKER);
        let depth = options.depth.map_or(Options::DEPTH, NonZeroUsize::get);
        let depth = depth.min(left / 2 / jobs / OF_FILE);
        let depth = depth.clamp(1, Options::DEPTH_MAX);
        let left = left.saturating_sub(jobs * depth * OF_FILE);
        Room {
            jobs,
            depth,
            directories: (left / OF_DIRECTORY).clamp(1, DIRECTORIES_MAX),
            buffer: options.buffer,
            plainly: free < AT_EASE && options.backend.is_none(),
        }
    }

    /// The tree itself needs most of the memory: for what else there is, a quarter is left.
    fn by_memory(self, free: usize) -> Room {
        let jobs = self.jobs.min(1 + free / 2 / OF_THREAD);
        let for_files = free.saturating_sub((jobs - 1) * OF_THREAD) / 4 / jobs;
        let least = BUFFER_LEAST.min(self.buffer);
        let buffer = (for_files / 4).clamp(least, self.buffer);
        let depth = self.depth.min(for_files / (buffer + OF_LANE)).max(1);
        Room {
            jobs,
            depth,
            buffer,
            ..self
        }
    }
}

/// Whether there are as many descriptors as a copy needs at the least; also raises the limit as far as it may be raised.
pub(crate) fn require_descriptors(options: &Options, of_plan: bool) -> Result<(), Failure> {
    raise_descriptor_limit();
    let free = free_descriptors();
    let needed = NEEDED
        + usize::from(options.manifest.is_some())
        + usize::from(options.resume)
        + if of_plan { OF_PLAN } else { 0 };
    if free >= needed {
        return Ok(());
    }
    let limit = descriptor_limit();
    let open = limit.saturating_sub(free);
    let needed = open + needed;
    Err(Failure::because(format!(
        "{needed} descriptors are needed, of which {open} are open, and {limit} are allowed: raise the limit (ulimit -n {needed})"
    )))
}

/// Whether there is as much memory as a copy needs to begin. To be asked before the process has threads.
pub fn has_memory_to_begin() -> bool {
    free_memory().is_none_or(|free| free >= MEMORY_NEEDED)
}

/// The more descriptors, the more is in flight.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, it is done with fewer.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(usize::MAX)
}

/// Numbers that are allowed and not taken. What the parent has left open counts.
fn free_descriptors() -> usize {
    /// The standard streams.
    const USUAL: usize = 3;
    let limit = descriptor_limit();
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        // There is no /proc, or not even a descriptor for that.
        return limit.saturating_sub(USUAL);
    };
    let numbers = open.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let taken = numbers.filter(|number: &usize| *number < limit).count();
    // One of them is that of the list.
    limit.saturating_sub(taken.saturating_sub(1))
}

/// Bytes that the process may still take; none if there is no limit.
fn free_memory() -> Option<usize> {
    let limit = getrlimit(Resource::As).current?;
    let limit = usize::try_from(limit).ok()?;
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = sizes.split(' ').next().and_then(|pages| pages.parse().ok());
    let taken = pages.unwrap_or(0_usize) * rustix::param::page_size();
    Some(limit.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(jobs: usize) -> Options {
        Options {
            recursive: true,
            jobs: NonZeroUsize::new(jobs),
            ..Options::default()
        }
    }

    #[test]
    fn few_descriptors_are_for_one_file_at_a_time() {
        let few = Room::by_descriptors(&options(4), NEEDED);
        assert_eq!((few.jobs, few.depth, few.directories), (1, 1, 1));
        assert!(few.plainly);
        let many = Room::by_descriptors(&options(4), 100_000);
        assert_eq!((many.jobs, many.depth), (4, Options::DEPTH));
        assert!(!many.plainly);
    }

    #[test]
    fn little_memory_is_for_few_workers() {
        let room = |bytes| Room::by_descriptors(&options(4), 100_000).by_memory(bytes);
        let little = room(1 << 20);
        assert_eq!(
            (little.jobs, little.depth, little.buffer),
            (1, 2, BUFFER_LEAST)
        );
        assert_eq!(room(0).depth, 1);
        let much = room(4 << 30);
        assert_eq!(
            (much.jobs, much.depth, much.buffer),
            (4, Options::DEPTH, Options::BUFFER)
        );
        for megabytes in [1, 10, 30, 100, 200, 500, 1000, 4000] {
            let free = megabytes << 20;
            let room = room(free);
            let taken =
                (room.jobs - 1) * OF_THREAD + room.jobs * room.depth * (room.buffer + OF_LANE);
            assert!(taken <= free, "{megabytes} MiB: {room:?}");
        }
    }
}
