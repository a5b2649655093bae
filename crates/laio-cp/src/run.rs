//! The copy as a whole: arguments, workers, summary.

use crate::arguments::{JustMade, Misuse, Operands};
use crate::console::Console;
use crate::descriptors::Descriptors;
use crate::directory::Entry;
use crate::links::Links;
use crate::listing::Listing;
use crate::made::Made;
use crate::options::{Existing, Options};
use crate::outcome::{Failure, Summary, Tally};
use crate::plan::Stage;
use crate::pool::Pool;
use crate::pool::Task;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::room::{self, Room};
use crate::shared::{Process, Shared};
use crate::stop::Stop;
use crate::verify::Manifest;
use crate::{resume, worker};
use laio::BackendKind;
use std::sync::Arc;

/// Copies. What fails is reported on standard error as it happens, and counted.
///
/// # Errors
/// If the arguments make no sense, or nothing can be begun at all.
pub fn copy(options: Options, operands: Operands, stop: Stop) -> Result<Summary, Misuse> {
    walk(options, operands, stop, Arc::default())
}

/// Walks through the sources, and copies what is found, or does what the stage does instead.
pub(crate) fn walk(
    mut options: Options,
    operands: Operands,
    stop: Stop,
    stage: Arc<Stage>,
) -> Result<Summary, Misuse> {
    resume::imply(&mut options);
    if stage.planner().is_none() {
        room::require_descriptors(&options, false).map_err(Misuse::Target)?;
    }
    let mut engine = Engine::new(options, stop, stage, operands.listed.is_some());
    let shared = &mut engine.shared;
    let (root, arguments) = operands.resolve(shared)?.entries(shared);
    if let Some(planner) = shared.stage.planner() {
        if shared.just_made.is_needed() {
            let text = "sources with the same destination cannot be in one plan; copy them one after the other";
            return Err(Misuse::Target(Failure::because(text)));
        }
        let begun = planner.begin(&root);
        begun.map_err(|error| Misuse::Target(Failure::of(error, "cannot begin the plan")))?;
    }
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
    if shared.in_order {
        (engine.jobs, engine.depth) = (1, 1);
        shared.pool = Pool::new(1);
    }
    engine.run(Listing::of_arguments(root, arguments))
}

/// Does the tasks of a plan.
pub(crate) fn steps(options: Options, stop: Stop, stage: Arc<Stage>) -> Result<Summary, Misuse> {
    let engine = Engine::new(options, stop, stage.clone(), false);
    let Some((root, steps)) = stage.steps() else {
        return Err(Misuse::Target(Failure::because("this stage has no tasks")));
    };
    let tasks = steps.into_iter().map(|step| {
        root.begin();
        Task::Planned(step)
    });
    engine.shared.pool.push(0, tasks);
    engine.run(Listing::of_arguments(root, Vec::new()))
}

/// What a copy is done with.
struct Engine {
    shared: Shared,
    progress: Progress,
    jobs: usize,
    depth: usize,
}

impl Engine {
    fn new(options: Options, stop: Stop, stage: Arc<Stage>, is_listed: bool) -> Engine {
        let progress = Progress::new(options.progress);
        let room = Room::of(&options);
        let options = Options {
            buffer: room.buffer,
            backend: match room.plainly {
                true => Some(BackendKind::Sync),
                false => options.backend,
            },
            ..options
        };
        let shared = Shared {
            console: Console::new(&options.program, progress.clone()),
            tally: Arc::new(Tally::new(room.jobs)),
            pool: Pool::new(room.jobs),
            descriptors: Descriptors::new(room.directories),
            links: Links::default(),
            made: Made::default(),
            parents: Made::default(),
            just_made: JustMade::default(),
            rate: options.rate.map(Rate::new),
            manifest: None,
            stop,
            process: Process::this(),
            stage,
            is_listed,
            in_order: false,
            options,
        };
        Engine {
            shared,
            progress,
            jobs: room.jobs,
            depth: room.depth,
        }
    }

    fn run(self, listing: Listing) -> Result<Summary, Misuse> {
        let shared = Arc::new(self.shared);
        let drawing = self.progress.start(shared.tally.clone());
        let background = run_workers(&shared, self.jobs, self.depth, listing);
        if let Some(drawing) = drawing {
            drawing.stop();
        }
        match &shared.manifest {
            Some(manifest) if shared.stop.is_asked() => manifest.discard(),
            Some(manifest) => {
                let durable = shared.options.fsync || shared.options.verify;
                if let Err(failure) = manifest.finish(durable) {
                    shared.fail(&failure);
                }
            }
            None => {}
        }
        if let Err(failure) = shared.console.finish() {
            shared.fail(&failure);
        }
        let mut summary = shared.tally.summary();
        summary.interrupted = shared.stop.signal();
        summary.background = background.map_err(Misuse::Target)?;
        Ok(summary)
    }
}

/// Bytes of a worker's stack: no tree makes it recurse.
const STACK: usize = 1 << 20;

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
            .stack_size(STACK)
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
