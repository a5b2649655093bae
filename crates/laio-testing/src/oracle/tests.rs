//! Tests: the comparison of random programs finds known errors.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::limit::within;

const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn two_plain_runs_are_the_same() {
    within(LIMIT, || {
        let mut random = Random::for_test();
        check(&mut random, 30, 150, &mut Plain);
    });
}

#[test]
fn programs_do_a_bit_of_everything() {
    let resolves = !crate::lacks("openat2");
    within(LIMIT, move || {
        let mut random = Random::new(1);
        // For each kind of step: how often it succeeded, failed, was skipped.
        let mut seen: BTreeMap<String, [usize; 3]> = BTreeMap::new();
        let mut errors: BTreeMap<i32, usize> = BTreeMap::new();
        for _ in 0..100 {
            let program = Program::random(&mut random, 200);
            for event in observe(&program, &mut Plain).0.events {
                let counts = seen.entry(event.step.kind()).or_default();
                match event.outcome {
                    Outcome::Skipped(_) => counts[2] += 1,
                    Outcome::Error(errno) => {
                        counts[1] += 1;
                        *errors.entry(errno).or_default() += 1;
                    }
                    Outcome::Data { clean, .. } => {
                        assert!(clean, "{event:?}");
                        counts[0] += 1;
                    }
                    _ => counts[0] += 1,
                }
            }
        }
        println!("worked, failed, skipped: {seen:#?}\nerrors: {errors:?}");
        assert_eq!(seen.len(), 41, "every kind of step is generated");
        for (kind, [worked, failed, _]) in &seen {
            let can_work = resolves || kind != "OpenResolved";
            assert!(!can_work || *worked > 8, "{kind} hardly ever works");
            assert!(*failed > 0 || kind == "ReadFed", "{kind} never fails");
        }
        assert!(errors.len() > 15, "{errors:?}");
    });
}

/// Makes plain calls, except for faulty ones.
struct Faulty<F>(F);

impl<F: FnMut(c_long, &mut [usize; 6]) -> Option<isize>> Kernel for Faulty<F> {
    unsafe fn call(&mut self, number: c_long, mut words: [usize; 6]) -> isize {
        match (self.0)(number, &mut words) {
            Some(result) => result,
            // SAFETY: what the caller has promised; the faults below only make calls smaller.
            None => unsafe { Plain.call(number, words) },
        }
    }
}

/// Returns the failure that `check` reports for a kernel with this fault.
fn complaint(
    fault: impl FnMut(c_long, &mut [usize; 6]) -> Option<isize> + Send + 'static,
) -> String {
    within(LIMIT, || {
        let mut kernel = Faulty(fault);
        let mut random = Random::new(2);
        let checked = std::panic::AssertUnwindSafe(|| check(&mut random, 50, 100, &mut kernel));
        let panic = std::panic::catch_unwind(checked).expect_err("it must be noticed");
        *panic.downcast::<String>().expect("a message")
    })
}

#[test]
fn a_short_read_is_noticed_and_made_small() {
    let found = complaint(|number, words| {
        if number == libc::SYS_read && words[2] == 4096 {
            words[2] = 4095;
        }
        None
    });
    assert!(found.contains("differs: Read"), "{found}");
    // A read, and the step that makes it return that many bytes.
    assert!(found.matches("same: ").count() <= 4, "{found}");
}

#[test]
fn a_wrong_errno_is_noticed() {
    let found = complaint(|number, words| {
        let bad = number == libc::SYS_pread64 && (words[3] as isize) < 0;
        bad.then_some(-(libc::EIO as isize))
    });
    assert!(found.contains("differs: ReadAt"), "{found}");
    assert!(found.contains("tested: Error(5)"), "{found}");
}

#[test]
fn a_call_that_was_not_made_is_noticed() {
    let found = complaint(|number, _| (number == libc::SYS_fchmod).then_some(0));
    assert!(found.contains("differs: "), "{found}");
}

#[test]
fn a_write_behind_the_buffer_is_noticed() {
    let found = complaint(|number, words| {
        if number != libc::SYS_read || words[2] != 100 {
            return None;
        }
        // Twice the length fits: behind each piece there is a gap of 64 bytes, and 28 are enough.
        words[2] = 128;
        // SAFETY: as the original call, within the gap.
        Some(unsafe { Plain.call(number, *words) }.min(100))
    });
    assert!(found.contains("clean: false"), "{found}");
}

#[test]
fn a_leaked_or_lost_descriptor_is_noticed() {
    let found = complaint(|number, words| {
        if number == libc::SYS_fcntl && words[1] == libc::F_DUPFD_CLOEXEC as usize {
            words[1] = libc::F_DUPFD as usize;
        }
        None
    });
    assert!(
        found.contains("fd_flags") || found.contains("GetFdFlags"),
        "{found}"
    );
}

#[test]
fn a_program_is_made_as_small_as_possible() {
    let program = Program::random(&mut Random::new(3), 500);
    let is_list = |step: &Step| matches!(step, Step::List { .. });
    let is_seek = |step: &Step| matches!(step, Step::Seek { .. });
    let fails =
        |program: &Program| program.steps.iter().any(is_list) && program.steps.iter().any(is_seek);
    assert!(fails(&program), "the program has both");
    let small = minimise(&program, fails);
    assert_eq!(small.steps.len(), 2);
    assert!(fails(&small));
}

#[test]
fn programs_are_the_same_for_the_same_seed() {
    let program = |seed| Program::random(&mut Random::new(seed), 50);
    assert_eq!(program(4), program(4));
    assert_ne!(program(4), program(5));
    assert_eq!(
        program(4).to_string().lines().count(),
        program(4).steps.len()
    );
}

#[test]
fn the_waiting_steps_wait_and_end() {
    let feed = Data {
        seed: 1,
        length: 10,
    };
    let data = Data {
        seed: 2,
        length: 200_000,
    };
    let mut steps = Vec::new();
    for fd in [
        Fd::PipeRead,
        Fd::Left,
        Fd::Right,
        Fd::PacketLeft,
        Fd::PacketRight,
    ] {
        steps.push(Step::ReadFed {
            fd,
            length: 4096,
            feed,
        });
    }
    for fd in [Fd::PipeWrite, Fd::Left, Fd::Right] {
        steps.push(Step::WriteDrained { fd, data });
    }
    let (trace, state) = within(LIMIT, || observe(&Program { steps }, &mut Plain));
    for event in &trace.events[..5] {
        let bytes = Bytes(crate::temp::pattern(10, 1));
        assert_eq!(
            event.outcome,
            Outcome::Data {
                result: 10,
                bytes,
                clean: true
            }
        );
    }
    for event in &trace.events[5..] {
        assert_eq!(event.outcome, Outcome::Value(200_000));
        assert_eq!(
            event.meanwhile,
            Some(Bytes(crate::temp::pattern(200_000, 2)))
        );
    }
    assert!(state.queues.iter().all(|(_, queue)| queue.0.is_empty()));
}

#[test]
fn the_state_tells_what_is_there() {
    let program = Program {
        steps: generate::beginning(),
    };
    let (_, state) = within(LIMIT, move || observe(&program, &mut Plain));
    let names: Vec<&str> = state
        .entries
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(names, ["a", "dir", "dir/a", "link"]);
    assert_eq!(state.entries[0].size, 10_000);
    assert_eq!(state.entries[3].contents, "dir/a");
    let positions: Vec<Option<i64>> = state
        .slots
        .iter()
        .map(|slot| slot.map(|open| open.position))
        .collect();
    assert_eq!(
        positions,
        [Some(10_000), Some(100), Some(0), None, None, None]
    );
}
