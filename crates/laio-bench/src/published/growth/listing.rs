//! Entries of a directory that a server lists.

use super::{LISTING, decades};
use crate::error::{Error, While};
use crate::load::{self, Pace, What};
use crate::published::run::Run;
use crate::published::servers::serving::Server;
use crate::published::servers::{USUAL, usable};
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::stop::Stop;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const ENTRIES_MAX: usize = 1_000_000;
/// Entries that a turn lists, in as many requests as that takes.
const ENTRIES_OF_A_TURN: usize = 1_000_000;
const REQUESTS_MAX: usize = 20_000;
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let (settings, stop) = (run.settings, run.stop);
    let numbers = decades(run, 1, ENTRIES_MAX);
    let root = run.directory().join("listed");
    for number in &numbers {
        run.progress(&format!("making {number} files"));
        fill(&root.join(number.to_string()), *number, stop)?;
    }
    let most = ENTRIES_MAX.to_string();
    let laio = Server::laio(USUAL, &["--listing", "--max-listing", &most]);
    let servers = usable(run, vec![laio]);
    let turns: Vec<_> = numbers
        .iter()
        .flat_map(|number| servers.iter().map(move |server| (*number, server)))
        .collect();
    let subjects: Vec<_> = turns
        .iter()
        .map(|(number, server)| (Some(*number), server.name.as_str()))
        .collect();
    run.measure(LISTING, Cache::Warm, &subjects, &mut |index| {
        let (number, server) = turns[index];
        turn(server, &settings.laio, &root, number, settings.quick, stop)
    })?;
    if numbers.is_empty() {
        return Ok(());
    }
    run.remove(&root)
}

/// Creates a directory of empty files.
fn fill(directory: &Path, count: usize, stop: &Stop) -> Result<(), Error> {
    let doing = || format!("cannot fill {}", directory.display());
    std::fs::create_dir_all(directory).doing(doing())?;
    for number in 0..count {
        if number % 1000 == 0 {
            stop.check()?;
        }
        File::create(directory.join(format!("file-{number:07}"))).doing(doing())?;
    }
    Ok(())
}

fn turn(
    server: &Server,
    laio: &Path,
    root: &Path,
    number: usize,
    quick: bool,
    stop: &Stop,
) -> Outcome {
    let serving = server.start(laio, root)?;
    let all = ENTRIES_OF_A_TURN / if quick { 10 } else { 1 };
    let requests = (all / number).clamp(1, REQUESTS_MAX);
    let settings = load::Settings {
        server: serving.address,
        host: serving.address.to_string(),
        tls: None,
        pace: Pace::Clients(1),
        fetches: Some(requests as u64),
        time: None,
        close: false,
        verify: false,
        warm_up: Duration::ZERO,
        timeout: TIMEOUT,
        seed: 1,
    };
    let what = What::Target(format!("/{number}/"));
    let before = serving.usage();
    let outcome = load::run(&settings, &what, stop, &mut |_| {});
    let outcome = outcome.map_err(|error| error.to_string())?;
    let used = serving.usage().since(&before).processor.as_secs_f64();
    // An entry takes at least its name.
    if outcome.requests != requests as u64 || outcome.bytes < 12 * (requests * number) as u64 {
        return Err("not every entry was listed".to_owned());
    }
    let entries = (requests * number) as f64;
    Ok(vec![
        ("cpu_us", used * 1e6 / entries),
        ("per_cpu_s", entries / used),
    ])
}
