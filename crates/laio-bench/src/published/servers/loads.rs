//! Servers in turns under the same load.

use super::serving::Server;
use crate::caches;
use crate::error::{Error, While};
use crate::load::{self, Pace, What};
use crate::published::run::Run;
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::stop::Stop;
use crate::trace::{FILES, Trace};
use std::path::Path;
use std::time::Duration;

/// Servers under the same load.
pub(super) struct Loads<'a> {
    pub(super) workload: &'a str,
    pub(super) trace: &'a Trace,
    /// The directory of the trace's set.
    pub(super) set: &'a Path,
    /// Each with its position on the axis, and the scheduling of its requests.
    pub(super) subjects: Vec<(usize, Server, Pace)>,
}

/// The time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns each server with each number of clients.
pub(super) fn by_clients(numbers: &[usize], servers: &[Server]) -> Vec<(usize, Server, Pace)> {
    let each = |&clients: &usize| {
        let servers = servers.iter();
        servers.map(move |server| (clients, server.clone(), Pace::Clients(clients)))
    };
    numbers.iter().flat_map(each).collect()
}

impl Loads<'_> {
    pub(super) fn measure(&self, run: &mut Run<'_>, cache: Cache) -> Result<(), Error> {
        if cache == Cache::Warm {
            self.read_all().doing("cannot read the files")?;
        }
        let subjects: Vec<_> = self
            .subjects
            .iter()
            .map(|(at, server, _)| (Some(*at), server.name.as_str()))
            .collect();
        let (laio, stop) = (&run.settings.laio, run.stop);
        run.measure(self.workload, cache, &subjects, &mut |index| {
            self.turn(laio, index, cache, stop)
        })
    }

    /// Measures in each cache state.
    pub(super) fn measure_all(&self, run: &mut Run<'_>) -> Result<(), Error> {
        for cache in run.caches() {
            self.measure(run, cache)?;
        }
        Ok(())
    }

    fn read_all(&self) -> std::io::Result<()> {
        let mut nowhere = std::io::sink();
        for file in self.trace.files.iter().filter(|file| file.size.is_some()) {
            let mut file = std::fs::File::open(self.set.join(FILES).join(&file.name))?;
            std::io::copy(&mut file, &mut nowhere)?;
        }
        Ok(())
    }

    fn turn(&self, laio: &Path, index: usize, cache: Cache, stop: &Stop) -> Outcome {
        let (_, server, pace) = &self.subjects[index];
        let serving = server.start(laio, &self.set.join(FILES))?;
        caches::settle(self.set, cache).map_err(|error| error.to_string())?;
        let settings = load::Settings {
            server: serving.address,
            host: serving.address.to_string(),
            tls: None,
            pace: *pace,
            fetches: matches!(pace, Pace::Random(_)).then_some(self.trace.requests.len() as u64),
            time: None,
            // As servers of that time were loaded: each request has a connection of its own.
            close: true,
            verify: true,
            warm_up: Duration::ZERO,
            timeout: TIMEOUT,
            seed: 1,
        };
        let (used, idle) = (serving.usage(), Idle::now());
        let what = What::Trace(self.trace.clone());
        let outcome = load::run(&settings, &what, stop, &mut |_| {});
        let outcome = outcome.map_err(|error| error.to_string())?;
        let (used, idle) = (serving.usage().since(&used), Idle::now().since(&idle));
        if outcome.failed() > 0 {
            let words: Vec<_> = outcome
                .errors
                .iter()
                .map(|(what, count)| format!("{count} times {what}"))
                .collect();
            return Err(format!("requests went wrong: {}", words.join(", ")));
        }
        let requests = outcome.requests.max(1) as f64;
        let mean = outcome.service.as_ref().map_or(0.0, |times| times.mean);
        let late = outcome.service.as_ref().map_or(0.0, |times| times.p99);
        Ok(vec![
            ("rate", outcome.rate),
            ("mb_s", outcome.bytes as f64 / outcome.seconds / 1e6),
            ("response_ms", mean),
            ("p99_ms", late),
            ("cpu_us", used.processor.as_secs_f64() * 1e6 / requests),
            ("switches", used.switches() as f64 / requests),
            ("idle_percent", idle * 100.0),
        ])
    }
}

/// The total and idle time of all processors, including waiting for the disk.
struct Idle {
    idle: u64,
    all: u64,
}

impl Idle {
    fn now() -> Idle {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|word| word.parse().ok())
            .collect();
        Idle {
            // The fourth and fifth of user, nice, system, idle, iowait …; the times after the eighth are
            // contained in the first ones.
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().take(8).sum(),
        }
    }

    /// Returns the idle fraction since an earlier measurement.
    fn since(&self, earlier: &Idle) -> f64 {
        let all = self.all.saturating_sub(earlier.all).max(1);
        self.idle.saturating_sub(earlier.idle) as f64 / all as f64
    }
}
