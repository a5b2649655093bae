//! One run of a comparison: its directory, and the record that it fills.

use super::{Comparison, Progress, Settings};
use crate::caches;
use crate::calls::workspace::choose_directory;
use crate::error::{Error, While};
use crate::machine::Machine;
use crate::record::{Cache, Record};
use crate::round_robin::{Outcome, RoundRobin};
use crate::stop::Stop;
use crate::trace::{Trace, make};
use laio::Place;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) struct Run<'a> {
    pub(super) settings: &'a Settings,
    pub(super) stop: &'a Stop,
    pub(super) record: Record,
    pub(super) rounds: u32,
    pub(super) progress: Progress<'a>,
    /// The chosen directory, in which the run has its own.
    pub(super) chosen: PathBuf,
    place: Place,
    /// Removed when dropped, with its contents.
    own: TempDir,
}

impl<'a> Run<'a> {
    pub(super) fn begin(
        comparison: &Comparison,
        settings: &'a Settings,
        stop: &'a Stop,
        progress: Progress<'a>,
    ) -> Result<Run<'a>, Error> {
        let (quick, full) = comparison.rounds;
        let rounds = settings.rounds(quick, full);
        let directory = choose_directory(settings.directory.as_deref())?;
        let own = tempfile::Builder::new()
            .prefix("laio-bench-")
            .tempdir_in(&directory.path);
        let mut run = Run {
            settings,
            stop,
            record: Record::begin(comparison.name, Machine::for_directory(&directory)),
            rounds,
            progress,
            place: directory.place,
            chosen: directory.path,
            own: own.doing("cannot make a directory")?,
        };
        run.set("rounds", rounds.to_string());
        Ok(run)
    }

    /// Adds a setting to the record.
    pub(super) fn set(&mut self, name: &str, what: String) {
        self.record.settings.insert(name.to_owned(), what);
    }

    pub(super) fn progress(&mut self, text: &str) {
        (self.progress)(text);
    }

    /// Returns the directory of the run.
    pub(super) fn directory(&self) -> &Path {
        self.own.path()
    }

    /// Creates the files of a trace, and describes it in the record. Returns the directory of the set.
    pub(super) fn make(&mut self, name: &str, trace: &Trace) -> Result<PathBuf, Error> {
        let set = self.own.path().join(name.replace([' ', ','], "-"));
        let words = format!(
            "{}: {} requests for {} files, {} MiB of files, {} MiB in all answers",
            trace.about.last().map_or("", String::as_str),
            trace.requests.len(),
            trace.files.len(),
            trace.set_bytes() >> 20,
            trace.transferred() >> 20,
        );
        self.set(name, words);
        make(trace, &set, true, self.stop, self.progress)?;
        Ok(set)
    }

    /// Removes a set of files that is no longer needed.
    pub(super) fn remove(&self, set: &Path) -> Result<(), Error> {
        std::fs::remove_dir_all(set).doing("cannot remove a set of files")
    }

    /// Returns the wanted cache states that are possible here, and adds a note for each other one.
    pub(super) fn caches(&mut self) -> Vec<Cache> {
        caches::possible(&self.settings.caches(), self.place, &mut self.record)
    }

    /// Measures subjects in rounds, and adds their results to the record. Each subject has a position on the
    /// axis; `turn` gets the index of a subject.
    pub(super) fn measure(
        &mut self,
        workload: &str,
        cache: Cache,
        subjects: &[(Option<usize>, &str)],
        turn: &mut dyn FnMut(usize) -> Outcome,
    ) -> Result<(), Error> {
        let round_robin = RoundRobin {
            workload,
            cache,
            subjects,
            rounds: self.rounds,
            stop: self.stop,
        };
        let (progress, rounds) = (&mut *self.progress, self.rounds);
        let cells = round_robin.run(&mut |index, round| {
            let (at, name) = subjects[index];
            let at = at.map_or(String::new(), |at| format!(" at {at}"));
            let (cache, round) = (cache.name(), round + 1);
            progress(&format!(
                "{workload}, {cache}, {name}{at}, round {round} of {rounds}"
            ));
            Ok(turn(index))
        })?;
        self.record.cells.extend(cells);
        Ok(())
    }
}
