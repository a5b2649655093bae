//! Random programs of system calls have the same results and file state as with plain calls.

use super::support::Through;
use crate::harness::{LIMIT, Mode, Way, all_ways, watch};
use laio::{BackendKind, Inject};
use laio_testing::oracle::{self, Difference, Plain, Program};
use laio_testing::{Random, child, test_name};
use std::time::Duration;

/// How many programs for each back end without injected faults; a fifth of them for each fault.
const PROGRAMS: &str = "LAIO_PROGRAMS";
const STEPS: usize = 40;

fn number_of_programs() -> usize {
    std::env::var(PROGRAMS).map_or(60, |text| text.parse().expect("LAIO_PROGRAMS is a number"))
}

/// Runs programs in one back end, in every mode; in a process where nobody else makes children, who would have copies
/// of the ends of pipes that a program closes.
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
            check(way, &mut random, count, &[]);
        }
    });
}

/// So many programs in one way, without the steps whose text has one of these words in it.
pub(crate) fn check(way: &Way, random: &mut Random, count: usize, without: &[&str]) {
    // The programs put into pipes what a usual one has room for.
    if laio_testing::or_skip(laio_testing::temp::pipe_of(64 << 10)).is_none() {
        return;
    }
    let mut kernel = kernel(way);
    for _ in 0..count {
        let _watched = watch(&way.to_string());
        if way.is_short() {
            // The worlds close their descriptors behind the context's back, and it takes the next file with
            // such a number for the stream that it was: a read may then be short.
            kernel = self::kernel(way);
        }
        let mut program = program(way, random);
        program.steps.retain(|step| {
            let step = format!("{step:?}");
            !without.iter().any(|word| step.contains(word))
        });
        check_one(way, &program, &mut kernel);
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
        // Datagrams do not go in pieces, a read of a stream is over after the first, and what is bad in a
        // list or a length is met too late.
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
    // It differs; in what is left of it, one that does not end is to be found sooner.
    kernel.patience = Duration::from_secs(3);
    oracle::minimise(program, |smaller| match compare(smaller, kernel) {
        Ok(()) => false,
        Err(difference) => {
            found = difference;
            true
        }
    });
    panic!("{way} differs from the plain calls; made smaller:\n{found}");
}

/// As [`oracle::compare`], with the plain calls on a thread without a ring. The kernel interrupts a thread
/// that has one to start workers for it, and a blocking write that is interrupted ends early.
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

#[test]
fn sync_does_the_same() {
    programs(test_name!(), BackendKind::Sync, false);
}

#[test]
fn threads_do_the_same() {
    programs(test_name!(), BackendKind::Threads, false);
}

#[test]
fn hybrid_does_the_same() {
    programs(test_name!(), BackendKind::Hybrid, false);
}

#[test]
fn posix_aio_does_the_same() {
    programs(test_name!(), BackendKind::PosixAio, false);
}

#[test]
fn linux_aio_does_the_same() {
    programs(test_name!(), BackendKind::LinuxAio, false);
}

#[test]
fn uring_does_the_same() {
    programs(test_name!(), BackendKind::Uring, false);
}

#[test]
fn lazy_does_the_same() {
    programs(test_name!(), BackendKind::Lazy, false);
}

#[test]
fn lazy_without_a_ring_does_the_same() {
    programs(test_name!(), BackendKind::Lazy, true);
}

#[test]
fn activations_do_the_same() {
    programs(test_name!(), BackendKind::Activations, false);
}
