//! The copy as a whole: arguments, workers, summary.

use crate::arguments::{JustMade, Misuse, Operands};
use crate::console::Console;
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
use crate::verify::Manifest;
use crate::{resume, worker};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Copies. What fails is reported on standard error as it happens, and counted.
///
/// # Errors
/// If the arguments make no sense, or nothing can be begun at all.
pub fn copy(mut options: Options, operands: Operands, stop: Stop) -> Result<Summary, Misuse> {
    raise_descriptor_limit();
    resume::imply(&mut options);
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
        manifest: None,
        stop: stop.clone(),
        process: Process::this(),
        is_listed: operands.listed.is_some(),
        in_order: false,
        options,
    };
    let (root, arguments) = operands.resolve(&shared)?.entries(&shared);
    if let Some(path) = shared.options.manifest.as_deref()
        && !shared.options.dry_run
    {
        shared.manifest = Some(Manifest::create(path).map_err(Misuse::Target)?);
    }
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
        (jobs, depth)
    };
    shared.pool = Pool::new(jobs);
    let shared = Arc::new(shared);
    let drawing = progress.start(counters.clone());
    let listing = Listing::of_arguments(root, arguments);
    let background = run_workers(&shared, jobs, depth, listing);
    if let Some(drawing) = drawing {
        drawing.stop();
    }
    match &shared.manifest {
        Some(manifest) if stop.is_asked() => manifest.discard(),
        Some(manifest) => {
            let durable = shared.options.fsync || shared.options.verify;
            if let Err(failure) = manifest.finish(durable) {
                shared.fail(&failure);
            }
        }
        None => {}
    }
    if let Err(error) = shared.console.finish() {
        shared.fail(&Failure::of(error, "write error"));
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

/// Workers, and files in flight on each of them.
fn parallelism(options: &Options) -> (usize, usize) {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = options.jobs.map_or(processors, NonZeroUsize::get);
    let depth = options.depth.map_or(Options::DEPTH, NonZeroUsize::get);
    let jobs = if options.recursive { jobs } else { 1 };
    let jobs = jobs.min(Options::JOBS_MAX);
    (
        jobs,
        depth.min(Options::DEPTH_MAX).min(affordable_depth(jobs)),
    )
}

/// Files in flight for which there are descriptors: two for each, and some for directories and contexts.
fn affordable_depth(jobs: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    (limit / jobs / 4).saturating_sub(4).max(1)
}

/// Each level of a deep tree keeps two descriptors open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If not, trees can be less deep.
    let _ = setrlimit(Resource::Nofile, limit);
}
