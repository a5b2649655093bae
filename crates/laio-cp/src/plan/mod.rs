//! A copy that is shared among processes, on one machine or on several with the same file systems.
//!
//! The planner walks through the sources once, creates the directories, and records the files in
//! parts. Any number of processes work on the parts, in any order, and a part may be repeated. When
//! all parts are done, one process creates the hard links and sets the attributes of directories.
//! No server is involved: processes can be started by GNU parallel, Slurm, mpirun, or a loop with
//! ssh.
//!
//! | module | purpose |
//! | --- | --- |
//! | `planner` | records what the walk finds, instead of copying it |
//! | `records`, `plan_dir`, `settings` | the files of a plan: records of names, JSON files, options |
//! | `claims` | which process works on which part, and whether it is alive |
//! | `opener` | opens the directories of a plan, name by name |
//! | `part`, `region` | copies a part; copies a region of a large file |
//! | `finish`, `leftovers` | the steps after all parts are done; removes what killed processes have left |
//!
//! A plan is trusted like a script: a user who can write to its directory decides
//! which files are copied where.

mod claims;
mod finish;
mod leftovers;
mod opener;
mod part;
mod plan_dir;
mod planner;
mod records;
mod region;
mod settings;

use crate::arguments::{Misuse, Operands};
use crate::budget;
use crate::options::Options;
use crate::outcome::{Failure, Summary};
use crate::run;
use crate::schedule::worker::Task;
use crate::sink::Sink;
use crate::stop::Stop;
use crate::tree::TemporaryNames;
use claims::{Claims, Owner};
use opener::Opener;
use part::PartWork;
use plan_dir::{FINISH, Header, PartReport, PlanDir, number, read_json, write_json};
use planner::Planner;
use records::{Records, VERSION, hash_of};
use settings::Settings;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The maximum size of a part.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of files.
    pub files: u64,
    /// Maximum number of bytes. A larger file is copied in regions, each of which is a part.
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
    /// The upper limit of `files`: a process keeps the names of its part in memory.
    pub const FILES_MAX: u64 = 1_000_000;
}

/// Regions begin at multiples of the first of these that does not exceed the size of a part.
const REGION_STEP: [u64; 2] = [1 << 20, 64 << 10];

/// The parts to work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSelection {
    /// This part, even if another process has claimed it; nothing if it was done without failures.
    Number(u32),
    /// All parts that are neither done nor claimed, one after the other.
    Unclaimed,
}

/// The timeouts for events on other machines.
#[derive(Clone, Copy, Debug)]
pub struct WorkTimeouts {
    /// A process that has not renewed its claim for this long is considered dead.
    pub lease: Duration,
    /// How long a file that another machine created may remain invisible here.
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

/// The result of planning.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The number of parts.
    pub parts: u32,
    /// The number of files in all parts.
    pub files: u64,
    /// The total size of these files.
    pub bytes: u64,
    /// The counters of the walk.
    pub summary: Summary,
}

/// Whether the copy ended before all its files were looked at.
fn is_cut_short(summary: &Summary) -> bool {
    summary.interrupted.is_some() || laio::process::is_memory_exhausted()
}

fn error_text(error: &io::Error) -> String {
    crate::outcome::error_text(error)
}

fn version_error(version: u64) -> String {
    format!(
        "it has version {version}, but this program supports version {VERSION} only; use the program that made the plan"
    )
}

fn plan_error(text: impl Into<String>) -> Misuse {
    Misuse::Target(Failure::from_message(text))
}

/// Creates a plan in a directory, which is created, too.
///
/// # Errors
/// If the arguments are wrong, or the plan cannot be written.
pub fn plan(
    plan_dir: &Path,
    limits: Limits,
    options: Options,
    operands: Operands,
    stop: Stop,
) -> Result<Planned, Misuse> {
    budget::require_descriptors(&options, true)?;
    settings::refuse(&options)
        .map_err(|option| plan_error(format!("{option} cannot be combined with --plan")))?;
    let settings = Settings::from_options(&options);
    let plan_dir = PlanDir::new(plan_dir);
    plan_dir.make().map_err(plan_error)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let time = time.unwrap_or_default().as_nanos();
    let id = format!("{time:x}-{:x}", std::process::id());
    let cannot = |error| {
        let text = format!("cannot write the plan '{}'", plan_dir.path().display());
        Failure::from_error(error, text)
    };
    let planner = Arc::new(Planner::new(&plan_dir, id.clone(), limits).map_err(cannot)?);
    let walked = run::run_walk(options, operands, stop, Sink::Plan(planner.clone()));
    let (summary, problems) = walked.inspect_err(|_| plan_dir.discard())?;
    let (totals, directories) = planner.end().map_err(cannot)?;
    if !is_cut_short(&summary) {
        let header = Header {
            version: VERSION,
            id: id.clone(),
            parts: totals.parts,
            directories,
            files: totals.files,
            bytes: totals.bytes,
            failures: summary.failures,
            errors: problems.errors,
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

/// Works on a plan. Of `options`, only those of the process count (messages, workers, rate); the
/// others come from the plan.
///
/// # Errors
/// If the plan or the part does not exist, or the plan is damaged.
pub fn work(
    plan_dir: &Path,
    selection: PartSelection,
    timeouts: WorkTimeouts,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    budget::require_descriptors(&options, true)?;
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

/// The work phase of a plan.
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
                0 => format!("there is no part {part}: the plan has no parts"),
                parts => format!("there is no part {part}: the parts are 0 to {}", parts - 1),
            }));
        }
        let done = self.plan_dir.read_done(part).map_err(plan_error)?;
        if done.is_some_and(|done| done.failures == 0) {
            return Ok(Summary::default());
        }
        let claim = self.claims.take_over(part);
        let _claim = claim.map_err(|error| self.cannot_claim(error))?;
        self.copy(part)
    }

    fn work_on_unclaimed(&self) -> Result<Summary, Misuse> {
        let removed = self.claims.remove_leftovers();
        removed.map_err(|error| self.cannot_claim(error))?;
        let mut total = Summary::default();
        for part in 0..self.header.parts {
            if self.stop.is_requested() {
                break;
            }
            // Checked again after claiming: the part may have been finished in between.
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

    fn cannot_claim(&self, error: io::Error) -> Failure {
        let path = self.plan_dir.path().display();
        Failure::from_error(error, format!("cannot claim a part of the plan '{path}'"))
    }

    /// Copies the files of a part, and records that it is done.
    fn copy(&self, part: u32) -> Result<Summary, Misuse> {
        let path = self.plan_dir.part(part);
        let records = Records::read(&path, &self.header.id).map_err(plan_error)?;
        let opener = Opener::new(records, self.timeouts.visibility)?;
        let cannot = |error| {
            let text = format!("cannot write the result of part {part} into the plan");
            Failure::from_error(error, text)
        };
        let me = &self.claims.me;
        let recorded = self.plan_dir.record_attempt(&number(part), &me.token);
        recorded.map_err(cannot)?;
        let names = TemporaryNames::of_attempt(&self.header.id, &me.token);
        let work = Arc::new(PartWork::new(opener));
        let (root, tasks) = (work.opener.root.clone(), work.tasks());
        let (options, stop) = (self.options.clone(), self.stop.clone());
        let (summary, problems) = run::run_plan_tasks(options, stop, names, root, tasks)?;
        if !is_cut_short(&summary) {
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
                errors: problems.errors,
                incomplete: work.incomplete(),
                lost: problems.lost.iter().map(|path| hash_of(path)).collect(),
                lost_all: work.lost_all(),
            };
            let token = &self.claims.me.token;
            write_json(&self.plan_dir.done(part), token, &done).map_err(cannot)?;
        }
        Ok(summary)
    }
}

/// Finishes a plan whose parts are all done. Prints the failures of the parts again.
///
/// # Errors
/// If the plan does not exist or is damaged, or if parts are not done; the message lists them.
pub fn finish(
    plan_dir: &Path,
    timeouts: WorkTimeouts,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    budget::require_descriptors(&options, true)?;
    let plan_dir = PlanDir::new(plan_dir);
    let header = plan_dir.read_header().map_err(plan_error)?;
    if let Some(finished) = read_json::<Finished>(&plan_dir.finished()).map_err(plan_error)? {
        // The plan is finished; the copies may have been changed since.
        return Ok(finished.summary(&header));
    }
    let options = header.options.options(options).map_err(plan_error)?;
    let done = all_done(&plan_dir, &header)?;
    let records = Records::read(&plan_dir.last(), &header.id).map_err(plan_error)?;
    let opener = Opener::new(records, timeouts.visibility)?;
    let id = header.id.clone();
    let attempts = plan_dir.attempts().map_err(|error| {
        Failure::from_error(error, "cannot list the processes that worked on the plan")
    })?;
    let token = Owner::current().token;
    let recorded = plan_dir.record_attempt(FINISH, &token);
    recorded.map_err(|error| Failure::from_error(error, "cannot write into the plan"))?;
    let names = TemporaryNames::of_attempt(&id, &token);
    let ending = finish::Finish::new(opener, plan_dir.clone(), id, attempts, done.clone());
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
    let root = ending.opener.root.clone();
    let task: Task = Box::new(|worker| Box::pin(async move { finish::run(worker, &ending).await }));
    let (mut summary, _) = run::run_plan_tasks(options.clone(), stop, names, root, vec![task])?;
    let finished = Finished {
        linked: summary.linked,
        large: summary.files,
        parts: done,
    };
    let own = std::mem::replace(&mut summary, finished.summary(&header));
    summary.failures += own.failures;
    summary.interrupted = own.interrupted;
    if summary.failures == 0 && !is_cut_short(&summary) {
        let written = write_json(&plan_dir.finished(), &header.id, &finished);
        written.map_err(|error| Failure::from_error(error, "cannot mark the plan as finished"))?;
    }
    Ok(summary)
}

/// Reads the reports of all parts; fails if some are not done.
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
    /// The maximum number of parts that the message lists.
    const NAMED_MAX: usize = 20;
    let named = missing.iter().take(NAMED_MAX);
    let named: Vec<_> = named.map(|part| number(*part)).collect();
    let more = missing.len() - named.len();
    let (count, parts, plan) = (missing.len(), header.parts, plan_dir.path().display());
    let named = named.join(" ");
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(plan_error(format!(
        "{count} of {parts} parts are not done: {named}{more}; run --work {plan} (with --take, or --part and the \
         number), and then --finish again. If they were done on another machine just now, their results may not be \
         visible here yet"
    )))
}

/// The result of all parts, stored when the plan is finished.
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
