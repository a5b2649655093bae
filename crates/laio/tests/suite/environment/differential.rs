//! Random programs of system calls have the same results and file state as with plain calls.

use super::support::Through;
use crate::harness::{LIMIT, Mode, Way, all_ways, watch};
use laio::BackendKind;
use laio::testing::Inject;
use laio_testing::oracle::{self, Difference, Plain, Program};
use laio_testing::{Random, child, test_name};
use std::time::Duration;

/// The number of programs for each back end without injected faults; each fault gets a fifth of it.
const PROGRAMS: &str = "LAIO_PROGRAMS";
const STEPS: usize = 40;

fn number_of_programs() -> usize {
    std::env::var(PROGRAMS).map_or(60, |text| text.parse().expect("LAIO_PROGRAMS is a number"))
}

/// Runs programs in one back end, in every mode, in a process of its own: a child of another test would have copies of
/// the ends of pipes that a program closes.
fn programs(test: &str, backend: BackendKind, without_ring: bool) {
    let count = number_of_programs();
    let limit = LIMIT * 6 + Duration::from_secs(count as u64);
    child::check(limit, test, "", || {
        let mut random = Random::for_test();
        println!("seed {}", random.seed());
        let ways = all_ways();
        let ours = ways
            .iter()
            .filter(|way| way.backend == backend && way.without_ring == without_ring);
        for way in ours {
            let count = match way.mode {
                Mode::Natural => count,
                _ => count.div_ceil(5),
            };
            check(way, &mut random, count);
        }
    });
}

/// Runs this many programs in one way.
fn check(way: &Way, random: &mut Random, count: usize) {
    // The programs need pipes of the usual size.
    if laio_testing::or_skip(laio_testing::temp::pipe_of(64 << 10)).is_none() {
        return;
    }
    let mut kernel = kernel(way);
    for _ in 0..count {
        let _watched = watch(&way.to_string());
        if way.is_short() {
            // The programs close descriptors without the context's knowledge, so the context may take a file for the
            // stream that had its number before: a read may then be short.
            kernel = self::kernel(way);
        }
        check_one(way, &program(way, random), &mut kernel);
    }
}

fn kernel(way: &Way) -> Through {
    Through::new(way.with(|options| match way.mode {
        // Pieces of three bytes would take long.
        Mode::ShortTransfer => options.inject(Inject {
            short_transfer: 700,
            ..Inject::default()
        }),
        _ => options,
    }))
}

fn program(way: &Way, random: &mut Random) -> Program {
    let mut program = Program::random(random, STEPS);
    if way.is_short() {
        // Datagrams do not go in pieces, a read of a stream ends after the first piece, and an error in a list or
        // length comes too late.
        const NOT_SHORT: [&str; 8] = [
            "Packet",
            "PipeRead",
            "Left",
            "Right",
            "fifo",
            "count: Some",
            "claim: Some",
            "length: 1844674407370955161",
        ];
        program.steps.retain(|step| {
            let step = format!("{step:?}");
            let huge = step.contains(&format!("length: {}", isize::MAX as usize + 1));
            !huge && !NOT_SHORT.iter().any(|part| step.contains(part))
        });
    }
    program
}

fn check_one(way: &Way, program: &Program, kernel: &mut Through) {
    let Err(mut found) = compare(program, kernel) else {
        assert_eq!(kernel.context.pending(), 0, "operations left in {way}");
        return;
    };
    // A difference was found; while the program is reduced, a call that hangs gets less time.
    kernel.call_limit = Duration::from_secs(3);
    oracle::minimise(program, |smaller| match compare(smaller, kernel) {
        Ok(()) => false,
        Err(difference) => {
            found = difference;
            true
        }
    });
    panic!("{way} differs from the plain calls; reduced:\n{found}");
}

/// [`oracle::compare`], with the plain calls on a thread without a ring. The kernel interrupts a thread
/// that has a ring to start workers, and an interrupted blocking write ends early.
fn compare(program: &Program, kernel: &mut Through) -> Result<(), Box<Difference>> {
    let plain = std::thread::scope(|scope| {
        let plain = scope.spawn(|| oracle::observe(program, &mut Plain));
        plain.join().expect("the plain calls")
    });
    let tested = oracle::observe(program, kernel);
    if plain == tested {
        return Ok(());
    }
    Err(Box::new(Difference {
        program: program.clone(),
        plain,
        tested,
    }))
}

laio_testing::each_test! {
    sync_does_the_same => programs(test_name!(), BackendKind::Sync, false);
    threads_do_the_same => programs(test_name!(), BackendKind::Threads, false);
    hybrid_does_the_same => programs(test_name!(), BackendKind::Hybrid, false);
    posix_aio_does_the_same => programs(test_name!(), BackendKind::PosixAio, false);
    linux_aio_does_the_same => programs(test_name!(), BackendKind::LinuxAio, false);
    uring_does_the_same => programs(test_name!(), BackendKind::Uring, false);
    lazy_does_the_same => programs(test_name!(), BackendKind::Lazy, false);
    lazy_without_a_ring_does_the_same => programs(test_name!(), BackendKind::Lazy, true);
    activations_do_the_same => programs(test_name!(), BackendKind::Activations, false);
}
