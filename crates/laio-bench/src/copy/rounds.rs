//! The rounds of one tree: all subjects copy it in rotating order.

use super::subject::Subject;
use super::workspace::Workspace;
use super::{Settings, Workload, compare};
use crate::child;
use crate::error::Error;
use crate::record::{Cache, Cell, Measured};
use crate::stop::Stop;
use std::collections::BTreeMap;
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

/// The state of one subject in the current tree.
struct SubjectState<'a> {
    subject: &'a Subject,
    rounds: BTreeMap<&'static str, Vec<f64>>,
    left_out: Option<String>,
}

impl Measuring<'_> {
    pub(super) fn run(
        &self,
        subjects: &[Subject],
        estimate: &mut TimeEstimate,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<Cell>, Error> {
        let start = |subject| SubjectState {
            subject,
            rounds: BTreeMap::new(),
            left_out: None,
        };
        let mut states: Vec<_> = subjects.iter().map(start).collect();
        let rsync = compare::rsync_is_there(self.stop);
        if self.cache == Cache::Warm {
            progress(&format!(
                "{}: reading the tree into the page cache",
                self.workload.name()
            ));
            compare::trees(self.source, self.source, false, self.stop)?;
        }
        for round in 0..self.settings.rounds as usize {
            for offset in 0..states.len() {
                let first = round % states.len();
                let number = (first + offset) % states.len();
                let state = &mut states[number];
                if state.left_out.is_some() {
                    estimate.skip(1);
                    continue;
                }
                let (tree, cache) = (self.workload.name(), self.cache.name());
                let (who, left) = (state.subject, estimate.left());
                progress(&format!(
                    "{tree}, {cache}, round {}: {who}{left}",
                    round + 1
                ));
                self.copy(state, rsync && round == 0)?;
                estimate.done();
            }
        }
        Ok(states.into_iter().map(|state| self.cell(state)).collect())
    }

    /// Makes, measures and compares one copy.
    fn copy(&self, state: &mut SubjectState<'_>, rsync: bool) -> Result<(), Error> {
        let copy = self.workspace.path("copy");
        let attributes = self.workload.with_attributes();
        let subject = state.subject;
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
        match wrong {
            Some(wrong) => state.left_out = Some(wrong),
            None => {
                let mut add = |name, value| state.rounds.entry(name).or_default().push(value);
                add("wall_s", ran.wall.as_secs_f64());
                add("user_s", ran.user.as_secs_f64());
                add("system_s", ran.system.as_secs_f64());
                add("cpu_s", (ran.user + ran.system).as_secs_f64());
                add("memory_mib", ran.memory as f64 / f64::from(1 << 20));
                if let Some(blocks) = blocks(&copy, self.workload) {
                    add("disk_mib", blocks);
                }
            }
        }
        self.workspace.done(copy)
    }

    fn cell(&self, state: SubjectState<'_>) -> Cell {
        let measured = state.rounds.into_iter();
        let measured =
            measured.filter_map(|(name, rounds)| Some((name.to_owned(), Measured::of(rounds)?)));
        Cell {
            workload: self.workload.name(),
            cache: self.cache,
            at: None,
            subject: state.subject.name().to_owned(),
            command: state.subject.words(self.workload.with_attributes()),
            verified: state.left_out.is_none(),
            left_out: state.left_out,
            measured: measured.collect(),
        }
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
