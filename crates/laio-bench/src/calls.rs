//! `laio bench calls`: what a call costs through each back end, next to the plain call.
//!
//! Every back end is measured in turns with the plain call, in rounds of about a millisecond, and the
//! ratio is the median of the ratios of the rounds: what else the machine does disturbs both alike, and
//! a few rounds that it disturbs alone do not count.

mod cache;
mod catalogue;
mod contender;
pub(crate) mod ground;
mod report;
mod rounds;

pub use catalogue::Row;
pub use contender::Contender;
pub use report::{Measurement, Report};

use crate::error::{Error, While};
use crate::machine::Machine;
use crate::pin::Pinned;
use crate::statistics::{self, Summary};
use ground::Ground;
use laio::BackendKind;
use laio::Context;
use laio::measure::{BareRing, Via};
use rounds::{Participant, Series};
use std::path::PathBuf;
use std::time::Duration;

/// What to measure, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The rows, in order.
    pub rows: Vec<&'static Row>,
    /// The back ends, in order.
    pub contenders: Vec<Contender>,
    /// Time for each row, shared by its back ends.
    pub time: Duration,
    /// Where files are made; none to choose a directory that is not in memory.
    pub directory: Option<PathBuf>,
    /// The file of the cold reads; none to make one.
    pub file: Option<PathBuf>,
    /// Bytes of that file.
    pub file_size: u64,
    /// Whether the page cache of the whole system may be dropped before cold reads.
    pub drop_caches: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rows: Row::all().collect(),
            contenders: Contender::USUAL.to_vec(),
            time: Duration::from_secs(2),
            directory: None,
            file: None,
            file_size: 1 << 30,
            drop_caches: true,
        }
    }
}

/// Measures. `progress` is told what is being done.
///
/// # Errors
/// Files cannot be made, or a call did not do what it was meant to. A back end that is not to be had
/// here is not an error: it is left out, and a note says so.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let mut ground = Ground::prepare(settings)?;
    let mut report = Report::new(Machine::of(ground.directory()).line());
    if let Some(note) = cpu_note() {
        report.note(note);
    }
    for row in &settings.rows {
        if row.is_cold() {
            progress("making the file of the cold reads");
            if let Some(reason) = ground.prepare_cold(settings)? {
                report.note(format!("{} left out: {reason}", row.name));
                continue;
            }
        }
        measure_row(row, settings, &mut ground, &mut report, progress)?;
    }
    report.notes(ground.notes());
    Ok(report)
}

/// A frequency that moves with the load makes absolute times hard to compare; ratios stay right.
fn cpu_note() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = std::fs::read_to_string(path).ok()?;
    let governor = governor.trim();
    (governor != "performance").then(|| format!("the CPU frequency governor is `{governor}`"))
}

fn measure_row(
    row: &'static Row,
    settings: &Settings,
    ground: &mut Ground,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut ring = match BareRing::new() {
        Ok(ring) if row.runs_on_a_ring() => Some(ring),
        _ => None,
    };
    let wants_ring = settings.contenders.contains(&Contender::BareRing);
    let mut contenders = settings.contenders.clone();
    contenders.retain(|contender| *contender != Contender::BareRing && row.takes(*contender));
    let mut plain = Series::default();
    let mut bare = Series::default();
    let mut measured = Vec::new();
    let turns = contenders.len().max(1) as u32;
    for contender in &contenders {
        progress(&format!("{}: {contender}", row.name));
        // A ring serves the kernel thread that made it, and this one changes it.
        let changes_thread = *contender == Contender::Backend(BackendKind::Activations);
        let outcome = measure_one(
            row,
            *contender,
            ring.as_mut().filter(|_| !changes_thread),
            ground,
            settings.time / turns,
        )?;
        let (series, inline) = match outcome {
            Ok(outcome) => outcome,
            Err(reason) => {
                report.note(format!(
                    "{} through {contender} left out: {reason}",
                    row.name
                ));
                continue;
            }
        };
        let [plain_series, bare_series, own] = series;
        let own = Summarised::of(&own, &plain_series, Some(&bare_series));
        measured.push(own.into_measurement(row, contender.name(), inline));
        plain.append(plain_series);
        bare.append(bare_series);
    }
    if plain.is_empty() {
        return Ok(());
    }
    let baseline = Summarised::of(&plain, &plain, None);
    report.add(baseline.into_measurement(row, "plain", None));
    if wants_ring && !bare.is_empty() {
        let bare = Summarised::of(&bare, &plain, None);
        report.add(bare.into_measurement(row, Contender::BareRing.name(), None));
    }
    for measurement in measured {
        report.add(measurement);
    }
    Ok(())
}

/// The plain call's rounds, the bare ring's (empty if it takes no part) and the contender's; and which
/// part of the contender's calls finished inline, if it makes a difference between them.
type Outcome = ([Series; 3], Option<f64>);

/// Measures one back end in one row. The inner error says why it cannot be measured here.
fn measure_one(
    row: &'static Row,
    contender: Contender,
    ring: Option<&mut BareRing>,
    ground: &mut Ground,
    time: Duration,
) -> Result<Result<Outcome, String>, Error> {
    // Before the context is made, so that its threads are where they would be in a program like this.
    let pinned = if row.stays(contender) {
        Pinned::here()
    } else {
        None
    };
    if row.is_far()
        && pinned
            .as_ref()
            .is_none_or(|pinned| pinned.other_processor().is_none())
    {
        return Ok(Err("it would take two processors to measure".to_owned()));
    }
    let mut context = match contender.options(row.trusts_names()) {
        None => None,
        Some(options) => match Context::new(options) {
            Ok(context) => Some(context),
            Err(errno) => return Ok(Err(format!("the back end is not to be had here: {errno}"))),
        },
    };
    let doing = || format!("{} through {contender}", row.name);
    let mut subject = row.subject(ground, pinned.as_ref())?;
    let own = match &mut context {
        Some(context) => Via::Context(context),
        None => Via::Direct,
    };
    let mut participants = vec![Participant::new(Via::Plain), Participant::new(own)];
    if let Some(ring) = ring {
        participants.insert(1, Participant::new(Via::Ring(ring)));
    }
    let blocks = row.blocks();
    let mut before = || ground.before_block(row);
    let series = rounds::run(&mut *subject, &mut participants, &blocks, time, &mut before);
    let mut series = series.doing(doing())?;
    if series.len() == 2 {
        series.insert(1, Series::default());
    }
    let series = series.try_into().expect("three participants at most");
    let inline = context.map(|context| {
        let total = context.stats().total();
        total.inline as f64 / total.total().max(1) as f64
    });
    Ok(Ok((series, inline)))
}

/// What is told of a series.
struct Summarised {
    summary: Summary,
    mean: f64,
    ratio: f64,
    ratio_to_ring: Option<f64>,
    rounds: usize,
}

impl Summarised {
    fn of(own: &Series, plain: &Series, bare: Option<&Series>) -> Summarised {
        let bare = bare.filter(|bare| !bare.is_empty());
        Summarised {
            summary: Summary::of(own.rounds()),
            mean: own.rounds().iter().sum::<f64>() / own.rounds().len() as f64,
            ratio: statistics::ratio(own.rounds(), plain.rounds()),
            ratio_to_ring: bare.map(|bare| statistics::ratio(own.rounds(), bare.rounds())),
            rounds: own.rounds().len(),
        }
    }

    fn into_measurement(self, row: &Row, backend: &str, inline: Option<f64>) -> Measurement {
        Measurement {
            call: row.name.to_owned(),
            backend: backend.to_owned(),
            median_ns: rounded(self.summary.median),
            mean_ns: rounded(self.mean),
            ratio: rounded(self.ratio),
            spread: rounded(self.summary.spread),
            ratio_to_ring: self.ratio_to_ring.map(rounded),
            inline: inline.map(rounded),
            rounds: self.rounds,
        }
    }
}

/// To three digits after the point: more would pretend to an exactness that no measurement has.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_gives_valid_numbers() {
        // A small file and no time: every row runs its smallest number of rounds.
        let settings = Settings {
            time: Duration::ZERO,
            file_size: 4 << 20,
            drop_caches: false,
            ..Settings::default()
        };
        let report = run(&settings, &mut |_| {}).unwrap();
        assert!(!report.measurements().is_empty());
        for measurement in report.measurements() {
            assert!(measurement.median_ns > 0.0, "{measurement:?}");
            assert!(
                measurement.ratio > 0.0 && measurement.spread >= 0.0,
                "{measurement:?}"
            );
            assert!(measurement.rounds > 0, "{measurement:?}");
        }
        for row in Row::all().filter(|row| !row.is_cold()) {
            let backends = report
                .measurements()
                .iter()
                .filter(|one| one.call == row.name);
            let backends: Vec<_> = backends.map(|one| one.backend.as_str()).collect();
            if row.is_far() && backends.is_empty() {
                // There is one processor only.
                continue;
            }
            assert_eq!(backends[0], "plain");
            for backend in [
                "sync",
                "threads",
                "hybrid",
                "posix-aio",
                "lazy",
                "lazy-epoll",
            ] {
                assert!(backends.contains(&backend), "{backend} in {}", row.name);
            }
        }
    }
}
