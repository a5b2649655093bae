//! A copy that is shared out among processes: `--plan`, `--work`, `--finish`.

use super::words::size;
use super::{Wrong, in_words, report};
use laio_cp::plan::{self, Limits, Patience, Which};
use laio_cp::{Operands, Options, Stop, Summary};
use std::path::PathBuf;
use std::time::Duration;

/// What is said of several processes.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "More than one machine")]
pub(crate) struct Machines {
    /// Copy nothing yet: make the directories, and write what is to be copied into DIR, in parts
    #[arg(long, value_name = "DIR", conflicts_with_all = ["work", "finish"])]
    plan: Option<PathBuf>,
    /// Files in a part, at most [default: 10000]
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u64).range(1..=Limits::FILES_MAX))]
    max_files: Option<u64>,
    /// Bytes in a part; larger files are split; with K, M or G [default: 4G]
    #[arg(long, value_name = "SIZE", requires = "plan", value_parser = size)]
    max_bytes: Option<u64>,
    /// Copy what is in the parts of the plan in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "finish")]
    work: Option<PathBuf>,
    /// This part only [default: SLURM_ARRAY_TASK_ID, else --take]
    #[arg(long, value_name = "N", requires = "work", conflicts_with = "take")]
    part: Option<u32>,
    /// Parts that nobody else has done or is doing, one after the other
    #[arg(long, requires = "work")]
    take: bool,
    /// Take over a part from a process that has not told for so long that it is alive [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lease: Option<u64>,
    /// Wait so long for directories that another machine has made [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    patience: Option<u64>,
    /// Make hard links and set attributes of directories, when all parts of the plan in DIR are done
    #[arg(long, value_name = "DIR")]
    finish: Option<PathBuf>,
}

/// Options that can be given beside --work and --finish; all others are kept in the plan.
const OF_THE_PROCESS: [&str; 14] = [
    "work",
    "part",
    "take",
    "lease",
    "patience",
    "finish",
    "verbose",
    "debug",
    "fsync",
    "limit_rate",
    "progress",
    "stats",
    "jobs",
    "depth",
];

impl Machines {
    /// Whether there is one process only.
    pub(super) fn is_none(&self) -> bool {
        self.plan.is_none() && self.work.is_none() && self.finish.is_none()
    }

    /// Does one of the three. `explicit` are the names of all options that were given.
    pub(super) fn run(
        self,
        options: Options,
        operands: Operands,
        explicit: &[String],
        stop: Stop,
    ) -> Result<Summary, Wrong> {
        let patience = self.patience();
        if let Some(folder) = self.plan {
            let limits = Limits::default();
            let limits = Limits {
                files: self.max_files.unwrap_or(limits.files),
                bytes: self.max_bytes.unwrap_or(limits.bytes),
            };
            let program = options.program.clone();
            let planned = plan::plan(&folder, limits, options, operands, stop);
            let planned = planned.map_err(in_words)?;
            if planned.summary.interrupted.is_none() {
                let (parts, files) = (planned.parts, planned.files);
                let (bytes, folder) = (planned.bytes, folder.display());
                report::tell(&format!(
                    "{parts} parts, {files} files, {bytes} bytes; next: {program} --work {folder}"
                ));
            }
            return Ok(planned.summary);
        }
        let other = explicit
            .iter()
            .find(|id| !OF_THE_PROCESS.contains(&id.as_str()));
        if let Some(id) = other {
            let what = match id.as_str() {
                "files" => "what is to be copied".to_owned(),
                id if id.starts_with('-') => id.to_owned(),
                id => format!("--{}", id.replace('_', "-")),
            };
            return Err(Wrong::Usage(format!(
                "{what} is for --plan; with --work and --finish it is taken from the plan"
            )));
        }
        if let Some(folder) = self.work {
            let which = match (self.part, self.take) {
                (Some(part), _) => Which::Part(part),
                (None, true) => Which::Free,
                (None, false) => part_of_slurm()?.map_or(Which::Free, Which::Part),
            };
            return plan::work(&folder, which, patience, options, stop).map_err(in_words);
        }
        let folder = self.finish.unwrap_or_default();
        plan::finish(&folder, patience, options, stop).map_err(in_words)
    }

    fn patience(&self) -> Patience {
        let default = Patience::default();
        Patience {
            lease: self.lease.map_or(default.lease, Duration::from_secs),
            names: self.patience.map_or(default.names, Duration::from_secs),
        }
    }
}

/// The part that a Slurm array gives to this process.
fn part_of_slurm() -> Result<Option<u32>, Wrong> {
    let name = "SLURM_ARRAY_TASK_ID";
    let Some(value) = std::env::var_os(name) else {
        return Ok(None);
    };
    let part = value.to_str().and_then(|value| value.parse().ok());
    part.map(Some).ok_or_else(|| {
        let value = value.to_string_lossy().into_owned();
        Wrong::Plain(format!("{name} is '{value}', which is no number of a part"))
    })
}
