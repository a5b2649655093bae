//! The rounds of one tree: all subjects copy it in rotating order.

use super::subject::Subject;
use super::workspace::Workspace;
use super::{Settings, Workload, compare};
use crate::child;
use crate::error::Error;
use crate::record::{Cache, Cell};
use crate::round_robin::{Outcome, RoundRobin};
use crate::stop::Stop;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) struct Measuring<'a> {
    pub(super) settings: &'a Settings,
    pub(super) workload: &'a Workload,
    pub(super) cache: Cache,
    pub(super) source: &'a Path,
    /// The disk space of the tree in bytes.
    pub(super) bytes: u64,
    pub(super) workspace: &'a Workspace,
    pub(super) stop: &'a Stop,
}

impl Measuring<'_> {
    pub(super) fn run(
        &self,
        subjects: &[Subject],
        estimate: &mut TimeEstimate,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<Cell>, Error> {
        let (tree, cache) = (self.workload.name(), self.cache.name());
        let rsync = compare::rsync_is_there(self.stop);
        if self.cache == Cache::Warm {
            progress(&format!("{tree}: reading the tree into the page cache"));
            compare::trees(self.source, self.source, false, self.stop)?;
        }
        let names: Vec<_> = subjects.iter().map(|one| (None, one.name())).collect();
        let rounds = self.settings.rounds;
        let round_robin = RoundRobin {
            workload: &tree,
            cache: self.cache,
            subjects: &names,
            rounds,
            stop: self.stop,
        };
        let mut cells = round_robin.run(&mut |index, round| {
            let (who, left) = (&subjects[index], estimate.left());
            progress(&format!(
                "{tree}, {cache}, round {}: {who}{left}",
                round + 1
            ));
            let outcome = self.copy(who, rsync && round == 0)?;
            estimate.done();
            if outcome.is_err() {
                estimate.skip((rounds - round - 1) as usize);
            }
            Ok(outcome)
        })?;
        for (cell, subject) in cells.iter_mut().zip(subjects) {
            cell.command = subject.words(self.workload.with_attributes());
        }
        Ok(cells)
    }

    /// Makes, measures and compares one copy.
    fn copy(&self, subject: &Subject, rsync: bool) -> Result<Outcome, Error> {
        let copy = self.workspace.path("copy");
        let attributes = self.workload.with_attributes();
        let mut command = subject.command(&self.settings.laio, attributes, self.source, &copy);
        self.workspace.settle(self.cache, self.bytes)?;
        let ran = child::run(&mut command, self.stop)?;
        let wrong = if ran.status.success() {
            let held_to = attributes && subject.keeps_attributes();
            match compare::trees(self.source, &copy, held_to, self.stop)? {
                None if rsync => compare::by_rsync(self.source, &copy, held_to, self.stop)?,
                found => found,
            }
        } else {
            Some(ran.complaint())
        };
        let mut figures = vec![
            ("wall_s", ran.wall.as_secs_f64()),
            ("user_s", ran.user.as_secs_f64()),
            ("system_s", ran.system.as_secs_f64()),
            ("cpu_s", (ran.user + ran.system).as_secs_f64()),
            ("memory_mib", ran.memory as f64 / f64::from(1 << 20)),
        ];
        figures.extend(blocks(&copy, self.workload).map(|blocks| ("disk_mib", blocks)));
        self.workspace.done(copy)?;
        Ok(wrong.map_or(Ok(figures), Err))
    }
}

/// The disk space of the copy of a sparse image.
fn blocks(copy: &Path, workload: &Workload) -> Option<f64> {
    let sparse = matches!(workload.shape(), Some(crate::trees::Shape::Sparse { .. }));
    let status = sparse.then(|| copy.join("image").metadata().ok())??;
    Some((status.blocks() * 512) as f64 / f64::from(1 << 20))
}

/// The progress of a run, from which the remaining time is estimated.
pub(super) struct TimeEstimate {
    began: Instant,
    done: usize,
    all: usize,
}

impl TimeEstimate {
    pub(super) fn new(settings: &Settings, caches: &[Cache], subjects: usize) -> TimeEstimate {
        let each = caches.len() * subjects * settings.rounds as usize;
        TimeEstimate {
            began: Instant::now(),
            done: 0,
            all: each * settings.workloads.len(),
        }
    }

    fn done(&mut self) {
        self.done += 1;
    }

    pub(super) fn skip(&mut self, copies: usize) {
        self.all = self.all.saturating_sub(copies);
    }

    /// Returns the estimate for the progress line.
    fn left(&self) -> String {
        let (done, all) = (self.done, self.all);
        // Trees differ, so there is no estimate before a few copies are done.
        if done < 3 {
            return format!(" ({done} of {all})");
        }
        let each = self.began.elapsed().as_secs_f64() / done as f64;
        let left = Duration::from_secs_f64(each * all.saturating_sub(done) as f64).as_secs();
        match left {
            0..=90 => format!(" ({done} of {all}, {left} s left)"),
            _ => format!(" ({done} of {all}, {} min left)", left.div_ceil(60)),
        }
    }
}
