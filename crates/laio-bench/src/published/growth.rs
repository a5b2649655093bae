//! `laio bench growth`: what each request, entry, file and operation costs as their number grows by decades.
//!
//! The figure is processor time, not wall time: it shows what one more costs, and with it what more processors could do.

mod copies;
mod flight;
mod listing;
mod requests;

use super::run::Run;
use crate::error::Error;

/// The axes, in order: each is a workload.
pub(super) const CONNECTIONS: &str = "connections";
pub(super) const FILES: &str = "distinct files";
pub(super) const LISTING: &str = "directory entries";
pub(super) const COPY: &str = "files copied";
pub(super) const FLIGHT: &str = "operations in flight";

type Axis = (&'static str, fn(&mut Run<'_>) -> Result<(), Error>);

const AXES: [Axis; 5] = [
    (CONNECTIONS, requests::connections),
    (FILES, requests::files),
    (LISTING, listing::run),
    (COPY, copies::run),
    (FLIGHT, flight::run),
];

/// The names of the axes.
pub(super) fn axes() -> impl Iterator<Item = &'static str> {
    AXES.iter().map(|(name, _)| *name)
}

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    for (name, measure) in AXES {
        let wanted = &run.settings.workloads;
        if wanted.is_empty() || wanted.iter().any(|one| one == name) {
            measure(run)?;
        }
    }
    Ok(())
}

/// Returns the powers of ten from `least` to `most`, of which a quick run leaves out the last two; or the asked numbers
/// among those that are possible.
fn decades(run: &Run<'_>, least: usize, most: usize) -> Vec<usize> {
    let asked = &run.settings.at;
    if !asked.is_empty() {
        return asked.iter().copied().filter(|at| *at <= most).collect();
    }
    let most = if run.settings.quick { most / 100 } else { most };
    std::iter::successors(Some(least), |at| Some(at * 10))
        .take_while(|at| *at <= most)
        .collect()
}
