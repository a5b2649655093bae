//! `laio bench cp`: recursive copies by `laio cp`, through each back end, and by other tools.
//!
//! In each round every subject copies the same tree once, in a process of its own. The order rotates from
//! round to round, so other load on the machine affects all subjects alike. Every copy is compared with its
//! source.

mod compare;
mod rounds;
mod subject;
mod trial;
mod workload;
mod workspace;

pub use subject::Subject;
pub use workload::Workload;
pub(crate) use workload::depth_and_size;

use crate::error::Error;
use crate::machine::Machine;
use crate::record::{Cache, Record};
use crate::stop::Stop;
use std::path::PathBuf;
use workspace::Workspace;

/// What to measure, and in which directory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `laio` command.
    pub laio: PathBuf,
    /// The trees.
    pub workloads: Vec<Workload>,
    /// The copying tools.
    pub subjects: Vec<Subject>,
    /// The cache states of the source.
    pub caches: Vec<Cache>,
    /// The number of copies of each tree by each subject.
    pub rounds: u32,
    /// The directory for trees and copies, which are on one file system.
    pub directory: PathBuf,
}

/// Measures all trees. `progress` receives a line for each step.
///
/// # Errors
/// If a tree cannot be created, or if `stop` is requested before the first tree is measured; after
/// that, the record contains the trees measured so far. A subject that is missing, fails, or copies
/// incorrectly is left out, and its [`Record::cells`] contain the reason.
pub fn run(
    settings: &Settings,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let mut record = Record::begin("cp", Machine::with(&settings.directory)?);
    let workspace = Workspace::prepare(&settings.directory)?;
    record
        .settings
        .insert("rounds".to_owned(), settings.rounds.to_string());
    for workload in settings
        .workloads
        .iter()
        .filter(|one| one.with_attributes())
    {
        record
            .settings
            .insert(workload.name(), workload.description());
    }
    let caches = workspace.caches(&settings.caches, &mut record);
    let mut settings = settings.clone();
    if caches.contains(&Cache::Cold) {
        match workspace.program(&settings.laio)? {
            Some(copy) => settings.laio = copy,
            None => record.note(
                "programs cannot be run in the directory of the copies (noexec): laio itself starts in the page cache"
                    .to_owned(),
            ),
        }
    }
    let settings = &settings;
    let subjects = trial::able(settings, &workspace, stop, &mut record)?;
    let measured = measure(
        settings,
        &workspace,
        &caches,
        &subjects,
        &mut record,
        (stop, progress),
    );
    if measured.is_err() && stop.is_asked() && !record.cells.is_empty() {
        record
            .note("stopped as asked: only the trees measured before that are included".to_owned());
        return Ok(record);
    }
    measured.map(|()| record)
}

fn measure(
    settings: &Settings,
    workspace: &Workspace,
    caches: &[Cache],
    subjects: &[Subject],
    record: &mut Record,
    (stop, progress): (&Stop, &mut dyn FnMut(&str)),
) -> Result<(), Error> {
    let mut estimate = rounds::TimeEstimate::new(settings, caches, subjects.len());
    for workload in &settings.workloads {
        let bytes = workspace::size(workload)?;
        if let Some(reason) = workspace.lacks_space(workload, bytes)? {
            record.note(format!("{} left out: {reason}", workload.name()));
            estimate.skip(subjects.len() * caches.len() * settings.rounds as usize);
            continue;
        }
        progress(&format!("{}: making the tree", workload.name()));
        let source = workspace.source(workload, stop)?;
        for cache in caches {
            let measuring = rounds::Measuring {
                settings,
                workload,
                cache: *cache,
                source: &source,
                bytes,
                workspace,
                stop,
            };
            let cells = measuring.run(subjects, &mut estimate, progress)?;
            record.cells.extend(cells);
        }
        if workload.shape().is_some() {
            workspace.done(source)?;
        }
    }
    Ok(())
}

/// Whether all copies by `laio cp` were correct.
pub fn ours_were_right(record: &Record) -> bool {
    let ours = record
        .cells
        .iter()
        .filter(|cell| cell.subject.starts_with("laio"));
    ours.into_iter().all(|cell| cell.verified)
}

#[cfg(test)]
mod tests;
