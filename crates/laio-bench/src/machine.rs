//! The machine of a measurement, which every result records.

use crate::error::{Error, While};
use crate::info::probe::Directory;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The machine, and the measured file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name, release and architecture.
    pub kernel: String,
    /// The processor's name, if the kernel reports it.
    pub processor: Option<String>,
    /// The number of processors that this process may use.
    pub processors: usize,
    /// The memory in bytes.
    pub memory: Option<u64>,
    /// The measured directory.
    pub directory: String,
    /// The type of its file system.
    pub file_system: String,
    /// The number of processors that were busy with other work just before: a measure of noise. Not the load
    /// average, which still contains the previous measurement.
    #[serde(default)]
    pub busy: Option<f64>,
}

impl Machine {
    /// Returns the description of this machine, for measurements in a directory.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn with(path: &Path) -> Result<Machine, Error> {
        let directory = Directory::probe(path);
        let directory = directory.doing(format_args!("cannot use {}", path.display()))?;
        Ok(Machine::for_directory(&directory))
    }

    pub(crate) fn for_directory(directory: &Directory) -> Machine {
        let name = rustix::system::uname();
        Machine {
            kernel: format!(
                "{} {} {}",
                name.sysname().to_string_lossy(),
                name.release().to_string_lossy(),
                name.machine().to_string_lossy()
            ),
            processor: field("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory(),
            directory: directory.path.display().to_string(),
            file_system: directory.fstype.clone(),
            busy: busy(),
        }
    }

    /// Returns everything in one line.
    pub fn line(&self) -> String {
        let mut parts = vec![self.kernel.clone()];
        parts.extend(self.processor.clone());
        parts.push(match self.processors {
            1 => "1 CPU".to_owned(),
            many => format!("{many} CPUs"),
        });
        parts.push(format!("{} on {}", self.directory, self.file_system));
        parts.extend(
            self.busy
                .map(|busy| format!("{busy:.2} CPUs busy with other work")),
        );
        parts.join(", ")
    }
}

/// Returns the value of a line such as `model name : …` (which not every architecture has).
fn field(file: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let value = line.split_once(':')?.1.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn memory() -> Option<u64> {
    let total = field("/proc/meminfo", "MemTotal")?;
    let kibibytes: u64 = total.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// How long to measure the load of other programs.
const LOOK: Duration = Duration::from_millis(500);

/// Returns the number of processors that are busy while this process sleeps.
fn busy() -> Option<f64> {
    let (before, begun) = (computed()?, Instant::now());
    std::thread::sleep(LOOK);
    Some((computed()? - before) / begun.elapsed().as_secs_f64())
}

/// Returns the seconds that all processors together have been busy since boot.
fn computed() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times = text.lines().next()?.split_whitespace().skip(1);
    let times: Vec<u64> = times.map_while(|time| time.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is contained in the first
    // two.
    let ticks: u64 = [0, 1, 2, 5, 6, 7]
        .iter()
        .filter_map(|&at| times.get(at))
        .sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
