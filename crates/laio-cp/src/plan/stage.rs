//! What the engine does: a copy, or one of the stages of one that is shared out.

use super::ERRORS_KEPT;
use super::finish::{self, Finish};
use super::part::{self, Lost, Part};
use super::planner::Planner;
use crate::directory::{Directory, Entry};
use crate::outcome::Failure;
use crate::worker::Worker;
use std::sync::{Arc, Mutex, PoisonError};

/// A task of those who work or finish.
#[derive(Debug)]
pub(crate) enum Step {
    /// Records of files of a directory.
    Files(Option<u32>, Vec<usize>),
    /// The record of a region.
    Region(usize),
    /// All that is done in the end.
    Finish,
}

#[derive(Default)]
pub(crate) struct Stage {
    kind: Kind,
    errors: Mutex<Vec<String>>,
}

#[derive(Default)]
enum Kind {
    /// The whole copy.
    #[default]
    All,
    Plan(Arc<Planner>),
    Work(Part),
    Finish(Finish),
}

impl Stage {
    fn new(kind: Kind) -> Stage {
        Stage {
            kind,
            errors: Mutex::default(),
        }
    }

    pub(crate) fn plan(planner: Arc<Planner>) -> Stage {
        Stage::new(Kind::Plan(planner))
    }

    pub(crate) fn work(part: Part) -> Stage {
        Stage::new(Kind::Work(part))
    }

    pub(crate) fn finish(finish: Finish) -> Stage {
        Stage::new(Kind::Finish(finish))
    }

    /// If nothing is to be copied, only written down.
    pub(crate) fn planner(&self) -> Option<&Planner> {
        match &self.kind {
            Kind::Plan(planner) => Some(planner),
            _ => None,
        }
    }

    /// Names come from a plan: directories are there, and what is made may be there from an attempt before.
    pub(crate) fn is_planned(&self) -> bool {
        matches!(self.kind, Kind::Work(_) | Kind::Finish(_))
    }

    /// Directories get their attributes when all in them is done; else another stage gives them theirs.
    pub(crate) fn leaves_directories(&self) -> bool {
        matches!(self.kind, Kind::All)
    }

    /// Where the names of a plan begin, and the tasks.
    pub(crate) fn steps(&self) -> Option<(Arc<Directory>, Vec<Step>)> {
        match &self.kind {
            Kind::Work(part) => Some((part.opener.root.clone(), part.steps())),
            Kind::Finish(finish) => Some((finish.opener.root.clone(), vec![Step::Finish])),
            Kind::All | Kind::Plan(_) => None,
        }
    }

    /// Keeps what failed, for the end.
    pub(crate) fn keep(&self, failure: &Failure) {
        if matches!(self.kind, Kind::All) {
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

    /// Notes that a file could not be copied.
    pub(crate) fn lose(&self, entry: &Entry) {
        if let Kind::Work(part) = &self.kind {
            part.lose(&entry.target_path());
        }
    }

    pub(crate) fn lost(&self) -> Lost {
        match &self.kind {
            Kind::Work(part) => part.lost(),
            _ => Lost::default(),
        }
    }

    pub(crate) fn incomplete(&self) -> Vec<String> {
        match &self.kind {
            Kind::Work(part) => part.incomplete(),
            _ => Vec::new(),
        }
    }
}

/// Begins a task of a plan.
pub(crate) async fn begin(worker: &Worker, step: &Step) {
    let stage = worker.shared.stage.clone();
    match &stage.kind {
        Kind::Work(part) => part::begin(worker, part, step).await,
        Kind::Finish(finish) => finish::run(worker, finish).await,
        Kind::All | Kind::Plan(_) => {}
    }
}
