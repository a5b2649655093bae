//! Requests by the number of connections, and by the number of distinct files.

use super::{CONNECTIONS, FILES, decades};
use crate::error::Error;
use crate::load::{self, Pace, What};
use crate::published::run::Run;
use crate::published::servers::serving::Server;
use crate::published::servers::{USUAL, usable};
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::stop::Stop;
use crate::trace::{self, Entry, Request, Trace};
use std::path::Path;
use std::time::Duration;

const CONNECTIONS_MAX: usize = 10_000;
const FILES_MAX: usize = 100_000;
/// The size of each file in bytes.
const SIZE: u64 = 1024;
const FILES_OF_A_DIRECTORY: usize = 256;
/// Clients that request distinct files.
const CLIENTS: usize = 64;
/// Time for the connections to begin, which does not count.
const BEFORE: Duration = Duration::from_secs(1);
/// `laio serve` with room in its cache for all files.
const LARGE: &str = "laio serve, larger cache";
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn connections(run: &mut Run<'_>) -> Result<(), Error> {
    let loads = decades(run, 1, CONNECTIONS_MAX);
    let loads = loads.into_iter().map(|at| Load {
        at,
        files: 1,
        pace: Pace::Clients(at),
    });
    let [nginx, _] = Server::peers();
    measure(run, CONNECTIONS, &[laio(&[]), nginx], loads.collect())
}

pub(super) fn files(run: &mut Run<'_>) -> Result<(), Error> {
    let loads = decades(run, 1, FILES_MAX);
    let loads = loads.into_iter().map(|at| Load {
        at,
        files: at,
        pace: Pace::Random(CLIENTS),
    });
    let large = [("--cache-files", 2 * FILES_MAX), ("--cache-bytes", 1 << 30)];
    let large = large.map(|(option, value)| format!("{option}={value}"));
    let large = laio(&large.each_ref().map(String::as_str)).called(LARGE);
    let [nginx, _] = Server::peers();
    measure(run, FILES, &[laio(&[]), large, nginx], loads.collect())
}

fn laio(arguments: &[&str]) -> Server {
    let connections = format!("--max-connections={}", 2 * CONNECTIONS_MAX);
    Server::laio(USUAL, &[arguments, &[&connections]].concat())
}

/// The load at one position.
struct Load {
    at: usize,
    files: usize,
    pace: Pace,
}

fn measure(
    run: &mut Run<'_>,
    workload: &str,
    servers: &[Server],
    loads: Vec<Load>,
) -> Result<(), Error> {
    let (settings, stop) = (run.settings, run.stop);
    let Some(most) = loads.iter().map(|load| load.files).max() else {
        return Ok(());
    };
    let set = run.make(workload, &files_of(most))?;
    let servers = usable(run, servers.to_vec());
    let turns: Vec<_> = loads
        .iter()
        .flat_map(|load| servers.iter().map(move |server| (load, server)))
        .collect();
    let subjects: Vec<_> = turns
        .iter()
        .map(|(load, server)| (Some(load.at), server.name.as_str()))
        .collect();
    let time = Duration::from_secs(if settings.quick { 1 } else { 2 });
    run.measure(workload, Cache::Warm, &subjects, &mut |index| {
        let (load, server) = turns[index];
        load.turn(server, &settings.laio, &set, time, stop)
    })?;
    run.remove(&set)
}

/// Returns a trace of this many files, each requested once.
fn files_of(count: usize) -> Trace {
    let name = |n: usize| {
        format!(
            "{:03}/{:03}",
            n / FILES_OF_A_DIRECTORY,
            n % FILES_OF_A_DIRECTORY
        )
    };
    let files = (0..count).map(|n| Entry {
        name: name(n),
        size: Some(SIZE),
    });
    Trace {
        name: "growth".to_owned(),
        about: vec![format!("{count} files of {SIZE} bytes")],
        files: files.collect(),
        requests: (0..count as u32)
            .map(|file| Request { file, at: None })
            .collect(),
    }
}

impl Load {
    /// Measures for `time`, after the connections have begun and each file was requested twice.
    fn turn(
        &self,
        server: &Server,
        laio: &Path,
        set: &Path,
        time: Duration,
        stop: &Stop,
    ) -> Outcome {
        let serving = server.start(laio, &set.join(trace::FILES))?;
        let what = What::Trace(files_of(self.files));
        let settings = |pace, fetches, time| load::Settings {
            server: serving.address,
            host: serving.address.to_string(),
            tls: None,
            pace,
            fetches,
            time,
            close: false,
            verify: false,
            warm_up: Duration::ZERO,
            timeout: TIMEOUT,
            seed: 1,
        };
        let load = |settings| {
            let outcome = load::run(&settings, &what, stop, &mut |_| {});
            let outcome = outcome.map_err(|error| error.to_string())?;
            match outcome.errors.iter().next() {
                None => Ok(outcome),
                Some((error, count)) => Err(format!("requests went wrong: {count} times {error}")),
            }
        };
        let twice = 2 * self.files as u64;
        load(settings(
            Pace::Clients(CLIENTS.min(self.files)),
            Some(twice),
            None,
        ))?;
        let whole = BEFORE + time + Duration::from_millis(200);
        let (outcome, used) = std::thread::scope(|scope| {
            let used = scope.spawn(|| {
                std::thread::sleep(BEFORE);
                let before = serving.usage();
                std::thread::sleep(time);
                serving.usage().since(&before)
            });
            let outcome = load(settings(self.pace, None, Some(whole)));
            (outcome, used.join())
        });
        let (outcome, used) = (outcome?, used.map_err(|_| "it panicked".to_owned())?);
        let counted = outcome.series.iter().filter(|second| {
            let begins = second.second as u64;
            (BEFORE.as_secs()..(BEFORE + time).as_secs()).contains(&begins)
        });
        let requests: u64 = counted.map(|second| second.requests).sum();
        if requests == 0 {
            return Err("no request was answered".to_owned());
        }
        let processor = used.processor.as_secs_f64();
        Ok(vec![
            ("cpu_us", processor * 1e6 / requests as f64),
            ("per_cpu_s", requests as f64 / processor),
            ("rate", requests as f64 / time.as_secs_f64()),
        ])
    }
}
