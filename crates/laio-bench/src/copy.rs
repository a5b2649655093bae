//! `laio bench cp`: recursive copies by `laio cp`, through each back end, and by other tools.
//!
//! In each round every contestant copies the same tree once, as a process of its own, in an order that
//! moves on from round to round; so what else the machine does disturbs all alike. Every copy is compared
//! with its source.

mod compare;
mod contestant;
mod ground;
mod pictures;
mod published;
mod report;
mod rounds;
mod workload;

pub use contestant::Contestant;
pub use pictures::pictures;
pub(crate) use report::is_published;
pub use report::table;
pub use workload::Workload;

use crate::error::Error;
use crate::machine::Machine;
use crate::record::{Cache, Record};
use crate::stop::Stop;
use ground::Ground;
use std::path::PathBuf;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `laio` command.
    pub laio: PathBuf,
    /// The trees.
    pub workloads: Vec<Workload>,
    /// Who copies them.
    pub contestants: Vec<Contestant>,
    /// With what in memory.
    pub caches: Vec<Cache>,
    /// Copies by each contestant of each tree.
    pub rounds: u32,
    /// Where trees and copies are made; both are on one file system.
    pub directory: PathBuf,
}

/// Measures. `progress` is told what is being done.
///
/// # Errors
/// A tree cannot be made, or `stop` was asked before a tree was measured; later it ends with those that were. A contestant that is not there, fails, or copies wrongly is
/// left out, with the reason; [`Record::cells`] has it.
pub fn run(
    settings: &Settings,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Record, Error> {
    let mut record = Record::begin("cp", Machine::with(&settings.directory)?);
    let ground = Ground::prepare(&settings.directory)?;
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
    let caches = ground.caches(&settings.caches, &mut record);
    let mut settings = settings.clone();
    if caches.contains(&Cache::Cold) {
        match ground.program(&settings.laio)? {
            Some(copy) => settings.laio = copy,
            None => record.note(
                "nothing can be run where the copies are made: laio, which runs, is in memory from the start"
                    .to_owned(),
            ),
        }
    }
    let settings = &settings;
    let contestants = contestant::try_all(settings, &ground, stop, &mut record)?;
    let measured = measure(
        settings,
        &ground,
        &caches,
        &contestants,
        &mut record,
        (stop, progress),
    );
    if measured.is_err() && stop.is_asked() && !record.cells.is_empty() {
        record.note("stopped as asked: the trees measured before are all that is here".to_owned());
        return Ok(record);
    }
    measured.map(|()| record)
}

fn measure(
    settings: &Settings,
    ground: &Ground,
    caches: &[Cache],
    contestants: &[Contestant],
    record: &mut Record,
    (stop, progress): (&Stop, &mut dyn FnMut(&str)),
) -> Result<(), Error> {
    let mut pace = rounds::Pace::new(settings, caches, contestants.len());
    for workload in &settings.workloads {
        let bytes = ground::size(workload)?;
        if let Some(reason) = ground.lacks_room(workload, bytes)? {
            record.note(format!("{} left out: {reason}", workload.name()));
            pace.skip(contestants.len() * caches.len() * settings.rounds as usize);
            continue;
        }
        progress(&format!("{}: making the tree", workload.name()));
        let source = ground.source(workload, stop)?;
        for cache in caches {
            let measuring = rounds::Measuring {
                settings,
                workload,
                cache: *cache,
                source: &source,
                bytes,
                ground,
                stop,
            };
            let cells = measuring.run(contestants, &mut pace, progress)?;
            record.cells.extend(cells);
        }
        if workload.shape().is_some() {
            ground.done(source)?;
        }
    }
    Ok(())
}

/// Whether everything that `laio cp` copied was right.
pub fn ours_were_right(record: &Record) -> bool {
    let ours = record
        .cells
        .iter()
        .filter(|cell| cell.contestant.starts_with("laio"));
    ours.into_iter().all(|cell| cell.verified)
}

#[cfg(test)]
mod tests;
