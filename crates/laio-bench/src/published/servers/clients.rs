//! `laio bench clients`: figures 6 to 13 of the thesis.

use super::super::{Progress, Settings};
use super::curves::{self, CPU, MEGABYTES, RESPONSE, SWITCHES};
use super::schedulers::Schedulers;
use super::serving::USUAL;
use super::{Server, ServerRun, ServerWorkspace};
use crate::error::{Error, While};
use crate::load::Pace;
use crate::record::{Cache, Case, Record};
use crate::sheet::{Finding, Sheet, number};
use crate::stop::Stop;
use crate::trace::Preset;

pub(super) const PRESETS: [&str; 6] = [
    "ohttpd-networkonly",
    "ohttpd-all",
    "thttpd-nb-b",
    "thttpd-laio",
    "thttpd-laiogen",
    "seda",
];
const BACKENDS: [&str; 4] = ["lazy", "uring", "threads", "activations"];
const CLIENTS: [usize; 8] = [1, 10, 50, 100, 200, 500, 1000, 2000];
const CLIENTS_QUICK: [usize; 4] = [1, 10, 100, 1000];
const AXIS: &str = "clients";

pub(in crate::published) fn run(
    settings: &Settings,
    stop: &Stop,
    progress: Progress<'_>,
) -> Result<Record, Error> {
    let rounds = settings.rounds(1, 3);
    let (workspace, mut record) = ServerWorkspace::open("clients", settings, rounds, stop)?;
    let trace = Preset::Rice.trace(1, settings.scale(0.012));
    let root = workspace.make("Rice", &trace, &mut record, progress)?;
    let mut servers: Vec<Server> = BACKENDS.map(Server::backend).into();
    servers.push(Server::usual());
    servers.extend(PRESETS.map(Server::preset));
    servers.extend(Server::peers());
    let servers = workspace.servers(servers, &mut record);
    let usual: &[usize] = if settings.quick {
        &CLIENTS_QUICK
    } else {
        &CLIENTS
    };
    let numbers = settings.at(usual);
    for cache in workspace.caches(&mut record) {
        let run = |workload: &str, record: &mut Record, progress: Progress<'_>| {
            let each = |clients: &usize| {
                let clients = *clients;
                servers
                    .iter()
                    .map(move |server| (clients, server.clone(), Pace::Clients(clients)))
            };
            let run = ServerRun {
                workload,
                cache,
                trace: &trace,
                root: &root,
                subjects: numbers.iter().flat_map(each).collect(),
                // As servers of that time were loaded: each request has a connection of its own.
                close: true,
            };
            run.take(&workspace, record, progress)
        };
        match (cache, Schedulers::of(&root)) {
            (Cache::Cold, Ok(schedulers)) if !settings.quick => {
                for name in schedulers.names() {
                    schedulers
                        .choose(&name)
                        .doing("cannot choose an I/O scheduler")?;
                    run(&format!("Rice, {name}"), &mut record, progress)?;
                }
            }
            (Cache::Cold, Ok(schedulers)) => {
                let own = schedulers.names().swap_remove(0);
                record.note(format!(
                    "I/O scheduler {own}; without --quick each of the device's takes its turns"
                ));
                run("Rice", &mut record, progress)?;
            }
            (Cache::Cold, Err(reason)) => {
                record.note(format!("one I/O scheduler only: {reason}"));
                run("Rice", &mut record, progress)?;
            }
            (Cache::Warm, _) => run("Rice", &mut record, progress)?,
        }
    }
    Ok(record)
}

pub(in crate::published) fn show(record: &Record) -> Sheet {
    let mut sheet = Sheet::of(
        record,
        "clients: servers by the number of their clients (thesis, figures 6 to 13)",
    );
    for group in curves::groups(record) {
        for quantity in [MEGABYTES, RESPONSE, CPU, SWITCHES] {
            sheet
                .tables
                .push(curves::table(record, &group, AXIS, quantity));
        }
        for quantity in [MEGABYTES, RESPONSE] {
            sheet
                .pictures
                .push(curves::picture(record, &group, AXIS, quantity, Vec::new()));
        }
    }
    if let Some(last) = sheet.tables.last_mut() {
        last.foot = "2005: curves only; FreeBSD 5.3 and Linux 2.6.10, gigabit network, 245,820 requests, up to more than 1,000 clients".to_owned();
    }
    sheet.findings = vec![
        ahead(
            record,
            ("thttpd-laio", "thttpd-nb-b"),
            1.05,
            "thttpd with LAIO has a higher throughput than thttpd with blocking disk I/O (figure 6)",
            "what waits for the disk no longer keeps other clients waiting; from memory nothing waits, and what is left is the cost of looking",
        ),
        ahead(
            record,
            ("ohttpd-networkonly", "ohttpd-all"),
            1.05,
            "ohttpd is faster if open and stat are made plainly (figure 8, anticipatory scheduler)",
            "open and stat rarely wait, and a helper costs two switches each time",
        ),
        ahead(
            record,
            ("thttpd-laiogen", "thttpd-laio"),
            0.95,
            "with light threads the eager thttpd-laiogen is as fast as thttpd-laio, or faster (figure 12)",
            "threads have become lighter, and what they are compared with does without them",
        ),
        ahead(
            record,
            (USUAL, "nginx"),
            0.95,
            "laio serve with one worker is not behind nginx with one worker (aim)",
            "what waits for the disk stalls nobody else, nginx's sendfile does",
        ),
        linear(record),
    ];
    sheet
}

/// Returns the ratio of two servers' peaks, in each group.
fn ahead(
    record: &Record,
    (one, other): (&str, &str),
    least: f64,
    claim: &str,
    why: &str,
) -> Finding {
    let ratios: Vec<(Case, f64)> = curves::groups(record)
        .into_iter()
        .filter_map(|group| {
            let peak = |name| curves::peak(record, &group, name, MEGABYTES.0);
            let ratio = peak(one)? / peak(other)?;
            Some((group, ratio))
        })
        .collect();
    let lowest = ratios.iter().map(|ratio| ratio.1).reduce(f64::min);
    let found = lowest.map(|lowest| {
        let words: Vec<_> = ratios
            .iter()
            .map(|(group, ratio)| format!("{} {}", curves::title(group), number(*ratio)))
            .collect();
        let held = lowest >= least;
        // The explanation applies only if the claim does not hold.
        let why = match held {
            true => format!("; {why}"),
            false => curves::why_behind_most(record, &ratios, one, other),
        };
        let description = format!(
            "peak of {one} over that of {other}: {}{why}",
            words.join(", ")
        );
        (held, description)
    });
    Finding::new(claim, found)
}

/// Ten times the clients, ten times the response time: the server works at its limit, with no overhead for
/// more clients.
fn linear(record: &Record) -> Finding {
    let growth = |group: &Case| {
        let at = |clients: usize| Case {
            at: Some(clients as f64),
            ..group.clone()
        };
        let response = |clients| record.median(&at(clients), "lazy", RESPONSE.0);
        Some(response(1000)? / response(100)?)
    };
    let growths: Vec<_> = curves::groups(record)
        .into_iter()
        .filter_map(|group| Some((curves::title(&group), growth(&group)?)))
        .collect();
    let highest = growths.iter().map(|growth| growth.1).reduce(f64::max);
    let found = highest.map(|highest| {
        let words: Vec<_> = growths
            .iter()
            .map(|(title, growth)| format!("{title} {} times", number(*growth)))
            .collect();
        (
            highest <= 20.0,
            format!("lazy, from 100 to 1000 clients: {}", words.join(", ")),
        )
    });
    Finding::new(
        "response times grow in proportion to the clients (figures 7 to 13; eager servers did not)",
        found,
    )
}
