use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::limit::within;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn two_plain_runs_are_the_same() {
    within(LIMIT, || {
        let mut random = Random::for_test();
        check(&mut random, 60, 150, &mut Plain);
    });
}

#[test]
fn programs_do_a_bit_of_everything() {
    within(LIMIT, || {
        let mut random = Random::new(1);
        // Per kind of step: how often it worked, failed, was skipped.
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
            assert!(*worked > 8, "{kind} hardly ever works");
            assert!(*failed > 0 || kind == "ReadFed", "{kind} never fails");
        }
        assert!(errors.len() > 15, "{errors:?}");
    });
}
