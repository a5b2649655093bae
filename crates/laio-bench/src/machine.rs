//! What a measurement was made on, so that a figure that is passed on says where it comes from.

use crate::error::{Error, While};
use laio::probe::Directory;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// The machine, and the file system that was measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name, release and architecture.
    pub kernel: String,
    /// The processor's name, where the kernel tells it.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// The measured directory.
    pub directory: String,
    /// Type of its file system.
    pub file_system: String,
    /// Processors that were busy with other things just before: the reader's measure of noise. Not the load average,
    /// which still knows the measurement before this one.
    #[serde(default)]
    pub busy: Option<f64>,
}

impl Machine {
    /// This machine, for what is measured in a directory.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn with(path: &Path) -> Result<Machine, Error> {
        let directory = Directory::probe(path);
        let directory = directory.doing(format_args!("cannot use {}", path.display()))?;
        Ok(Machine::of(&directory))
    }

    pub(crate) fn of(directory: &Directory) -> Machine {
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

    /// All of it in a line.
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

/// The value of a line such as `model name : …` (not on every architecture).
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

/// How long to look at what others do.
const LOOK: Duration = Duration::from_millis(500);

/// Processors that compute while this process sleeps.
fn busy() -> Option<f64> {
    let (before, begun) = (computed()?, Instant::now());
    std::thread::sleep(LOOK);
    Some((computed()? - before) / begun.elapsed().as_secs_f64())
}

/// Seconds that all processors together have computed since the machine was started.
fn computed() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times = text.lines().next()?.split_whitespace().skip(1);
    let times: Vec<u64> = times.map_while(|time| time.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests do is in the first two again.
    let ticks: u64 = [0, 1, 2, 5, 6, 7]
        .iter()
        .filter_map(|&at| times.get(at))
        .sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
