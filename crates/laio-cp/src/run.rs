//! Runs a whole copy: resolves the operands, starts the workers, and returns the summary.

use crate::arguments::{Misuse, Operands};
use crate::budget::{self, Budget};
use crate::console::Console;
use crate::manifest::Manifest;
use crate::options::{Existing, Options};
use crate::outcome::{Failure, Summary, Tally};
use crate::progress::Progress;
use crate::rules::durable::ArgumentDirectories;
use crate::rules::links::Links;
use crate::rules::resume;
use crate::schedule::listing::Listing;
use crate::schedule::pool::Pool;
use crate::schedule::worker::{Schedule, Task, WorkItem};
use crate::session::{Phase, Problems, Session};
use crate::sink::Sink;
use crate::stop::Stop;
use crate::tree::{CreatedFiles, Descriptors, Directory, Entry, TemporaryNames};
use crate::workers;
use laio::BackendKind;
use std::sync::Arc;

/// Copies files. Failures are printed on standard error as they occur, and counted.
///
/// # Errors
/// If the arguments are wrong, or the copy cannot start.
pub fn copy(options: Options, operands: Operands, stop: Stop) -> Result<Summary, Misuse> {
    let sink = if options.dry_run {
        Sink::DryRun
    } else {
        Sink::Copy
    };
    run_walk(options, operands, stop, sink).map(|(summary, _)| summary)
}

/// Walks through the sources, and copies or plans what it finds.
pub(crate) fn run_walk(
    mut options: Options,
    operands: Operands,
    stop: Stop,
    sink: Sink,
) -> Result<(Summary, Problems), Misuse> {
    resume::apply_implied_options(&mut options);
    let phase = match sink {
        Sink::Plan(_) => Phase::Plan,
        Sink::Copy | Sink::DryRun => Phase::WholeCopy,
    };
    if phase == Phase::WholeCopy {
        budget::require_descriptors(&options, false)?;
    }
    let mut run = CopyRun::new(options, stop, (phase, sink), operands.listed.is_some());
    let session = &mut run.session;
    let (root, arguments) = operands.resolve(session)?.entries(session);
    if let Some(recorder) = run.schedule.sink.recorder() {
        if session.seen_targets.has_duplicates() {
            let text = "sources with the same destination cannot be in one plan; copy them one after the other";
            return Err(Misuse::Target(Failure::from_message(text)));
        }
        let result = recorder.begin(&root);
        result.map_err(|error| Failure::from_error(error, "cannot start the plan"))?;
    }
    if let Some(path) = session.options.manifest.as_deref()
        && !session.options.dry_run
    {
        session.manifest = Some(Manifest::create(path)?);
    }
    let nested = |entry: &Entry| {
        entry
            .argument
            .as_ref()
            .is_some_and(|argument| argument.nested)
    };
    run.schedule.in_order = session.seen_targets.has_duplicates()
        || session.options.existing == Existing::Ask
        || (arguments.len() > 1 && arguments.iter().any(nested));
    if run.schedule.in_order {
        (run.jobs, run.depth) = (1, 1);
        run.schedule.pool = Pool::new(1);
    }
    let directories = ArgumentDirectories::of(&run.session, &root, &arguments);
    run.start(Listing::of_arguments(root, arguments), directories)
}

/// Runs the tasks of a plan.
pub(crate) fn run_plan_tasks(
    options: Options,
    stop: Stop,
    temporary_names: TemporaryNames,
    root: Arc<Directory>,
    tasks: Vec<Task>,
) -> Result<(Summary, Problems), Misuse> {
    let mut run = CopyRun::new(options, stop, (Phase::Planned, Sink::Copy), false);
    run.session.temporary_names = temporary_names;
    let items = tasks.into_iter().map(|task| {
        root.add_pending();
        WorkItem::Task(task)
    });
    run.schedule.pool.push(0, items);
    run.start(Listing::of_arguments(root, Vec::new()), None)
}

/// The state of a copy before its workers start.
struct CopyRun {
    session: Session,
    schedule: Schedule,
    progress: Progress,
    jobs: usize,
    depth: usize,
}

impl CopyRun {
    fn new(options: Options, stop: Stop, (phase, sink): (Phase, Sink), is_listed: bool) -> CopyRun {
        let progress = Progress::new(options.progress);
        let budget = Budget::from_options(&options);
        let options = Options {
            buffer: budget.buffer,
            backend: if budget.blocking_only {
                Some(BackendKind::Sync)
            } else {
                options.backend
            },
            ..options
        };
        let console = Console::new(&options.program, progress.clone());
        let tally = Arc::new(Tally::new(budget.jobs));
        CopyRun {
            session: Session::new(options, phase, is_listed, (console, tally, stop)),
            schedule: Schedule {
                pool: Pool::new(budget.jobs),
                sink,
                in_order: false,
                descriptors: Descriptors::new(budget.directories),
                links: Links::default(),
                created_parents: CreatedFiles::default(),
            },
            progress,
            jobs: budget.jobs,
            depth: budget.depth,
        }
    }

    /// `directories`: those to sync at the end.
    fn start(
        self,
        listing: Listing,
        directories: Option<ArgumentDirectories>,
    ) -> Result<(Summary, Problems), Misuse> {
        let (session, schedule) = (Arc::new(self.session), Arc::new(self.schedule));
        let drawing = self.progress.start(session.tally.clone());
        let background = workers::run(&session, &schedule, self.jobs, self.depth, listing);
        if let Some(drawing) = drawing {
            drawing.stop();
        }
        if let Some(directories) = directories {
            directories.sync(&session);
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
        summary.background = background?;
        Ok((summary, session.take_problems()))
    }
}
