//! The copy as a whole: arguments, workers, summary.

use crate::arguments::{JustMade, Misuse, Operands};
use crate::console::Console;
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
    let (jobs, depth) = parallelism(&options);
    let mut shared = Shared {
        console: Console::new(&options.program, progress.clone()),
        counters: counters.clone(),
        pool: Pool::new(jobs),
        links: Links::default(),
        made: Made::default(),
        just_made: JustMade::default(),
        rate: options.rate.map(Rate::new),
        stop: stop.clone(),
        process: Process::this(),
        is_listed: operands.listed.is_some(),
        options,
    };
    let (root, arguments) = operands.resolve(&shared)?.entries(&shared);
    let in_order = shared.just_made.is_needed();
    let (jobs, depth) = if in_order { (1, 1) } else { (jobs, depth) };
    shared.pool = Pool::new(jobs);
    let shared = Arc::new(shared);
    let drawing = progress.start(counters.clone());
    let listing = Listing::of_arguments(root, arguments);
    let background = run_workers(&shared, jobs, depth, listing);
    if let Some(drawing) = drawing {
        drawing.stop();
    }
    shared.console.flush();
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
            Err(_) => return Err(Failure::because("a worker has panicked; the copy is not complete")),
        }
    }
    Ok(background)
}

/// Workers, and files in flight on each of them.
fn parallelism(options: &Options) -> (usize, usize) {
    // A question must be about the file that was told of last.
    if options.existing == Existing::Ask {
        return (1, 1);
    }
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = options.jobs.map_or(processors, NonZeroUsize::get);
    let depth = options.depth.map_or(Options::DEPTH, NonZeroUsize::get);
    let jobs = if options.recursive { jobs } else { 1 };
    (jobs.min(Options::JOBS_MAX), depth.min(Options::DEPTH_MAX))
}

/// Each level of a deep tree keeps two descriptors open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, trees can be less deep.
    let _ = setrlimit(Resource::Nofile, limit);
}
