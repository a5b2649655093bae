//! The number of workers, files in flight and open directories that the limits on descriptors and
//! memory allow.

use crate::options::Options;
use crate::outcome::{Failure, failure};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::num::NonZeroUsize;

/// The resources that a copy uses at the same time.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Workers.
    pub(crate) jobs: usize,
    /// Files in flight per worker.
    pub(crate) depth: usize,
    /// Open directories.
    pub(crate) directories: usize,
    /// Buffer size in bytes.
    pub(crate) buffer: usize,
    /// All calls block: such a worker needs fewer descriptors.
    pub(crate) blocking_only: bool,
}

/// Descriptors of the process: signals and the target directory.
const PROCESS_FDS: usize = 3;
/// Descriptors of a worker: its back end, and short-lived ones.
const WORKER_FDS: usize = 8;
/// Descriptors of a file in flight: source, copy, and their directories.
const FILE_FDS: usize = 4;
/// Descriptors of an open directory and its copy.
const DIRECTORY_FDS: usize = 2;
/// More open directories do not make a copy faster.
const DIRECTORIES_MAX: usize = 512;

/// With fewer free descriptors all calls block.
const ASYNC_FDS_MIN: usize = 2 * (PROCESS_FDS + WORKER_FDS + FILE_FDS + DIRECTORY_FDS);
/// With fewer free descriptors the copy is refused: two for a worker, one for the target directory,
/// two for the current directory and its copy, two for a file and its copy, one for short-lived
/// opens.
const FDS_MIN: usize = 8;

/// Additional descriptors with a plan: its files, a claim, and a part's directories, which stay
/// open while their files are copied.
const PLAN_FDS: usize = 48;

/// With fewer free bytes the copy is refused: the C library and Rust's runtime abort a process that
/// cannot allocate a thread's data.
const MEMORY_MIN: usize = 4 << 20;

/// Address space of each worker after the first: its stack and its `malloc` arena.
const THREAD_BYTES: usize = 80 << 20;
/// Bytes of a file in flight, without its buffer.
const FILE_BYTES: usize = 64 << 10;
/// The smallest buffer, used where memory is limited.
const BUFFER_MIN: usize = 64 << 10;

impl Budget {
    /// The budget that the options ask for, within the limits of the process.
    pub(crate) fn from_options(options: &Options) -> Budget {
        let budget = Budget::by_descriptors(options, free_descriptors());
        match free_memory() {
            Some(bytes) => budget.by_memory(bytes),
            None => budget,
        }
    }

    fn by_descriptors(options: &Options, free: usize) -> Budget {
        let left = free.saturating_sub(PROCESS_FDS);
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        // One more than processors: another worker runs while one waits for a device.
        let jobs = options.jobs.map_or(processors + 1, NonZeroUsize::get);
        let jobs = if options.recursive { jobs } else { 1 };
        // Twice the minimum of a worker.
        // With the file that a copy replaces, whose attributes the new one gets.
        let file_fds = FILE_FDS + usize::from(options.atomic || options.resume);
        let affordable = left / (2 * (WORKER_FDS + file_fds + DIRECTORY_FDS));
        let jobs = jobs.min(Options::JOBS_MAX).min(affordable).max(1);

        let left = left.saturating_sub(jobs * WORKER_FDS);
        let depth = options.depth.map_or(Options::DEPTH, NonZeroUsize::get);
        let depth = depth.min(left / 2 / jobs / file_fds);
        let depth = depth.clamp(1, Options::DEPTH_MAX);
        let left = left.saturating_sub(jobs * depth * file_fds);
        Budget {
            jobs,
            depth,
            directories: (left / DIRECTORY_FDS).clamp(1, DIRECTORIES_MAX),
            buffer: options.buffer,
            blocking_only: free < ASYNC_FDS_MIN && options.backend.is_none(),
        }
    }

    /// Limits the budget to a quarter of the free memory; the directory tree needs most of the
    /// rest.
    fn by_memory(self, free: usize) -> Budget {
        let jobs = self.jobs.min(1 + free / 2 / THREAD_BYTES);
        let for_files = free.saturating_sub((jobs - 1) * THREAD_BYTES) / 4 / jobs;
        let min = BUFFER_MIN.min(self.buffer);
        let buffer = (for_files / 4).clamp(min, self.buffer);
        let depth = self.depth.min(for_files / (buffer + FILE_BYTES)).max(1);
        Budget {
            jobs,
            depth,
            buffer,
            ..self
        }
    }
}

/// Raises the soft limit on descriptors to the hard limit, and checks that enough are free to copy
/// at all.
pub(crate) fn require_descriptors(options: &Options, of_plan: bool) -> Result<(), Failure> {
    raise_descriptor_limit();
    let free = free_descriptors();
    let needed = FDS_MIN
        + usize::from(options.manifest.is_some())
        + usize::from(options.resume)
        // The file that is replaced, whose attributes the new one gets.
        + usize::from(options.atomic || options.resume)
        + if of_plan { PLAN_FDS } else { 0 };
    if free >= needed {
        return Ok(());
    }
    let limit = descriptor_limit();
    let open = limit.saturating_sub(free);
    let needed = open + needed;
    Err(failure!(
        "the copy needs {needed} descriptors, of which {open} are already open, but the limit is {limit}: raise it (ulimit -n {needed})"
    ))
}

/// Whether there is enough memory to start a copy. Call it before the process has threads.
pub fn has_memory_to_begin() -> bool {
    free_memory().is_none_or(|free| free >= MEMORY_MIN)
}

/// More descriptors allow more files in flight.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On failure the copy runs with fewer.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(usize::MAX)
}

/// Descriptor numbers below the limit that are free; open descriptors inherited from the parent
/// count as used.
fn free_descriptors() -> usize {
    /// The standard streams.
    const USUAL: usize = 3;
    let limit = descriptor_limit();
    let Ok(open) = laio::directory::names("/proc/self/fd") else {
        // `/proc` is not mounted, or no descriptor is left to read it.
        return limit.saturating_sub(USUAL);
    };
    let numbers = open.filter_map(|entry| entry.ok()?.to_str()?.parse().ok());
    let taken = numbers.filter(|number: &usize| *number < limit).count();
    // One of them is the directory stream itself.
    limit.saturating_sub(taken.saturating_sub(1))
}

/// Bytes of address space that the process may still use; `None` without a limit.
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
    fn few_descriptors_allow_one_file_at_a_time() {
        let few = Budget::by_descriptors(&options(4), FDS_MIN);
        assert_eq!((few.jobs, few.depth, few.directories), (1, 1, 1));
        assert!(few.blocking_only);
        let many = Budget::by_descriptors(&options(4), 100_000);
        assert_eq!((many.jobs, many.depth), (4, Options::DEPTH));
        assert!(!many.blocking_only);
    }

    #[test]
    fn little_memory_allows_few_workers() {
        let budget = |bytes| Budget::by_descriptors(&options(4), 100_000).by_memory(bytes);
        let little = budget(1 << 20);
        assert_eq!(
            (little.jobs, little.depth, little.buffer),
            (1, 2, BUFFER_MIN)
        );
        assert_eq!(budget(0).depth, 1);
        let much = budget(4 << 30);
        assert_eq!(
            (much.jobs, much.depth, much.buffer),
            (4, Options::DEPTH, Options::BUFFER)
        );
        for megabytes in [1, 10, 30, 100, 200, 500, 1000, 4000] {
            let free = megabytes << 20;
            let budget = budget(free);
            let taken = (budget.jobs - 1) * THREAD_BYTES
                + budget.jobs * budget.depth * (budget.buffer + FILE_BYTES);
            assert!(taken <= free, "{megabytes} MiB: {budget:?}");
        }
    }
}
