//! Runs a whole copy: resolves the operands, starts the workers, and returns the summary.

use crate::arguments::{Misuse, Operands, SeenTargets};
use crate::budget::{self, Budget};
use crate::console::Console;
use crate::created::CreatedFiles;
use crate::directory::Entry;
use crate::handles::Descriptors;
use crate::links::Links;
use crate::listing::Listing;
use crate::options::{Existing, Options};
use crate::outcome::{Failure, Summary, Tally};
use crate::plan::Phase;
use crate::pool::Pool;
use crate::pool::WorkItem;
use crate::progress::Progress;
use crate::rate::Rate;
use crate::session::{Process, Session};
use crate::stop::Stop;
use crate::verify::Manifest;
use crate::{resume, worker};
use laio::BackendKind;
use std::sync::Arc;

/// Copies files. Failures are printed on standard error as they occur, and counted.
///
/// # Errors
/// If the arguments are wrong, or the copy cannot start.
pub fn copy(options: Options, operands: Operands, stop: Stop) -> Result<Summary, Misuse> {
    run_walk(options, operands, stop, Arc::default())
}

/// Walks through the sources, and copies or plans what it finds.
pub(crate) fn run_walk(
    mut options: Options,
    operands: Operands,
    stop: Stop,
    phase: Arc<Phase>,
) -> Result<Summary, Misuse> {
    resume::apply_implied_options(&mut options);
    if phase.planner().is_none() {
        budget::require_descriptors(&options, false).map_err(Misuse::Target)?;
    }
    let mut run = CopyRun::new(options, stop, phase, operands.listed.is_some());
    let session = &mut run.session;
    let (root, arguments) = operands.resolve(session)?.entries(session);
    if let Some(planner) = session.phase.planner() {
        if session.seen_targets.has_duplicates() {
            let text = "sources with the same destination cannot be in one plan; copy them one after the other";
            return Err(Misuse::Target(Failure::from_message(text)));
        }
        let result = planner.begin(&root);
        result
            .map_err(|error| Misuse::Target(Failure::from_error(error, "cannot start the plan")))?;
    }
    if let Some(path) = session.options.manifest.as_deref()
        && !session.options.dry_run
    {
        session.manifest = Some(Manifest::create(path).map_err(Misuse::Target)?);
    }
    let nested = |entry: &Entry| {
        entry
            .argument
            .as_ref()
            .is_some_and(|argument| argument.nested)
    };
    session.in_order = session.seen_targets.has_duplicates()
        || session.options.existing == Existing::Ask
        || (arguments.len() > 1 && arguments.iter().any(nested));
    if session.in_order {
        (run.jobs, run.depth) = (1, 1);
        session.pool = Pool::new(1);
    }
    run.start(Listing::of_arguments(root, arguments))
}

/// Runs the tasks of a plan.
pub(crate) fn run_plan_tasks(
    options: Options,
    stop: Stop,
    phase: Arc<Phase>,
) -> Result<Summary, Misuse> {
    let run = CopyRun::new(options, stop, phase.clone(), false);
    let Some((root, plan_tasks)) = phase.plan_tasks() else {
        return Err(Misuse::Target(Failure::from_message(
            "this phase has no tasks",
        )));
    };
    let tasks = plan_tasks.into_iter().map(|task| {
        root.add_pending();
        WorkItem::Planned(task)
    });
    run.session.pool.push(0, tasks);
    run.start(Listing::of_arguments(root, Vec::new()))
}

/// The state of a copy before its workers start.
struct CopyRun {
    session: Session,
    progress: Progress,
    jobs: usize,
    depth: usize,
}

impl CopyRun {
    fn new(options: Options, stop: Stop, phase: Arc<Phase>, is_listed: bool) -> CopyRun {
        let progress = Progress::new(options.progress);
        let budget = Budget::of(&options);
        let options = Options {
            buffer: budget.buffer,
            backend: match budget.blocking_only {
                true => Some(BackendKind::Sync),
                false => options.backend,
            },
            ..options
        };
        let session = Session {
            console: Console::new(&options.program, progress.clone()),
            tally: Arc::new(Tally::new(budget.jobs)),
            pool: Pool::new(budget.jobs),
            descriptors: Descriptors::new(budget.directories),
            links: Links::default(),
            created: CreatedFiles::default(),
            created_parents: CreatedFiles::default(),
            seen_targets: SeenTargets::default(),
            rate: options.rate.map(Rate::new),
            manifest: None,
            stop,
            process: Process::current(),
            phase,
            is_listed,
            in_order: false,
            options,
        };
        CopyRun {
            session,
            progress,
            jobs: budget.jobs,
            depth: budget.depth,
        }
    }

    fn start(self, listing: Listing) -> Result<Summary, Misuse> {
        let session = Arc::new(self.session);
        let drawing = self.progress.start(session.tally.clone());
        let background = run_workers(&session, self.jobs, self.depth, listing);
        if let Some(drawing) = drawing {
            drawing.stop();
        }
        match &session.manifest {
            Some(manifest) if session.stop.is_requested() => manifest.discard(),
            Some(manifest) => {
                let durable = session.options.fsync || session.options.verify;
                if let Err(failure) = manifest.finish(durable) {
                    session.report_failure(&failure);
                }
            }
            None => {}
        }
        if let Err(failure) = session.console.finish() {
            session.report_failure(&failure);
        }
        let mut summary = session.tally.summary();
        summary.interrupted = session.stop.signal();
        summary.background = background.map_err(Misuse::Target)?;
        Ok(summary)
    }
}

/// The stack size of a worker, in bytes. No recursion depends on the tree.
const STACK: usize = 1 << 20;

fn run_workers(
    session: &Arc<Session>,
    jobs: usize,
    depth: usize,
    arguments: Listing,
) -> Result<u64, Failure> {
    let cannot = |error| Failure::from_error(error, "cannot start a worker");
    let mut threads = Vec::new();
    for index in 1..jobs {
        let session = session.clone();
        let thread = std::thread::Builder::new()
            .name(format!("laio-cp-{index}"))
            .stack_size(STACK)
            .spawn(move || worker::run(session, index, depth, None));
        match thread {
            Ok(thread) => threads.push(thread),
            // The workers started so far can do all the work.
            Err(_) => break,
        }
    }
    // The first worker runs on the calling thread, so copying one file starts no thread.
    let first = worker::run(session.clone(), 0, depth, Some(arguments));
    session.pool.stop();
    let mut background = first.map_err(cannot)?;
    for thread in threads {
        match thread.join() {
            Ok(Ok(count)) => background += count,
            // The other workers have done all the work.
            Ok(Err(_)) => {}
            Err(_) => {
                return Err(Failure::from_message(
                    "a worker has panicked; the copy is not complete",
                ));
            }
        }
    }
    Ok(background)
}
