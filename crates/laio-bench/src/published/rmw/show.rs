//! Shows figures 3 to 6, and conclusions.

use super::{Application, workload};
use crate::plot::{Axis, Lines, Scale, Style};
use crate::record::{Case, Record};
use crate::sheet::{Finding, Picture, Sheet, Table, caption, cell, number, series};
use crate::strategy::PLAIN;

const SOURCE: &str = "1995: Solaris 2, two commercial programs; the library approach is libaio with up to 50 kernel threads, \
     the kernel approach kaio. The source gives ratios only: peak 10 % (one processor) and 12 % (two) higher for A, 6 % (two) to 30 % (14) for B; context switches 4 : 1";
const LIBRARY: &str = "threads";
/// The kernel-based strategies of today.
const KERNEL: [&str; 3] = ["linux-aio", "uring", "lazy"];

pub(in crate::published) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "rmw: read, modify and write back, through a library and through the kernel (Yoo, figures 3 to 6)",
    );
    for workload in workloads(record) {
        let title = format!("Application {workload}");
        sheet.tables.push(peaks(record, &workload, &title));
        sheet.tables.push(over_clients(
            record,
            &workload,
            &format!("{title}: iterations each second, by clients"),
            "rate",
        ));
        sheet.tables.push(over_clients(
            record,
            &workload,
            &format!("{title}: context switches for each iteration, by clients"),
            "switches",
        ));
        sheet.pictures.push(picture(
            record,
            &workload,
            ("rate", "iterations each second"),
        ));
        sheet.pictures.push(picture(
            record,
            &workload,
            ("switches", "context switches for each iteration"),
        ));
    }
    if let Some(last) = sheet.tables.last_mut() {
        SOURCE.clone_into(&mut last.foot);
    }
    let all = workloads(record);
    let figures = [
        (
            Application::A,
            1,
            "A, one processor: the kernel's peak is 10 % above the library's",
        ),
        (
            Application::A,
            2,
            "A, two processors: the kernel's peak is 12 % above the library's",
        ),
        (
            Application::B,
            2,
            "B, two processors: the kernel's peak is 6 % above the library's",
        ),
    ];
    for (application, processors, claim) in figures {
        let workload = workload(application, processors);
        if all.contains(&workload) {
            sheet.findings.push(ahead(record, &workload, claim));
        }
    }
    sheet.findings.push(switches(record));
    sheet
        .findings
        .extend(KERNEL.iter().map(|strategy| aim(record, strategy)));
    sheet
}

fn workloads(record: &Record) -> Vec<String> {
    let mut names = Vec::new();
    for case in record.cases() {
        if !names.contains(&case.workload) {
            names.push(case.workload);
        }
    }
    names
}

fn cases(record: &Record, workload: &str) -> Vec<Case> {
    let mut cases = record.cases();
    cases.retain(|case| case.workload == workload);
    cases
}

fn clients(case: &Case) -> String {
    case.at.map_or_else(String::new, |at| at.to_string())
}

/// Returns the highest rate over all numbers of clients, and its case.
fn peak(record: &Record, workload: &str, strategy: &str) -> Option<(f64, Case)> {
    let rates = cases(record, workload)
        .into_iter()
        .filter_map(|case| Some((record.median(&case, strategy, "rate")?, case)));
    rates.max_by(|one, other| one.0.total_cmp(&other.0))
}

fn subjects<'a>(record: &'a Record, workload: &str) -> Vec<&'a str> {
    let mut names = record.subjects();
    names.retain(|name| peak(record, workload, name).is_some());
    names
}

fn peaks(record: &Record, workload: &str, title: &str) -> Table {
    let library = peak(record, workload, LIBRARY);
    let head = [
        "",
        "peak, each s",
        "clients",
        "x threads",
        "switches each",
        "CPU us each",
    ];
    let line = |name: &str| {
        let (rate, case) = peak(record, workload, name)?;
        let of = |quantity| cell(record.median(&case, name, quantity));
        Some(vec![
            name.to_owned(),
            number(rate),
            clients(&case),
            cell(library.as_ref().map(|library| rate / library.0)),
            of("switches"),
            of("cpu_us"),
        ])
    };
    Table {
        title: format!("{title}: peaks"),
        head: head.map(str::to_owned).to_vec(),
        lines: subjects(record, workload)
            .into_iter()
            .filter_map(line)
            .collect(),
        foot: String::new(),
    }
}

fn over_clients(record: &Record, workload: &str, title: &str, quantity: &str) -> Table {
    let cases = cases(record, workload);
    let mut head = vec![String::new()];
    head.extend(cases.iter().map(clients));
    let line = |name: &str| {
        let cells = cases
            .iter()
            .map(|case| cell(record.median(case, name, quantity)));
        std::iter::once(name.to_owned()).chain(cells).collect()
    };
    Table {
        title: title.to_owned(),
        head,
        lines: subjects(record, workload).into_iter().map(line).collect(),
        foot: String::new(),
    }
}

fn picture(record: &Record, workload: &str, (quantity, label): (&str, &str)) -> Picture {
    let cases = cases(record, workload);
    let series = subjects(record, workload).into_iter().map(|name| {
        let style = if name.starts_with("fio") {
            Style::Dashed
        } else {
            Style::Line
        };
        series(record, &cases, name, quantity, style)
    });
    // Values from some hundredths to some tens need a logarithmic axis.
    let scale = match quantity {
        "switches" => Scale::Log,
        _ => Scale::Linear,
    };
    let clients: Vec<f64> = cases.iter().filter_map(|case| case.at).collect();
    let plot = Lines {
        title: format!("Read, modify, write back: application {workload}"),
        caption: caption(record),
        x: Axis::new("clients", Scale::Log).at(&clients),
        y: Axis::new(label, scale),
        series: series.collect(),
        reference: None,
    };
    Picture {
        name: format!(
            "rmw-{}-{quantity}",
            workload.replace(", ", "-").replace(' ', "-").to_lowercase()
        ),
        svg: plot.svg(),
    }
}

/// Compares the best of the kernel's strategies with the library.
fn ahead(record: &Record, workload: &str, claim: &str) -> Finding {
    let found = peak(record, workload, LIBRARY).and_then(|(library, _)| {
        let ratios: Vec<_> = KERNEL
            .iter()
            .filter_map(|strategy| Some((strategy, peak(record, workload, strategy)?.0 / library)))
            .collect();
        let best = ratios.iter().map(|ratio| ratio.1).reduce(f64::max)?;
        let words: Vec<_> = ratios
            .iter()
            .map(|(strategy, ratio)| format!("{strategy} {}", number(*ratio)))
            .collect();
        Some((
            best > 1.02,
            format!("peaks over that of threads: {}", words.join(", ")),
        ))
    });
    Finding::new(claim, found)
}

/// Returns the case with as many clients as the published peak, or with the most.
fn crowded(record: &Record, workload: &str) -> Option<Case> {
    let cases = cases(record, workload);
    let thirty = cases.iter().find(|case| case.at == Some(30.0));
    thirty.or(cases.last()).cloned()
}

fn switches(record: &Record) -> Finding {
    let workload = workloads(record)
        .into_iter()
        .rfind(|name| name.starts_with('A'));
    let found = workload.and_then(|workload| {
        let case = crowded(record, &workload)?;
        let of = |strategy| record.median(&case, strategy, "switches");
        let library = of(LIBRARY)?;
        let ratios: Vec<_> = KERNEL.iter().filter_map(|strategy| Some((strategy, library / of(strategy)?))).collect();
        let least = ratios.iter().map(|ratio| ratio.1).reduce(f64::min)?;
        let words: Vec<_> = ratios.iter().map(|(strategy, ratio)| format!("{strategy} {} : 1", number(*ratio))).collect();
        let why = "what the kernel keeps in flight wakes one thread for many completions; a helper sleeps in each call and wakes the caller";
        Some((least >= 4.0, format!("{}, application {workload}, {} clients: {why}", words.join(", "), clients(&case))))
    });
    Finding::new(
        "context switches of the library's and the kernel's way are 4 : 1",
        found,
    )
}

/// Checks for 10 % more rate with a quarter of the switches; or gives the reason why not.
fn aim(record: &Record, strategy: &str) -> Finding {
    let mut parts = Vec::new();
    let mut missed = None;
    for workload in workloads(record) {
        let (Some((rate, _)), Some((library, _)), Some(case)) = (
            peak(record, &workload, strategy),
            peak(record, &workload, LIBRARY),
            crowded(record, &workload),
        ) else {
            continue;
        };
        let of = |name, quantity| record.median(&case, name, quantity);
        let (Some(own), Some(theirs)) = (of(strategy, "switches"), of(LIBRARY, "switches")) else {
            continue;
        };
        let (speed, part) = (rate / library, own / theirs);
        if speed < 1.1 || part > 0.25 {
            missed.get_or_insert_with(|| workload.clone());
        }
        parts.push(format!(
            "{workload}: {} times the peak, {} of the switches",
            number(speed),
            number(part)
        ));
    }
    let found = (!parts.is_empty()).then(|| {
        let why = missed
            .as_ref()
            .and_then(|workload| reason(record, workload, strategy));
        let (held, why) = (missed.is_none(), why.unwrap_or_default());
        (held, format!("{}{why}", parts.join("; ")))
    });
    Finding::new(
        &format!(
            "{strategy} is at least 10 % ahead of threads, with at most a quarter of the context switches (aim)"
        ),
        found,
    )
}

/// If the disk limits all strategies, the difference is in processor time.
fn reason(record: &Record, workload: &str, strategy: &str) -> Option<String> {
    let case = crowded(record, workload)?;
    let of = |name, quantity| record.median(&case, name, quantity);
    let (own, theirs) = (of(strategy, "cpu_us")?, of(LIBRARY, "cpu_us")?);
    let best = subjects(record, workload)
        .into_iter()
        .filter_map(|name| of(name, "rate"))
        .reduce(f64::max)?;
    let plain = of(PLAIN, "rate").map_or(String::new(), |rate| {
        format!(", plain threads {}", number(rate))
    });
    Some(format!(
        ". Why not everywhere: with {} clients ({workload}) it takes {} us of processor time for each iteration, threads {}; \
         the fastest of all does {} each second, it {}{plain}: where rates are alike the disk is the limit for both",
        clients(&case),
        number(own),
        number(theirs),
        number(best),
        cell(of(strategy, "rate")),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::super::Settings;
    use super::*;
    use crate::stop::Stop;

    #[test]
    fn every_way_writes_back_what_it_has_read() {
        let settings = Settings {
            quick: true,
            scale: Some(0.004),
            rounds: Some(1),
            at: vec![3],
            ..Settings::default()
        };
        let record = super::super::run(&settings, &Stop::new(), &mut |_| {}).unwrap();
        for cell in &record.cells {
            // A strategy that this machine does not support is left out; all results are correct.
            let reason = cell.left_out.as_deref().unwrap_or_default();
            assert!(!reason.contains("not as it was written"), "{cell:?}");
        }
        for name in ["lazy", "threads", "hybrid"] {
            assert!(peak(&record, "A, 1 processor", name).is_some(), "{name}");
            assert!(peak(&record, "B, 1 processor", name).is_some(), "{name}");
        }
        let sheet = show(&record);
        assert!(sheet.findings.len() >= 5 && sheet.pictures.len() >= 4);
        assert_eq!(cases(&record, "nothing"), []);
    }
}
