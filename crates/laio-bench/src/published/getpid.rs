//! `laio bench getpid`: table 2 of the thesis.

use super::Settings;
use super::run::Run;
use crate::calls::CallVariant;
use crate::error::Error;
use crate::pin::Pinned;
use crate::record::Cache;
use crate::round_robin::Outcome;
use crate::statistics::Quartiles;
use laio::measure::{Getpids, Subject, Via};
use laio::{BackendKind, Context};

const GETPID: &str = "getpid";
const DIRECT: &str = "direct";
const CALLS: f64 = 1e6;
/// The number of blocks of plain calls, each followed by one of the subject's, in each turn.
const BLOCKS: usize = 10;

/// A subject, and the number of calls in flight.
type Entrant = (String, CallVariant, usize);

fn subjects(settings: &Settings) -> Vec<Entrant> {
    let mut subjects = Vec::new();
    for &variant in CallVariant::USUAL {
        if variant == CallVariant::BareRing || !settings.takes(variant.name()) {
            continue;
        }
        match variant {
            CallVariant::Backend(BackendKind::Threads) => {
                subjects.extend(settings.at(&[1, 10, 100]).into_iter().map(|helpers| {
                    let plural = if helpers == 1 { "" } else { "s" };
                    (
                        format!("threads, {helpers} helper{plural}"),
                        variant,
                        helpers,
                    )
                }));
            }
            // No other back end passes this call to another thread, so the number in flight has no effect.
            _ => subjects.push((variant.name().to_owned(), variant, 1)),
        }
    }
    subjects
}

pub(super) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let settings = run.settings;
    let calls = (CALLS * settings.scale(0.1) / f64::from(run.rounds)) as usize;
    let block = (calls / BLOCKS).max(10);
    let description = format!(
        "{block} calls at a time, in turns with as many plain ones, {BLOCKS} times each round"
    );
    run.set("calls", description);
    let subjects = subjects(settings);
    let mut names = vec![(None, DIRECT)];
    names.extend(subjects.iter().map(|one| (None, one.0.as_str())));
    run.measure(GETPID, Cache::Warm, &names, &mut |index| {
        let entrant = index.checked_sub(1).map(|index| &subjects[index]);
        // In a thread of its own, because some back ends change their calling thread.
        let turn = std::thread::scope(|scope| scope.spawn(|| turn(entrant, block)).join());
        turn.map_err(|_| "it panicked".to_owned())?
    })?;
    Ok(())
}

fn turn(entrant: Option<&Entrant>, block: usize) -> Outcome {
    let message = |errno: laio::Errno| errno.to_string();
    let delegates = matches!(
        entrant,
        Some((_, CallVariant::Backend(BackendKind::Threads), _))
    );
    let _pinned = if delegates { None } else { Pinned::here() };
    let mut context = match entrant {
        None => None,
        Some((_, variant, in_flight)) => {
            let options = variant.options(false).ok_or("it has no context")?;
            Some(Context::new(options.helpers(*in_flight as u32)).map_err(message)?)
        }
    };
    let mut calls = Getpids::new(entrant.map_or(1, |entrant| entrant.2));
    let (mut own, mut ratios) = (0, Vec::new());
    for number in 0..=BLOCKS {
        let plain = calls.run(&mut Via::Plain, block).map_err(message)?;
        let spent = match &mut context {
            None => plain,
            Some(context) => calls
                .run(&mut Via::Context(context), block)
                .map_err(message)?,
        };
        // The first block starts threads, and warms the caches.
        if number > 0 {
            own += spent;
            ratios.push(spent as f64 / plain as f64);
        }
    }
    let seconds = own as f64 * 1e-9 * CALLS / (BLOCKS * block) as f64;
    let ratio = Quartiles::from_rounds(&ratios).map_or(1.0, |ratio| ratio.median);
    Ok(vec![("million_s", seconds), ("ratio", ratio)])
}
