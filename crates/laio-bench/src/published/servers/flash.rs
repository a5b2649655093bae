//! `laio bench flash`: the Flash web server with four kinds of disk I/O (LAIO, 2004).

use super::loads::{Loads, by_clients};
use super::serving::Server;
use super::usable;
use crate::error::Error;
use crate::published::run::Run;
use crate::trace::Preset;

const PRESETS: [&str; 4] = ["flash-nb-b", "flash-nb-aio", "flash-amped", "flash-laio"];
const CLIENTS: &[usize] = &[1, 10, 50, 100, 300, 500];
const CLIENTS_QUICK: &[usize] = &[10, 100];

pub(in crate::published) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    let mut servers: Vec<Server> = PRESETS.map(Server::preset).into();
    servers.extend(Server::peers());
    let servers = usable(run, servers);
    let numbers = settings.at(if settings.quick {
        CLIENTS_QUICK
    } else {
        CLIENTS
    });
    run.record.note(
        "published: the large set was 3.2 times as large as the memory; here the cold cache stands for that, and large means many files".to_owned(),
    );
    let sets = [
        ("small (Rice)", Preset::Rice, 1.0),
        ("large (Berkeley)", Preset::Berkeley, 0.5),
    ];
    for (name, preset, part) in sets {
        let trace = preset.trace(1, settings.scale(0.012) * part);
        let set = run.make(name, &trace)?;
        let loads = Loads {
            workload: name,
            trace: &trace,
            set: &set,
            subjects: by_clients(&numbers, &servers),
        };
        loads.measure_all(run)?;
        run.remove(&set)?;
    }
    Ok(())
}
