//! The copy as a whole: arguments, workers, summary.

use crate::arguments::{JustMade, Misuse, Operands};
use crate::console::Console;
use crate::descriptors::Descriptors;
use crate::directory::Entry;
use crate::links::Links;
use crate::listing::Listing;
use crate::made::Made;
use crate::options::{Existing, Options};
use crate::outcome::{Counters, Failure, Summary};
use crate::pool::Pool;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::shared::{Process, Shared};
use crate::stop::Stop;
use crate::worker;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Copies. What fails is reported on standard error as it happens, and counted.
///
/// # Errors
/// If the arguments make no sense, or nothing can be begun at all.
pub fn copy(options: Options, operands: Operands, stop: Stop) -> Result<Summary, Misuse> {
    raise_descriptor_limit();
    let progress = Progress::new(options.progress);
    let counters = Arc::new(Counters::default());
    let room = Room::of(&options);
    let mut shared = Shared {
        console: Console::new(&options.program, progress.clone()),
        counters: counters.clone(),
        pool: Pool::new(room.jobs),
        descriptors: Descriptors::new(room.directories),
        links: Links::default(),
        made: Made::default(),
        just_made: JustMade::default(),
        rate: options.rate.map(Rate::new),
        stop: stop.clone(),
        process: Process::this(),
        is_listed: operands.listed.is_some(),
        in_order: false,
        options,
    };
    let (root, arguments) = operands.resolve(&shared)?.entries(&shared);
    let nested = |entry: &Entry| {
        entry
            .argument
            .as_ref()
            .is_some_and(|argument| argument.nested)
    };
    shared.in_order = shared.just_made.is_needed()
        || shared.options.existing == Existing::Ask
        || (arguments.len() > 1 && arguments.iter().any(nested));
    let (jobs, depth) = if shared.in_order {
        (1, 1)
    } else {
        (room.jobs, room.depth)
    };
    shared.pool = Pool::new(jobs);
    let shared = Arc::new(shared);
    let drawing = progress.start(counters.clone());
    let listing = Listing::of_arguments(root, arguments);
    let background = run_workers(&shared, jobs, depth, listing);
    if let Some(drawing) = drawing {
        drawing.stop();
    }
    if let Err(failure) = shared.console.finish() {
        shared.fail(&failure);
    }
    let mut summary = counters.summary();
    summary.interrupted = stop.signal();
    summary.background = background.map_err(Misuse::Target)?;
    Ok(summary)
}

fn run_workers(
    shared: &Arc<Shared>,
    jobs: usize,
    depth: usize,
    arguments: Listing,
) -> Result<u64, Failure> {
    let cannot = |error| Failure::of(error, "cannot start a worker");
    let mut threads = Vec::new();
    for index in 1..jobs {
        let shared = shared.clone();
        let thread = std::thread::Builder::new()
            .name(format!("laio-cp-{index}"))
            .spawn(move || worker::run(shared, index, depth, None));
        match thread {
            Ok(thread) => threads.push(thread),
            // Those that there are can do it alone.
            Err(_) => break,
        }
    }
    // The first worker is the calling thread: a copy of one file starts no other.
    let first = worker::run(shared.clone(), 0, depth, Some(arguments));
    shared.pool.stop();
    let mut background = first.map_err(cannot)?;
    for thread in threads {
        match thread.join() {
            Ok(Ok(count)) => background += count,
            // It did nothing that others have not done.
            Ok(Err(_)) => {}
            Err(_) => {
                return Err(Failure::because(
                    "a worker has panicked; the copy is not complete",
                ));
            }
        }
    }
    Ok(background)
}

/// What there are descriptors for.
struct Room {
    /// Workers.
    jobs: usize,
    /// Files in flight on each of them.
    depth: usize,
    /// Directories that are open.
    directories: usize,
}

/// Descriptors of the process: standard streams, signals, the directory for the copies.
const OF_PROCESS: usize = 10;
/// Descriptors of a worker: its back end, and those that it opens for a moment.
const OF_WORKER: usize = 8;
/// Descriptors of a file in flight: its source, its copy, and their directories.
const OF_FILE: usize = 4;
/// Descriptors of an open directory and its copy.
const OF_DIRECTORY: usize = 2;
/// More open directories do not make a copy faster.
const DIRECTORIES_MAX: usize = 512;

impl Room {
    fn of(options: &Options) -> Room {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let left = limit.unwrap_or(usize::MAX).saturating_sub(OF_PROCESS);

        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let jobs = options.jobs.map_or(processors, NonZeroUsize::get);
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
        }
    }
}

/// The more descriptors, the more is in flight.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, it is done with fewer.
    let _ = setrlimit(Resource::Nofile, limit);
}
