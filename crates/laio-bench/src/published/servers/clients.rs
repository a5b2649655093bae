//! `laio bench clients`: figures 6 to 13 of the thesis.

use super::loads::{Loads, by_clients};
use super::schedulers::Schedulers;
use super::serving::Server;
use super::usable;
use crate::error::{Error, While};
use crate::published::run::Run;
use crate::record::Cache;
use crate::trace::Preset;

const PRESETS: [&str; 6] = [
    "ohttpd-networkonly",
    "ohttpd-all",
    "thttpd-nb-b",
    "thttpd-laio",
    "thttpd-laiogen",
    "seda",
];
const BACKENDS: [&str; 4] = ["lazy", "uring", "threads", "activations"];
const CLIENTS: &[usize] = &[1, 10, 50, 100, 200, 500, 1000, 2000];
const CLIENTS_QUICK: &[usize] = &[1, 10, 100, 1000];

pub(in crate::published) fn is_preset(name: &str) -> bool {
    PRESETS.contains(&name)
}

pub(in crate::published) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    let trace = Preset::Rice.trace(1, settings.scale(0.012));
    let set = run.make("Rice", &trace)?;
    let mut servers: Vec<Server> = BACKENDS.map(Server::backend).into();
    servers.push(Server::usual());
    servers.extend(PRESETS.map(Server::preset));
    servers.extend(Server::peers());
    let servers = usable(run, servers);
    let numbers = settings.at(if settings.quick {
        CLIENTS_QUICK
    } else {
        CLIENTS
    });
    for cache in run.caches() {
        let measure = |workload: &str, run: &mut Run<'_>| {
            let loads = Loads {
                workload,
                trace: &trace,
                set: &set,
                subjects: by_clients(&numbers, &servers),
            };
            loads.measure(run, cache)
        };
        if cache == Cache::Warm {
            measure("Rice", run)?;
            continue;
        }
        match Schedulers::from_directory(&set) {
            Ok(schedulers) if !settings.quick => {
                for name in schedulers.names() {
                    schedulers
                        .choose(&name)
                        .doing("cannot choose an I/O scheduler")?;
                    measure(&format!("Rice, {name}"), run)?;
                }
                continue;
            }
            Ok(schedulers) => {
                let own = schedulers.names().swap_remove(0);
                run.record.note(format!(
                    "I/O scheduler {own}; without --quick each of the device's takes its turns"
                ));
            }
            Err(reason) => run.record.note(format!("one I/O scheduler only: {reason}")),
        }
        measure("Rice", run)?;
    }
    Ok(())
}
