//! The rounds of one tree: everybody copies it, in turns.

use super::contestant::Contestant;
use super::ground::Ground;
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
    /// What the tree takes.
    pub(super) bytes: u64,
    pub(super) ground: &'a Ground,
    pub(super) stop: &'a Stop,
}

/// What a contestant has shown so far.
struct Standing<'a> {
    contestant: &'a Contestant,
    rounds: BTreeMap<&'static str, Vec<f64>>,
    left_out: Option<String>,
}

impl Measuring<'_> {
    pub(super) fn run(
        &self,
        contestants: &[Contestant],
        pace: &mut Pace,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Vec<Cell>, Error> {
        let stand = |contestant| Standing {
            contestant,
            rounds: BTreeMap::new(),
            left_out: None,
        };
        let mut standings: Vec<_> = contestants.iter().map(stand).collect();
        let rsync = compare::rsync_is_there(self.stop);
        if self.cache == Cache::Warm {
            progress(&format!("{}: reading all once", self.workload.name()));
            compare::trees(self.source, self.source, false, self.stop)?;
        }
        for round in 0..self.settings.rounds as usize {
            for turn in 0..standings.len() {
                let first = round % standings.len();
                let number = (first + turn) % standings.len();
                let standing = &mut standings[number];
                if standing.left_out.is_some() {
                    pace.skip(1);
                    continue;
                }
                let (tree, cache) = (self.workload.name(), self.cache.name());
                let (who, left) = (standing.contestant, pace.left());
                progress(&format!(
                    "{tree}, {cache}, round {}: {who}{left}",
                    round + 1
                ));
                self.copy(standing, rsync && round == 0)?;
                pace.done();
            }
        }
        Ok(standings
            .into_iter()
            .map(|standing| self.cell(standing))
            .collect())
    }

    /// One copy: made, measured, compared.
    fn copy(&self, standing: &mut Standing<'_>, rsync: bool) -> Result<(), Error> {
        let copy = self.ground.path("copy");
        let attributes = self.workload.with_attributes();
        let contestant = standing.contestant;
        let mut command = contestant.command(&self.settings.laio, attributes, self.source, &copy);
        self.ground.settle(self.cache, self.bytes)?;
        let ran = child::run(&mut command, self.stop)?;
        let wrong = if ran.status.success() {
            let held_to = attributes && contestant.keeps_attributes();
            match compare::trees(self.source, &copy, held_to, self.stop)? {
                None if rsync => compare::by_rsync(self.source, &copy, held_to, self.stop)?,
                found => found,
            }
        } else {
            Some(ran.complaint())
        };
        match wrong {
            Some(wrong) => standing.left_out = Some(wrong),
            None => {
                let mut add = |name, value| standing.rounds.entry(name).or_default().push(value);
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
        self.ground.done(copy)
    }

    fn cell(&self, standing: Standing<'_>) -> Cell {
        let measured = standing.rounds.into_iter();
        let measured =
            measured.filter_map(|(name, rounds)| Some((name.to_owned(), Measured::of(rounds)?)));
        Cell {
            workload: self.workload.name(),
            cache: self.cache,
            at: None,
            contestant: standing.contestant.name().to_owned(),
            command: standing.contestant.words(self.workload.with_attributes()),
            verified: standing.left_out.is_none(),
            left_out: standing.left_out,
            measured: measured.collect(),
        }
    }
}

/// What the copy of a sparse image takes on the device.
fn blocks(copy: &Path, workload: &Workload) -> Option<f64> {
    let sparse = matches!(workload.shape(), Some(crate::trees::Shape::Sparse { .. }));
    let status = sparse.then(|| copy.join("image").metadata().ok())??;
    Some((status.blocks() * 512) as f64 / f64::from(1 << 20))
}

/// How far a run has come.
pub(super) struct Pace {
    began: Instant,
    done: usize,
    all: usize,
}

impl Pace {
    pub(super) fn new(settings: &Settings, caches: &[Cache], contestants: usize) -> Pace {
        let each = caches.len() * contestants * settings.rounds as usize;
        Pace {
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

    /// For the line that says what is being done.
    fn left(&self) -> String {
        let (done, all) = (self.done, self.all);
        // Trees differ; before a few are done, nothing can be said.
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
