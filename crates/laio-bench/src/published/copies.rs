//! Recursive copies as one of the comparisons; `laio bench cp` has more options.

use super::{Progress, Settings};
use crate::copy::{self, Subject, Workload};
use crate::error::Error;
use crate::record::{Cache, Case, Record};
use crate::sheet::{Finding, Picture, Sheet, number};
use crate::stop::Stop;

pub(super) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let directory = crate::calls::workspace::choose_directory(settings.directory.as_deref())?;
    let mut workloads = Workload::table1(if settings.quick {
        &[4, 64]
    } else {
        &[4, 8, 16, 32, 64]
    });
    if !settings.quick {
        let trees = ["deep", "flat"]
            .iter()
            .filter_map(|name| Workload::named(name, settings.scale(1.0)).ok());
        workloads.extend(trees.flatten());
    }
    let mut subjects = match settings.quick {
        true => Subject::few(),
        false => Subject::all(),
    };
    if !settings.subjects.is_empty() {
        subjects = Subject::all();
        let reference = subjects[0].clone();
        subjects.retain(|one| {
            *one == reference || settings.takes(one.name().trim_start_matches("laio "))
        });
    }
    let settings = copy::Settings {
        laio: settings.laio.clone(),
        workloads,
        subjects,
        caches: settings.caches(),
        rounds: settings.rounds(3, 5),
        directory: directory.path,
    };
    copy::run(&settings, stop, progress)
}

pub(super) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "cp: recursive copies (Parikh and Surendran, table 1)",
    );
    // The table itself contains these lines.
    sheet.about.truncate(1);
    let table = copy::table(record);
    sheet.text = table
        .split_once('\n')
        .map_or(String::new(), |(_, rest)| rest.to_owned());
    let pictures = copy::pictures(record).into_iter();
    sheet.pictures = pictures
        .map(|(name, svg)| Picture {
            name: name.trim_end_matches(".svg").to_owned(),
            svg,
        })
        .collect();
    sheet.findings = vec![finding(record)];
    sheet
}

/// Returns the mean speed relative to GNU cp over the cold trees of table 1.
fn finding(record: &Record) -> Finding {
    let mean = |subject: &str| {
        let cases = record.cases().into_iter();
        let speeds: Vec<f64> = cases
            .filter(|case| case.cache == Cache::Cold && copy::is_published(&case.workload))
            .filter_map(|case: Case| {
                Some(
                    record
                        .ratio((&case, "cp"), (&case, subject), "wall_s")?
                        .median,
                )
            })
            .collect();
        let logs: f64 = speeds.iter().map(|speed| speed.ln()).sum();
        (!speeds.is_empty()).then(|| (logs / speeds.len() as f64).exp())
    };
    let ours: Vec<_> = record
        .subjects()
        .into_iter()
        .filter(|name| name.starts_with("laio"))
        .filter_map(|name| Some((name, mean(name)?)))
        .collect();
    let best = ours.iter().map(|one| one.1).reduce(f64::max);
    let found = best.map(|best| {
        let words: Vec<_> = ours.iter().map(|(name, speed)| format!("{name} {}", number(*speed))).collect();
        let why = "reads of many files are in flight together, and a worker for each processor makes names and inodes, which GNU cp does one after the other";
        (best >= 1.08, format!("times as fast as GNU cp on the trees of table 1, cold, mean: {}: {why}", words.join(", ")))
    });
    Finding::new(
        "the best asynchronous copy is 8 to 23 % faster than cp; the one with O_DIRECT is the slowest",
        found,
    )
}
