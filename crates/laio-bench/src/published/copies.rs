//! Recursive copies as one of the comparisons; `laio bench cp` has more options.

use super::run::Run;
use crate::copy::{self, Subject, Workload};
use crate::error::Error;
use crate::record::Record;

/// Returns the record with the trees of table 1 as depths, with the size of a file as their position on the axis.
pub(super) fn view(record: &Record) -> Record {
    let mut view = record.clone();
    for cell in &mut view.cells {
        if let Some((depth, kib)) = copy::depth_and_size(&cell.workload) {
            cell.workload = format!("depth {depth}");
            cell.at = Some(kib as f64);
        }
    }
    view
}

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
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
    let settings = copy::Settings {
        laio: settings.laio.clone(),
        workloads,
        subjects: Subject::chosen(settings.quick, &settings.subjects),
        caches: settings.caches(),
        rounds: run.rounds,
        directory: run.chosen.clone(),
    };
    run.record = copy::run(&settings, run.stop, run.progress)?;
    Ok(())
}
