//! A simulation of the core: slots, order, placement, steps and transfers, with a kernel that answers as it likes.
//!
//! A seed decides what the program starts, cancels, abandons and forks, and what the kernel answers: short,
//! `EAGAIN`, `EINTR`, `EACCES`, "not supported", readiness without data, and when. The decisions between are those of
//! [`crate::lifecycle::Lifecycle`], which a context uses too. Nothing sleeps, and no call is made but questions about
//! the kind of a descriptor, so a seed takes some microseconds and repeats exactly.
//!
//! `LAIO_SIM_SEED=n` replays one seed and prints each event; `LAIO_SIM_SEEDS=n` tries the seeds from 0 to n - 1.

mod answers;
mod checks;
mod kernel;
mod program;
mod world;

use laio_testing::Random;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use world::World;

/// How many seeds an ordinary test tries.
const SEEDS: u64 = 20_000;

#[test]
fn no_seed_breaks_the_core() {
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        Some(
            value
                .parse()
                .unwrap_or_else(|_| panic!("{name}={value} is not a number")),
        )
    };
    if let Some(seed) = number("LAIO_SIM_SEED") {
        World::new(Random::new(seed), true).run();
        return;
    }
    let seeds: u64 = number("LAIO_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let events = AtomicU64::new(0);
    let try_some = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds {
                return;
            }
            match catch_unwind(|| World::new(Random::new(seed), false).run()) {
                Ok(count) => drop(events.fetch_add(count, Relaxed)),
                Err(panic) => {
                    eprintln!("replay it with LAIO_SIM_SEED={seed}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(try_some)).collect();
        let ended: Vec<_> = all.into_iter().map(|one| one.join()).collect();
        assert!(ended.iter().all(Result::is_ok), "see the replay above");
    });
    println!("{seeds} seeds, {} events", events.into_inner());
}
