//! The options of a copy shared among processes: `--plan`, `--work`, `--finish`.

use super::values::size;
use super::{CliError, messages, misuse_to_error};
use laio_cp::plan::{self, Limits, PartSelection, WorkTimeouts};
use laio_cp::{Operands, Options, Stop, Summary};
use std::path::PathBuf;
use std::time::Duration;

// The options of a shared copy. Not a doc comment: clap would show it as the summary of the
// command.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "More than one machine")]
pub(crate) struct DistributedArgs {
    /// Create the directories, and write a plan of the files to copy, in parts, into DIR
    #[arg(long, value_name = "DIR", conflicts_with_all = ["work", "finish"])]
    plan: Option<PathBuf>,
    /// Maximum number of files in a part [default: 10000]
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u64).range(1..=Limits::FILES_MAX))]
    max_files: Option<u64>,
    /// Maximum number of bytes in a part, with K, M or G; larger files are split [default: 4G]
    #[arg(long, value_name = "SIZE", requires = "plan", value_parser = size)]
    max_bytes: Option<u64>,
    /// Copy parts of the plan in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "finish")]
    work: Option<PathBuf>,
    /// Copy this part only [default: SLURM_ARRAY_TASK_ID, else --take]
    #[arg(long, value_name = "N", requires = "work", conflicts_with = "take")]
    part: Option<u32>,
    /// Copy all parts that are neither done nor claimed by another process
    #[arg(long, requires = "work")]
    take: bool,
    /// Take over a part if its process has not renewed the claim for this long [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    lease: Option<u64>,
    /// Wait this long for directories that another machine has created to become visible [default:
    /// 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    patience: Option<u64>,
    /// Create hard links and set attributes of directories, after all parts of the plan in DIR are
    /// done
    #[arg(long, value_name = "DIR")]
    finish: Option<PathBuf>,
}

/// Options that --work and --finish accept; all others come from the plan.
const PER_PROCESS: [&str; 14] = [
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

impl DistributedArgs {
    /// Whether the copy is not shared.
    pub(super) fn is_unused(&self) -> bool {
        self.plan.is_none() && self.work.is_none() && self.finish.is_none()
    }

    /// Runs one of the three phases. `explicit` holds the IDs of all options that were given.
    pub(super) fn run(
        self,
        options: Options,
        operands: Operands,
        explicit: &[String],
        stop: Stop,
    ) -> Result<Summary, CliError> {
        let timeouts = self.timeouts();
        if let Some(plan_dir) = self.plan {
            let limits = Limits::default();
            let limits = Limits {
                files: self.max_files.unwrap_or(limits.files),
                bytes: self.max_bytes.unwrap_or(limits.bytes),
            };
            let program = options.program.clone();
            let planned = plan::plan(&plan_dir, limits, options, operands, stop);
            let planned = planned.map_err(misuse_to_error)?;
            if planned.summary.interrupted.is_none() {
                let (parts, files) = (planned.parts, planned.files);
                let (bytes, plan_dir) = (planned.bytes, plan_dir.display());
                messages::print_line(&format!(
                    "{parts} parts, {files} files, {bytes} bytes; next: {program} --work {plan_dir}"
                ));
            }
            return Ok(planned.summary);
        }
        let other = explicit
            .iter()
            .find(|id| !PER_PROCESS.contains(&id.as_str()));
        if let Some(id) = other {
            let what = match id.as_str() {
                "files" => "the list of files".to_owned(),
                id if id.starts_with('-') => id.to_owned(),
                id => format!("--{}", id.replace('_', "-")),
            };
            return Err(CliError::Usage(format!(
                "{what} can be given to --plan only; --work and --finish take it from the plan"
            )));
        }
        if let Some(plan_dir) = self.work {
            let selection = match (self.part, self.take) {
                (Some(part), _) => PartSelection::Number(part),
                (None, true) => PartSelection::Unclaimed,
                (None, false) => {
                    part_of_slurm()?.map_or(PartSelection::Unclaimed, PartSelection::Number)
                }
            };
            return plan::work(&plan_dir, selection, timeouts, options, stop)
                .map_err(misuse_to_error);
        }
        let plan_dir = self.finish.unwrap_or_default();
        plan::finish(&plan_dir, timeouts, options, stop).map_err(misuse_to_error)
    }

    fn timeouts(&self) -> WorkTimeouts {
        let default = WorkTimeouts::default();
        WorkTimeouts {
            lease: self.lease.map_or(default.lease, Duration::from_secs),
            visibility: self
                .patience
                .map_or(default.visibility, Duration::from_secs),
        }
    }
}

/// The part that a Slurm array assigns to this process.
fn part_of_slurm() -> Result<Option<u32>, CliError> {
    let name = "SLURM_ARRAY_TASK_ID";
    let Some(value) = std::env::var_os(name) else {
        return Ok(None);
    };
    let part = value.to_str().and_then(|value| value.parse().ok());
    part.map(Some).ok_or_else(|| {
        let value = value.to_string_lossy().into_owned();
        CliError::Plain(format!(
            "{name} is '{value}', which is not the number of a part"
        ))
    })
}
