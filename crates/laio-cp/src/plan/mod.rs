//! A copy that is shared out among processes, on one machine or on several that see the same file systems.
//!
//! The planner walks through the sources once, makes the directories, and writes the files down in parts. Any
//! number of processes work on the parts, in any order, each part as often as it takes. When all are done, one
//! process makes the hard links and gives the directories their attributes. There is no server: whatever starts
//! processes on machines (GNU parallel, Slurm, mpirun, a loop with ssh) will do.
//!
//! | room | purpose |
//! | --- | --- |
//! | `planner` | what the engine finds is written down, not copied |
//! | `records`, `folder`, `settings` | the files of a plan: names, what is for people too, options |
//! | `claims` | who does which part, and whether they are alive |
//! | `opener` | directories of a plan, opened name by name |
//! | `part`, `region` | working on a part; a region of a large file |
//! | `finish` | what can only be done in the end |
//!
//! A plan is trusted like a script: who can write in its directory decides what is copied where.

mod claims;
mod finish;
mod opener;
mod part;
mod phase;
mod plan_dir;
mod planner;
mod records;
mod region;
mod settings;

pub(crate) use phase::{Phase, PlanTask, begin};
pub(crate) use planner::PlannedDirectory;

use crate::arguments::{Misuse, Operands};
use crate::budget;
use crate::options::Options;
use crate::outcome::{Failure, Summary};
use crate::run;
use crate::stop::Stop;
use claims::Claims;
use opener::Opener;
use plan_dir::{Header, PartReport, PlanDir, number, read_json, write_json};
use planner::Planner;
use records::{Records, VERSION};
use settings::Settings;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How much is in a part.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files, at most.
    pub files: u64,
    /// Bytes, at most, except for the last file. Larger files are copied in regions, which are parts of
    /// their own.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            files: 10_000,
            bytes: 4 << 30,
        }
    }
}

impl Limits {
    /// The most files in a part: a process that works on it keeps their names in memory.
    pub const FILES_MAX: u64 = 1_000_000;
}

/// Regions begin at multiples of the first of these that is not more than a part may have.
const REGION_STEP: [u64; 2] = [1 << 20, 64 << 10];

/// What to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSelection {
    /// This part, whoever else has it; not again if it was done without failures.
    Number(u32),
    /// Those that nobody has done or is doing, until there are none.
    Unclaimed,
}

/// What those who work and finish expect of others.
#[derive(Clone, Copy, Debug)]
pub struct WorkTimeouts {
    /// A process that has not told for so long that it is alive is taken for dead.
    pub lease: Duration,
    /// How long what another machine has made may remain unseen.
    pub visibility: Duration,
}

impl Default for WorkTimeouts {
    fn default() -> WorkTimeouts {
        WorkTimeouts {
            lease: Duration::from_secs(60),
            visibility: Duration::from_secs(30),
        }
    }
}

/// What was planned.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Parts to be done.
    pub parts: u32,
    /// Files in them.
    pub files: u64,
    /// Bytes in them, as the sizes of the files say.
    pub bytes: u64,
    /// What was done.
    pub summary: Summary,
}

/// Errors of a part that are kept for the end; more are only counted.
const ERRORS_KEPT: usize = 1000;

fn describe(error: &io::Error) -> String {
    crate::outcome::describe(error)
}

fn wrong_version(version: u64) -> String {
    format!(
        "it is of version {version}, and this program knows version {VERSION} only; use the one that made it"
    )
}

fn plan_error(text: impl Into<String>) -> Misuse {
    Misuse::Target(Failure::because(text))
}

/// Makes a plan in a directory, which is made too.
///
/// # Errors
/// If the arguments make no sense, or the plan cannot be written.
pub fn plan(
    plan_dir: &Path,
    limits: Limits,
    options: Options,
    operands: Operands,
    stop: Stop,
) -> Result<Planned, Misuse> {
    budget::require_descriptors(&options, true).map_err(Misuse::Target)?;
    settings::refuse(&options)
        .map_err(|option| plan_error(format!("{option} cannot be combined with --plan")))?;
    let settings = Settings::of(&options);
    let plan_dir = PlanDir::new(plan_dir);
    plan_dir.make().map_err(plan_error)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let id = format!(
        "{:x}-{:x}",
        time.unwrap_or_default().as_nanos(),
        std::process::id()
    );
    let cannot = |error| {
        let path = plan_dir.path().display().to_string();
        Misuse::Target(Failure::of(
            error,
            format!("cannot write the plan '{path}'"),
        ))
    };
    let planner = Arc::new(Planner::new(&plan_dir, id.clone(), limits).map_err(cannot)?);
    let phase = Arc::new(Phase::plan(planner.clone()));
    let walked = run::run_walk(options, operands, stop, phase.clone());
    let summary = walked.inspect_err(|_| plan_dir.discard())?;
    let (totals, directories) = planner.end().map_err(cannot)?;
    if summary.interrupted.is_none() {
        let header = Header {
            version: VERSION,
            id: id.clone(),
            parts: totals.parts,
            directories,
            files: totals.files,
            bytes: totals.bytes,
            failures: summary.failures,
            errors: phase.errors(),
            options: settings,
        };
        write_json(&plan_dir.header(), &id, &header).map_err(cannot)?;
    }
    Ok(Planned {
        parts: totals.parts,
        files: totals.files,
        bytes: totals.bytes,
        summary,
    })
}

/// Works on a plan. Of `options` only what is about the process counts (messages, workers, rate); the rest is
/// in the plan.
///
/// # Errors
/// If there is no such plan or part, or the plan is damaged.
pub fn work(
    plan_dir: &Path,
    selection: PartSelection,
    timeouts: WorkTimeouts,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    budget::require_descriptors(&options, true).map_err(Misuse::Target)?;
    let plan_dir = PlanDir::new(plan_dir);
    let header = plan_dir.read_header().map_err(plan_error)?;
    let options = header.options.options(options).map_err(plan_error)?;
    let work = Work {
        claims: Claims::new(&plan_dir, timeouts.lease),
        plan_dir,
        header,
        timeouts,
        options,
        stop,
    };
    match selection {
        PartSelection::Number(part) => work.work_on(part),
        PartSelection::Unclaimed => work.work_on_unclaimed(),
    }
}

struct Work {
    plan_dir: PlanDir,
    header: Header,
    claims: Claims,
    timeouts: WorkTimeouts,
    options: Options,
    stop: Stop,
}

impl Work {
    fn work_on(&self, part: u32) -> Result<Summary, Misuse> {
        if part >= self.header.parts {
            return Err(plan_error(match self.header.parts {
                0 => format!("there is no part {part}: the plan has none"),
                parts => format!("there is no part {part}: they are 0 to {}", parts - 1),
            }));
        }
        let done = self.plan_dir.read_done(part).map_err(plan_error)?;
        if done.is_some_and(|done| done.failures == 0) {
            return Ok(Summary::default());
        }
        let _claim = self
            .claims
            .take_over(part)
            .map_err(|error| self.cannot_claim(error))?;
        self.copy(part)
    }

    fn work_on_unclaimed(&self) -> Result<Summary, Misuse> {
        let mut total = Summary::default();
        for part in 0..self.header.parts {
            if self.stop.is_requested() {
                break;
            }
            // It is looked for twice: it may be done between the look and the claim.
            let is_done = || self.plan_dir.done(part).exists();
            if is_done() {
                continue;
            }
            let claim = self.claims.take(part);
            let Some(_claim) = claim.map_err(|error| self.cannot_claim(error))? else {
                continue;
            };
            if !is_done() {
                total += &self.copy(part)?;
            }
        }
        total.interrupted = self.stop.signal();
        Ok(total)
    }

    fn cannot_claim(&self, error: io::Error) -> Misuse {
        let path = self.plan_dir.path().display();
        Misuse::Target(Failure::of(
            error,
            format!("cannot claim a part of the plan '{path}'"),
        ))
    }

    /// Copies what is in a part, and notes that it is done.
    fn copy(&self, part: u32) -> Result<Summary, Misuse> {
        let path = self.plan_dir.part(part);
        let records = Records::read(&path, &self.header.id).map_err(plan_error)?;
        let opener = Opener::new(records, self.timeouts.visibility).map_err(Misuse::Target)?;
        let cannot = |error| {
            let text = format!("cannot note in the plan what became of part {part}");
            Misuse::Target(Failure::of(error, text))
        };
        self.claims.record_attempt(part).map_err(cannot)?;
        let phase = Arc::new(Phase::work(part::PartWork::new(opener)));
        let summary = run::run_plan_tasks(self.options.clone(), self.stop.clone(), phase.clone())?;
        if summary.interrupted.is_none() {
            let lost = phase.lost();
            let done = PartReport {
                part,
                by: self.claims.me.name(),
                files: summary.files,
                others: summary.others,
                skipped: summary.skipped,
                bytes: summary.bytes,
                by_memory: summary.by_memory,
                by_range: summary.by_range,
                by_reflink: summary.by_reflink,
                background: summary.background,
                failures: summary.failures,
                errors: phase.errors(),
                incomplete: phase.incomplete(),
                lost: lost.hashes,
                lost_all: lost.all,
            };
            let token = &self.claims.me.token;
            write_json(&self.plan_dir.done(part), token, &done).map_err(cannot)?;
        }
        Ok(summary)
    }
}

/// Ends a plan all of whose parts are done. What failed in the parts is told again.
///
/// # Errors
/// If there is no such plan, if it is damaged, or if parts are not done; the message says which.
pub fn finish(
    plan_dir: &Path,
    timeouts: WorkTimeouts,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    budget::require_descriptors(&options, true).map_err(Misuse::Target)?;
    let plan_dir = PlanDir::new(plan_dir);
    let header = plan_dir.read_header().map_err(plan_error)?;
    if let Some(finished) = read_json::<Finished>(&plan_dir.finished()).map_err(plan_error)? {
        // Nothing is left to do, and what was made may have been changed since.
        return Ok(finished.summary(&header));
    }
    let options = header.options.options(options).map_err(plan_error)?;
    let done = all_done(&plan_dir, &header)?;
    let records = Records::read(&plan_dir.last(), &header.id).map_err(plan_error)?;
    let opener = Opener::new(records, timeouts.visibility).map_err(Misuse::Target)?;
    let id = header.id.clone();
    let ending = finish::Finish::new(opener, plan_dir.clone(), id, done.clone());
    let phase = Arc::new(Phase::finish(ending));
    let print_errors = |who: &str, errors: &[String], failures: u64| {
        for error in errors {
            eprintln!("{}: {who}: {error}", options.program);
        }
        let more = failures.saturating_sub(errors.len() as u64);
        if more > 0 {
            eprintln!("{}: {who}: {more} more failures", options.program);
        }
    };
    print_errors("planning", &header.errors, header.failures);
    for part in done.iter().filter(|done| done.failures > 0) {
        print_errors(&format!("part {}", part.part), &part.errors, part.failures);
    }
    let mut summary = run::run_plan_tasks(options.clone(), stop, phase)?;
    let finished = Finished {
        linked: summary.linked,
        large: summary.files,
        parts: done,
    };
    let own = std::mem::replace(&mut summary, finished.summary(&header));
    summary.failures += own.failures;
    summary.interrupted = own.interrupted;
    if summary.failures == 0 && summary.interrupted.is_none() {
        let written = write_json(&plan_dir.finished(), &header.id, &finished);
        written.map_err(|error| {
            Misuse::Target(Failure::of(error, "cannot note that the plan is finished"))
        })?;
    }
    Ok(summary)
}

/// What became of all parts; an error if some are not done.
fn all_done(plan_dir: &PlanDir, header: &Header) -> Result<Vec<PartReport>, Misuse> {
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for part in 0..header.parts {
        match plan_dir.read_done(part).map_err(plan_error)? {
            Some(one) => done.push(one),
            None => missing.push(part),
        }
    }
    if missing.is_empty() {
        return Ok(done);
    }
    /// So many are named.
    const NAMED_MAX: usize = 20;
    let named = missing.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|part| number(*part)).collect();
    let more = missing.len() - named.len();
    let (count, parts, plan) = (missing.len(), header.parts, plan_dir.path().display());
    let (named, more) = (
        named.join(" "),
        if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        },
    );
    Err(plan_error(format!(
        "{count} of {parts} parts are not done: {named}{more}; run --work {plan} (with --take, or --part and the \
         number), and then --finish again. If they have just ended on another machine, this one may not see \
         it yet"
    )))
}

/// What became of all.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Finished {
    linked: u64,
    large: u64,
    parts: Vec<PartReport>,
}

impl Finished {
    fn summary(&self, header: &Header) -> Summary {
        let mut summary = Summary {
            directories: header.directories,
            failures: header.failures,
            files: self.large,
            linked: self.linked,
            ..Summary::default()
        };
        for part in &self.parts {
            summary += &Summary {
                files: part.files,
                others: part.others,
                skipped: part.skipped,
                bytes: part.bytes,
                by_memory: part.by_memory,
                by_range: part.by_range,
                by_reflink: part.by_reflink,
                background: part.background,
                failures: part.failures,
                ..Summary::default()
            };
        }
        summary
    }
}
