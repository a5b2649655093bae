//! The results as plots.

use super::report::{find, is_published, speed};
use super::workload::{DEPTHS, SIZES};
use super::{Workload, published};
use crate::plot::{Axis, Bar, Bars, Group, Lines, Scale, Series, Style};
use crate::record::{Cache, Record};

/// Returns the plots, each with a name for its file.
pub fn pictures(record: &Record) -> Vec<(String, String)> {
    let mut pictures = Vec::new();
    for cache in [Cache::Cold, Cache::Warm] {
        for (depth, _) in DEPTHS {
            let plot = table1(record, depth, cache);
            pictures.extend(
                plot.map(|svg| (format!("cp-table1-depth{depth}-{}.svg", cache.name()), svg)),
            );
        }
        let plot = trees(record, cache);
        pictures.extend(plot.map(|svg| (format!("cp-trees-{}.svg", cache.name()), svg)));
    }
    pictures
}

const SPEED: &str = "times as fast as GNU cp";

fn caption(record: &Record) -> String {
    let machine = &record.machine;
    let (kernel, processors) = (&machine.kernel, machine.processors);
    let rounds = record.settings.get("rounds").map_or("", String::as_str);
    format!(
        "{kernel}, {processors} CPUs, {}; medians of {rounds} rounds",
        machine.file_system
    )
}

/// Plots the speed over the size of the files, for the measured subjects and the published ones.
fn table1(record: &Record, depth: u32, cache: Cache) -> Option<String> {
    let mut series = Vec::new();
    for subject in record.subjects() {
        let of_size = |kib: &u64| {
            let name = Workload::Published { depth, kib: *kib }.name();
            let cell = find(record, &name, cache, subject)?;
            Some((*kib as f64, speed(record, cell)?))
        };
        let found: Vec<_> = SIZES.iter().filter_map(of_size).collect();
        if found.is_empty() || subject == super::subject::REFERENCE {
            continue;
        }
        series.push(Series {
            name: subject.to_owned(),
            points: found
                .iter()
                .map(|(kib, speed)| (*kib, speed.median))
                .collect(),
            ranges: found
                .iter()
                .map(|(_, speed)| (speed.low, speed.high))
                .collect(),
            style: Style::Line,
        });
    }
    if series.is_empty() {
        return None;
    }
    if cache == Cache::Cold {
        for (number, program) in published::PROGRAMS.iter().enumerate().skip(1) {
            let of_size = |kib: &u64| {
                let seconds = published::seconds(depth, *kib)?;
                Some((*kib as f64, seconds[0] / seconds[number]))
            };
            series.push(Series {
                name: format!("{program}, 2014"),
                points: SIZES.iter().filter_map(of_size).collect(),
                ranges: Vec::new(),
                style: Style::Dashed,
            });
        }
    }
    let plot = Lines {
        title: format!(
            "cp -r of small trees, depth {depth}, {} cache",
            cache.name()
        ),
        caption: caption(record),
        x: Axis::new("size of each file, KiB", Scale::Log).at(&SIZES.map(|kib| kib as f64)),
        y: Axis::new(SPEED, Scale::Log),
        series,
        reference: Some(1.0),
    };
    Some(plot.svg())
}

/// Plots the speed on each of the other trees.
fn trees(record: &Record, cache: Cache) -> Option<String> {
    let names = record.subjects();
    let mut groups: Vec<Group> = Vec::new();
    for cell in &record.cells {
        if cell.cache != cache || is_published(&cell.workload) {
            continue;
        }
        let (Some(speed), Some(series)) = (
            speed(record, cell),
            names.iter().position(|name| *name == cell.subject),
        ) else {
            continue;
        };
        let bar = Bar {
            series,
            value: speed.median,
            range: Some((speed.low, speed.high)),
        };
        match groups.iter_mut().find(|group| group.name == cell.workload) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group {
                name: cell.workload.clone(),
                bars: vec![bar],
            }),
        }
    }
    let plot = Bars {
        title: format!("Copying trees, {} cache", cache.name()),
        caption: caption(record),
        x: Axis::new(SPEED, Scale::Linear),
        series: names.iter().map(|name| (*name).to_owned()).collect(),
        groups,
        reference: Some(1.0),
    };
    (!plot.groups.is_empty()).then(|| plot.svg())
}
