//! Runs servers in turns under the same load.

use super::super::Progress;
use super::ServerWorkspace;
use super::serving::Server;
use crate::caches;
use crate::error::{Error, While};
use crate::load::{self, Pace, What};
use crate::record::{Cache, Record};
use crate::round_robin::{Figures, RoundRobin};
use crate::trace::Trace;
use std::path::Path;
use std::time::Duration;

/// Servers under the same load.
pub(super) struct ServerRun<'a> {
    pub(super) workload: &'a str,
    pub(super) cache: Cache,
    pub(super) trace: &'a Trace,
    /// The directory to serve.
    pub(super) root: &'a Path,
    /// Each with its position on the axis, and the scheduling of its requests.
    pub(super) subjects: Vec<(usize, Server, Pace)>,
    /// Whether to use a new connection for each request.
    pub(super) close: bool,
}

/// The time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

impl ServerRun<'_> {
    pub(super) fn take(
        &self,
        workspace: &ServerWorkspace<'_>,
        record: &mut Record,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        if self.cache == Cache::Warm {
            self.read_all().doing("cannot read the files")?;
        }
        let subjects: Vec<_> = self
            .subjects
            .iter()
            .map(|(at, server, _)| (Some(*at as f64), server.name.as_str()))
            .collect();
        let rounds = workspace.rounds;
        let round_robin = RoundRobin {
            workload: self.workload,
            cache: self.cache,
            subjects: &subjects,
            rounds,
            stop: workspace.stop,
        };
        let cells = round_robin.run(&mut |index, round| {
            let (at, server, _) = &self.subjects[index];
            let (workload, cache) = (self.workload, self.cache.name());
            progress(&format!(
                "{workload}, {cache}, {} at {at}, round {} of {rounds}",
                server.name,
                round + 1
            ));
            self.turn(workspace, index)
        })?;
        record.cells.extend(cells);
        Ok(())
    }

    fn read_all(&self) -> std::io::Result<()> {
        let mut nowhere = std::io::sink();
        for file in self.trace.files.iter().filter(|file| file.size.is_some()) {
            let mut file = std::fs::File::open(self.root.join(&file.name))?;
            std::io::copy(&mut file, &mut nowhere)?;
        }
        Ok(())
    }

    fn turn(&self, workspace: &ServerWorkspace<'_>, index: usize) -> Result<Figures, String> {
        let (_, server, pace) = &self.subjects[index];
        let serving = server.start(&workspace.settings.laio, self.root)?;
        caches::settle(self.root, self.cache).map_err(|error| error.to_string())?;
        let settings = load::Settings {
            server: serving.address,
            host: serving.address.to_string(),
            tls: None,
            pace: *pace,
            fetches: matches!(pace, Pace::Random(_)).then_some(self.trace.requests.len() as u64),
            time: None,
            close: self.close,
            verify: true,
            warm_up: Duration::ZERO,
            timeout: TIMEOUT,
            seed: 1,
        };
        let (used, idle) = (serving.usage(), Idle::now());
        let what = What::Trace(self.trace.clone());
        let outcome = load::run(&settings, &what, workspace.stop, &mut |_| {});
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
