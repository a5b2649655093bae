//! `laio bench calls`: the cost of a call through each back end, relative to the plain call.
//!
//! Blocks of each back end alternate with blocks of the plain call, in rounds of about a millisecond. The
//! ratio is the median of the rounds' ratios: other load on the machine affects both sides, and a few rounds
//! in which it affects only one do not change the median.

mod cache;
mod catalogue;
mod report;
mod rounds;
mod variant;
mod whole_file;
pub(crate) mod workspace;

pub use catalogue::Row;
pub use report::{Measurement, Report};
pub use variant::CallVariant;

use crate::error::{Error, While};
use crate::machine::Machine;
use crate::pin::Pinned;
use crate::statistics::Quartiles;
use laio::BackendKind;
use laio::Context;
use laio::measure::{BareRing, Via};
use laio_rt::Runtime;
use rounds::Series;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use workspace::Workspace;

/// What to measure, and in which directory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The rows, in order.
    pub rows: Vec<&'static Row>,
    /// The back ends, in order.
    pub variants: Vec<CallVariant>,
    /// The time for each row, shared by its back ends.
    pub time: Duration,
    /// The directory for files; `None` chooses one that is not in memory.
    pub directory: Option<PathBuf>,
    /// The file of the cold reads; `None` creates one.
    pub file: Option<PathBuf>,
    /// The size of that file in bytes.
    pub file_size: u64,
    /// Whether the page cache of the whole system may be dropped before cold reads.
    pub drop_caches: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rows: Row::all().collect(),
            variants: CallVariant::USUAL.to_vec(),
            time: Duration::from_secs(2),
            directory: None,
            file: None,
            file_size: 1 << 30,
            drop_caches: true,
        }
    }
}

/// Measures all rows. `progress` receives a line for each step.
///
/// # Errors
/// If a file cannot be created, or a call did not have the expected result. A back end that this
/// machine does not support is not an error: it is left out, and a note says so.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let mut workspace = Workspace::prepare(settings)?;
    let mut report = Report::new(Machine::for_directory(workspace.directory()).line());
    if let Some(note) = cpu_note() {
        report.note(note);
    }
    for row in &settings.rows {
        if row.is_cold() {
            progress("making the file of the cold reads");
            if let Some(reason) = workspace.prepare_cold(settings)? {
                report.note(format!("{} left out: {reason}", row.name));
                continue;
            }
        }
        measure_row(row, settings, &mut workspace, &mut report, progress)?;
    }
    report.notes(workspace.notes());
    Ok(report)
}

/// Returns a note if the CPU frequency varies with the load, which makes absolute times hard to compare.
/// Ratios remain valid.
fn cpu_note() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = std::fs::read_to_string(path).ok()?;
    let governor = governor.trim();
    (governor != "performance").then(|| format!("the CPU frequency governor is `{governor}`"))
}

fn measure_row(
    row: &'static Row,
    settings: &Settings,
    workspace: &mut Workspace,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut ring = match BareRing::new() {
        Ok(ring) if row.runs_on_a_ring() => Some(ring),
        _ => None,
    };
    let wants_ring = settings.variants.contains(&CallVariant::BareRing);
    let mut variants = settings.variants.clone();
    variants.retain(|variant| *variant != CallVariant::BareRing && row.takes(*variant));
    let (mut plain, mut bare) = (Series::new(), Series::new());
    let mut measured = Vec::new();
    let turns = variants.len().max(1) as u32;
    for variant in &variants {
        progress(&format!("{}: {variant}", row.name));
        // A ring serves only the kernel thread that created it, and `activations` changes the kernel thread.
        let changes_thread = *variant == CallVariant::Backend(BackendKind::Activations);
        let outcome = measure_one(
            row,
            *variant,
            ring.as_mut().filter(|_| !changes_thread),
            workspace,
            settings.time / turns,
        )?;
        let (series, inline) = match outcome {
            Ok(outcome) => outcome,
            Err(reason) => {
                report.note(format!("{} through {variant} left out: {reason}", row.name));
                continue;
            }
        };
        let [plain_rounds, bare_rounds, own] = series;
        let bare_rounds = (!bare_rounds.is_empty()).then_some(bare_rounds);
        let ring = bare_rounds.as_deref();
        measured.push(measurement(
            row,
            variant.name(),
            &own,
            [Some(&plain_rounds), ring],
            inline,
        ));
        plain.extend(plain_rounds);
        bare.extend(bare_rounds.into_iter().flatten());
    }
    if plain.is_empty() {
        return Ok(());
    }
    let mut baseline = |name, rounds: &[f64]| {
        report.add(measurement(row, name, rounds, [Some(&plain), None], None));
    };
    baseline("plain", &plain);
    if wants_ring && !bare.is_empty() {
        baseline(CallVariant::BareRing.name(), &bare);
    }
    for measurement in measured {
        report.add(measurement);
    }
    Ok(())
}

/// The rounds of the plain call, of the bare ring (empty if it does not take part) and of the variant; and
/// the fraction of the variant's calls that finished inline, if the variant counts that.
type Outcome = ([Series; 3], Option<f64>);

/// Measures one variant in one row. The inner error says why this machine cannot measure it.
fn measure_one(
    row: &'static Row,
    variant: CallVariant,
    ring: Option<&mut BareRing>,
    workspace: &mut Workspace,
    time: Duration,
) -> Result<Result<Outcome, String>, Error> {
    // Before the context is created, so that its threads inherit the affinity as in an ordinary program.
    let pinned = if row.stays(variant) {
        Pinned::here()
    } else {
        None
    };
    if row.is_far()
        && pinned
            .as_ref()
            .is_none_or(|pinned| pinned.other_processor().is_none())
    {
        return Ok(Err("it needs two processors".to_owned()));
    }
    let (mut context, runtime) = match measured(row, variant) {
        Ok(measured) => measured,
        Err(error) => {
            return Ok(Err(format!(
                "this machine does not support the back end: {error}"
            )));
        }
    };
    let doing = || format!("{} through {variant}", row.name);
    let mut subject = row.subject(workspace, pinned.as_ref(), runtime)?;
    let own = match &mut context {
        Some(context) => Via::Context(context),
        None => Via::Direct,
    };
    let mut participants = vec![Via::Plain, own];
    if let Some(ring) = ring {
        participants.insert(1, Via::Ring(ring));
    }
    let blocks = row.blocks();
    let mut before = || workspace.before_block(row);
    let series = rounds::run(&mut *subject, &mut participants, &blocks, time, &mut before);
    let mut series = series.doing(doing())?;
    if series.len() == 2 {
        series.insert(1, Series::new());
    }
    let series = series.try_into().expect("three participants at most");
    let inline = context.map(|context| {
        let total = context.stats().total();
        total.inline as f64 / total.total().max(1) as f64
    });
    Ok(Ok((series, inline)))
}

/// Returns the context or the runtime that a row measures; none for `direct`.
fn measured(row: &Row, variant: CallVariant) -> io::Result<(Option<Context>, Option<Runtime>)> {
    Ok(
        match variant
            .options(row.trusts_names())
            .map(|options| options.trust_writes(row.trusts_writes()))
        {
            None => (None, None),
            Some(options) if row.needs_runtime() => (None, Some(Runtime::new(options)?)),
            Some(options) => (Some(Context::new(options)?), None),
        },
    )
}

/// Returns the result of a series, relative to the rounds of the plain call and of the ring.
fn measurement(
    row: &Row,
    backend: &str,
    own: &[f64],
    [plain, ring]: [Option<&[f64]>; 2],
    inline: Option<f64>,
) -> Measurement {
    let summary = Quartiles::from_rounds(own).expect("at least one round");
    let ratio = |other| Some(rounded(Quartiles::of_ratios(own, other?)?.median));
    Measurement {
        call: row.name.to_owned(),
        backend: backend.to_owned(),
        median_ns: rounded(summary.median),
        mean_ns: rounded(own.iter().sum::<f64>() / own.len() as f64),
        ratio: ratio(plain).expect("at least one round"),
        spread: rounded(summary.spread()),
        ratio_to_ring: ratio(ring),
        inline: inline.map(rounded),
        rounds: own.len(),
    }
}

/// Rounds to three decimals, because measurements are not more precise.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_gives_valid_numbers() {
        // A small file and no time: every row runs its minimum of rounds.
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
                // This machine has one processor only.
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
