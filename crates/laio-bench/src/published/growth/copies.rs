//! Files that a program copies.

use super::{COPY, decades};
use crate::child;
use crate::error::{Error, While};
use crate::published::run::Run;
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::stop::Stop;
use crate::trees::Shape;
use std::path::Path;
use std::process::Command;

const FILES_MAX: usize = 1_000_000;
/// The size of each file in bytes.
const SIZE: u64 = 1024;
const FILES_OF_A_DIRECTORY: usize = 1000;
/// Copies of few files are repeated, until the turn has copied so many.
const FILES_OF_A_TURN: usize = 1000;
/// From here on one round is enough, and all that memory has room for.
const MANY: usize = 1_000_000;
/// Bytes that a file takes in memory: a page, and an inode with its name.
const ROOM_OF_A_FILE: u64 = 6 << 10;

/// The programs, and their arguments.
const LAIO: &str = "laio cp -r";
const CP: &str = "cp -r";

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let (settings, stop) = (run.settings, run.stop);
    let names: Vec<_> = [LAIO, CP]
        .into_iter()
        .filter(|name| settings.takes(name))
        .collect();
    let rounds = run.rounds;
    for number in decades(run, 10, FILES_MAX) {
        if room(run.directory()) < 2 * number as u64 * ROOM_OF_A_FILE {
            let text = format!("{COPY}: {number} left out: there is no room for them");
            run.record.note(text);
            continue;
        }
        run.progress(&format!("making {number} files"));
        let source = run.directory().join("source");
        fill(&source, number, stop)?;
        let target = run.directory().join("target");
        let subjects: Vec<_> = names.iter().map(|name| (Some(number), *name)).collect();
        if number >= MANY {
            run.rounds = 1;
        }
        let measured = run.measure(COPY, Cache::Warm, &subjects, &mut |index| {
            turn(
                names[index],
                &settings.laio,
                (&source, &target),
                number,
                stop,
            )
        });
        run.rounds = rounds;
        measured?;
        run.remove(&source)?;
    }
    Ok(())
}

/// Returns the bytes that are free in a directory, and in memory if that is where it is.
fn room(directory: &Path) -> u64 {
    let status = rustix::fs::statvfs(directory);
    let free = status.map_or(0, |status| status.f_bavail * status.f_frsize);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let memory = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    free.min(memory.map_or(u64::MAX, |kibibytes| kibibytes << 10))
}

fn fill(directory: &Path, number: usize, stop: &Stop) -> Result<(), Error> {
    std::fs::create_dir(directory).doing("cannot make a directory")?;
    for (index, first) in (0..number).step_by(FILES_OF_A_DIRECTORY).enumerate() {
        let shape = Shape::Flat {
            files: FILES_OF_A_DIRECTORY.min(number - first) as u64,
            size: SIZE,
        };
        shape.make(&directory.join(format!("{index:04}")), stop)?;
    }
    Ok(())
}

fn turn(
    name: &str,
    laio: &Path,
    (source, target): (&Path, &Path),
    number: usize,
    stop: &Stop,
) -> Outcome {
    let times = (FILES_OF_A_TURN / number).max(1);
    let (mut processor, mut wall) = (0.0, 0.0);
    for _ in 0..times {
        let mut command = match name {
            LAIO => {
                let mut command = Command::new(laio);
                command.arg("cp");
                command
            }
            _ => Command::new("cp"),
        };
        command.arg("-r").arg(source).arg(target);
        let ran = child::run(&mut command, stop).map_err(|error| error.to_string())?;
        if !ran.status.success() {
            return Err(ran.complaint());
        }
        processor += (ran.user + ran.system).as_secs_f64();
        wall += ran.wall.as_secs_f64();
        std::fs::remove_dir_all(target).map_err(|error| error.to_string())?;
    }
    let files = (number * times) as f64;
    Ok(vec![
        ("cpu_us", processor * 1e6 / files),
        ("per_cpu_s", files / processor),
        ("each_us", wall * 1e6 / files),
    ])
}
