//! fio, where it is installed: as many reads as writes at random offsets, with one of its asynchronous
//! engines. It does not write back the blocks that it has read, so it shows the maximum rate of the disk.

use super::super::Settings;
use crate::child;
use crate::error::{Error, While};
use crate::pin;
use crate::record::Record;
use crate::round_robin::Outcome;
use crate::stop::Stop;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// fio with one of its engines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fio {
    pub(super) name: &'static str,
    engine: &'static str,
}

const ALL: [Fio; 3] = [
    fio("fio io_uring", "io_uring"),
    fio("fio libaio", "libaio"),
    fio("fio posixaio", "posixaio"),
];

const fn fio(name: &'static str, engine: &'static str) -> Fio {
    Fio { name, engine }
}

/// Returns the engines that take part, and creates their file. Adds a note if fio is not installed.
pub(super) fn usable(
    settings: &Settings,
    file: &Path,
    bytes: u64,
    record: &mut Record,
) -> Result<Vec<Fio>, Error> {
    let mut fios = ALL.to_vec();
    fios.retain(|fio| settings.takes(fio.name));
    if fios.is_empty() {
        return Ok(fios);
    }
    match Command::new("fio").arg("--version").output() {
        Ok(output) if output.status.success() => {}
        _ => {
            record.note("fio left out: it is not installed".to_owned());
            return Ok(Vec::new());
        }
    }
    super::Blocks::make(file, bytes).map(|_| fios)
}

impl Fio {
    pub(super) fn turn(
        self,
        file: &Path,
        clients: usize,
        processors: usize,
        time: Duration,
        stop: &Stop,
    ) -> Outcome {
        let result = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let mut command = Command::new("fio");
        command
            .args([
                "--name=rmw",
                "--rw=randrw",
                "--bs=4k",
                "--direct=1",
                "--thread=1",
            ])
            .args([
                "--time_based=1",
                "--output-format=json",
                "--norandommap=1",
                "--group_reporting=1",
            ])
            .arg(format!("--ioengine={}", self.engine))
            .arg(format!("--iodepth={clients}"))
            .arg(format!("--runtime={}ms", time.as_millis()))
            .arg(format!("--filename={}", file.display()))
            .arg(format!("--output={}", result.path().display()));
        // A process inherits the processors of the thread that starts it.
        let ran = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin::to_first(processors).doing("cannot stay on a processor")?;
                child::run(&mut command, stop)
            });
            thread.join().expect("the thread does not panic")
        });
        let ran = ran.map_err(|error| error.to_string())?;
        if !ran.status.success() {
            return Err(ran.complaint());
        }
        let text = std::fs::read_to_string(result.path()).doing("cannot read what fio said");
        figures(&text.map_err(|error| error.to_string())?)
            .ok_or_else(|| "fio said nothing".to_owned())
    }
}

fn figures(json: &str) -> Option<Vec<(&'static str, f64)>> {
    let start = json.find('{')?;
    let value: Value = serde_json::from_str(&json[start..]).ok()?;
    let job = value.get("jobs")?.get(0)?;
    let number = |kind: &str, name: &str| job.get(kind)?.get(name)?.as_f64();
    let rate = (number("read", "iops")? + number("write", "iops")?) / 2.0;
    let count = (number("read", "total_ios")? + number("write", "total_ios")?) / 2.0;
    let cpu = job.get("usr_cpu")?.as_f64()? + job.get("sys_cpu")?.as_f64()?;
    Some(vec![
        ("rate", rate),
        // Of the submitting thread, as fio counts.
        ("switches", job.get("ctx")?.as_f64()? / count),
        ("cpu_us", cpu / 100.0 * 1e6 / rate),
    ])
}
