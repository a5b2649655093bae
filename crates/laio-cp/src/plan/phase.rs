//! What this process does: a whole copy, or one phase of a shared one.

use super::ERRORS_KEPT;
use super::finish::{self, Finish};
use super::part::{self, Lost, PartWork};
use super::planner::Planner;
use crate::directory::{Directory, Entry};
use crate::outcome::Failure;
use crate::worker::Worker;
use std::sync::{Arc, Mutex, PoisonError};

/// A task of the work or finish phase.
#[derive(Debug)]
pub(crate) enum PlanTask {
    /// Copies files of a directory, by their records.
    Files(Option<u32>, Vec<usize>),
    /// Copies a region, by its record.
    Region(usize),
    /// Runs all steps of the finish phase.
    Finish,
}

/// The phase of a copy that this process runs, and its errors.
#[derive(Default)]
pub(crate) struct Phase {
    kind: PhaseKind,
    errors: Mutex<Vec<String>>,
}

#[derive(Default)]
enum PhaseKind {
    /// Not a shared copy.
    #[default]
    WholeCopy,
    Plan(Arc<Planner>),
    Work(PartWork),
    Finish(Finish),
}

impl Phase {
    fn new(kind: PhaseKind) -> Phase {
        Phase {
            kind,
            errors: Mutex::default(),
        }
    }

    pub(crate) fn plan(planner: Arc<Planner>) -> Phase {
        Phase::new(PhaseKind::Plan(planner))
    }

    pub(crate) fn work(part: PartWork) -> Phase {
        Phase::new(PhaseKind::Work(part))
    }

    pub(crate) fn finish(finish: Finish) -> Phase {
        Phase::new(PhaseKind::Finish(finish))
    }

    /// The planner, if files are recorded instead of copied.
    pub(crate) fn planner(&self) -> Option<&Planner> {
        match &self.kind {
            PhaseKind::Plan(planner) => Some(planner),
            _ => None,
        }
    }

    /// Whether names come from a plan: directories exist, and an earlier attempt may have created
    /// files.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.kind, PhaseKind::Work(_) | PhaseKind::Finish(_))
    }

    /// Whether directories get their attributes when their last entry is finished, not in a later
    /// phase.
    pub(crate) fn leaves_directories(&self) -> bool {
        matches!(self.kind, PhaseKind::WholeCopy)
    }

    /// The root and the tasks of this phase.
    pub(crate) fn plan_tasks(&self) -> Option<(Arc<Directory>, Vec<PlanTask>)> {
        match &self.kind {
            PhaseKind::Work(part) => Some((part.opener.root.clone(), part.plan_tasks())),
            PhaseKind::Finish(finish) => Some((finish.opener.root.clone(), vec![PlanTask::Finish])),
            PhaseKind::WholeCopy | PhaseKind::Plan(_) => None,
        }
    }

    /// Stores an error for the report.
    pub(crate) fn record_error(&self, failure: &Failure) {
        if matches!(self.kind, PhaseKind::WholeCopy) {
            return;
        }
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < ERRORS_KEPT {
            errors.push(failure.to_string());
        }
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        let errors = self.errors.lock();
        errors.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that a file was not copied.
    pub(crate) fn record_lost(&self, entry: &Entry) {
        if let PhaseKind::Work(part) = &self.kind {
            part.record_lost(&entry.target_path());
        }
    }

    pub(crate) fn lost(&self) -> Lost {
        match &self.kind {
            PhaseKind::Work(part) => part.lost(),
            _ => Lost::default(),
        }
    }

    pub(crate) fn incomplete(&self) -> Vec<String> {
        match &self.kind {
            PhaseKind::Work(part) => part.incomplete(),
            _ => Vec::new(),
        }
    }
}

/// Starts a task of a plan.
pub(crate) async fn run_task(worker: &Worker, task: &PlanTask) {
    let phase = worker.session.phase.clone();
    match &phase.kind {
        PhaseKind::Work(part) => part::run_task(worker, part, task).await,
        PhaseKind::Finish(finish) => finish::run(worker, finish).await,
        PhaseKind::WholeCopy | PhaseKind::Plan(_) => {}
    }
}
