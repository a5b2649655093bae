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
mod folder;
mod opener;
mod part;
mod planner;
mod records;
mod region;
mod settings;
mod stage;

pub(crate) use planner::Noted;
pub(crate) use stage::{Stage, Step, begin};

use crate::arguments::{Misuse, Operands};
use crate::options::Options;
use crate::outcome::{Failure, Summary};
use crate::room;
use crate::run;
use crate::stop::Stop;
use claims::Claims;
use folder::{Done, Folder, Header, number, read_json, write_json};
use opener::Opener;
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
pub enum Which {
    /// This part, whoever else has it; not again if it was done without failures.
    Part(u32),
    /// Those that nobody has done or is doing, until there are none.
    Free,
}

/// What those who work and finish expect of others.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A process that has not told for so long that it is alive is taken for dead.
    pub lease: Duration,
    /// How long what another machine has made may remain unseen.
    pub names: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            lease: Duration::from_secs(60),
            names: Duration::from_secs(30),
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

fn wrong(text: impl Into<String>) -> Misuse {
    Misuse::Target(Failure::because(text))
}

/// Makes a plan in a directory, which is made too.
///
/// # Errors
/// If the arguments make no sense, or the plan cannot be written.
pub fn plan(
    folder: &Path,
    limits: Limits,
    options: Options,
    operands: Operands,
    stop: Stop,
) -> Result<Planned, Misuse> {
    room::require_descriptors(&options, true).map_err(Misuse::Target)?;
    settings::refuse(&options)
        .map_err(|option| wrong(format!("{option} cannot be combined with --plan")))?;
    let settings = Settings::of(&options);
    let folder = Folder::new(folder);
    folder.make().map_err(wrong)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let id = format!(
        "{:x}-{:x}",
        time.unwrap_or_default().as_nanos(),
        std::process::id()
    );
    let cannot = |error| {
        let path = folder.path().display().to_string();
        Misuse::Target(Failure::of(
            error,
            format!("cannot write the plan '{path}'"),
        ))
    };
    let planner = Arc::new(Planner::new(&folder, id.clone(), limits).map_err(cannot)?);
    let stage = Arc::new(Stage::plan(planner.clone()));
    let walked = run::walk(options, operands, stop, stage.clone());
    let summary = walked.inspect_err(|_| folder.discard())?;
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
            errors: stage.errors(),
            options: settings,
        };
        write_json(&folder.header(), &id, &header).map_err(cannot)?;
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
    folder: &Path,
    which: Which,
    patience: Patience,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    room::require_descriptors(&options, true).map_err(Misuse::Target)?;
    let folder = Folder::new(folder);
    let header = folder.read_header().map_err(wrong)?;
    let options = header.options.options(options).map_err(wrong)?;
    let work = Work {
        claims: Claims::new(&folder, patience.lease),
        folder,
        header,
        patience,
        options,
        stop,
    };
    match which {
        Which::Part(part) => work.one(part),
        Which::Free => work.free(),
    }
}

struct Work {
    folder: Folder,
    header: Header,
    claims: Claims,
    patience: Patience,
    options: Options,
    stop: Stop,
}

impl Work {
    fn one(&self, part: u32) -> Result<Summary, Misuse> {
        if part >= self.header.parts {
            return Err(wrong(match self.header.parts {
                0 => format!("there is no part {part}: the plan has none"),
                parts => format!("there is no part {part}: they are 0 to {}", parts - 1),
            }));
        }
        let done = self.folder.read_done(part).map_err(wrong)?;
        if done.is_some_and(|done| done.failures == 0) {
            return Ok(Summary::default());
        }
        let _claim = self
            .claims
            .seize(part)
            .map_err(|error| self.cannot_claim(error))?;
        self.copy(part)
    }

    fn free(&self) -> Result<Summary, Misuse> {
        let mut total = Summary::default();
        for part in 0..self.header.parts {
            if self.stop.is_asked() {
                break;
            }
            // It is looked for twice: it may be done between the look and the claim.
            let is_done = || self.folder.done(part).exists();
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
        let path = self.folder.path().display();
        Misuse::Target(Failure::of(
            error,
            format!("cannot claim a part of the plan '{path}'"),
        ))
    }

    /// Copies what is in a part, and notes that it is done.
    fn copy(&self, part: u32) -> Result<Summary, Misuse> {
        let path = self.folder.part(part);
        let records = Records::read(&path, &self.header.id).map_err(wrong)?;
        let opener = Opener::new(records, self.patience.names).map_err(Misuse::Target)?;
        let cannot = |error| {
            let text = format!("cannot note in the plan what became of part {part}");
            Misuse::Target(Failure::of(error, text))
        };
        self.claims.note_attempt(part).map_err(cannot)?;
        let stage = Arc::new(Stage::work(part::Part::new(opener)));
        let summary = run::steps(self.options.clone(), self.stop.clone(), stage.clone())?;
        if summary.interrupted.is_none() {
            let lost = stage.lost();
            let done = Done {
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
                errors: stage.errors(),
                incomplete: stage.incomplete(),
                lost: lost.hashes,
                lost_all: lost.all,
            };
            let token = &self.claims.me.token;
            write_json(&self.folder.done(part), token, &done).map_err(cannot)?;
        }
        Ok(summary)
    }
}

/// Ends a plan all of whose parts are done. What failed in the parts is told again.
///
/// # Errors
/// If there is no such plan, if it is damaged, or if parts are not done; the message says which.
pub fn finish(
    folder: &Path,
    patience: Patience,
    options: Options,
    stop: Stop,
) -> Result<Summary, Misuse> {
    room::require_descriptors(&options, true).map_err(Misuse::Target)?;
    let folder = Folder::new(folder);
    let header = folder.read_header().map_err(wrong)?;
    if let Some(finished) = read_json::<Finished>(&folder.finished()).map_err(wrong)? {
        // Nothing is left to do, and what was made may have been changed since.
        return Ok(finished.summary(&header));
    }
    let options = header.options.options(options).map_err(wrong)?;
    let done = all_done(&folder, &header)?;
    let records = Records::read(&folder.last(), &header.id).map_err(wrong)?;
    let opener = Opener::new(records, patience.names).map_err(Misuse::Target)?;
    let id = header.id.clone();
    let ending = finish::Finish::new(opener, folder.clone(), id, done.clone());
    let stage = Arc::new(Stage::finish(ending));
    let say = |who: &str, errors: &[String], failures: u64| {
        for error in errors {
            eprintln!("{}: {who}: {error}", options.program);
        }
        let more = failures.saturating_sub(errors.len() as u64);
        if more > 0 {
            eprintln!("{}: {who}: {more} more failures", options.program);
        }
    };
    say("planning", &header.errors, header.failures);
    for part in done.iter().filter(|done| done.failures > 0) {
        say(&format!("part {}", part.part), &part.errors, part.failures);
    }
    let mut summary = run::steps(options.clone(), stop, stage)?;
    let finished = Finished {
        linked: summary.linked,
        large: summary.files,
        parts: done,
    };
    let own = std::mem::replace(&mut summary, finished.summary(&header));
    summary.failures += own.failures;
    summary.interrupted = own.interrupted;
    if summary.failures == 0 && summary.interrupted.is_none() {
        let written = write_json(&folder.finished(), &header.id, &finished);
        written.map_err(|error| {
            Misuse::Target(Failure::of(error, "cannot note that the plan is finished"))
        })?;
    }
    Ok(summary)
}

/// What became of all parts; an error if some are not done.
fn all_done(folder: &Folder, header: &Header) -> Result<Vec<Done>, Misuse> {
    let (mut done, mut missing) = (Vec::new(), Vec::new());
    for part in 0..header.parts {
        match folder.read_done(part).map_err(wrong)? {
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
    let (count, parts, plan) = (missing.len(), header.parts, folder.path().display());
    let (named, more) = (
        named.join(" "),
        if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        },
    );
    Err(wrong(format!(
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
    parts: Vec<Done>,
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
