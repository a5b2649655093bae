//! `laio bench flash`: the Flash web server with four kinds of disk I/O (LAIO, 2004).

use super::super::{Progress, Settings};
use super::curves::{self, CPU, MEGABYTES, RESPONSE};
use super::{Server, ServerRun, ServerWorkspace};
use crate::error::Error;
use crate::load::Pace;
use crate::record::Record;
use crate::sheet::{Finding, Sheet, number};
use crate::stop::Stop;
use crate::trace::Preset;

const PRESETS: [&str; 4] = ["flash-nb-b", "flash-nb-aio", "flash-amped", "flash-laio"];
const OURS: &str = "flash-laio";
const CLIENTS: [usize; 6] = [1, 10, 50, 100, 300, 500];
const CLIENTS_QUICK: [usize; 2] = [10, 100];
const AXIS: &str = "clients";

pub(in crate::published) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(2, 5);
    let (workspace, mut record) = ServerWorkspace::open("flash", settings, rounds, stop)?;
    let mut servers: Vec<Server> = PRESETS.map(Server::preset).into();
    servers.extend(Server::peers());
    let servers = workspace.servers(servers, &mut record);
    let usual: &[usize] = if settings.quick {
        &CLIENTS_QUICK
    } else {
        &CLIENTS
    };
    let numbers = settings.at(usual);
    record.note(
        "published: the large set was 3.2 times as large as the memory; here the cold cache stands for that, and large means many files".to_owned(),
    );
    let sets = [
        ("small (Rice)", Preset::Rice, 1.0),
        ("large (Berkeley)", Preset::Berkeley, 0.5),
    ];
    for (name, preset, part) in sets {
        let trace = preset.trace(1, settings.scale(0.012) * part);
        let root = workspace.make(name, &trace, &mut record, progress)?;
        for cache in workspace.caches(&mut record) {
            let each = |clients: &usize| {
                let clients = *clients;
                servers
                    .iter()
                    .map(move |server| (clients, server.clone(), Pace::Clients(clients)))
            };
            let run = ServerRun {
                workload: name,
                cache,
                trace: &trace,
                root: &root,
                subjects: numbers.iter().flat_map(each).collect(),
                close: true,
            };
            run.take(&workspace, &mut record, progress)?;
        }
        workspace.remove(&root)?;
    }
    Ok(record)
}

pub(in crate::published) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "flash: one server, four kinds of disk I/O (LAIO, 2004)",
    );
    for group in curves::groups(record) {
        for quantity in [MEGABYTES, RESPONSE, CPU] {
            sheet
                .tables
                .push(curves::table(record, &group, AXIS, quantity));
        }
        sheet
            .pictures
            .push(curves::picture(record, &group, AXIS, MEGABYTES, Vec::new()));
    }
    if let Some(last) = sheet.tables.last_mut() {
        last.foot =
            "2004: curves only; FreeBSD 5.2, Xeon of 2.4 GHz, 2 GB of memory, gigabit network"
                .to_owned();
    }
    sheet.findings = PRESETS[..3]
        .iter()
        .map(|other| meets(record, other))
        .collect();
    sheet
}

/// Returns the ratio of ours to another, in each group.
fn meets(record: &Record, other: &str) -> Finding {
    let ratios: Vec<_> = curves::groups(record)
        .into_iter()
        .filter_map(|group| {
            let peak = |name| curves::peak(record, &group, name, MEGABYTES.0);
            let ratio = peak(OURS)? / peak(other)?;
            Some((group, ratio))
        })
        .collect();
    let lowest = ratios.iter().map(|ratio| ratio.1).reduce(f64::min);
    let found = lowest.map(|lowest| {
        let words: Vec<_> = ratios
            .iter()
            .map(|(group, ratio)| format!("{} {}", curves::title(group), number(*ratio)))
            .collect();
        // The usual difference between servers on a shared machine.
        let held = lowest >= 0.95;
        let why = match (held, other) {
            (false, _) => curves::why_behind_most(record, &ratios, OURS, other),
            (true, "flash-amped") => "; helpers are spared where nothing waits".to_owned(),
            (true, "flash-nb-aio") => {
                "; open and stat do not stall it either, and what is in memory is read at once"
                    .to_owned()
            }
            (true, _) => "; no client waits for another's disk".to_owned(),
        };
        let words = words.join(", ");
        (
            held,
            format!("peak of {OURS} over that of {other}: {words}{why}"),
        )
    });
    Finding::new(&format!("{OURS} meets or exceeds {other}"), found)
}
